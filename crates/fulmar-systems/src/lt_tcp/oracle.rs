//! The oracle: the loss rate is configured, not measured.
//!
//! Source: LT-TCP section 2.3, where it shows what estimation errors cost. Useful wherever the channel is
//! known.

use fulmar_control::{Feedback, LossEstimator, LossView};

/// Says what it was told.
#[derive(Clone, Debug)]
pub struct Oracle {
    view: LossView,
}

impl Oracle {
    /// A channel of loss rate `rate` (0 to 1) and mean burst length `burst_packets`.
    pub fn new(rate: f64, burst_packets: f64) -> Self {
        let rate = if rate.is_finite() { rate.clamp(0.0, 1.0) } else { 0.0 };
        let burst_packets = if burst_packets.is_finite() { burst_packets.max(1.0) } else { 1.0 };
        let burst_packets = if rate > 0.0 { burst_packets } else { 0.0 };
        // It is certain; a number that stays finite in every formula.
        Self { view: LossView { rate, burst_packets, weight_packets: 1e9 } }
    }
}

impl LossEstimator for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn on_feedback(&mut self, _feedback: &Feedback) {}

    fn view(&self) -> LossView {
        self.view
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_within_bounds_whatever_it_is_told() {
        assert_eq!(Oracle::new(0.05, 2.0).view().rate, 0.05);
        assert_eq!(
            Oracle::new(7.0, 0.0).view(),
            LossView { rate: 1.0, burst_packets: 1.0, weight_packets: 1e9 }
        );
        assert_eq!(Oracle::new(f64::NAN, f64::NAN).view().burst_packets, 0.0);
    }
}
