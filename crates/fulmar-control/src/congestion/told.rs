//! What the tests of controllers tell them: feedback by milliseconds and bytes, over a path of 1000-byte
//! packets.

use core::time::Duration;

use fulmar_units::Instant;

use super::CongestionController;
use super::response::WindowController;
use super::window::WindowConfig;
use crate::{Feedback, LossEvent, PathView};

/// Of the path.
pub const MTU: u32 = 1000;

/// A window of 40 packets at first.
pub fn forty_packets() -> WindowConfig {
    WindowConfig { initial_packets: 40, ..WindowConfig::default() }
}

/// So many milliseconds after the beginning.
pub fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A path of 100 ms.
pub fn path() -> PathView {
    let mut path = PathView::unknown(MTU);
    path.has_rtt_sample = true;
    path.rtt_smoothed = Duration::from_millis(100);
    path
}

/// At `now` so many bytes were acknowledged, the newest of them sent at `sent`.
pub fn acked(now: u64, sent: u64, bytes: u64) -> Feedback {
    let mut feedback = Feedback::at(at(now));
    feedback.acked_bytes = bytes;
    feedback.acked_packets = (bytes / u64::from(MTU)) as u32;
    feedback.newest_acked_sent_at = Some(at(sent));
    feedback.is_window_limited = true;
    feedback
}

/// At `now` so many packets were lost, the newest of them sent at `sent`.
pub fn lost(now: u64, sent: u64, packets: u32) -> Feedback {
    let mut feedback = acked(now, sent, 0);
    feedback.lost = LossEvent {
        bytes: u64::from(packets * MTU),
        packets,
        bursts: 1,
        newest_sent_at: Some(at(sent)),
        ..LossEvent::default()
    };
    feedback
}

/// The window, bytes.
pub fn window(controller: &impl CongestionController) -> u64 {
    controller.budget().window_bytes
}

/// The slow-start threshold, once there is one.
pub fn ssthresh<R>(controller: &WindowController<R>) -> Option<u64> {
    let ssthresh_bytes = controller.window.windows.ssthresh_bytes;
    (ssthresh_bytes != u64::MAX).then_some(ssthresh_bytes)
}
