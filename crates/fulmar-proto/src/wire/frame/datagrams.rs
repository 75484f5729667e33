//! Frames of datagrams: as they are, and in symbols with their repair (docs/internals/wire.md 5.5, 5.6).

use crate::wire::{Malformed, Reader, put_varint, varint_len};

pub(super) const DATAGRAM: u8 = 0x18;
pub(super) const CODED_DATAGRAM: u8 = 0x19;
pub(super) const DATAGRAM_REPAIR: u8 = 0x1e;

/// Most bytes of a DATAGRAM_REPAIR frame before its payload, and of the length that the payload has before
/// that of a symbol.
pub const DATAGRAM_REPAIR_HEADER_BYTES_MAX: usize = 1 + 2 + 1 + 1 + 4 + DATAGRAM_LENGTH_BYTES;
/// Bytes of its length before a symbol of datagrams, where it is combined with others.
pub const DATAGRAM_LENGTH_BYTES: usize = 2;

/// A symbol of datagrams on the wire.
#[derive(Copy, Clone, Debug)]
pub struct CodedDatagram<'a> {
    /// Low 16 bits of its id.
    pub id: u16,
    /// Its bytes.
    pub symbol: &'a [u8],
}

impl<'a> CodedDatagram<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { id: u16::from_be_bytes(r.array()?), symbol: r.prefixed()? })
    }
}

/// A combination of such symbols on the wire.
#[derive(Copy, Clone, Debug)]
pub struct DatagramRepair<'a> {
    /// Low 16 bits of the first one's id.
    pub first: u16,
    /// How many it covers, one after the other.
    pub len: u8,
    /// Which of the repair symbols over these.
    pub key: u8,
    /// The combination.
    pub payload: &'a [u8],
}

impl<'a> DatagramRepair<'a> {
    pub(super) fn parse(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let first = u16::from_be_bytes(r.array()?);
        Ok(Self { first, len: r.u8()?, key: r.u8()?, payload: r.prefixed()? })
    }
}

/// Appends a DATAGRAM frame.
pub fn put_datagram(out: &mut Vec<u8>, data: &[u8]) {
    out.push(DATAGRAM);
    put_varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// Bytes of a DATAGRAM frame that carries `len` bytes.
pub fn datagram_frame_bytes(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Appends a CODED_DATAGRAM.
pub fn put_coded_datagram(out: &mut Vec<u8>, id: u16, symbol: &[u8]) {
    out.push(CODED_DATAGRAM);
    out.extend_from_slice(&id.to_be_bytes());
    put_varint(out, symbol.len() as u64);
    out.extend_from_slice(symbol);
}

/// Appends a DATAGRAM_REPAIR.
pub fn put_datagram_repair(out: &mut Vec<u8>, first: u16, len: u8, key: u8, payload: &[u8]) {
    out.push(DATAGRAM_REPAIR);
    out.extend_from_slice(&first.to_be_bytes());
    out.extend_from_slice(&[len, key]);
    put_varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}
