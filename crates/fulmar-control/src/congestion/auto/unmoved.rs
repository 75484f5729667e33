//! Losses that nothing moves: neither time, nor our pace.
//!
//! A flow that comes when a queue is full takes it for the path, and its drops for the path's losses. But a
//! path does not know who sends over it, nor how fast: its losses stay the same. The drops of a hidden queue
//! change when flows come and when they slow down, and they end when all flows of our kind drain together
//! (`drains`). So this part keeps log-odds that losses are the path's. A round raises them if it loses as
//! much as before, and lowers them if it loses more or less than chance explains. A drain lowers them if it
//! loses less. (A drain that loses as much says little: while some flows still double, they fill at once
//! what others leave.)
//!
//! Sources: Wald, Sequential Tests of Statistical Hypotheses (1945), for drains. For rounds, the variance of
//! a share of n packets, p (1 - p) / n, against one that has the square of `VARIED` of p on top.

use super::floor::{Rounds, stretch};
use crate::LossView;

/// Rounds are pooled until there are so many packets, as many times more as bursts widen the variance.
const PACKETS: f64 = 48.0;
/// A share of losses that others cause varies by this part of itself ..
const VARIED: f64 = 0.3;
/// .. and this part of it is left while all flows in the queue send half.
const LEFT: f64 = 0.75;
/// Log-odds from here on count as knowledge ..
const ENOUGH: f64 = 2.0;
/// .. and here they end, so that later evidence can undo them.
const MOST: f64 = 4.0;
/// The weight of earlier drains at the next one.
const KEPT: f64 = 0.8;
/// Packets of earlier rounds that are remembered.
const SPAN: f64 = 3000.0;
/// The largest loss that is believed. Flows in start-up double, so a link gets twice its rate and loses
/// half, as steadily as a path does.
const SHARE_MAX: f64 = 0.45;

/// Log-odds that what is lost is the path's.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Unmoved {
    by_rounds: f64,
    by_drains: f64,
    before: Rounds,
    pooled: Rounds,
    in_drain: Rounds,
}

impl Unmoved {
    /// It is the path's.
    pub(super) fn is_known(&self) -> bool {
        self.by_rounds + self.by_drains > ENOUGH && self.before.share() <= SHARE_MAX
    }

    /// A round in which no queue was seen.
    pub(super) fn on_round(&mut self, packets: u32, lost_packets: u32, loss: &LossView) {
        self.pooled.packets += f64::from(packets);
        self.pooled.lost_packets += f64::from(lost_packets);
        let Rounds { packets, lost_packets } = self.pooled;
        let share = (self.before.lost_packets + lost_packets) / (self.before.packets + packets).max(1.0);
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
            self.by_rounds = (self.by_rounds + 0.5 * odds).clamp(-2.0 * MOST, MOST);
        }
        self.before.add(packets, lost_packets, SPAN.max(packets));
    }

    /// The same of a common drain, of packets that were sent in it.
    pub(super) fn on_drained_round(&mut self, packets: u32, lost_packets: u32) {
        self.in_drain.packets += f64::from(packets);
        self.in_drain.lost_packets += f64::from(lost_packets);
    }

    /// The drain is over.
    pub(super) fn on_drain_end(&mut self, loss: &LossView) {
        let drain = core::mem::take(&mut self.in_drain);
        let share = self.before.share();
        if drain.packets <= 0.0 || share <= 0.0 || share >= 1.0 {
            return;
        }
        let arrived = drain.packets - drain.lost_packets;
        let odds =
            arrived * libm::log((1.0 - share) / (1.0 - LEFT * share)) - drain.lost_packets * libm::log(LEFT);
        let odds = self.by_drains * KEPT + odds / stretch(share, loss);
        self.by_drains = odds.clamp(-2.0 * MOST, 0.0);
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
    fn what_comes_and_goes_is_others_doing() {
        assert!(!after([43, 36, 52, 57, 43, 30, 29, 8]).is_known());
        assert!(
            !after(CHANCE.iter().map(|lost| lost + 20)).is_known(),
            "so much is lost of flows that double"
        );
    }

    #[test]
    fn what_is_gone_in_a_drain_is_a_queues() {
        let in_drain = |lost| {
            let mut unmoved = after(CHANCE);
            unmoved.on_drained_round(150, lost);
            unmoved.on_drain_end(&INDEPENDENT);
            unmoved.is_known()
        };
        assert!(in_drain(58) && !in_drain(30));
    }
}
