//! Where the bytes of a symbol are until the receiver has it.
//!
//! Most symbols are a few bytes of frame and a long piece of what an application wrote. That piece stays in
//! the chunk it was written to; it is copied when it is put into a packet, and to no other place unless a
//! combination over it is made.

use bytes::Bytes;

/// Longest beginning that is kept beside the data: the header of one STREAM frame has at most 21 bytes.
const HEAD_BYTES_MAX: usize = 22;

/// The bytes of one symbol.
#[derive(Debug)]
pub(super) enum Stored {
    /// All together.
    Whole(Vec<u8>),
    /// A beginning, and data that stay in a chunk which others share.
    Linked { head: Head, data: Bytes },
}

/// What was written before the data.
#[derive(Debug)]
pub(super) struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Head {
    /// `None` if it is too long.
    fn new(written: &[u8]) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        bytes.get_mut(..written.len())?.copy_from_slice(written);
        Some(Self { bytes, len: written.len() as u8 })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Stored {
    /// A symbol of `written` and `data` after it, and the buffer that is left over.
    pub(super) fn new(mut written: Vec<u8>, data: Bytes) -> (Self, Option<Vec<u8>>) {
        match Head::new(&written).filter(|_| !data.is_empty()) {
            Some(head) => (Self::Linked { head, data }, Some(written)),
            None => {
                written.extend_from_slice(&data);
                (Self::Whole(written), None)
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        let [head, data] = self.parts();
        head.len() + data.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, in two parts.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        match self {
            Self::Whole(bytes) => [bytes, &[]],
            Self::Linked { head, data } => [head.as_slice(), data],
        }
    }

    /// The bytes, if they are together.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        match self {
            Self::Whole(bytes) => Some(bytes),
            Self::Linked { .. } => None,
        }
    }
}

impl Default for Stored {
    fn default() -> Self {
        Self::Whole(Vec::new())
    }
}
