//! Means, deviations, intervals, quantiles, fairness, and tests of differences.
//!
//! Sources: Jain, Chiu, Hawe, "A quantitative measure of fairness", DEC-TR-301, 1984; Student's t by the
//! incomplete beta function (Press et al., Numerical Recipes, 6.4); the outlier rule of the LT-TCP thesis,
//! section 2.2.

use serde::{Deserialize, Serialize};

/// Jain's index: 1 if all are equal, 1/n if one has everything. 1 of nothing.
pub fn jain(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (n * squares) }
}

/// The smallest of the sorted values that at least a share `q` does not exceed.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let rank = (sorted.len() as f64 * q - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// A mean with what is known of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample standard deviation.
    pub sd: f64,
    /// Half of the 95 % confidence interval of the mean (Student's t); zero for a single value.
    pub ci95: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile: the largest of fewer than a hundred.
    #[serde(default)]
    pub p99: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of these values; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        let sd = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        let ci95 = if values.len() > 1 { t_quantile_975(n - 1.0) * sd / n.sqrt() } else { 0.0 };
        let p99 = quantile_of_sorted(&sorted, 0.99).unwrap_or(mean);
        Some(Self {
            n: values.len(),
            mean,
            sd,
            ci95,
            median,
            p99,
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

/// The rule of the LT-TCP thesis (section 2.2): the largest and the smallest `n` values are left out, `n` at
/// most a quarter of them, until the standard deviation is below the mean.
pub fn without_outliers(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n_max = sorted.len() / 4;
    let is_calm = |kept: &[f64]| Summary::of(kept).is_none_or(|s| s.sd < s.mean);
    let n = (0..=n_max).find(|&n| is_calm(&sorted[n..sorted.len() - n])).unwrap_or(n_max);
    sorted[n..sorted.len() - n].to_vec()
}

/// The outcome of a paired t-test.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Paired {
    /// Of the differences second - first.
    pub difference: Summary,
    /// Probability of a difference at least so large if there were none (two-sided).
    pub p_value: f64,
}

/// Whether the second of each pair differs from the first; `None` for fewer than two pairs.
pub fn paired_t_test(pairs: &[(f64, f64)]) -> Option<Paired> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let difference = Summary::of(&differences).filter(|s| s.n >= 2)?;
    let error = difference.sd / (difference.n as f64).sqrt();
    let p_value = if error == 0.0 {
        if difference.mean == 0.0 { 1.0 } else { 0.0 }
    } else {
        two_sided(difference.mean / error, difference.n as f64 - 1.0)
    };
    Some(Paired { difference, p_value })
}

/// Holm's correction (Scandinavian Journal of Statistics 6, 1979): p-values of several tests, each made so
/// much larger that the chance of any false alarm among them stays what it is for one.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&i, &j| p_values[i].total_cmp(&p_values[j]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest = 0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

/// P(|T| >= |t|) for Student's distribution.
fn two_sided(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))
}

/// The value that T does not exceed with probability 0.975, by bisection.
fn t_quantile_975(degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if two_sided(middle, degrees) > 0.05 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Lentz).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    let away_from_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() < 1e-14 * fraction.abs() {
            break;
        }
    }
    front * fraction
}

/// Lanczos' approximation, for positive arguments.
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.001_208_650_973_866_179,
        -0.000_005_395_239_384_953,
    ];
    let t = x + 5.5;
    let series = C.iter().zip(1..).fold(1.000_000_000_190_015, |sum, (c, i)| sum + c / (x + f64::from(i)));
    (x + 0.5) * t.ln() - t + (2.506_628_274_631_000_5 * series / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_at_its_ends() {
        assert_eq!(jain([3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain([]), 1.0);
    }

    #[test]
    fn student_agrees_with_the_tables() {
        for (degrees, table) in [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
            assert!((t_quantile_975(degrees) - table).abs() < 1e-3, "{degrees}");
        }
    }

    #[test]
    fn summaries() {
        let s = Summary::of(&[2.0, 4.0, 6.0]).unwrap();
        assert_eq!((s.mean, s.sd, s.median, s.min, s.max), (4.0, 2.0, 4.0, 2.0, 6.0));
        assert!((s.ci95 - 4.303 * 2.0 / 3f64.sqrt()).abs() < 1e-3);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0]).unwrap().ci95, 0.0);
    }

    #[test]
    fn outliers_by_the_thesis() {
        let mut values = vec![10.0; 19];
        values.push(1000.0);
        assert_eq!(without_outliers(&values), vec![10.0; 18], "one at each end");
        assert_eq!(without_outliers(&[1.0, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!(without_outliers(&[0.0, 0.0, 0.0, 100.0]), [0.0, 0.0]);
    }

    #[test]
    fn holm_as_in_the_textbooks() {
        // Four tests: 0.01 x 4, 0.02 x 3, 0.03 x 2, and 0.04, which may not be below the one before it.
        let corrected = holm(&[0.04, 0.01, 0.03, 0.02]);
        for (value, expected) in corrected.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            assert!((value - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn pairs_show_what_means_hide() {
        let pairs: Vec<_> =
            (0..10).map(|i| (f64::from(i * 10), f64::from(i * 10) + 1.0 + 0.1 * f64::from(i % 3))).collect();
        let test = paired_t_test(&pairs).unwrap();
        assert!(test.p_value < 1e-6 && (test.difference.mean - 1.09).abs() < 0.011);
        let noise: Vec<_> = (0..10).map(|i| (0.0, if i % 2 == 0 { 1.0 } else { -1.0 })).collect();
        assert!(paired_t_test(&noise).unwrap().p_value > 0.9);
        assert!(paired_t_test(&[(1.0, 2.0)]).is_none());
    }
}
