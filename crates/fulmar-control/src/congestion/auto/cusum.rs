//! Losses beyond what the random loss explains, summed over rounds: what a competing window obeys.
//!
//! In competitive mode a window of a few packets loses one in some of its rounds, and no single round can
//! tell whether that is the path's: a bound of some standard deviations is less than one packet or more than
//! one, by the least error of the random loss. So the sum counts, not the round: each loss raises it by one
//! packet, each packet lowers it by what the random loss expects of it, and it is never below nothing. Some
//! losses of the path are obeyed as well, but how many depends little on the random loss: of 200 of 10,000
//! packets 58 if it is right, 79 if it is half of what it should be, 44 if it is half as much again.
//!
//! Source: the cumulative sum test (CUSUM; Page, Biometrika 41, 1954).
//!
//! Units: packets. Invariant: the sum is at least 0.

use crate::{Feedback, LossView};

/// The sum beyond which losses are obeyed, in bursts of the path's: that of a second one before half of the
/// first is explained.
const BURSTS: f64 = 1.5;

/// The sum.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Cusum {
    packets: f64,
}

impl Cusum {
    /// Packets are settled, of which the path loses a share of `random_loss` by itself. True if what is lost
    /// now is to be obeyed; the sum begins anew then.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback, random_loss: f64, loss: &LossView) -> bool {
        let lost = f64::from(feedback.lost.packets);
        let explained = random_loss * (f64::from(feedback.acked_packets) + lost);
        self.packets += lost - explained - f64::from(feedback.spurious_packets);
        self.packets = self.packets.max(0.0);
        let is_obeyed = lost > 0.0 && self.packets > BURSTS * loss.burst_packets.max(1.0);
        if is_obeyed {
            *self = Self::default();
        }
        is_obeyed
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    const INDEPENDENT: LossView = LossView { rate: 0.02, burst_packets: 1.02, weight_packets: 1000.0 };

    /// How often losses are obeyed, `distance` packets apart, on a path that loses `random_loss`.
    fn obeyed(losses: u32, distance: u32, random_loss: f64, loss: &LossView) -> u32 {
        let mut sum = Cusum::default();
        let mut settle = |is_lost: bool| {
            let mut feedback = Feedback::at(Instant::ZERO);
            (feedback.acked_packets, feedback.lost.packets) = (u32::from(!is_lost), u32::from(is_lost));
            u32::from(sum.on_feedback(&feedback, random_loss, loss))
        };
        (0..losses).map(|_| settle(true) + (1..distance).map(|_| settle(false)).sum::<u32>()).sum()
    }

    #[test]
    fn two_losses_are_obeyed_that_are_nearer_than_half_of_what_the_path_loses() {
        for (random_loss, near) in [(0.02, 22), (0.019, 23), (0.01, 45)] {
            assert_eq!(obeyed(2, near, random_loss, &INDEPENDENT), 1, "{random_loss}");
            assert_eq!(obeyed(2, near + 3, random_loss, &INDEPENDENT), 0, "{random_loss}");
        }
    }

    #[test]
    fn what_comes_as_often_as_the_path_loses_is_not_and_what_comes_more_often_is() {
        assert_eq!(obeyed(1000, 50, 0.02, &INDEPENDENT), 0);
        assert_eq!(obeyed(1000, 100, 0.02, &INDEPENDENT), 0);
        assert_eq!(obeyed(999, 33, 0.02, &INDEPENDENT), 333);
        assert_eq!(obeyed(1000, 20, 0.02, &INDEPENDENT), 500);
    }

    #[test]
    fn without_random_loss_it_is_every_second_loss_and_bursts_count_once() {
        assert_eq!(obeyed(100, 100, 0.0, &INDEPENDENT), 50);
        assert_eq!(obeyed(98, 100, 0.0, &LossView { burst_packets: 4.0, ..INDEPENDENT }), 14);
    }

    #[test]
    fn what_was_not_lost_is_taken_back() {
        let mut sum = Cusum::default();
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.lost.packets = 1;
        assert!(!sum.on_feedback(&feedback, 0.0, &INDEPENDENT));
        feedback.spurious_packets = 1;
        assert!(!sum.on_feedback(&feedback, 0.0, &INDEPENDENT));
    }
}
