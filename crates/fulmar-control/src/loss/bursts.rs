//! How long loss bursts are.
//!
//! The record tells how many runs of consecutive losses began ([`LossEvent`](crate::LossEvent)), each counted
//! once over the whole connection, so the mean length is a quotient of two sums. Losses without a run of
//! their own go on where an earlier report ended. The sums forget by the burst, not by the packet: lengths
//! scatter as widely as they are long, so that at p = 5 % and E = 10 the thousand packets that tell a loss
//! rate would hold five bursts, and a mean good to 40 %.
//!
//! Invariants: the mean is at least 1 once a run has begun, 0 before.

use crate::Feedback;

/// Memory in bursts: a standard error of 4 % where they are long.
const MEMORY_BURSTS: f64 = 256.0;

/// Losses and the runs they came in, with exponential forgetting.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    lost_packets: f64,
    bursts: f64,
}

impl Bursts {
    /// Counts what the record tells.
    pub fn count(&mut self, feedback: &Feedback) {
        let kept = libm::exp(-f64::from(feedback.lost.bursts) / MEMORY_BURSTS);
        self.lost_packets = self.lost_packets * kept + f64::from(feedback.lost.packets);
        self.bursts = self.bursts * kept + f64::from(feedback.lost.bursts);
        if feedback.spurious_packets > 0 && self.lost_packets > 0.0 {
            // What is taken back takes its share of the runs with it: which it belonged to is not known any
            // more.
            let left = (1.0 - f64::from(feedback.spurious_packets) / self.lost_packets).max(0.0);
            self.lost_packets *= left;
            self.bursts *= left;
        }
    }

    /// Mean length in packets; 0 before the first burst.
    pub fn mean_packets(&self) -> f64 {
        if self.bursts > 0.0 { self.lost_packets / self.bursts } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    fn count(bursts: &mut Bursts, lost_packets: u32, lost_bursts: u32, spurious_packets: u32) -> f64 {
        let mut feedback = Feedback::at(Instant::ZERO);
        (feedback.lost.packets, feedback.lost.bursts) = (lost_packets, lost_bursts);
        feedback.spurious_packets = spurious_packets;
        bursts.count(&feedback);
        bursts.mean_packets()
    }

    #[test]
    fn a_burst_reported_in_pieces_is_one_burst() {
        let mut bursts = Bursts::default();
        assert_eq!(count(&mut bursts, 0, 0, 0), 0.0);
        assert_eq!(count(&mut bursts, 1, 1, 0), 1.0);
        assert_eq!(count(&mut bursts, 1, 0, 0), 2.0);
        assert_eq!(count(&mut bursts, 2, 0, 0), 4.0);
        // Two runs, the first of which goes on: 4 + 1, 1; forgotten by one burst in 256.
        let expected = (4.0 * libm::exp(-1.0 / 256.0) + 2.0) / (libm::exp(-1.0 / 256.0) + 1.0);
        assert!((count(&mut bursts, 2, 1, 0) - expected).abs() < 1e-12);
    }

    #[test]
    fn what_is_taken_back_does_not_change_the_mean() {
        let mut bursts = Bursts::default();
        let before = count(&mut bursts, 30, 10, 0);
        assert!((count(&mut bursts, 0, 0, 6) - before).abs() < 1e-12);
        assert_eq!(count(&mut bursts, 0, 0, 100), 0.0);
    }

    #[test]
    fn a_change_is_followed_within_some_hundred_bursts() {
        let mut bursts = Bursts::default();
        for _ in 0..1000 {
            count(&mut bursts, 10, 1, 0);
        }
        for _ in 0..768 {
            count(&mut bursts, 1, 1, 0);
        }
        // 1 + 9 exp(-3).
        assert!((bursts.mean_packets() - 1.448).abs() < 0.01, "{}", bursts.mean_packets());
    }
}
