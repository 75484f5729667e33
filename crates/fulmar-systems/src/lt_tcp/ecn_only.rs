//! LT-TCP's congestion control: marks are congestion, losses are not.
//!
//! Source: Hourt 2014, sections 1.1 and 2.2.3: "Explicit Congestion Notification eliminates the assumption
//! that losses are a reliable indicator of congestion". The window shrinks on ECN-echo and on the
//! retransmission timeout only, and then by TCP's rules: halved once per window of data (RFC 3168 6.1.2),
//! down to slow start on a timeout (RFC 5681 3.1). Table 2.7 shows the thesis' own code backing off less than
//! TCP does, for which its authors suspect "not adjusting its congestion window by the same rules"; here the
//! rules are one implementation (`aimd`).
//!
//! Inputs: bytes acknowledged, marks, when the newest packet acknowledged was sent. Losses are not read.
//! Invariant: window >= 2 packets.

use fulmar_control::congestion::{Aimd, REDUCTION, Response, WindowController};
use fulmar_control::{Feedback, PathView, WindowConfig};

/// Reno that hears marks and timeouts, and is deaf to losses.
pub type EcnOnly = WindowController<OnMarks>;

/// Halves on marks.
#[derive(Clone, Debug)]
pub struct OnMarks;

impl OnMarks {
    /// A controller for a path of `mtu_bytes`.
    pub fn controller(mtu_bytes: u32, config: WindowConfig) -> EcnOnly {
        WindowController::with_response(mtu_bytes, config, OnMarks)
    }
}

impl Response for OnMarks {
    const NAME: &'static str = "ecn-only";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, _path: &PathView) {
        if window.is_new_mark(feedback) {
            window.reduce(feedback, REDUCTION, false);
        } else {
            window.grow(feedback);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_control::congestion::told::{MTU, acked, at, forty_packets, lost, path, ssthresh, window};
    use fulmar_control::{CongestionController, NewReno, Reno};

    #[test]
    fn losses_change_nothing_and_acks_go_on_counting() {
        let mut controller = OnMarks::controller(MTU, WindowConfig::default());
        controller.on_feedback(&lost(100, 50, 9), &path());
        assert_eq!(window(&controller), 10_000);
        controller.on_feedback(&acked(100, 50, 10_000), &path());
        assert_eq!(window(&controller), 20_000);
    }

    #[test]
    fn a_mark_halves_once_per_window() {
        let mut controller = OnMarks::controller(MTU, forty_packets());
        let mark = |now, sent| {
            let mut feedback = acked(now, sent, 1_000);
            feedback.ecn_ce_packets = 1;
            feedback
        };
        controller.on_feedback(&mark(200, 100), &path());
        assert_eq!((window(&controller), ssthresh(&controller)), (20_000, Some(20_000)));
        // Sent before the reduction: the same window of data.
        controller.on_feedback(&mark(250, 200), &path());
        assert_eq!(window(&controller), 20_000);
        controller.on_feedback(&mark(301, 201), &path());
        assert_eq!(window(&controller), 10_000);
    }

    /// Table 2.7's weakness: on marks alone it must do exactly what TCP does.
    #[test]
    fn on_marks_alone_it_is_reno() {
        let config = WindowConfig::default();
        let mut ours = OnMarks::controller(MTU, config);
        let (mut reno, mut newreno) = (Reno::new(MTU, config), NewReno::new(MTU, config));
        for round in 1..60 {
            let mut feedback = acked(100 * round, 100 * round - 100, window(&ours));
            feedback.ecn_ce_packets = u32::from(round % 7 == 0);
            for controller in [&mut ours as &mut dyn CongestionController, &mut reno, &mut newreno] {
                controller.on_feedback(&feedback, &path());
            }
            assert_eq!(ours.budget(), reno.budget());
            assert_eq!(ours.budget(), newreno.budget());
        }
    }

    #[test]
    fn a_retransmission_timeout_begins_slow_start() {
        let mut config = WindowConfig::default();
        config.is_timeout_final = true;
        let mut controller = OnMarks::controller(MTU, config);
        controller.on_timeout(at(1000), 1, &path());
        assert_eq!((window(&controller), ssthresh(&controller)), (2_000, Some(5_000)));
        assert_eq!(controller.phase(), "slow start");
    }
}
