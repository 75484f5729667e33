//! What the path loses of what this end sends, as far as ACKs have told.

use fulmar_control::{Channel, Feedback, LossEstimator, LossView};

use super::loss_runs::LossRuns;

/// The burst length assumed of a path of which too little is known.
const BURST_UNKNOWN: LossView = LossView { rate: 0.05, burst_packets: 4.0, weight_packets: 0.0 };
/// Packets after which an estimate is believed.
const WEIGHT_MIN: f64 = 50.0;

/// The profile's estimate, and the runs that losses come in.
#[derive(Debug)]
pub(super) struct WayForward {
    estimator: Box<dyn LossEstimator>,
    /// What it says, which is asked for several times a packet and changes with an ACK.
    view: LossView,
    runs: LossRuns,
}

impl WayForward {
    pub(super) fn new(estimator: Box<dyn LossEstimator>) -> Self {
        Self { view: estimator.view(), estimator, runs: LossRuns::default() }
    }

    /// Another estimator, which begins anew.
    pub(super) fn adopt(&mut self, estimator: Box<dyn LossEstimator>) {
        (self.view, self.estimator) = (estimator.view(), estimator);
    }

    /// What the estimator says.
    pub(super) fn view(&self) -> LossView {
        self.view
    }

    /// The estimator is told.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback) {
        self.estimator.on_feedback(feedback);
        self.view = self.estimator.view();
    }

    /// The packet that was sent as the `ordinal`-th is lost. True if a burst begins with it.
    pub(super) fn on_lost(&mut self, ordinal: u32) -> bool {
        self.runs.on_lost(ordinal)
    }

    /// Enough packets have come and gone for the estimate to be believed.
    pub(super) fn is_known(&self) -> bool {
        self.view.weight_packets >= WEIGHT_MIN
    }

    /// The way as a packet meets it of which those before it were lost.
    pub(super) fn in_burst(&self) -> Channel {
        Channel::new(&LossView { burst_packets: self.runs.burst_packets(), ..self.view })
    }

    /// The same, with something assumed of a path that is not known.
    pub(super) fn in_silence(&self) -> Channel {
        if self.is_known() { self.in_burst() } else { Channel::new(&BURST_UNKNOWN) }
    }
}

#[cfg(test)]
mod tests {
    use fulmar_control::Pooled;

    use super::*;
    use crate::Instant;

    fn told(way: &mut WayForward, acked: u32, lost: u32) {
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.acked_packets = acked;
        (feedback.lost.packets, feedback.lost.bursts) = (lost, lost);
        way.on_feedback(&feedback);
    }

    #[test]
    fn bursts_are_assumed_until_enough_came_and_counted_from_then_on() {
        let mut way = WayForward::new(Box::new(Pooled::new()));
        told(&mut way, 40, 0);
        assert!(!way.is_known());
        assert_eq!(way.in_silence(), Channel::new(&BURST_UNKNOWN));
        told(&mut way, 40, 4);
        (0..4).for_each(|ordinal| assert_eq!(way.on_lost(ordinal), ordinal == 0));
        assert!(way.is_known() && way.in_silence() == way.in_burst());
        assert!(way.in_burst().lost_after_lost() > Channel::new(&way.view()).lost_after_lost());
        way.adopt(Box::new(Pooled::new()));
        assert!(!way.is_known());
    }
}
