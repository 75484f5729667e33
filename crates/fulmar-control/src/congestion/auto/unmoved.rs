//! Losses that nothing moves: neither time, nor our pace.
//!
//! Who comes when a queue is full takes it for the path, and its drops for the path's losses. But a path does
//! not know who sends over it, nor how fast: what it loses stays the same. What a hidden queue drops changes
//! when flows come and when they come down, and is gone when all of our kind drain together (`drains`). So
//! there are log-odds that losses are the path's: rounds raise them by losing as much as before, lower them by
//! losing more or less than chance explains, and a drain in which less is lost lowers them. (One in which as
//! much is lost says little: while some still double, what others leave is filled at once.)
//!
//! Sources: Wald, Sequential Tests of Statistical Hypotheses (1945), for drains; for rounds the variance of a
//! share of n packets, p (1 - p) / n, against one that has the square of `VARIED` of p on top.

use super::floor::{Rounds, stretch};
use crate::LossView;

/// Rounds are pooled until there are so many packets, as many times more as bursts widen the variance.
const PACKETS: f64 = 48.0;
/// By so much of itself a share of losses varies that is others' doing ..
const VARIED: f64 = 0.3;
/// .. and so much of it is left while all who fill the queue send half.
const LEFT: f64 = 0.75;
/// So high log-odds are enough; more of them last longer.
const ENOUGH: f64 = 2.0;
const MOST: f64 = 4.0;
/// What a drain showed counts so much at the next.
const KEPT: f64 = 0.8;
/// Packets remembered of the rounds before.
const SPAN: f64 = 3000.0;
/// Up to this. Flows that come double, so that a link gets twice what it carries and loses half, as steadily as a path.
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
