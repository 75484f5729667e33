//! TCP above a coding layer: what the code makes good, TCP does not see.
//!
//! Source: Medina-Ruiz et al. 2012, sections II and IV-B, after Sundararajan et al. 2009. There an unchanged TCP (Reno in
//! the simulations) runs above the coding layer, which acknowledges every degree of freedom, so that a loss shows only
//! when the code could not make it good. Here any controller is wrapped: losses on the wire are hidden, the
//! packets for which repair had to be asked are shown in their place, and marks pass.
//!
//! The receive window of TCP (65535 bytes in Table I) bounds what is in flight beside the congestion window; while it
//! does, the congestion window does not grow (RFC 5681 3.1 reduces from what is in flight, which comes to the same).
//! Invariant: window >= 2 packets.

use alloc::boxed::Box;

use super::{CongestionController, SendBudget};
use crate::{Feedback, Instant, LossEvent, PathView, Sent};

/// A controller that sees the path through a code.
#[derive(Debug)]
pub struct TcpNc {
    inner: Box<dyn CongestionController>,
    receive_window_bytes: u64,
    mtu_bytes: u32,
}

impl TcpNc {
    /// `inner` above a code, on a path of `mtu_bytes`, with at most `receive_window_bytes` in flight.
    pub fn new(mtu_bytes: u32, inner: Box<dyn CongestionController>, receive_window_bytes: u64) -> Self {
        Self { inner, receive_window_bytes, mtu_bytes }
    }

    fn cap_bytes(&self) -> u64 {
        self.receive_window_bytes.max(2 * u64::from(self.mtu_bytes))
    }
}

/// The record as the layer above a code knows it.
fn above_code(feedback: &Feedback) -> Feedback {
    let packets = feedback.unrepairable_packets;
    let lost = if packets == 0 {
        LossEvent::default()
    } else {
        LossEvent {
            packets,
            bursts: 1,
            newest_sent_at: feedback.lost.newest_sent_at.or(feedback.newest_acked_sent_at),
            ..feedback.lost
        }
    };
    Feedback { lost, spurious_packets: 0, spurious_bytes: 0, ..feedback.clone() }
}

impl CongestionController for TcpNc {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_sent(&mut self, sent: &Sent, path: &PathView) {
        self.inner.on_sent(sent, path);
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        let mut seen = above_code(feedback);
        let room_bytes = self.cap_bytes().saturating_sub(self.inner.budget().window_bytes);
        seen.is_window_limited &= room_bytes > 0;
        seen.acked_bytes = seen.acked_bytes.min(room_bytes);
        self.inner.on_feedback(&seen, path);
    }

    fn on_timeout(&mut self, now: Instant, count: u32, path: &PathView) {
        self.inner.on_timeout(now, count, path);
    }

    fn on_path_change(&mut self, now: Instant, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        self.inner.on_path_change(now, path);
    }

    fn budget(&self) -> SendBudget {
        let budget = self.inner.budget();
        SendBudget { window_bytes: budget.window_bytes.min(self.cap_bytes()), ..budget }
    }

    fn ssthresh_bytes(&self) -> Option<u64> {
        self.inner.ssthresh_bytes()
    }

    fn bandwidth(&self) -> Option<crate::Rate> {
        self.inner.bandwidth()
    }

    fn phase(&self) -> &'static str {
        self.inner.phase()
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{MTU, acked, lost, path, window};
    use super::super::{Reno, WindowConfig};
    use super::*;

    fn controller(initial_packets: u32, receive_window_bytes: u64) -> TcpNc {
        let config = WindowConfig { initial_packets, ..WindowConfig::default() };
        TcpNc::new(MTU, Box::new(Reno::new(MTU, config)), receive_window_bytes)
    }

    #[test]
    fn only_what_the_code_could_not_make_good_is_a_loss() {
        let mut controller = controller(40, u64::MAX);
        let mut feedback = lost(200, 150, 3);
        controller.on_feedback(&feedback, &path());
        assert_eq!(window(&controller), 40_000);
        feedback.unrepairable_packets = 1;
        controller.on_feedback(&feedback, &path());
        assert_eq!((window(&controller), controller.name()), (20_000, "reno"));
    }

    /// Table I: 65535 bytes.
    #[test]
    fn the_receive_window_bounds_and_stops_growth() {
        let mut controller = controller(40, 65_535);
        for round in 1..20 {
            let bytes = window(&controller);
            controller.on_feedback(&acked(100 * round, 100 * round - 100, bytes), &path());
        }
        assert_eq!(window(&controller), 65_535);
        let mut feedback = lost(3000, 2950, 1);
        feedback.unrepairable_packets = 1;
        controller.on_feedback(&feedback, &path());
        // RFC 5681 (4): half of what is in flight.
        assert_eq!(window(&controller), 32_767);
    }

    #[test]
    fn the_window_never_falls_below_two_packets() {
        assert_eq!(window(&controller(40, 0)), 2 * u64::from(MTU));
    }
}
