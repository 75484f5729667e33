//! A distribution of delays, as results have it.

use std::time::Duration;

use fulmar_net::DelayHistogram;
use serde::{Deserialize, Serialize};

use crate::statistics;

/// A distribution of delays in ms.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90 % are no longer.
    pub p90_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// 99.9 %.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// Milliseconds of a duration.
pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl Delays {
    /// Exact, from all samples.
    pub fn of(samples: &mut [Duration]) -> Self {
        samples.sort_unstable();
        let at = |q| statistics::quantile_of_sorted(samples, q).map_or(0.0, ms);
        let sum: f64 = samples.iter().map(|&d| ms(d)).sum();
        Self {
            count: samples.len() as u64,
            mean_ms: if samples.is_empty() { 0.0 } else { sum / samples.len() as f64 },
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        }
    }

    /// From a histogram, to 1/16 of each value.
    pub fn of_histogram(histogram: &DelayHistogram) -> Self {
        let at = |per_mille| ms(histogram.quantile(per_mille));
        Self {
            count: histogram.samples(),
            mean_ms: ms(histogram.mean()),
            p50_ms: at(500),
            p90_ms: at(900),
            p99_ms: at(990),
            p999_ms: at(999),
            max_ms: ms(histogram.max()),
        }
    }
}
