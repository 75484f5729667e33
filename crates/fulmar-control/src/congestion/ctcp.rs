//! Coded TCP's congestion control: on loss the window shrinks by as much as the queue has grown.
//!
//! Source: Leith, Medard et al., "Coded TCP", slide "Congestion control on lossy paths": the backoff of AIMD
//! on loss becomes cwnd <- cwnd * RTTmin / RTT. Where the loss is noise the queue is empty, RTT = RTTmin, and
//! the window stays; where a queue of one bandwidth-delay product overflowed, RTT = 2 RTTmin, and it is TCP's
//! one half.
//!
//! Decided here, for the slides are silent: RTT is the least of the round in progress and the one before,
//! without the delay of the ACK, because a late ACK, or one that waited for a second packet, is no queue; one
//! reduction per round of loss
//! as in NewReno, marks halve (a mark is never noise), timeouts as TCP. The window grows as Reno's, also in a
//! round with losses: at 10 % every round has some, and a window that did not grow in them would never grow.
//! The first loss ends slow start, even where it keeps the window. Inputs: losses on the wire whether
//! repaired or not ("never ignores packet loss"), RTTs. Invariant: window >= 2 packets.

use core::time::Duration;

use super::aimd::{Aimd, REDUCTION};
use super::response::{Response, WindowController};
use super::window::WindowConfig;
use crate::{Feedback, PathView};

/// AIMD with the backoff RTTmin / RTT.
pub type Ctcp = WindowController<ByQueue>;

impl Ctcp {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self::with_response(mtu_bytes, config, ByQueue::default())
    }
}

/// Shrinks the window by as much as the queue has grown.
#[derive(Clone, Debug, Default)]
pub struct ByQueue {
    round: u64,
    /// Least RTT of the round before and of this one.
    least: [Option<Duration>; 2],
}

impl ByQueue {
    fn measure(&mut self, feedback: &Feedback, path: &PathView) {
        if feedback.round != self.round {
            self.round = feedback.round;
            self.least = [self.least[1], None];
        }
        // As in the smoothed RTT (RFC 9002 5.3): never below the least, which a peer could push down.
        let without_delay = |rtt: Duration| rtt.saturating_sub(feedback.ack_delay).max(path.rtt_min.min(rtt));
        let this = &mut self.least[1];
        *this = [*this, feedback.rtt.map(without_delay)].into_iter().flatten().min();
    }

    /// What the window is multiplied with on loss; one half before the RTT is known.
    fn backoff(&self, path: &PathView) -> f64 {
        match self.least.into_iter().flatten().min() {
            Some(rtt) if !rtt.is_zero() => (path.rtt_min.as_secs_f64() / rtt.as_secs_f64()).min(1.0),
            _ => REDUCTION,
        }
    }
}

impl Response for ByQueue {
    const NAME: &'static str = "ctcp";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, path: &PathView) {
        self.measure(feedback, path);
        window.on_spurious(feedback.spurious_packets);
        if window.epoch.is_new_loss(feedback) {
            window.reduce(feedback, self.backoff(path), true);
        } else if window.epoch.is_new_mark(feedback) {
            window.reduce(feedback, REDUCTION, false);
        } else {
            window.grow_in_recovery_too(feedback);
        }
    }

    fn on_path_change(&mut self) {
        self.least = [None; 2];
    }
}

#[cfg(test)]
mod tests {
    use super::super::CongestionController;
    use super::super::told::{MTU, acked, lost, path, window};
    use super::*;

    fn path_with(rtt_min: u64) -> PathView {
        let mut path = path();
        path.rtt_min = Duration::from_millis(rtt_min);
        path
    }

    fn controller() -> Ctcp {
        Ctcp::new(MTU, WindowConfig { initial_packets: 40, ..WindowConfig::default() })
    }

    fn lost_at(rtt: Option<u64>, now: u64, sent: u64) -> Feedback {
        let mut feedback = lost(now, sent, 1);
        feedback.rtt = rtt.map(Duration::from_millis);
        feedback
    }

    #[test]
    fn noise_keeps_the_window_and_a_doubled_rtt_halves_it() {
        for (rtt_min, rtt, expected) in
            [(25, 25, 40_000), (25, 50, 20_000), (25, 31, 32_258), (30, 25, 40_000)]
        {
            let mut controller = controller();
            controller.on_feedback(&lost_at(Some(rtt), 200, 150), &path_with(rtt_min));
            // 40000 * 25 / 31 = 32258.06.
            assert_eq!(window(&controller), expected, "{rtt_min} / {rtt}");
            assert_eq!(controller.phase(), "congestion avoidance");
        }
    }

    #[test]
    fn one_late_ack_is_no_queue_and_two_rounds_of_them_are() {
        let mut controller = controller();
        for (round, rtt) in [(0, 25), (1, 50), (2, 50)] {
            let mut feedback = acked(0, 0, 0);
            (feedback.round, feedback.rtt) = (round, Some(Duration::from_millis(rtt)));
            controller.on_feedback(&feedback, &path_with(25));
            let expected = if round < 2 { 1.0 } else { 0.5 };
            assert!((controller.response.backoff(&path_with(25)) - expected).abs() < 1e-9, "{round}");
        }
    }

    #[test]
    fn an_ack_that_was_held_back_is_no_queue() {
        for (delay, expected) in [(0, 20_000), (20, 33_333), (25, 40_000), (40, 40_000)] {
            let mut controller = controller();
            let mut feedback = lost_at(Some(50), 200, 150);
            feedback.ack_delay = Duration::from_millis(delay);
            controller.on_feedback(&feedback, &path_with(25));
            // 40000 * 25 / 30 = 33333.3.
            assert_eq!(window(&controller), expected, "{delay}");
        }
    }

    #[test]
    fn one_reduction_per_round_and_growth_in_every_round() {
        let mut controller = controller();
        controller.on_feedback(&lost_at(Some(100), 200, 150), &path_with(50));
        controller.on_feedback(&lost_at(Some(100), 210, 160), &path_with(50));
        assert_eq!(window(&controller), 20_000);
        controller.on_feedback(&acked(290, 190, 20_000), &path_with(50));
        assert_eq!(window(&controller), 21_000);
    }

    #[test]
    fn without_an_rtt_it_is_tcp() {
        let mut controller = controller();
        controller.on_feedback(&lost_at(None, 200, 150), &PathView::unknown(MTU));
        assert_eq!(window(&controller), 20_000);
    }
}
