//! Numbers that name things. Packet number, symbol id and stream offset are three spaces; none converts to
//! another.

use std::fmt;
use std::ops::Not;

/// Which end of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The end that sent the first packet.
    Client,
    /// The end that was listening.
    Server,
}

impl Side {
    /// Whether this is the client.
    pub fn is_client(self) -> bool {
        self == Self::Client
    }

    /// Whether this is the server.
    pub fn is_server(self) -> bool {
        self == Self::Server
    }
}

impl Not for Side {
    type Output = Self;
    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Whether a stream carries data both ways or only from the end that opened it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dir {
    /// Both ends send.
    Bi,
    /// Only the end that opened it sends.
    Uni,
}

/// Number of a stream, as RFC 9000 2.1: bit 0 is the end that opened it, bit 1 its direction, the rest
/// counts.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// The `index`-th stream that `initiator` opens in direction `dir`.
    pub fn new(initiator: Side, dir: Dir, index: u64) -> Self {
        Self(index << 2 | u64::from(dir == Dir::Uni) << 1 | u64::from(initiator.is_server()))
    }

    /// The end that opened it.
    pub fn initiator(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Its direction.
    pub fn dir(self) -> Dir {
        if self.0 & 2 == 0 { Dir::Bi } else { Dir::Uni }
    }

    /// Its place among the streams of that initiator and direction, from 0.
    pub fn index(self) -> u64 {
        self.0 >> 2
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} stream {}", self.initiator(), self.dir(), self.index())
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Number of a packet within its packet-number space: strictly increasing in the order of sending, never
/// reused.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// Bytes a packet number takes on the wire.
    pub const WIRE_BYTES: usize = 4;

    /// The low 32 bits, which is what travels.
    pub fn truncated(self) -> u32 {
        self.0 as u32
    }

    /// The packet number nearest to `expected` whose low 32 bits are `truncated` (RFC 9000 A.3).
    pub fn expand(truncated: u32, expected: Self) -> Self {
        Self(expand_u32(truncated, expected.0))
    }
}

impl fmt::Debug for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The number nearest to `expected` whose low 32 bits are `truncated` (RFC 9000 A.3). Used for packet numbers
/// and symbol ids.
pub(crate) fn expand_u32(truncated: u32, expected: u64) -> u64 {
    const RANGE: u64 = 1 << 32;
    const HALF: u64 = RANGE / 2;
    let candidate = (expected & !(RANGE - 1)) | u64::from(truncated);
    if candidate + HALF <= expected {
        candidate + RANGE
    } else if candidate > expected + HALF && candidate >= RANGE {
        candidate - RANGE
    } else {
        candidate
    }
}

/// Connection id: an opaque name of a connection, chosen by the end that receives packets which carry it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    len: u8,
    bytes: [u8; Self::LEN_MAX],
}

impl ConnectionId {
    /// Longest connection id of any version (RFC 8999, as limited by RFC 9000 17.2).
    pub const LEN_MAX: usize = 20;
    /// Shortest connection id: so much of each is drawn at random.
    pub const LEN_MIN: usize = 8;

    /// A connection id with these bytes; `None` if there are more than [`Self::LEN_MAX`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // To copy a number of bytes that is known takes a fraction of the time.
        if let Ok(usual) = bytes.try_into() {
            return Some(Self::new(usual));
        }
        let mut cid = Self { len: u8::try_from(bytes.len()).ok()?, bytes: [0; Self::LEN_MAX] };
        cid.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(cid)
    }

    /// A connection id of the shortest length, which is the usual one.
    pub fn new(bytes: [u8; Self::LEN_MIN]) -> Self {
        let mut cid = Self { len: Self::LEN_MIN as u8, bytes: [0; Self::LEN_MAX] };
        cid.bytes[..Self::LEN_MIN].copy_from_slice(&bytes);
        cid
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// How many bytes it has.
    pub fn wire_bytes(&self) -> usize {
        usize::from(self.len)
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_numbers_expand_to_the_nearest() {
        for expected in [0u64, 1, 5, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 7, 1 << 45] {
            for delta in [0i64, 1, -1, 1000, -1000, (1 << 31) - 1, 1 - (1 << 31)] {
                let Some(full) = expected.checked_add_signed(delta) else { continue };
                assert_eq!(expand_u32(full as u32, expected), full, "{expected} {delta}");
            }
        }
    }

    #[test]
    fn stream_ids_take_apart_as_they_were_put_together() {
        for side in [Side::Client, Side::Server] {
            for dir in [Dir::Bi, Dir::Uni] {
                let id = StreamId::new(side, dir, 77);
                assert_eq!((id.initiator(), id.dir(), id.index()), (side, dir, 77));
            }
        }
        assert_eq!(StreamId::new(Side::Server, Dir::Uni, 0).0, 3);
    }

    #[test]
    fn connection_ids_are_bounded() {
        assert!(ConnectionId::from_bytes(&[0; 21]).is_none());
        assert_eq!(ConnectionId::from_bytes(&[7; 20]).unwrap().as_bytes(), &[7; 20]);
    }
}
