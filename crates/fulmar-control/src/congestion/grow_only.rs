//! TCP without congestion control: the window grows and never shrinks.
//!
//! Source: LT-TCP (Hourt 2014), section 2.3, "TCP without congestion control": "a null operation congestion control module
//! for TCP [..] which never shrinks the congestion window, only grows it". A baseline for what retransmission alone
//! reaches when no loss is taken for congestion. The receiver's window is all that bounds it.

use fulmar_units::Instant;

use super::aimd::Aimd;
use super::window::WindowConfig;
use super::{CongestionController, SendBudget};
use crate::{Feedback, PathView, Sent};

/// Slow start for ever.
#[derive(Clone, Debug)]
pub struct GrowOnly(Aimd);

impl GrowOnly {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self(Aimd::new(mtu_bytes, config))
    }
}

impl CongestionController for GrowOnly {
    fn name(&self) -> &'static str {
        "grow-only"
    }

    fn on_sent(&mut self, _sent: &Sent, _path: &PathView) {}

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.0.on_path(path);
        self.0.grow(feedback);
    }

    fn on_timeout(&mut self, _now: Instant, _count: u32, _path: &PathView) {}

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        self.0.restart(path);
    }

    fn budget(&self) -> SendBudget {
        self.0.budget()
    }

    fn phase(&self) -> &'static str {
        self.0.phase()
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{MTU, acked, at, lost, path, window};
    use super::*;

    #[test]
    fn nothing_shrinks_it() {
        let mut controller = GrowOnly::new(MTU, WindowConfig::default());
        let mut feedback = lost(100, 50, 5);
        feedback.ecn_ce_packets = 3;
        controller.on_feedback(&feedback, &path());
        controller.on_timeout(at(100), 7, &path());
        assert_eq!(window(&controller), 10_000);
        controller.on_feedback(&acked(200, 100, 10_000), &path());
        assert_eq!(window(&controller), 20_000);
    }
}
