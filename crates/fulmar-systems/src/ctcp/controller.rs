//! Coded TCP's congestion control: on loss the window shrinks by as much as the queue has grown.
//!
//! Source: Leith, Medard et al., "Coded TCP", slide "Congestion control on lossy paths": the backoff of
//! AIMD on loss becomes cwnd <- cwnd * RTTmin / RTT. Where the loss is noise the queue is empty, RTT =
//! RTTmin, and the window stays; where a queue of one bandwidth-delay product overflowed, RTT = 2 RTTmin,
//! and it is TCP's one half.
//!
//! Decided here, for the slides are silent: RTT is the least of the round in progress and the one before,
//! without the delay of the ACK, because a late ACK, or one that waited for a second packet, is no queue.
//! RTTmin is that of full packets where one is known: a packet of a few bytes is sooner through the link,
//! by 2 % of a round trip of 20 ms at 25 Mb/s, and where every round has a loss 2 % each time is what the
//! window grows by. One reduction per round of loss as in NewReno, marks halve (a mark is never noise),
//! timeouts as TCP. The window grows as Reno's, also in a round with losses: at 10 % every round has
//! some, and a window that did not grow in them would never grow. The first loss ends slow start, even
//! where it keeps the window. Inputs: losses on the wire whether repaired or not ("never ignores packet
//! loss"), RTTs. Invariant: window >= 2 packets.

use std::time::Duration;

use fulmar_control::congestion::{Aimd, REDUCTION, Response, WindowController};
use fulmar_control::{Feedback, PathView, WindowConfig};

/// Packets of so many eighths of the largest are full.
const FULL_EIGHTHS: u64 = 7;

/// AIMD with the backoff RTTmin / RTT.
pub type Ctcp = WindowController<ByQueue>;

impl ByQueue {
    /// A controller for a path of `mtu_bytes`.
    pub fn controller(mtu_bytes: u32, config: WindowConfig) -> Ctcp {
        WindowController::with_response(mtu_bytes, config, ByQueue::default())
    }
}

/// Shrinks the window by as much as the queue has grown.
#[derive(Clone, Debug, Default)]
pub struct ByQueue {
    round: u64,
    /// Least RTT of the round before and of this one.
    least: [Option<Duration>; 2],
    /// Least RTT of full packets.
    least_of_full: Option<Duration>,
}

impl ByQueue {
    fn measure(&mut self, feedback: &Feedback, path: &PathView) {
        if feedback.round != self.round {
            self.round = feedback.round;
            self.least = [self.least[1], None];
        }
        // As in the smoothed RTT (RFC 9002 5.3): never below the least, which a peer could push down.
        let without_delay = |rtt: Duration| rtt.saturating_sub(feedback.ack_delay).max(path.rtt_min.min(rtt));
        let rtt = feedback.rtt.map(without_delay);
        self.least[1] = [self.least[1], rtt].into_iter().flatten().min();
        let full_bytes = u64::from(feedback.acked_packets) * u64::from(path.mtu_bytes) * FULL_EIGHTHS / 8;
        if feedback.acked_packets > 0 && feedback.acked_bytes >= full_bytes {
            self.least_of_full = [self.least_of_full, rtt].into_iter().flatten().min();
        }
    }

    /// What the window is multiplied with on loss; one half before the RTT is known.
    fn backoff(&self, path: &PathView) -> f64 {
        match self.least.into_iter().flatten().min() {
            Some(rtt) if !rtt.is_zero() => {
                let rtt_min = self.least_of_full.unwrap_or(path.rtt_min);
                (rtt_min.as_secs_f64() / rtt.as_secs_f64()).min(1.0)
            }
            _ => REDUCTION,
        }
    }
}

impl Response for ByQueue {
    const NAME: &'static str = "ctcp";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, path: &PathView) {
        self.measure(feedback, path);
        window.on_spurious(feedback.spurious_packets);
        if window.is_new_loss(feedback) {
            window.reduce(feedback, self.backoff(path), true);
        } else if window.is_new_mark(feedback) {
            window.reduce(feedback, REDUCTION, false);
        } else {
            window.grow_in_recovery_too(feedback);
        }
    }

    fn on_path_change(&mut self) {
        (self.least, self.least_of_full) = ([None; 2], None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_control::CongestionController;
    use fulmar_control::congestion::told::{MTU, acked, forty_packets, lost, path, window};

    fn path_with(rtt_min: u64) -> PathView {
        let mut path = path();
        path.rtt_min = Duration::from_millis(rtt_min);
        path
    }

    fn controller() -> Ctcp {
        ByQueue::controller(MTU, forty_packets())
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
            assert!((controller.response().backoff(&path_with(25)) - expected).abs() < 1e-9, "{round}");
        }
    }

    /// A packet of a few bytes passed a link of 25 Mb/s in 20 ms; a full one takes half a millisecond more.
    #[test]
    fn a_small_packet_does_not_make_a_queue_of_full_ones() {
        let mut controller = controller();
        let (small, full) = (Duration::from_micros(20_050), Duration::from_micros(20_500));
        let mut path = path();
        path.rtt_min = small;
        for (bytes, rtt) in [(50, small), (1000, full), (1000, full)] {
            let mut feedback = acked(0, 0, bytes);
            (feedback.round, feedback.rtt, feedback.acked_packets) = (u64::from(bytes > 50), Some(rtt), 1);
            controller.on_feedback(&feedback, &path);
        }
        controller.response_mut().least[0] = None;
        assert!((controller.response().backoff(&path) - 1.0).abs() < 1e-9);
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
