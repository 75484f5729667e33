//! How long the next block is to be.
//!
//! LT-TCP keeps this apart as its "packet and block size calculator" (Hourt 2014, section 4.2). The size of
//! packets follows the path MTU, which the engine discovers; what is left to choose is how many symbols share
//! a block.

use core::fmt::Debug;

use crate::PathView;

/// Decides the length of blocks. Codes without blocks never ask.
pub trait Sizing: Debug + Send {
    /// The name of the rule, for statistics.
    fn name(&self) -> &'static str;

    /// Source symbols of the block that begins now, at least 1. The code's own bound holds beside it.
    fn block_symbols(&mut self, path: &PathView) -> u32;
}

/// Always the same length: CTCP's 32 packets, or whatever the code allows.
#[derive(Copy, Clone, Debug)]
pub struct FixedSizing {
    symbols: u32,
}

impl FixedSizing {
    /// Blocks of `symbols`, at least 1.
    pub fn new(symbols: u32) -> Self {
        Self { symbols: symbols.max(1) }
    }

    /// Blocks as long as the code allows.
    pub fn longest() -> Self {
        Self::new(u32::MAX)
    }
}

impl Sizing for FixedSizing {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn block_symbols(&mut self, _path: &PathView) -> u32 {
        self.symbols
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_length_is_at_least_one() {
        let path = PathView::unknown(1200);
        assert_eq!(FixedSizing::new(32).block_symbols(&path), 32);
        assert_eq!(FixedSizing::new(0).block_symbols(&path), 1);
    }
}
