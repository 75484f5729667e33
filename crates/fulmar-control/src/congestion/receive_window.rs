//! TCP's receive window beside the congestion window: never more in flight than the smaller of the two.
//!
//! Source: RFC 9293 3.8.6; 65535 bytes without window scaling (Medina-Ruiz et al. 2012, Table I). Our own
//! flow control is far wider; this is for comparing with a TCP whose window was narrow. While it is the limit
//! the congestion window does not grow, so that a reduction is of what was in flight (RFC 5681 3.1, equation
//! 4). Invariant: window >= 2 packets.

use alloc::boxed::Box;

use fulmar_units::{Instant, Rate};

use super::{Company, CongestionController, SendBudget};
use crate::{Feedback, PathView};

/// A controller under a receive window.
#[derive(Debug)]
pub struct ReceiveWindow {
    inner: Box<dyn CongestionController>,
    window_bytes: u64,
    mtu_bytes: u32,
}

impl ReceiveWindow {
    /// `inner` on a path of `mtu_bytes`, with at most `window_bytes` in flight.
    pub fn new(mtu_bytes: u32, inner: Box<dyn CongestionController>, window_bytes: u64) -> Self {
        Self { inner, window_bytes, mtu_bytes }
    }

    fn cap_bytes(&self) -> u64 {
        self.window_bytes.max(2 * u64::from(self.mtu_bytes))
    }
}

impl CongestionController for ReceiveWindow {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_flight_begun(&mut self) {
        self.inner.on_flight_begun();
    }

    fn on_handshake_rtt(&mut self, path: &PathView) {
        self.inner.on_handshake_rtt(path);
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        let room_bytes = self.cap_bytes().saturating_sub(self.inner.budget().window_bytes);
        let mut feedback = feedback.clone();
        feedback.is_window_limited &= room_bytes > 0;
        feedback.acked_bytes = feedback.acked_bytes.min(room_bytes);
        self.inner.on_feedback(&feedback, path);
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

    fn bandwidth(&self) -> Option<Rate> {
        self.inner.bandwidth()
    }

    fn recoveries(&self) -> Option<u64> {
        self.inner.recoveries()
    }

    fn phase(&self) -> &'static str {
        self.inner.phase()
    }

    fn company(&self) -> Option<Company> {
        self.inner.company()
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{MTU, acked, lost, path, window};
    use super::super::{Reno, WindowConfig};
    use super::*;

    fn controller(window_bytes: u64) -> ReceiveWindow {
        let config = WindowConfig { initial_packets: 40, ..WindowConfig::default() };
        ReceiveWindow::new(MTU, Box::new(Reno::new(MTU, config)), window_bytes)
    }

    /// Table I: 65535 bytes.
    #[test]
    fn it_bounds_the_window_and_stops_growth() {
        let mut controller = controller(65_535);
        for round in 1..20 {
            let bytes = window(&controller);
            controller.on_feedback(&acked(100 * round, 100 * round - 100, bytes), &path());
        }
        assert_eq!(window(&controller), 65_535);
        controller.on_feedback(&lost(3000, 2950, 1), &path());
        // RFC 5681 (4): half of what is in flight.
        assert_eq!(window(&controller), 32_767);
    }

    #[test]
    fn the_window_never_falls_below_two_packets() {
        assert_eq!(window(&controller(0)), 2 * u64::from(MTU));
    }
}
