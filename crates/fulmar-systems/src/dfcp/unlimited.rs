//! No congestion control: a fixed rate, or none at all.
//!
//! Source: DFCP (Solymos 2014) sends at the maximum rate or at a set rate and leaves fairness to the routers.
//! The set rate is a token bucket, which is what the pacer is; without one only the window, which is as large
//! as asked for, bounds what a peer must hold. Every signal is ignored, so it belongs on paths of one's own.
//!
//! [`TokenBucket`] has the thesis' four parameters (section 3.12.2). Its kernel adds tokens every 4 ms and
//! then sends them at once; our pacer adds them continuously, so the rate is the same and a tick's burst is
//! spread over the tick.

use fulmar_units::{Instant, Rate};

use fulmar_control::{CongestionController, Feedback, PathView, SendBudget};

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

/// DFCP's rate limiter in its own terms (Solymos 2014, section 3.12.2); a token is a byte, here of UDP
/// payload.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Most tokens that can gather.
    pub maxtokens: u64,
    /// Tokens there are at first.
    pub numtokens: u64,
    /// Tokens added each time.
    pub inctokens: u64,
    /// Ticks of 4 ms from one adding to the next, at least 1.
    pub inttokens: u32,
}

impl TokenBucket {
    /// Ticks per second of the thesis' kernel.
    const TICKS_PER_SECOND: u64 = 250;

    /// (3.3): inctokens = floor(bandwidth * 1024 * 1024 / (8 * 250)) for a bandwidth in the thesis' Mbps of
    /// 2^20 bits.
    pub fn inctokens_for(mbps: f64) -> u64 {
        libm::floor(mbps * 1024.0 * 1024.0 / (8 * Self::TICKS_PER_SECOND) as f64) as u64
    }

    /// Tokens per second. What does not fit into the bucket is not added.
    pub fn rate(&self) -> Rate {
        let added = self.inctokens.min(self.maxtokens);
        let per_second = added.saturating_mul(Self::TICKS_PER_SECOND) / u64::from(self.inttokens.max(1));
        Rate::from_bytes_per_second(per_second)
    }
}

/// No congestion control.
#[derive(Clone, Debug)]
pub struct Unlimited {
    config: UnlimitedConfig,
    mtu_bytes: u32,
    /// What may leave at once before anything else did, where it differs.
    first_burst_bytes: Option<u64>,
}

impl Unlimited {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32, config: UnlimitedConfig) -> Self {
        Self { config, mtu_bytes, first_burst_bytes: None }
    }

    /// DFCP's rate limiter.
    pub fn with_tokens(mtu_bytes: u32, bucket: TokenBucket) -> Self {
        let config = UnlimitedConfig {
            rate: Some(bucket.rate()),
            burst_bytes: bucket.maxtokens,
            ..UnlimitedConfig::default()
        };
        Self {
            first_burst_bytes: Some(bucket.numtokens.min(bucket.maxtokens)),
            ..Self::new(mtu_bytes, config)
        }
    }

    /// A token bucket of `rate`.
    pub fn at_rate(mtu_bytes: u32, rate: Rate) -> Self {
        Self::new(mtu_bytes, UnlimitedConfig { rate: Some(rate), ..UnlimitedConfig::default() })
    }
}

impl CongestionController for Unlimited {
    fn name(&self) -> &'static str {
        "unlimited"
    }

    fn on_flight_begun(&mut self) {
        self.first_burst_bytes = None;
    }

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
            burst_bytes: self.first_burst_bytes.unwrap_or(self.config.burst_bytes).max(packet_bytes),
        }
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.config.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_it() {
        let mut controller = Unlimited::at_rate(1200, Rate::from_bits_per_second(8_000_000));
        let before = controller.budget();
        assert_eq!(before.pacing, Some(Rate::from_bytes_per_second(1_000_000)));
        let path = PathView::unknown(1200);
        let mut feedback = Feedback::at(Instant::ZERO);
        (feedback.lost.bytes, feedback.lost.packets, feedback.lost.bursts) = (120_000, 100, 1);
        feedback.ecn_ce_packets = 50;
        controller.on_feedback(&feedback, &path);
        controller.on_timeout(Instant::ZERO, 9, &path);
        assert_eq!(controller.budget(), before);
        assert_eq!(Unlimited::new(1200, UnlimitedConfig::default()).budget().pacing, None);
    }

    /// (3.3) by hand: 100 * 1048576 / 2000 = 52428.8; 8 * 1048576 / 2000 = 4194.304.
    #[test]
    fn tokens_as_in_the_thesis() {
        assert_eq!((TokenBucket::inctokens_for(100.0), TokenBucket::inctokens_for(8.0)), (52_428, 4_194));
        let bucket = TokenBucket { maxtokens: 65_536, numtokens: 1_420, inctokens: 52_428, inttokens: 1 };
        assert_eq!(bucket.rate().bytes_per_second(), 13_107_000);
        // Once in 40 ms instead of 4.
        assert_eq!(TokenBucket { inttokens: 10, ..bucket }.rate().bytes_per_second(), 1_310_700);
        // A bucket smaller than what is added loses the rest.
        assert_eq!(TokenBucket { maxtokens: 10_000, ..bucket }.rate().bytes_per_second(), 2_500_000);
    }

    #[test]
    fn the_bucket_begins_with_numtokens_and_fills_to_maxtokens() {
        let bucket = TokenBucket { maxtokens: 65_536, numtokens: 5_000, inctokens: 4_000, inttokens: 1 };
        let mut controller = Unlimited::with_tokens(1200, bucket);
        assert_eq!(controller.budget().burst_bytes, 5_000);
        controller.on_flight_begun();
        assert_eq!(controller.budget().burst_bytes, 65_536);
    }
}
