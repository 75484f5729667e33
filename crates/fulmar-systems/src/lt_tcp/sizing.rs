//! LT-TCP's "packet and block size calculator" (Hourt 2014, section 4.2): how long the next block is to be.

use fulmar_control::{PathView, Sizing};

/// LT-TCP's blocks: a share of the window.
///
/// The thesis names the calculator and leaves it open. Its predecessors (Tickoo et al. 2005, Subramanian et
/// al. 2006) make a block of a window of data, granulated into at least ten packets or so, for a block of few
/// packets wastes repair: one packet of it is already a large share. With one block per window, though, a
/// block's repair is asked for while nothing else is under way. So several blocks share the window, four
/// unless set, as long as none becomes shorter than the least length.
#[derive(Copy, Clone, Debug)]
pub struct WindowSizing {
    blocks_per_window: u32,
    symbols_min: u32,
    symbols_max: u32,
}

impl WindowSizing {
    /// `blocks_per_window` (at least 1) blocks per window, each of `symbols_min` (at least 1) to
    /// `symbols_max`.
    pub fn new(blocks_per_window: u32, symbols_min: u32, symbols_max: u32) -> Self {
        let symbols_min = symbols_min.max(1);
        Self {
            blocks_per_window: blocks_per_window.max(1),
            symbols_min,
            symbols_max: symbols_max.max(symbols_min),
        }
    }
}

impl Sizing for WindowSizing {
    fn name(&self) -> &'static str {
        "window"
    }

    fn block_symbols(&mut self, path: &PathView) -> u32 {
        let packets =
            path.window_bytes / u64::from(path.mtu_bytes.max(1)) / u64::from(self.blocks_per_window);
        u32::try_from(packets).unwrap_or(u32::MAX).clamp(self.symbols_min, self.symbols_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_a_share_of_the_window_within_bounds() {
        let mut sizing = WindowSizing::new(4, 10, 100);
        let mut path = PathView::unknown(1200);
        let mut of_window = |packets: u64| {
            path.window_bytes = 1200 * packets;
            sizing.block_symbols(&path)
        };
        assert_eq!([10, 39, 44, 200, 4000].map(&mut of_window), [10, 10, 11, 50, 100]);
    }
}
