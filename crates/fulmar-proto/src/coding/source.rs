//! Where new symbols come from.

use fulmar_control::Favor;

/// Packs new symbols.
pub trait Source {
    /// There is something to pack.
    fn has_pending(&self) -> bool;

    /// Packs one symbol of at most `bytes_max`; leaves it empty if there is nothing to send.
    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize);

    /// What the streams favour whose data went into the symbol packed last; `None` where they leave it to the
    /// connection.
    fn favor(&self) -> Option<Favor> {
        None
    }
}
