//! Losses that nothing moves: neither time, nor our pace.
//!
//! A flow that comes when a queue is full takes it for the path, and its drops for the path's losses. But a
//! path does not know who sends over it, nor how fast: its losses stay the same. The drops of a hidden queue
//! change when flows come and when they slow down. So this part keeps log-odds that losses are the path's:
//! a round raises them if it loses as much as before, and lowers them if chance does not explain what it
//! loses. Flows that still come and double may lose half, as steadily as a path loses: then deep drains that
//! all make together (`drains`) show the empty path, and the queue is seen.
//!
//! Source: Wald, Sequential Tests of Statistical Hypotheses (1945), with the variance of a share of n
//! packets, p (1 - p) / n, against one that has the square of `VARIED` of p on top.

use super::random_loss::{RANDOM_LOSS_MAX, Rounds, stretch};
use crate::LossView;

/// Rounds are pooled until there are so many packets, as many times more as bursts widen the variance.
const PACKETS: f64 = 48.0;
/// A share of losses that others cause varies by this part of itself.
const VARIED: f64 = 0.3;
/// Log-odds from here on count as knowledge ..
const ENOUGH: f64 = 2.0;
/// .. and here they end, so that later evidence can undo them.
const MOST: f64 = 4.0;
/// Packets of earlier rounds that are remembered.
const SPAN: f64 = 3000.0;
/// The largest loss that is believed: the largest random loss, and the error of a share of so many packets.
const SHARE_MAX: f64 = RANDOM_LOSS_MAX + 0.05;

/// Log-odds that what is lost is the path's.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Unmoved {
    odds: f64,
    before: Rounds,
    pooled: Rounds,
}

impl Unmoved {
    /// It is the path's.
    pub(super) fn is_known(&self) -> bool {
        self.odds > ENOUGH && self.before.share() <= SHARE_MAX
    }

    /// What of the packets was lost that saw no queue.
    pub(super) fn share(&self) -> f64 {
        let Rounds { packets, lost_packets } = self.before;
        (lost_packets + self.pooled.lost_packets) / (packets + self.pooled.packets).max(1.0)
    }

    /// A round in which no queue was seen.
    pub(super) fn on_round(&mut self, packets: u32, lost_packets: u32, loss: &LossView) {
        self.pooled.packets += f64::from(packets);
        self.pooled.lost_packets += f64::from(lost_packets);
        let Rounds { packets, lost_packets } = self.pooled;
        let share = self.share();
        let wide = stretch(share, loss);
        if packets < PACKETS * wide {
            return;
        }
        self.pooled = Rounds::default();
        if self.before.packets > 0.0 && share > 0.0 {
            let chance = share * (1.0 - share) * wide * (1.0 / packets + 1.0 / self.before.packets);
            let varied = chance + (VARIED * share) * (VARIED * share);
            let distance = lost_packets / packets - self.before.share();
            let odds = libm::log(varied / chance) - distance * distance * (1.0 / chance - 1.0 / varied);
            self.odds = (self.odds + 0.5 * odds).clamp(-2.0 * MOST, MOST);
        }
        self.before.add(packets, lost_packets, SPAN.max(packets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEPENDENT: LossView = LossView { rate: 0.4, burst_packets: 1.7, weight_packets: 1000.0 };

    /// After rounds of a hundred packets that lost so many.
    fn after(lost: impl IntoIterator<Item = u32>) -> Unmoved {
        let mut unmoved = Unmoved::default();
        lost.into_iter().for_each(|lost| unmoved.on_round(100, lost, &INDEPENDENT));
        unmoved
    }

    /// As chance has them of a path that loses two fifths.
    const CHANCE: [u32; 8] = [43, 36, 40, 47, 35, 41, 38, 44];

    #[test]
    fn what_varies_by_chance_is_the_paths() {
        assert!(!after(CHANCE[..3].iter().copied()).is_known(), "too few to tell");
        assert!(after(CHANCE).is_known());
    }

    #[test]
    fn a_few_packets_have_a_share_and_no_odds() {
        assert_eq!(after([]).share(), 0.0);
        let mut unmoved = Unmoved::default();
        unmoved.on_round(20, 5, &INDEPENDENT);
        assert!(unmoved.share() == 0.25 && !unmoved.is_known());
        unmoved.on_round(80, 35, &INDEPENDENT);
        unmoved.on_round(20, 8, &INDEPENDENT);
        assert_eq!(unmoved.share(), 0.4);
    }

    #[test]
    fn what_comes_and_goes_is_others_doing() {
        assert!(!after([43, 36, 52, 57, 43, 30, 29, 8]).is_known());
        assert!(
            !after(CHANCE.iter().map(|lost| lost + 20)).is_known(),
            "so much is lost of flows that double"
        );
    }
}
