//! A symbol of datagrams (docs/internals/wire.md 5.6): a head, then a datagram or a piece of one. Where it is
//! combined with others its length stands before it.

use std::time::Duration;

use bytes::Bytes;

use super::options::{DatagramClass, DatagramOptions, WORTH};
use crate::wire::frame::DATAGRAM_LENGTH_BYTES;
use crate::wire::{Malformed, Reader, put_varint};

const IS_FIRST: u8 = 1;
const IS_LAST: u8 = 2;
const IN_ORDER: u8 = 4;
const HAS_DEADLINE: u8 = 8;

/// Most bytes of a head: flags, and milliseconds up to a minute.
pub(super) const HEAD_BYTES_MAX: usize = 1 + 4;
/// No receiver waits longer for what is missing.
const WAIT_MS_MAX: u64 = 60_000;

/// What a symbol says of the datagram in it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// A datagram begins with it.
    pub(super) is_first: bool,
    /// A datagram ends with it.
    pub(super) is_last: bool,
    pub(super) is_in_order: bool,
    pub(super) deadline: Option<Duration>,
}

impl Head {
    pub(super) fn of(options: &DatagramOptions, is_first: bool, is_last: bool) -> Self {
        let is_in_order = options.class == DatagramClass::RepairedInOrder;
        Self { is_first, is_last, is_in_order, deadline: options.deadline }
    }

    /// How long after something sent later was known this is still waited for.
    pub(super) fn wait(&self) -> Duration {
        self.deadline.unwrap_or(WORTH)
    }

    /// It is worth nothing when it comes too late.
    pub(super) fn may_be_late(&self) -> bool {
        self.is_in_order || self.deadline.is_some()
    }
}

/// A symbol with its length before it, as it is combined.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub(super) head: Head,
    coded: Bytes,
    data_at: usize,
}

impl Symbol {
    /// The symbol of a datagram, or of a piece.
    pub(super) fn make(head: Head, data: &[u8]) -> Self {
        let mut coded = Vec::with_capacity(DATAGRAM_LENGTH_BYTES + HEAD_BYTES_MAX + data.len());
        coded.extend_from_slice(&[0; DATAGRAM_LENGTH_BYTES]);
        let flags = [
            (head.is_first, IS_FIRST),
            (head.is_last, IS_LAST),
            (head.is_in_order, IN_ORDER),
            (head.deadline.is_some(), HAS_DEADLINE),
        ];
        coded.push(flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag));
        if let Some(deadline) = head.deadline {
            put_varint(&mut coded, (deadline.as_millis() as u64).min(WAIT_MS_MAX));
        }
        let data_at = coded.len();
        coded.extend_from_slice(data);
        let len = coded.len() - DATAGRAM_LENGTH_BYTES;
        coded[..DATAGRAM_LENGTH_BYTES].copy_from_slice(&(len as u16).to_be_bytes());
        Self { head, coded: coded.into(), data_at }
    }

    /// The symbol that a frame carried.
    pub(super) fn arrived(bytes: &[u8]) -> Result<Self, Malformed> {
        let len = u16::try_from(bytes.len()).map_err(|_| Malformed)?;
        Self::parse([&len.to_be_bytes()[..], bytes].concat())
    }

    /// The symbol that was recovered, with the padding it was combined with.
    pub(super) fn recovered(mut coded: Vec<u8>) -> Result<Self, Malformed> {
        let len = usize::from(u16::from_be_bytes(Reader::new(&coded).array()?)) + DATAGRAM_LENGTH_BYTES;
        if len > coded.len() {
            return Err(Malformed);
        }
        coded.truncate(len);
        Self::parse(coded)
    }

    fn parse(coded: Vec<u8>) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&coded[DATAGRAM_LENGTH_BYTES..]);
        let flags = reader.u8()?;
        if flags > IS_FIRST | IS_LAST | IN_ORDER | HAS_DEADLINE {
            return Err(Malformed);
        }
        let deadline = match flags & HAS_DEADLINE {
            0 => None,
            _ => Some(Duration::from_millis(reader.varint()?.min(WAIT_MS_MAX))),
        };
        let data_at = coded.len() - reader.rest().len();
        let head = Head {
            is_first: flags & IS_FIRST != 0,
            is_last: flags & IS_LAST != 0,
            is_in_order: flags & IN_ORDER != 0,
            deadline,
        };
        Ok(Self { head, coded: coded.into(), data_at })
    }

    /// As it is combined.
    pub(super) fn coded(&self) -> &[u8] {
        &self.coded
    }

    /// As a frame carries it.
    pub(super) fn on_wire(&self) -> &[u8] {
        &self.coded[DATAGRAM_LENGTH_BYTES..]
    }

    /// The datagram, or the piece.
    pub(super) fn data(&self) -> Bytes {
        self.coded.slice(self.data_at..)
    }

    /// Bytes of memory held.
    pub(super) fn held_bytes(&self) -> usize {
        self.coded.len() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_5_6_symbols_come_back_with_and_without_padding() {
        for class in [DatagramClass::Repaired, DatagramClass::RepairedInOrder] {
            for options in [
                DatagramOptions::new(class),
                DatagramOptions::new(class).deadline(Duration::from_millis(300)),
            ] {
                let symbol = Symbol::make(Head::of(&options, true, false), b"hello");
                let arrived = Symbol::arrived(symbol.on_wire()).expect("well-formed");
                let padded = [symbol.coded(), &[0; 9]].concat();
                let recovered = Symbol::recovered(padded).expect("well-formed");
                for other in [arrived, recovered] {
                    assert_eq!((other.head, other.coded()), (symbol.head, symbol.coded()));
                    assert_eq!(other.data(), b"hello".as_slice());
                }
            }
        }
        assert!(Symbol::arrived(&[]).is_err() && Symbol::arrived(&[16]).is_err());
        assert!(Symbol::recovered(vec![0]).is_err() && Symbol::recovered(vec![0, 9, 1]).is_err());
    }
}
