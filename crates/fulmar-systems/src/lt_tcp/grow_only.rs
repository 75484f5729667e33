//! TCP without congestion control: the window grows and never shrinks.
//!
//! Source: LT-TCP (Hourt 2014), section 2.3, "TCP without congestion control": "a null operation congestion
//! control module for TCP [..] which never shrinks the congestion window, only grows it". A baseline for what
//! retransmission alone reaches when no loss is taken for congestion. The receiver's window is all that
//! bounds it.

use fulmar_control::congestion::{Aimd, Response, WindowController};
use fulmar_control::{Feedback, PathView, WindowConfig};

/// Slow start for ever.
pub type GrowOnly = WindowController<Never>;

/// Answers nothing.
#[derive(Clone, Debug)]
pub struct Never;

impl Never {
    /// A controller for a path of `mtu_bytes`.
    pub fn controller(mtu_bytes: u32, config: WindowConfig) -> GrowOnly {
        WindowController::with_response(mtu_bytes, config, Never)
    }
}

impl Response for Never {
    const NAME: &'static str = "grow-only";

    fn on_feedback(&mut self, window: &mut Aimd, feedback: &Feedback, _path: &PathView) {
        window.grow(feedback);
    }

    fn on_timeout(&mut self, _window: &mut Aimd, _count: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_control::CongestionController;
    use fulmar_control::congestion::told::{MTU, acked, at, lost, path, window};

    #[test]
    fn nothing_shrinks_it() {
        let mut controller = Never::controller(MTU, WindowConfig::default());
        let mut feedback = lost(100, 50, 5);
        feedback.ecn_ce_packets = 3;
        controller.on_feedback(&feedback, &path());
        controller.on_timeout(at(100), 7, &path());
        assert_eq!(window(&controller), 10_000);
        controller.on_feedback(&acked(200, 100, 10_000), &path());
        assert_eq!(window(&controller), 20_000);
    }
}
