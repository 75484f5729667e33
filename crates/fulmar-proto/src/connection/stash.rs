//! What did not fit one batch and opens the next.

/// A packet that was made for a batch and too long for it.
#[derive(Debug)]
pub(super) struct Stash {
    pub(super) datagram: Vec<u8>,
    /// It counts as one that left with an ECN codepoint.
    pub(super) is_marked: bool,
}
