//! Erasure codes for transports.
//!
//! A [`Code`] makes an [`Encoder`] and a [`Decoder`]. Symbols are byte strings of at most `symbol_bytes`; a shorter one
//! counts as padded with zeros, and a recovered one comes back padded to the longest symbol its equations covered.
//! Nothing here knows time, packets or connections.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod code;

pub use code::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, Innovation, RepairKey, SymbolId,
    Symbols, Window,
};
