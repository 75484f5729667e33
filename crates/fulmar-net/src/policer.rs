//! A policer: what exceeds a rate is dropped at once instead of waiting, as at the edge of a provider's
//! network.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

/// A token bucket in front of the queue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Policer {
    /// How fast tokens come.
    pub rate: Rate,
    /// How many the bucket holds; it starts full.
    pub burst_bytes: u64,
}

/// A policer at work. Tokens are counted in bytes times nanoseconds per second, so that nothing is lost by
/// rounding.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bucket {
    tokens: u128,
    filled_at: Instant,
    is_started: bool,
}

const NANOS: u128 = 1_000_000_000;

impl Bucket {
    /// Whether a packet that arrives now may pass; takes its tokens if so. Times do not decrease.
    pub(crate) fn admits(&mut self, policer: &Policer, now: Instant, bytes: u32) -> bool {
        let full = u128::from(policer.burst_bytes) * NANOS;
        if !self.is_started {
            (self.is_started, self.tokens) = (true, full);
        }
        let since: Duration = now - self.filled_at;
        self.filled_at = now;
        self.tokens =
            (self.tokens + since.as_nanos() * u128::from(policer.rate.bytes_per_second())).min(full);
        let cost = u128::from(bytes) * NANOS;
        let may_pass = cost <= self.tokens;
        if may_pass {
            self.tokens -= cost;
        }
        may_pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let policer = Policer { rate: Rate::from_bytes_per_second(1_000_000), burst_bytes: 10_000 };
        let mut bucket = Bucket::default();
        let at = |us: u64| Instant::from_nanos(us * 1000);
        let burst = (0..20).filter(|_| bucket.admits(&policer, at(5), 1000)).count();
        assert_eq!(burst, 10);
        // 1000 bytes each half millisecond are twice the rate.
        let steady = (1..=2000).filter(|n| bucket.admits(&policer, at(5 + n * 500), 1000)).count();
        assert_eq!(steady, 1000);
    }
}
