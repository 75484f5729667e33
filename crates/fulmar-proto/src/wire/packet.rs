//! Packets: what stands before the frames. docs/internals/wire.md, section 1.
//!
//! Decides where a packet's fields lie; nothing here knows a key. A packet is one of these (numbers are
//! big-endian, sizes in bytes; `p` marks bits that header protection covers, see
//! [`crate::crypto::PacketKeys`]):
//!
//! ```text
//! long header, as RFC 8999 5.1 for every version        | Initial, Handshake: then
//!   1     11TT pppp   TT: 00 Initial, 10 Handshake,     |   varint + n   token (Initial only)
//!                         11 Retry; 01 is never sent    |   varint (2)   length of all that follows in this packet
//!   4     version                                       |   4 p          packet number, low 32 bits
//!   1+n   destination connection id, 8 <= n <= 20       |   n            frames, encrypted
//!   1+n   source connection id, 8 <= n <= 20            |   16           authentication tag
//!
//! short header                                          | Retry: then
//!   1     010p pppp                                     |   n            token
//!   n     destination connection id, as the receiver    |   16           integrity tag
//!   4 p   packet number, low 32 bits                    |
//!   n     frames, encrypted                             | Version negotiation (version 0): then
//!   16    authentication tag                            |   4 each       versions the server speaks
//! ```
//!
//! Without protection the covered bits are `0011` in a long header and `00K11` in a short one, `K` the key
//! phase; the ends agree with RFC 9000 17, where the last two say that the packet number has four bytes. Long
//! packets may stand one after the other in a datagram; one with a short header has no length, so it ends the
//! datagram.

use super::codec::{Malformed, Reader, put_varint, varint_len};
use crate::ids::{ConnectionId, PacketNumber};
use std::ops::Range;

/// The version of the protocol this implementation speaks: "FLM" and 1.
pub const VERSION: u32 = 0x464c_4d01;
/// Bytes of the authentication tag that ends every protected packet.
pub const TAG_BYTES: usize = 16;
/// Bytes of payload, encrypted, from which header protection is derived (RFC 9001 5.4.2).
pub const SAMPLE_BYTES: usize = 16;
/// Bytes of the shortest packet with a short header.
pub const SHORT_PACKET_BYTES_MIN: usize = short_header_bytes(ConnectionId::LEN_MIN) + TAG_BYTES;
/// Bytes after the length field of the longest packet with a long header: what a varint of two bytes can say.
pub const LONG_REST_BYTES_MAX: usize = 0x3fff;

const FORM_LONG: u8 = 0x80;
const FIXED: u8 = 0x40;
const TYPE_SHIFT: u32 = 4;
/// Bits of a short header's first byte that travel in the clear, with their values.
const SHORT_CLEAR: (u8, u8) = (0b1110_0000, 0b0100_0000);
/// Bits of a long header's first byte that protection covers, with the only values they may have.
const LONG_COVERED: (u8, u8) = (0b0000_1111, 0b0000_0011);
/// Likewise for a short header, but for the key phase.
const SHORT_COVERED: (u8, u8) = (0b0001_1011, 0b0000_0011);
/// The key phase in the first byte of a short header.
pub(crate) const KEY_PHASE: u8 = 0b0000_0100;

/// Bytes before the frames of a packet with a short header to a connection id of `cid_bytes`.
pub const fn short_header_bytes(cid_bytes: usize) -> usize {
    1 + cid_bytes + PacketNumber::WIRE_BYTES
}

/// What a packet with a long header is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LongType {
    /// Opens a connection; keys follow from the client's first destination connection id.
    Initial,
    /// The rest of the handshake, under keys agreed by it.
    Handshake,
    /// A server's request to come again with a token.
    Retry,
}

impl LongType {
    fn bits(self) -> u8 {
        match self {
            Self::Initial => 0b00,
            Self::Handshake => 0b10,
            Self::Retry => 0b11,
        }
    }

    fn of_first_byte(first: u8) -> Result<Self, Malformed> {
        match first >> TYPE_SHIFT & 0b11 {
            0b00 => Ok(Self::Initial),
            0b10 => Ok(Self::Handshake),
            0b11 => Ok(Self::Retry),
            _ => Err(Malformed),
        }
    }

    pub(crate) fn first_byte(self) -> u8 {
        FORM_LONG | FIXED | self.bits() << TYPE_SHIFT | LONG_COVERED.1
    }
}

/// What can be told of a datagram's first packet without a key: enough to find its connection, or to answer
/// without one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Peeked<'a> {
    /// A long header of this version.
    Long {
        /// Its type.
        ty: LongType,
        /// For whom.
        dcid: ConnectionId,
        /// From whom.
        scid: ConnectionId,
    },
    /// A short header.
    Short {
        /// For whom.
        dcid: ConnectionId,
    },
    /// A server speaks other versions. Connection ids as long as RFC 8999 allows.
    VersionNegotiation {
        /// For whom.
        dcid: &'a [u8],
        /// From whom.
        scid: &'a [u8],
        /// The versions, four bytes each: read them with [`versions`].
        versions: &'a [u8],
    },
    /// A long header of a version that is not spoken here. Connection ids as long as RFC 8999 allows.
    UnknownVersion {
        /// The version.
        version: u32,
        /// For whom.
        dcid: &'a [u8],
        /// From whom.
        scid: &'a [u8],
    },
}

/// Looks at the first packet of `datagram`, whatever its version. Connection ids that the receiver chose have
/// `cid_bytes`.
pub fn peek(datagram: &[u8], cid_bytes: usize) -> Result<Peeked<'_>, Malformed> {
    let mut reader = Reader::new(datagram);
    let first = reader.u8()?;
    if first & FORM_LONG == 0 {
        return Ok(Peeked::Short { dcid: short_dcid(first, cid_bytes, &mut reader)? });
    }
    let version = reader.u32()?;
    let dcid = cid_of(&mut reader)?;
    let scid = cid_of(&mut reader)?;
    match version {
        0 => Ok(Peeked::VersionNegotiation { dcid, scid, versions: reader.take_rest() }),
        VERSION if first & FIXED == 0 => Err(Malformed),
        VERSION => Ok(Peeked::Long {
            ty: LongType::of_first_byte(first)?,
            dcid: valid_cid(dcid)?,
            scid: valid_cid(scid)?,
        }),
        version => Ok(Peeked::UnknownVersion { version, dcid, scid }),
    }
}

pub(crate) fn cid_of<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let len = reader.u8()?;
    reader.bytes(usize::from(len))
}

/// What its receiver chose, or at least as much chance as that (RFC 9000 7.2) in a client's first packets.
pub(crate) fn valid_cid(bytes: &[u8]) -> Result<ConnectionId, Malformed> {
    if bytes.len() < ConnectionId::LEN_MIN {
        return Err(Malformed);
    }
    ConnectionId::from_bytes(bytes).ok_or(Malformed)
}

/// Short headers do not say how long the id is: whoever chose it knows.
fn short_dcid(first: u8, cid_bytes: usize, reader: &mut Reader<'_>) -> Result<ConnectionId, Malformed> {
    if first & SHORT_CLEAR.0 != SHORT_CLEAR.1 {
        return Err(Malformed);
    }
    valid_cid(reader.bytes(cid_bytes)?)
}

/// The kind of a protected packet, with what only that kind has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// Opens a connection.
    Initial {
        /// The other end's connection id.
        scid: ConnectionId,
        /// Where the token stands in the packet; empty if the client has none.
        token: Range<usize>,
    },
    /// The rest of the handshake.
    Handshake {
        /// The other end's connection id.
        scid: ConnectionId,
    },
    /// Everything after the handshake: the one with a short header.
    OneRtt,
}

/// A packet whose outer fields were read and whose protection is still on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedPacket {
    /// Its kind.
    pub kind: PacketKind,
    /// For whom.
    pub dcid: ConnectionId,
    /// Where the packet number starts; at least 4 + 16 bytes follow up to `end`.
    pub pn_offset: usize,
    /// Where the packet ends, and the next one in the datagram starts.
    pub end: usize,
}

/// Reads the outer fields of the first packet in `bytes`. One without a packet number (Retry, version
/// negotiation) or of another version is [`Malformed`] here: [`peek`] tells them apart. Connection ids that
/// the receiver chose have `cid_bytes`.
pub fn parse(bytes: &[u8], cid_bytes: usize) -> Result<ProtectedPacket, Malformed> {
    let mut reader = Reader::new(bytes);
    let first = reader.u8()?;
    if first & FORM_LONG == 0 {
        let dcid = short_dcid(first, cid_bytes, &mut reader)?;
        return protected(PacketKind::OneRtt, dcid, bytes, reader.rest().len(), reader.rest().len());
    }
    if first & FIXED == 0 || reader.u32()? != VERSION {
        return Err(Malformed);
    }
    let dcid = valid_cid(cid_of(&mut reader)?)?;
    let scid = valid_cid(cid_of(&mut reader)?)?;
    let kind = match LongType::of_first_byte(first)? {
        LongType::Initial => {
            let len = reader.prefixed()?.len();
            let end = bytes.len() - reader.rest().len();
            PacketKind::Initial { scid, token: end - len..end }
        }
        LongType::Handshake => PacketKind::Handshake { scid },
        LongType::Retry => return Err(Malformed),
    };
    let length = reader.length()?;
    protected(kind, dcid, bytes, reader.rest().len(), length)
}

/// `rest` bytes follow the outer fields in the datagram, `length` of them in this packet.
fn protected(
    kind: PacketKind,
    dcid: ConnectionId,
    bytes: &[u8],
    rest: usize,
    length: usize,
) -> Result<ProtectedPacket, Malformed> {
    if length > rest || length < PacketNumber::WIRE_BYTES + TAG_BYTES {
        return Err(Malformed);
    }
    let pn_offset = bytes.len() - rest;
    Ok(ProtectedPacket { kind, dcid, pn_offset, end: pn_offset + length })
}

/// The packets of one datagram, in order, each with its bytes.
///
/// Ends at the first that cannot be parsed, and at one for another connection id than the first (RFC 9000
/// 12.2): such a packet was not put there by the peer this datagram is from.
#[derive(Debug)]
pub struct Packets<'a> {
    rest: &'a mut [u8],
    cid_bytes: usize,
    dcid: Option<ConnectionId>,
}

/// Takes `datagram` apart into its packets. Connection ids that the receiver chose have `cid_bytes`.
pub fn split(datagram: &mut [u8], cid_bytes: usize) -> Packets<'_> {
    Packets { rest: datagram, cid_bytes, dcid: None }
}

impl<'a> Iterator for Packets<'a> {
    type Item = (ProtectedPacket, &'a mut [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.rest);
        let packet = parse(bytes, self.cid_bytes).ok()?;
        if *self.dcid.get_or_insert(packet.dcid) != packet.dcid {
            return None;
        }
        let (this, rest) = bytes.split_at_mut(packet.end);
        self.rest = rest;
        Some((packet, this))
    }
}

/// Header of a packet to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PacketHeader<'a> {
    /// Opens a connection.
    Initial {
        /// For whom.
        dcid: ConnectionId,
        /// From whom.
        scid: ConnectionId,
        /// What a Retry brought; empty without one, and always from a server.
        token: &'a [u8],
    },
    /// The rest of the handshake.
    Handshake {
        /// For whom.
        dcid: ConnectionId,
        /// From whom.
        scid: ConnectionId,
    },
    /// Everything after the handshake.
    OneRtt {
        /// For whom.
        dcid: ConnectionId,
    },
}

impl PacketHeader<'_> {
    /// Bytes it takes, the packet number included.
    pub fn wire_bytes(&self) -> usize {
        let long = |dcid: &ConnectionId, scid: &ConnectionId| {
            1 + 4 + 1 + dcid.as_bytes().len() + 1 + scid.as_bytes().len() + 2
        };
        PacketNumber::WIRE_BYTES
            + match self {
                Self::Initial { dcid, scid, token } => {
                    long(dcid, scid) + varint_len(token.len() as u64) + token.len()
                }
                Self::Handshake { dcid, scid } => long(dcid, scid),
                Self::OneRtt { dcid } => 1 + dcid.as_bytes().len(),
            }
    }

    /// Appends the header, not yet protected. Frames follow, then [`crate::crypto::PacketKeys::seal`].
    pub fn put(&self, number: PacketNumber, out: &mut Vec<u8>) -> HeaderSpan {
        let start = out.len();
        let length_offset = match self {
            Self::Initial { dcid, scid, token } => {
                put_long(LongType::Initial.first_byte(), VERSION, dcid.as_bytes(), scid.as_bytes(), out);
                put_varint(out, token.len() as u64);
                out.extend_from_slice(token);
                Some(put_length_later(out))
            }
            Self::Handshake { dcid, scid } => {
                put_long(LongType::Handshake.first_byte(), VERSION, dcid.as_bytes(), scid.as_bytes(), out);
                Some(put_length_later(out))
            }
            Self::OneRtt { dcid } => {
                out.push(SHORT_CLEAR.1 | SHORT_COVERED.1);
                out.extend_from_slice(dcid.as_bytes());
                None
            }
        };
        let pn_offset = out.len();
        out.extend_from_slice(&number.truncated().to_be_bytes());
        HeaderSpan { start, length_offset, pn_offset }
    }
}

/// Keeps two bytes for the length of what follows; it is known when the packet is sealed.
fn put_length_later(out: &mut Vec<u8>) -> usize {
    let offset = out.len();
    out.extend_from_slice(&[0; 2]);
    offset
}

/// Appends the fields that every version's long header starts with (RFC 8999 5.1). Connection ids of more
/// than 255 bytes do not exist.
pub(crate) fn put_long(first: u8, version: u32, dcid: &[u8], scid: &[u8], out: &mut Vec<u8>) {
    out.push(first);
    out.extend_from_slice(&version.to_be_bytes());
    for cid in [dcid, scid] {
        debug_assert!(cid.len() <= 255);
        out.push(cid.len() as u8);
        out.extend_from_slice(cid);
    }
}

/// Where the header of a packet stands in the buffer that [`PacketHeader::put`] wrote it to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeaderSpan {
    pub(crate) start: usize,
    pub(crate) length_offset: Option<usize>,
    pub(crate) pn_offset: usize,
}

impl HeaderSpan {
    /// Where the packet starts.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Where the frames start.
    pub fn payload_start(&self) -> usize {
        self.pn_offset + PacketNumber::WIRE_BYTES
    }
}

/// Whether the bits that protection covered have the values they must have, once the packet is known to be
/// authentic.
pub(crate) fn covered_bits_are_valid(first: u8) -> bool {
    let (mask, value) = if first & FORM_LONG == 0 { SHORT_COVERED } else { LONG_COVERED };
    first & mask == value
}

/// Appends a version negotiation packet (RFC 8999 6) in answer to a long header with these connection ids:
/// `dcid` is the client's source, `scid` its destination. `random` fills the bits that mean nothing.
pub fn put_version_negotiation(dcid: &[u8], scid: &[u8], random: u8, out: &mut Vec<u8>) {
    // RFC 9000 17.2.1: the fixed bit SHOULD be set, for those who multiplex by it.
    put_long(FORM_LONG | FIXED | random, 0, dcid, scid, out);
    out.extend_from_slice(&VERSION.to_be_bytes());
}

/// The versions in the body of a version negotiation packet.
pub fn versions(body: &[u8]) -> impl Iterator<Item = u32> + '_ {
    body.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
