//! Reading and writing of integers and byte strings.

use thiserror::Error;

/// Largest number a varint can hold (RFC 9000 16).
pub const VARINT_MAX: u64 = (1 << 62) - 1;

/// The bytes end too early, or a number is out of its range.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
#[error("malformed or truncated")]
pub struct Malformed;

/// Bytes that `value` takes as a varint. `value` must not exceed [`VARINT_MAX`].
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `value` as a varint (RFC 9000 16). `value` must not exceed [`VARINT_MAX`]; a larger one is cut to
/// it.
pub fn put_varint(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= VARINT_MAX);
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(0x4000 | value as u16).to_be_bytes()),
        4 => out.extend_from_slice(&(0x8000_0000 | value as u32).to_be_bytes()),
        _ => out.extend_from_slice(&(0b11 << 62 | value.min(VARINT_MAX)).to_be_bytes()),
    }
}

/// Takes fields off the front of a byte string. Nothing it does can panic, whatever the bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, left in place.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// A big-endian 32-bit number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// A varint (RFC 9000 16).
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let first = self.peek().ok_or(Malformed)?;
        Ok(match first >> 6 {
            0 => u64::from(self.array::<1>()?[0] & 0x3f),
            1 => u64::from(u16::from_be_bytes(self.array()?) & 0x3fff),
            2 => u64::from(u32::from_be_bytes(self.array()?) & 0x3fff_ffff),
            _ => u64::from_be_bytes(self.array()?) & VARINT_MAX,
        })
    }

    /// A varint that must fit a `usize`-sized length.
    pub fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed)
    }

    /// A byte string preceded by its length as a varint.
    pub fn prefixed(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.length()?;
        self.bytes(len)
    }

    /// Everything left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_as_in_rfc_9000_a1() {
        let examples: [(&[u8], u64); 4] = [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (wire, value) in examples {
            let mut reader = Reader::new(wire);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!((out.as_slice(), out.len()), (wire, varint_len(value)));
        }
    }

    #[test]
    fn varints_end_at_their_limits() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, VARINT_MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Ok(value));
            assert_eq!(Reader::new(&out[..out.len() - 1]).varint(), Err(Malformed));
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        assert_eq!(Reader::new(&[5, 1, 2]).prefixed(), Err(Malformed));
        assert_eq!(Reader::new(&[0xff; 8]).prefixed(), Err(Malformed));
    }
}
