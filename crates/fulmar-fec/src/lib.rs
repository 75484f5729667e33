//! Erasure codes for transports.
//!
//! A [`Code`] makes an [`Encoder`] and a [`Decoder`]. Symbols are byte strings of at most `symbol_bytes`; a
//! shorter one counts as padded with zeros, and a recovered one comes back padded to the longest symbol its
//! equations covered. Nothing here knows time, packets or connections.
//!
//! [`NoCode`], [`XorGroups`], [`ReedSolomon`], [`RlcBlock`], [`RlcWindow`] and, with the feature `raptorq`,
//! `RaptorQ` (DFCP's code is in `fulmar-systems`); [`by_name`] makes any of them. [`restore`] decodes a whole
//! block from slices, [`Linear`] is the plain reference. Which one when, and at what cost, is said in
//! `docs/internals/codes.md` of the repository.
#![cfg_attr(not(feature = "std"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod code;
mod encode;
mod known;
mod linear;
mod none;
#[cfg(feature = "raptorq")]
mod raptorq;
mod recent;
mod recovered;
mod reed_solomon;
mod registry;
mod restore;
mod rlc;
mod rows;
mod seed;
mod sliding;
mod work;
mod xor;

/// What decoders are made of, for codes that live in another crate.
pub mod parts {
    pub use crate::known::Known;
    pub use crate::recovered::Recovered;
    pub use crate::rows::check_cover;
    pub use crate::work::{STEP, Work};
}

pub use code::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, Innovation,
    RepairKey, SymbolId, Symbols, Window,
};
pub use known::REACH;
pub use linear::{Linear, LinearDecoder};
pub use none::NoCode;
#[cfg(feature = "raptorq")]
pub use raptorq::RaptorQ;
pub use recent::Recent;
pub use reed_solomon::ReedSolomon;
pub use registry::{NAMES, by_name, from_parameters};
pub use restore::{Present, restore};
pub use rlc::{RLC_LEN_MAX, RlcBlock, RlcWindow};
pub use rows::Rows;
pub use seed::Density;
pub use sliding::LATE_SHARE;
pub use work::WORK_MAX;
pub use xor::XorGroups;
