//! LT-TCP's estimators: an exponentially weighted mean of the loss rate of each round.
//!
//! Source: LT-TCP (Hourt 2014) section 3.1. A sample s is the share of packets found lost among those a round
//! resolved. Static: r = a s + (1 - a) r with a = 0.6. Dynamic (the older one): a = s / (r + s), which
//! follows a rise quickly and a fall slowly, and so overestimates under bursts. A packet that arrives after
//! all takes its loss back from the round in progress.
//!
//! Of burst lengths the source measures none; they are averaged as everywhere here (`bursts`).
//! Invariants: the rate stays within 0 and 1; a round without packets is no sample.

use fulmar_control::loss::Bursts;
use fulmar_control::{Feedback, LossEstimator, LossView};

use super::rounds::{Rounds, Sample};

/// LT-TCP 3.1: weight of the newest sample.
pub const STATIC_GAIN: f64 = 0.6;

/// How the newest sample is weighed.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Gain {
    Static(f64),
    Dynamic,
}

/// LT-TCP's estimator, static or dynamic.
#[derive(Clone, Debug)]
pub struct Ewma {
    gain: Gain,
    rounds: Rounds,
    bursts: Bursts,
    view: LossView,
}

impl Ewma {
    /// The static variant with the source's weight.
    pub fn fixed() -> Self {
        Self::with_gain(STATIC_GAIN)
    }

    /// The static variant with weight `gain`, 0 to 1.
    pub fn with_gain(gain: f64) -> Self {
        Self::new(Gain::Static(gain.clamp(0.0, 1.0)))
    }

    /// The dynamic variant.
    pub fn dynamic() -> Self {
        Self::new(Gain::Dynamic)
    }

    fn new(gain: Gain) -> Self {
        Self { gain, rounds: Rounds::default(), bursts: Bursts::default(), view: LossView::default() }
    }

    fn learn(&mut self, sample: &Sample) {
        let Sample { packets, rate } = *sample;
        let gain = match self.gain {
            Gain::Static(gain) => gain,
            Gain::Dynamic if rate > 0.0 => rate / (self.view.rate + rate),
            // s = 0 gives a = 0: the estimate would never fall. The thesis' tables show that it does fall; we
            // take the limit of a small sample, one loss in twice the round.
            Gain::Dynamic => {
                let small = 0.5 / packets;
                small / (self.view.rate + small)
            }
        };
        self.view.rate = gain * rate + (1.0 - gain) * self.view.rate;
        self.view.weight_packets = packets + (1.0 - gain) * self.view.weight_packets;
    }
}

impl LossEstimator for Ewma {
    fn name(&self) -> &'static str {
        match self.gain {
            Gain::Static(_) => "static-ewma",
            Gain::Dynamic => "dynamic-ewma",
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback) {
        self.bursts.count(feedback);
        if let Some(sample) = self.rounds.count(feedback) {
            self.learn(&sample);
        }
    }

    fn view(&self) -> LossView {
        LossView { burst_packets: self.bursts.mean_packets(), ..self.view }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    fn round(estimator: &mut Ewma, round: u64, acked: u32, lost: u32, bursts: u32) {
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.round = round;
        feedback.acked_packets = acked;
        (feedback.lost.packets, feedback.lost.bursts) = (lost, bursts);
        estimator.on_feedback(&feedback);
    }

    #[test]
    fn static_gain_as_in_the_thesis() {
        let mut ewma = Ewma::fixed();
        round(&mut ewma, 0, 90, 10, 5);
        assert_eq!((ewma.view().rate, ewma.view().burst_packets), (0.0, 2.0));
        round(&mut ewma, 1, 80, 20, 5);
        // 0.6 * 0.10 = 0.06; ten bursts of 3.
        assert!((ewma.view().rate - 0.06).abs() < 1e-12 && (ewma.view().burst_packets - 3.0).abs() < 0.02);
        round(&mut ewma, 2, 100, 0, 0);
        // 0.6 * 0.20 + 0.4 * 0.06 = 0.144.
        assert!((ewma.view().rate - 0.144).abs() < 1e-12);
        round(&mut ewma, 3, 100, 0, 0);
        assert!((ewma.view().rate - 0.0576).abs() < 1e-12);
        assert!((ewma.view().weight_packets - (100.0 + 0.4 * (100.0 + 0.4 * 100.0))).abs() < 1e-9);
    }

    #[test]
    fn dynamic_gain_rises_at_once_and_falls_slowly() {
        let mut ewma = Ewma::dynamic();
        round(&mut ewma, 0, 90, 10, 10);
        round(&mut ewma, 1, 80, 20, 20);
        // a = 0.1 / (0 + 0.1) = 1.
        assert!((ewma.view().rate - 0.1).abs() < 1e-12);
        round(&mut ewma, 2, 95, 5, 5);
        // a = 0.2 / 0.3; r = 0.1333 + 0.0333 = 0.16667.
        assert!((ewma.view().rate - 1.0 / 6.0).abs() < 1e-12);
        round(&mut ewma, 3, 100, 0, 0);
        // a = 0.05 / (1/6 + 0.05) = 3/13; r = 3/13 * 0.05 + 10/13 / 6 = 0.13974.
        assert!((ewma.view().rate - 0.139_743_589_743).abs() < 1e-9);
        let before = ewma.view().rate;
        round(&mut ewma, 4, 100, 0, 0);
        assert!(ewma.view().rate < before && ewma.view().rate > 0.9 * before);
    }

    #[test]
    fn a_loss_taken_back_does_not_count() {
        let mut ewma = Ewma::fixed();
        round(&mut ewma, 0, 90, 10, 10);
        let mut spurious = Feedback::at(Instant::ZERO);
        spurious.spurious_packets = 10;
        ewma.on_feedback(&spurious);
        round(&mut ewma, 1, 100, 0, 0);
        assert_eq!(ewma.view().rate, 0.0);
    }
}
