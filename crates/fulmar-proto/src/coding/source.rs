//! Where new symbols come from.

use bytes::Bytes;
use fulmar_control::Favor;

/// Packs new symbols.
pub trait Source {
    /// There is something to pack.
    fn has_pending(&self) -> bool;

    /// Packs one symbol of at most `bytes_max`: what is appended to `symbol`, and after it what is returned,
    /// which stays where it is and is not copied. Both empty if there is nothing to send.
    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) -> Bytes;

    /// Takes back what [`Self::fill`] returned and nobody else refers to any more.
    fn give_back(&mut self, _data: Bytes) {}

    /// What the streams favour whose data went into the symbol packed last; `None` where they leave it to the
    /// connection.
    fn favor(&self) -> Option<Favor> {
        None
    }
}
