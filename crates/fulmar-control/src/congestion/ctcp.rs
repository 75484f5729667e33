//! Coded TCP's congestion control: on loss the window shrinks by as much as the queue has grown.
//!
//! Source: Leith, Medard et al., "Coded TCP", slide "Congestion control on lossy paths": the backoff of AIMD on loss
//! becomes cwnd <- cwnd * RTTmin / RTT. Where the loss is noise the queue is empty, RTT = RTTmin, and the window
//! stays; where a queue of one bandwidth-delay product overflowed, RTT = 2 RTTmin, and it is TCP's one half.
//!
//! Decided here, for the slides are silent: RTT is the smoothed one (a single late ACK must not look like a queue), one
//! reduction per round of loss as in NewReno, growth as in Reno, marks halve (a mark is never noise), timeouts as TCP.
//! The first loss ends slow start, even where it keeps the window.
//! Inputs: losses on the wire whether repaired or not ("never ignores packet loss"), RTTs. Invariant: window >= 2 packets.

use super::aimd::{Aimd, REDUCTION};
use super::window::WindowConfig;
use super::{CongestionController, SendBudget};
use crate::{Feedback, Instant, PathView, Sent};

/// AIMD with the backoff RTTmin / RTT.
#[derive(Clone, Debug)]
pub struct Ctcp(Aimd);

impl Ctcp {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self(Aimd::new(mtu_bytes, config))
    }

    /// What the window is multiplied with on loss; one half before the RTT is known.
    fn backoff(path: &PathView) -> f64 {
        let rtt = path.rtt_smoothed.as_secs_f64();
        if !path.has_rtt_sample || rtt <= 0.0 {
            return REDUCTION;
        }
        (path.rtt_min.as_secs_f64() / rtt).min(1.0)
    }
}

impl CongestionController for Ctcp {
    fn name(&self) -> &'static str {
        "ctcp"
    }

    fn on_sent(&mut self, _sent: &Sent, _path: &PathView) {}

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.0.on_path(path);
        self.0.on_spurious(feedback.spurious_packets);
        if self.0.epoch.is_new_loss(feedback) {
            self.0.reduce(feedback, Self::backoff(path), true);
        } else if self.0.epoch.is_new_mark(feedback) {
            self.0.reduce(feedback, REDUCTION, false);
        } else {
            self.0.grow(feedback);
        }
    }

    fn on_timeout(&mut self, _now: Instant, count: u32, _path: &PathView) {
        self.0.on_timeout(count);
    }

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        self.0.restart(path);
    }

    fn budget(&self) -> SendBudget {
        self.0.budget()
    }

    fn ssthresh_bytes(&self) -> Option<u64> {
        self.0.ssthresh_bytes()
    }

    fn phase(&self) -> &'static str {
        self.0.phase()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::told::{MTU, acked, lost, path, window};
    use super::*;

    fn path_with(rtt_min: u64, rtt: u64) -> PathView {
        let mut path = path();
        path.rtt_min = Duration::from_millis(rtt_min);
        path.rtt_smoothed = Duration::from_millis(rtt);
        path
    }

    fn controller() -> Ctcp {
        Ctcp::new(MTU, WindowConfig { initial_packets: 40, ..WindowConfig::default() })
    }

    #[test]
    fn noise_keeps_the_window_and_a_doubled_rtt_halves_it() {
        for (rtt_min, rtt, expected) in
            [(25, 25, 40_000), (25, 50, 20_000), (25, 31, 32_258), (30, 25, 40_000)]
        {
            let mut controller = controller();
            controller.on_feedback(&lost(200, 150, 1), &path_with(rtt_min, rtt));
            // 40000 * 25 / 31 = 32258.06.
            assert_eq!(window(&controller), expected, "{rtt_min} / {rtt}");
            assert_eq!(controller.phase(), "congestion avoidance");
        }
    }

    #[test]
    fn one_reduction_per_round_and_standard_growth() {
        let mut controller = controller();
        controller.on_feedback(&lost(200, 150, 1), &path_with(50, 100));
        controller.on_feedback(&lost(210, 160, 4), &path_with(50, 100));
        assert_eq!(window(&controller), 20_000);
        controller.on_feedback(&acked(301, 201, 20_000), &path_with(50, 100));
        assert_eq!(window(&controller), 21_000);
    }

    #[test]
    fn without_an_rtt_it_is_tcp() {
        let mut controller = controller();
        controller.on_feedback(&lost(200, 150, 1), &PathView::unknown(MTU));
        assert_eq!(window(&controller), 20_000);
    }
}
