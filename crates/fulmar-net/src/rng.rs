//! The seeded generator every draw comes from, integers only.

use core::time::Duration;

use fulmar_units::whole_nanos;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::Probability;

/// ln 2 in 32 fractional bits.
const LN_2_Q32: u128 = 2_977_044_472;

/// A seeded generator (PCG, O'Neill 2014). The same seed and stream give the same draws on every machine.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// A generator for one purpose (`stream`) of one seed. Different streams of a seed are unrelated.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut state = split_mix(seed) ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = [0; 16];
        for half in bytes.chunks_exact_mut(8) {
            state = split_mix(state);
            half.copy_from_slice(&state.to_le_bytes());
        }
        Self(Pcg64Mcg::from_seed(bytes))
    }

    /// Uniform over all of `u64`.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform over `0..bound`; zero if `bound` is zero. The bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`. Draws nothing if `p` is zero.
    pub fn chance(&mut self, p: Probability) -> bool {
        !p.is_zero() && p.covers(self.draw())
    }

    /// Uniform over `0..=max`.
    pub fn up_to(&mut self, max: Duration) -> Duration {
        let nanos = whole_nanos(max);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }

    /// Exponentially distributed with the given mean, at most 64 ln 2 = 44 means.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // -ln u = ln 2 * -log2 u, for u = (draw + 1) / 2^64 in (0, 1].
        let exponent = u128::from(negative_log2_q32(self.draw()));
        let natural_q32 = (exponent * LN_2_Q32) >> 32;
        let nanos = (natural_q32 * mean.as_nanos().min(u128::from(u64::MAX))) >> 32;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014): spreads similar seeds over the whole range.
pub(crate) const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `64 - log2(draw + 1)` in 32 fractional bits: the binary logarithm by repeated squaring, one bit per step.
fn negative_log2_q32(draw: u64) -> u64 {
    let Some(value) = draw.checked_add(1) else { return 0 };
    let whole = u64::from(63 - value.leading_zeros());
    // Mantissa in [1, 2) with 63 fractional bits.
    let mut mantissa = value << value.leading_zeros();
    let mut fraction = 0;
    for _ in 0..32 {
        let square = u128::from(mantissa) * u128::from(mantissa);
        let is_two_or_more = square >> 127 != 0;
        fraction = fraction << 1 | u64::from(is_two_or_more);
        mantissa = if is_two_or_more { (square >> 64) as u64 } else { (square >> 63) as u64 };
    }
    (64 << 32) - (whole << 32 | fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_is_exact_to_nine_digits() {
        for draw in [0u64, 1, 2, 1000, 1 << 31, (1 << 63) - 1, 0xdead_beef_0123_4567, u64::MAX] {
            let expected = 64.0 - libm::log2((draw as f64) + 1.0);
            let found = negative_log2_q32(draw) as f64 / (1u64 << 32) as f64;
            assert!((expected - found).abs() < 1e-9, "{draw}: {found} instead of {expected}");
        }
    }

    /// Mean and second moment of 200,000 exponential draws within 4 standard errors (false alarm below 1e-4).
    #[test]
    fn exponential_has_its_mean_and_variance() {
        let mut rng = Rng::new(1, 2);
        let mean = Duration::from_micros(250);
        let n = 200_000.0;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..200_000 {
            let x = rng.exponential(mean).as_nanos() as f64 / mean.as_nanos() as f64;
            sum += x;
            squares += x * x;
        }
        // Var x = 1; E x^2 = 2, Var x^2 = 20.
        assert!((sum / n - 1.0).abs() < 4.0 / libm::sqrt(n), "mean {}", sum / n);
        assert!((squares / n - 2.0).abs() < 4.0 * libm::sqrt(20.0 / n), "second moment {}", squares / n);
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draws = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.draw(), rng.draw(), rng.draw()]
        };
        assert_eq!(draws(7, 1), draws(7, 1));
        assert_ne!(draws(7, 1), draws(7, 2));
        assert_ne!(draws(7, 1), draws(8, 1));
    }

    /// Chi-square over 16 cells: below 37.7 with probability 0.999 (15 degrees of freedom).
    #[test]
    fn below_is_uniform() {
        let mut rng = Rng::new(3, 0);
        let mut cells = [0u32; 16];
        for _ in 0..160_000 {
            cells[rng.below(16) as usize] += 1;
        }
        let chi_square: f64 = cells.iter().map(|&c| (f64::from(c) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi_square < 37.7, "{chi_square}");
        assert_eq!(rng.below(0), 0);
    }
}
