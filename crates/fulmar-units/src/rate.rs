//! Data rates.

use core::fmt;
use core::time::Duration;

/// A data rate in bytes per second.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Rate(u64);

impl Rate {
    /// Nothing ever leaves.
    pub const ZERO: Self = Self(0);

    /// A rate in bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A rate in bits per second.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits / 8)
    }

    /// The rate at which `bytes` pass in `interval`; `None` for an empty interval.
    pub fn from_bytes_in(bytes: u64, interval: Duration) -> Option<Self> {
        let nanos = interval.as_nanos();
        (nanos > 0)
            .then(|| Self(u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)))
    }

    /// Bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// How long `bytes` take at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bytes that pass in `interval` at this rate.
    pub fn bytes_in(self, interval: Duration) -> u64 {
        u64::try_from(u128::from(self.0).saturating_mul(interval.as_nanos()) / 1_000_000_000)
            .unwrap_or(u64::MAX)
    }

    /// This rate times `factor` (not negative).
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor) as u64)
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.bits_per_second() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_time_and_bytes_agree() {
        let rate = Rate::from_bits_per_second(100_000_000);
        assert_eq!(rate.time_for(1250), Duration::from_micros(100));
        assert_eq!(rate.bytes_in(Duration::from_micros(100)), 1250);
        assert_eq!(Rate::from_bytes_in(1250, Duration::from_micros(100)), Some(rate));
        assert_eq!(rate.scaled(0.5).bits_per_second(), 50_000_000);
    }

    #[test]
    fn the_ends_of_the_scale_are_no_panic() {
        assert_eq!(Rate::from_bytes_in(1, Duration::ZERO), None);
        assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
        let fastest = Rate::from_bytes_per_second(u64::MAX);
        assert_eq!((fastest.bytes_in(Duration::MAX), fastest.bits_per_second()), (u64::MAX, u64::MAX));
        assert_eq!(fastest.scaled(f64::INFINITY), fastest);
        assert_eq!(fastest.scaled(f64::NAN), Rate::ZERO);
    }
}
