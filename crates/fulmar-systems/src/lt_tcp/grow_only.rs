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

    // Linux sets the window to one packet at a retransmission timeout, whatever the module says: `lw=1`.
    fn on_timeout(&mut self, window: &mut Aimd, _count: u32) {
        window.begin_anew();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_control::CongestionController;
    use fulmar_control::congestion::told::{MTU, acked, at, lost, path, ssthresh, window};

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

    /// What Linux does at a timeout is not the module's to say.
    #[test]
    fn a_timeout_begins_anew_where_there_is_a_loss_window() {
        let mut config = WindowConfig::default();
        config.loss_packets = 1;
        let mut controller = Never::controller(MTU, config);
        controller.on_timeout(at(100), 1, &path());
        assert_eq!((window(&controller), ssthresh(&controller)), (1_000, Some(10_000)));
    }
}
