//! Reno and NewReno: the window grows by a packet per round trip and is halved on congestion.
//!
//! Source: RFC 5681 (slow start, congestion avoidance, fast recovery, timeout), RFC 6582 (NewReno: one
//! reduction for all losses of a window), RFC 9002 section 7 and appendix B (the same with byte counting,
//! packet numbers and ECN). Inputs: bytes acknowledged and lost, marks, when the newest of them was sent;
//! whether the window was the limit.
//!
//! `Reno` differs in recovery only. RFC 5681 leaves fast recovery at the first new ACK, so every further hole
//! of the same window costs another round trip and another halving. A sender with ACK ranges sees all holes
//! at once; here a second one halves the window again one round later, and more of them cost what they cost
//! Reno, a timeout's slow start, which is what RFC 6582 was written to end. And RFC 5681 3.1 falls back to
//! one packet on the first retransmission timeout, NewReno (in RFC 9002's terms) when congestion persisted.
//!
//! Invariants: window >= 2 packets; no growth while the application is the limit (RFC 9002 7.8); one
//! reduction per round of loss (NewReno).

use super::aimd::{Aimd, REDUCTION};
use super::response::{Response, WindowController};
use super::window::WindowConfig;
use crate::{Feedback, PathView};

/// Reno recovers a second loss of a window by a second fast retransmit; with three or more it mostly waits
/// for the timeout (Fall and Floyd 1996, section 4).
const HOLES_MAX: u32 = 1;

/// NewReno: one reduction for all losses of a window.
pub type NewReno = WindowController<PerWindow>;

/// Halves once for all that a window loses.
#[derive(Clone, Debug)]
pub struct PerWindow;

impl NewReno {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self::with_response(mtu_bytes, config, PerWindow)
    }
}

impl Response for PerWindow {
    const NAME: &'static str = "newreno";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, _path: &PathView) {
        window.on_spurious(feedback.spurious_packets);
        let is_loss = window.epoch.is_new_loss(feedback);
        if is_loss || window.epoch.is_new_mark(feedback) {
            window.reduce(feedback, REDUCTION, is_loss);
        } else {
            window.grow(feedback);
        }
    }
}

/// Reno: every hole in a window costs a halving of its own.
pub type Reno = WindowController<PerHole>;

/// Halves for every hole in a window.
#[derive(Clone, Debug, Default)]
pub struct PerHole {
    /// Lost packets of the window that have not yet cost their halving.
    holes: u32,
}

impl Reno {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self::with_response(mtu_bytes, config, PerHole::default())
    }
}

impl Response for PerHole {
    const NAME: &'static str = "reno";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, _path: &PathView) {
        if feedback.spurious_packets > 0 {
            self.holes = self.holes.saturating_sub(feedback.spurious_packets);
            window.on_spurious(feedback.spurious_packets);
        }
        let is_in_recovery =
            window.epoch.covers(feedback.newest_acked_sent_at.or(feedback.lost.newest_sent_at));
        if is_in_recovery {
            // RFC 5681 3.2: known holes wait for the retransmission of the first to be acknowledged.
            window.epoch.is_new_loss(feedback);
            self.holes = self.holes.saturating_add(feedback.lost.packets);
        } else if feedback.lost.packets > 0 {
            self.holes = self.holes.saturating_add(feedback.lost.packets - 1);
            window.reduce(feedback, REDUCTION, true);
        } else if self.holes > HOLES_MAX {
            self.holes = 0;
            window.collapse();
        } else if self.holes > 0 {
            self.holes -= 1;
            window.reduce(feedback, REDUCTION, true);
        } else if window.epoch.is_new_mark(feedback) {
            window.reduce(feedback, REDUCTION, false);
        } else {
            window.grow(feedback);
        }
    }

    fn on_timeout(&mut self, window: &mut Aimd, count: u32) {
        // RFC 5681 3.1 (equation 4): once, and not again for the retransmission's own timeouts.
        if count == 1 {
            self.holes = 0;
            window.collapse();
        }
    }

    fn on_path_change(&mut self) {
        self.holes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionController;
    use super::super::told::{MTU, acked, at, lost, path, ssthresh, window};
    use super::*;

    #[test]
    fn slow_start_doubles_and_avoidance_adds_a_packet_per_window() {
        let mut reno = NewReno::new(MTU, WindowConfig::default());
        assert_eq!((window(&reno), reno.phase(), ssthresh(&reno)), (10_000, "slow start", None));
        reno.on_feedback(&acked(100, 0, 10_000), &path());
        assert_eq!(window(&reno), 20_000);
        reno.on_feedback(&lost(200, 150, 1), &path());
        assert_eq!(
            (window(&reno), ssthresh(&reno), reno.phase()),
            (10_000, Some(10_000), "congestion avoidance")
        );
        reno.on_feedback(&acked(310, 250, 9_999), &path());
        assert_eq!(window(&reno), 10_000);
        reno.on_feedback(&acked(311, 251, 1), &path());
        assert_eq!(window(&reno), 11_000);
        // 1.25 * 11000 / 100 ms (RFC 9002 7.7).
        assert_eq!(reno.budget().pacing.map(|rate| rate.bytes_per_second()), Some(137_500));
    }

    /// RFC 5681 3.1: before byte counting an ACK of two packets opened the window by one, and a timeout left
    /// one.
    #[test]
    fn an_old_tcp_counts_acks_and_falls_to_one_packet() {
        let mut config =
            WindowConfig { initial_packets: 4, is_timeout_final: true, ..WindowConfig::default() };
        (config.loss_packets, config.counts_acks) = (1, true);
        let mut reno = NewReno::new(MTU, config);
        reno.on_feedback(&acked(100, 0, 2_000), &path());
        assert_eq!(window(&reno), 5_000);
        reno.on_timeout(at(200), 1, &path());
        assert_eq!((window(&reno), ssthresh(&reno)), (1_000, Some(2_500)));
        reno.on_feedback(&acked(300, 250, 1_000), &path());
        assert_eq!(window(&reno), 2_000, "slow start from one packet, not from two");
    }

    #[test]
    fn one_reduction_per_round_of_loss() {
        let mut reno = NewReno::new(MTU, WindowConfig::default());
        reno.on_feedback(&lost(200, 150, 3), &path());
        // Sent before the reduction: the same event, and its ACKs do not grow the window.
        reno.on_feedback(&lost(220, 190, 5), &path());
        reno.on_feedback(&acked(230, 200, 5_000), &path());
        assert_eq!(window(&reno), 5_000);
        reno.on_feedback(&lost(330, 201, 1), &path());
        assert_eq!(window(&reno), 2_500);
        reno.on_feedback(&lost(430, 331, 1), &path());
        assert_eq!(window(&reno), 2_000, "never below two packets");
    }

    #[test]
    fn reno_pays_for_every_hole_a_round_apart() {
        let config = WindowConfig { initial_packets: 64, ..WindowConfig::default() };
        let (mut reno, mut newreno) = (Reno::new(MTU, config), NewReno::new(MTU, config));
        for controller in [&mut reno as &mut dyn CongestionController, &mut newreno] {
            controller.on_feedback(&lost(200, 150, 1), &path());
            controller.on_feedback(&lost(205, 160, 1), &path());
            controller.on_feedback(&acked(301, 201, 1_000), &path());
            controller.on_feedback(&acked(302, 202, 1_000), &path());
        }
        assert_eq!((window(&reno), window(&newreno)), (16_000, 32_000));
    }

    #[test]
    fn marks_count_once_per_window_and_are_not_undone() {
        let mut reno = NewReno::new(MTU, WindowConfig::default());
        let mut mark = acked(200, 100, 1_000);
        mark.ecn_ce_packets = 3;
        reno.on_feedback(&mark, &path());
        reno.on_feedback(&mark, &path());
        assert_eq!(window(&reno), 5_000);
        let mut spurious = Feedback::at(at(210));
        spurious.spurious_packets = 9;
        reno.on_feedback(&spurious, &path());
        assert_eq!(window(&reno), 5_000);
    }

    #[test]
    fn an_event_that_was_reordering_is_undone_when_all_of_it_came_back() {
        let mut reno = NewReno::new(MTU, WindowConfig::default());
        reno.on_feedback(&lost(200, 150, 1), &path());
        reno.on_feedback(&lost(201, 151, 1), &path());
        let mut spurious = Feedback::at(at(210));
        spurious.spurious_packets = 1;
        reno.on_feedback(&spurious, &path());
        assert_eq!(window(&reno), 5_000);
        reno.on_feedback(&spurious, &path());
        assert_eq!((window(&reno), ssthresh(&reno)), (10_000, None));
    }

    #[test]
    fn an_idle_application_does_not_grow_the_window() {
        let mut reno = NewReno::new(MTU, WindowConfig::default());
        let mut idle = acked(100, 0, 5_000);
        idle.is_window_limited = false;
        reno.on_feedback(&idle, &path());
        assert_eq!(window(&reno), 10_000);
    }

    #[test]
    fn timeouts_collapse_reno_at_once_and_newreno_when_they_persist() {
        let (mut reno, mut newreno) =
            (Reno::new(MTU, WindowConfig::default()), NewReno::new(MTU, WindowConfig::default()));
        reno.on_timeout(at(0), 1, &path());
        newreno.on_timeout(at(0), 1, &path());
        assert_eq!((window(&reno), window(&newreno)), (2_000, 10_000));
        newreno.on_timeout(at(0), 2, &path());
        assert_eq!((window(&newreno), ssthresh(&newreno)), (2_000, Some(5_000)));
        reno.on_timeout(at(0), 2, &path());
        assert_eq!(ssthresh(&reno), Some(5_000), "one timeout, one halving of the threshold");
        newreno.on_path_change(at(1), &path());
        assert_eq!((window(&newreno), ssthresh(&newreno)), (10_000, None));
    }
}
