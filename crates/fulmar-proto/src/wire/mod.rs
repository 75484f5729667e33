//! Packets and frames to and from bytes. The specification is docs/internals/wire.md; clause numbers there
//! are cited here.

mod codec;
pub mod frame;
pub mod packet;
pub mod piped;
pub mod symbol;

pub use codec::{Malformed, Reader, VARINT_MAX, put_varint, varint_len};
