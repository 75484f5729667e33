//! Counted work: what a decoder does for one call, in units that do not depend on the machine.

use core::cell::Cell;

/// Most work of one call of a decoder, whatever a peer sends and whatever parameters it names. The unit is a
/// byte of a symbol or of a row of coefficients, read, multiplied or moved once; a symbol id or an edge of a
/// graph counts as eight. `docs/internals/codes.md` says what this is in time.
pub const WORK_MAX: u64 = 16 << 20;

/// Work for one symbol id looked up, or one edge followed.
pub const STEP: usize = 8;

/// A counter that queries may advance as well.
#[derive(Debug, Default)]
pub struct Work(Cell<u64>);

impl Work {
    /// Counts so many units.
    pub fn add(&self, units: usize) {
        self.0.set(self.0.get() + units as u64);
    }

    /// All so far.
    pub fn total(&self) -> u64 {
        self.0.get()
    }

    /// All so far, counted anew from 0.
    pub fn take(&self) -> u64 {
        self.0.take()
    }
}
