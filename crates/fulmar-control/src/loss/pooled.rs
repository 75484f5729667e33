//! The default estimator: counts pooled over a recent stretch of packets, forgotten exponentially.
//!
//! A round of a long fast path has hundreds of packets, one of a thin flow has ten, so a mean of per-round
//! rates is either too nervous or too slow. Here packets, losses and bursts are counted, and the counts decay
//! with every packet resolved, with a memory of the larger of 8 rounds and 1000 packets: at p = 1 % that is
//! ten losses, a standard error of a third, and at 20 % one of 6 %. Bursts of mean length E raise the error
//! by about sqrt((1 + rho) / (1 - rho)), rho = 1 - 1 / (E (1 - p)).
//!
//! Burst lengths have a memory of their own (`bursts`).
//!
//! A run of losses longer than a round trip is a black-out, which is no loss rate: nothing is learned from
//! it. Inputs: packets acknowledged, lost and taken back, round numbers. Invariants: 0 <= losses <= packets;
//! the rate stays within 0 and 1.

use super::bursts::Bursts;
use super::{LossEstimator, LossView};
use crate::Feedback;

/// Memory in rounds.
const MEMORY_ROUNDS: f64 = 8.0;
/// Memory in packets, where rounds are short.
const MEMORY_PACKETS: f64 = 1000.0;
/// A single run of at least this many packets, as a share of a round's packets, is a black-out.
const BLACKOUT_ROUNDS: f64 = 0.9;
/// Shorter runs are bursts even where a round has only a few packets.
const BLACKOUT_PACKETS_MIN: u32 = 64;

/// Pooled counts with exponential forgetting.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    packets: f64,
    lost_packets: f64,
    bursts: Bursts,
    round: u64,
    round_packets: u32,
    /// Smoothed number of packets resolved per round.
    packets_per_round: f64,
}

impl Pooled {
    /// An estimator that has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn count_round(&mut self, feedback: &Feedback, resolved: u32) {
        if feedback.round != self.round {
            self.round = feedback.round;
            let packets = f64::from(self.round_packets);
            self.packets_per_round = if self.packets_per_round == 0.0 {
                packets
            } else {
                0.75 * self.packets_per_round + 0.25 * packets
            };
            self.round_packets = 0;
        }
        self.round_packets = self.round_packets.saturating_add(resolved);
    }

    fn is_blackout(&self, feedback: &Feedback) -> bool {
        feedback.lost.bursts <= 1
            && feedback.lost.packets >= BLACKOUT_PACKETS_MIN
            && f64::from(feedback.lost.packets) >= BLACKOUT_ROUNDS * self.packets_per_round
    }
}

impl LossEstimator for Pooled {
    fn name(&self) -> &'static str {
        "pooled"
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        if self.packets_per_round > 0.0 && self.is_blackout(feedback) {
            return;
        }
        let resolved = feedback.acked_packets.saturating_add(feedback.lost.packets);
        self.count_round(feedback, resolved);
        let memory = (MEMORY_ROUNDS * self.packets_per_round).max(MEMORY_PACKETS);
        let kept = libm::exp(-f64::from(resolved) / memory);
        self.packets = self.packets * kept + f64::from(resolved);
        let lost = self.lost_packets * kept + f64::from(feedback.lost.packets)
            - f64::from(feedback.spurious_packets);
        self.lost_packets = lost.clamp(0.0, self.packets);
        self.bursts.count(feedback);
    }

    fn view(&self) -> LossView {
        if self.packets == 0.0 {
            return LossView::default();
        }
        LossView {
            rate: self.lost_packets / self.packets,
            burst_packets: self.bursts.mean_packets(),
            weight_packets: self.packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use crate::LossEvent;

    fn feedback(round: u64, acked: u32, lost: u32, bursts: u32) -> Feedback {
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.round = round;
        feedback.acked_packets = acked;
        feedback.lost = LossEvent { packets: lost, bursts, ..LossEvent::default() };
        feedback
    }

    #[test]
    fn counts_are_pooled() {
        let mut pooled = Pooled::new();
        assert_eq!(pooled.view(), LossView::default());
        pooled.on_feedback(&feedback(0, 8, 2, 1));
        let view = pooled.view();
        assert_eq!((view.rate, view.burst_packets, view.weight_packets), (0.2, 2.0, 10.0));
    }

    #[test]
    fn the_memory_is_a_thousand_packets_or_eight_rounds() {
        for (per_round, memory) in [(10_u32, 1000.0), (400, 3200.0)] {
            let mut pooled = Pooled::new();
            for round in 0..2000 {
                pooled.on_feedback(&feedback(round, per_round, 0, 0));
            }
            // The sum of a geometric series: per_round / (1 - exp(-per_round / memory)).
            let weight = f64::from(per_round) / (1.0 - libm::exp(-f64::from(per_round) / memory));
            assert!((pooled.view().weight_packets - weight).abs() < 0.01 * weight, "{:?}", pooled.view());
        }
    }

    #[test]
    fn it_settles_on_the_rate_and_follows_a_change() {
        let mut pooled = Pooled::new();
        for round in 0..200 {
            pooled.on_feedback(&feedback(round, 90, 10, 5));
        }
        let view = pooled.view();
        assert!((view.rate - 0.1).abs() < 1e-9 && (view.burst_packets - 2.0).abs() < 1e-9);
        for round in 200..220 {
            pooled.on_feedback(&feedback(round, 100, 0, 0));
        }
        // 2000 packets later exp(-2) of it is left.
        assert!((pooled.view().rate - 0.1 * libm::exp(-2.0)).abs() < 0.002, "{:?}", pooled.view());
    }

    #[test]
    fn a_blackout_is_no_loss_rate() {
        let mut pooled = Pooled::new();
        for round in 0..10 {
            pooled.on_feedback(&feedback(round, 99, 1, 1));
        }
        let before = pooled.view();
        pooled.on_feedback(&feedback(10, 1, 100, 1));
        assert_eq!(pooled.view(), before);
    }

    #[test]
    fn losses_taken_back_never_make_the_rate_negative() {
        let mut pooled = Pooled::new();
        let mut spurious = feedback(0, 10, 0, 0);
        spurious.spurious_packets = 7;
        pooled.on_feedback(&spurious);
        assert_eq!(pooled.view().rate, 0.0);
    }
}
