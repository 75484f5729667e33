//! The runs that lost packets come in, as whoever stands in one of them sees it.
//!
//! A mean length counts runs. Where a short queue drops a packet now and then most runs are of one, though
//! most losses come in long ones; and whoever hears nothing wants to know how long that may last. So losses
//! are counted: each loss by how many of its run came before it. In bursts of geometric length their mean is
//! E - 1, E the mean length.

/// Losses after which what was seen has faded to a third.
const MEMORY_LOSSES: f32 = 1024.0;
/// What is left of it after one loss more.
const KEPT_BY_ONE: f32 = 1.0 - 1.0 / MEMORY_LOSSES;
/// A run that goes on longer is a black-out, which says nothing about bursts.
const RUN_MAX: u32 = 64;

/// Runs of losses, in the order of sending.
#[derive(Debug)]
pub(super) struct LossRuns {
    /// The ordinal after that of the newest packet that was lost.
    after_newest: u32,
    /// Losses of its run before it.
    position: u32,
    losses: f32,
    positions: f32,
}

impl Default for LossRuns {
    fn default() -> Self {
        // None is lost yet: no packet has this ordinal before the others come again.
        Self { after_newest: u32::MAX, position: 0, losses: 0.0, positions: 0.0 }
    }
}

impl LossRuns {
    /// The packet that was sent as the `ordinal`-th is lost. True if a run begins with it: losses are found
    /// in the order of sending, so a run goes on if the packet before was the last one found lost. The one
    /// place that counts bursts.
    pub(super) fn on_lost(&mut self, ordinal: u32) -> bool {
        let begins = self.after_newest != ordinal;
        self.after_newest = ordinal.wrapping_add(1);
        self.position = if begins { 0 } else { self.position.saturating_add(1) };
        if self.position < RUN_MAX {
            self.losses = self.losses * KEPT_BY_ONE + 1.0;
            self.positions = self.positions * KEPT_BY_ONE + self.position as f32;
        }
        begins
    }

    /// Mean length of bursts, in packets, by how long they last once a packet is lost; at least 1.
    pub(super) fn burst_packets(&self) -> f64 {
        1.0 + f64::from(self.positions) / f64::from(self.losses.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After runs of these lengths, each after a packet that arrived.
    fn after(lengths: impl IntoIterator<Item = u32>) -> LossRuns {
        let (mut runs, mut ordinal) = (LossRuns::default(), 0);
        for length in lengths {
            for k in 0..length {
                assert_eq!(runs.on_lost(ordinal), k == 0);
                ordinal += 1;
            }
            ordinal += 1;
        }
        runs
    }

    #[test]
    fn single_losses_do_not_hide_long_bursts() {
        assert_eq!(LossRuns::default().burst_packets(), 1.0);
        assert_eq!(after([1; 100]).burst_packets(), 1.0);
        // Bursts of geometric length with a mean of 8, in the order of a stride, and as many single losses
        // among them.
        let geometric = (0..600_u32).map(|n| {
            let quantile = (f64::from(n * 389 % 600) + 0.5) / 600.0;
            (quantile.ln() / (1.0_f64 - 1.0 / 8.0).ln()).ceil() as u32
        });
        let bursts = after(geometric.clone()).burst_packets();
        assert!((7.0..9.0).contains(&bursts), "{bursts}");
        let among_single_ones = after(geometric.flat_map(|length| [length, 1])).burst_packets();
        assert!((6.0..8.0).contains(&among_single_ones), "{among_single_ones}");
    }

    #[test]
    fn a_black_out_says_nothing() {
        let (short, long) = (after([RUN_MAX]), after([100 * RUN_MAX]));
        assert_eq!(short.burst_packets(), long.burst_packets());
    }
}
