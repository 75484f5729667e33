//! Probabilities as integers.

use core::fmt;

/// A probability in parts per billion, so that comparing it with a draw needs no floating point.
///
/// A billionth is fine enough for every published loss rate and for the products of the two-state model.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Probability(u32);

/// The number was not between 0 and 1.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct InvalidProbability;

impl fmt::Display for InvalidProbability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a probability lies between 0 and 1")
    }
}

impl core::error::Error for InvalidProbability {}

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(Self::SCALE);
    /// Parts of one.
    const SCALE: u32 = 1_000_000_000;

    /// From parts per million; anything above one million is always.
    pub const fn from_ppm(ppm: u32) -> Self {
        if ppm >= 1_000_000 { Self::ONE } else { Self(ppm * 1000) }
    }

    /// From whole percent; anything above 100 is always.
    pub const fn from_percent(percent: u32) -> Self {
        if percent >= 100 { Self::ONE } else { Self(percent * 10_000_000) }
    }

    /// From parts per billion; anything above one billion is always.
    pub const fn from_ppb(ppb: u64) -> Self {
        if ppb >= Self::SCALE as u64 { Self::ONE } else { Self(ppb as u32) }
    }

    /// Nearest to a floating-point number.
    ///
    /// # Errors
    /// If the number is not between 0 and 1.
    pub fn from_f64(value: f64) -> Result<Self, InvalidProbability> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self((value * f64::from(Self::SCALE) + 0.5) as u32))
        } else {
            Err(InvalidProbability)
        }
    }

    /// In parts per billion.
    pub const fn ppb(self) -> u32 {
        self.0
    }

    /// As a number between 0 and 1, for reports.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::SCALE)
    }

    /// Whether this is zero: the feature is off.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// One minus this.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(Self::SCALE - self.0)
    }

    /// Whether a draw, uniform over all of `u64`, falls inside.
    pub(crate) const fn covers(self, draw: u64) -> bool {
        // draw / 2^64 < ppb / 10^9, exact to 2^-64.
        ((draw as u128 * Self::SCALE as u128) >> 64) < self.0 as u128
    }
}

impl fmt::Debug for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 1e7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_at_the_edges() {
        assert!(!Probability::ZERO.covers(0));
        assert!(Probability::ONE.covers(u64::MAX));
        assert!(Probability::from_percent(50).covers(u64::MAX / 2));
        assert!(!Probability::from_percent(50).covers(u64::MAX / 2 + 1));
    }

    #[test]
    fn conversions_agree_and_saturate() {
        assert_eq!(Probability::from_percent(5), Probability::from_ppm(50_000));
        assert_eq!(Probability::from_f64(0.05), Ok(Probability::from_percent(5)));
        assert_eq!(Probability::from_percent(200), Probability::ONE);
        assert_eq!(Probability::from_ppb(u64::MAX), Probability::ONE);
        assert_eq!(Probability::from_f64(1.5), Err(InvalidProbability));
        assert_eq!(Probability::from_f64(f64::NAN), Err(InvalidProbability));
        assert_eq!(Probability::from_percent(20).complement(), Probability::from_percent(80));
    }
}
