//! No congestion control: a fixed rate, or none at all.
//!
//! Source: DFCP (Solymos 2014) sends at the maximum rate or at a set rate and leaves fairness to the routers. The set
//! rate is a token bucket, which is what the pacer is; without one only the window, which is as large as asked for,
//! bounds what a peer must hold. Every signal is ignored, so it belongs on paths of one's own.

use super::{CongestionController, SendBudget};
use crate::{Feedback, Instant, PathView, Rate, Sent};

/// Settings of no congestion control.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnlimitedConfig {
    /// The set rate; `None` sends as fast as the host can.
    pub rate: Option<Rate>,
    /// Most bytes in flight.
    pub window_bytes: u64,
    /// Depth of the token bucket.
    pub burst_bytes: u64,
}

impl Default for UnlimitedConfig {
    fn default() -> Self {
        Self { rate: None, window_bytes: u64::MAX, burst_bytes: 64 * 1024 }
    }
}

/// No congestion control.
#[derive(Clone, Debug)]
pub struct Unlimited {
    config: UnlimitedConfig,
    mtu_bytes: u32,
}

impl Unlimited {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: UnlimitedConfig) -> Self {
        Self { config, mtu_bytes }
    }

    /// A token bucket of `rate`.
    pub fn at_rate(mtu_bytes: u32, rate: Rate) -> Self {
        Self::new(mtu_bytes, UnlimitedConfig { rate: Some(rate), ..UnlimitedConfig::default() })
    }
}

impl CongestionController for Unlimited {
    fn name(&self) -> &'static str {
        "no-cc"
    }

    fn on_sent(&mut self, _sent: &Sent, _path: &PathView) {}

    fn on_feedback(&mut self, _feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
    }

    fn on_timeout(&mut self, _now: Instant, _count: u32, _path: &PathView) {}

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
    }

    fn budget(&self) -> SendBudget {
        let packet_bytes = u64::from(self.mtu_bytes);
        SendBudget {
            window_bytes: self.config.window_bytes.max(2 * packet_bytes),
            // A rate of zero would never send; one packet per second is as slow as it gets.
            pacing: self.config.rate.map(|rate| rate.max(Rate::from_bytes_per_second(packet_bytes))),
            burst_bytes: self.config.burst_bytes.max(packet_bytes),
        }
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.config.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossEvent;

    #[test]
    fn nothing_moves_it() {
        let mut controller = Unlimited::at_rate(1200, Rate::from_bits_per_second(8_000_000));
        let before = controller.budget();
        assert_eq!(before.pacing, Some(Rate::from_bytes_per_second(1_000_000)));
        let path = PathView::unknown(1200);
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.lost = LossEvent { bytes: 120_000, packets: 100, bursts: 1, ..LossEvent::default() };
        feedback.ecn_ce_packets = 50;
        controller.on_feedback(&feedback, &path);
        controller.on_timeout(Instant::ZERO, 9, &path);
        assert_eq!(controller.budget(), before);
        assert_eq!(Unlimited::new(1200, UnlimitedConfig::default()).budget().pacing, None);
    }
}
