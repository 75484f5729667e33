//! Jain's index over time: of what each flow had delivered within each second (DFCP thesis, 2014: "fairness
//! over time").

use crate::sample::Sample;
use crate::statistics::jain;

/// Seconds over which shares are compared: long enough that bursts of delivery even out, short enough to show
/// who yields when.
const WINDOW_SECONDS: f64 = 1.0;

/// The middle of each second, and Jain's index of the flows that were there from its beginning to its end.
pub(crate) fn over_time(series: &[Sample], flows: usize) -> Vec<(f64, f64)> {
    let curves: Vec<Vec<(f64, f64)>> = (0..flows)
        .map(|flow| {
            let own = series.iter().filter(|sample| sample.flow == flow);
            own.map(|sample| (sample.t, sample.received_bytes as f64)).collect()
        })
        .collect();
    let end = series.iter().map(|sample| sample.t).fold(0.0, f64::max);
    let windows = (end / WINDOW_SECONDS + 1e-9) as usize;
    let window = |index: usize| {
        let (from, to) = (index as f64 * WINDOW_SECONDS, (index + 1) as f64 * WINDOW_SECONDS);
        let share = |curve: &Vec<(f64, f64)>| Some(at(curve, to)? - at(curve, from)?);
        let shares: Vec<f64> = curves.iter().filter_map(share).collect();
        (shares.len() > 1).then(|| ((from + to) / 2.0, jain(shares)))
    };
    (0..windows).filter_map(window).collect()
}

/// The value of a curve at a time, on the straight line between two samples; `None` before the first and
/// after the last.
fn at(curve: &[(f64, f64)], t: f64) -> Option<f64> {
    const ROUNDING: f64 = 1e-6;
    let next = curve.partition_point(|point| point.0 < t - ROUNDING);
    let &(t1, v1) = curve.get(next)?;
    if t1 <= t + ROUNDING {
        return Some(v1);
    }
    let &(t0, v0) = curve.get(next.checked_sub(1)?)?;
    Some(v0 + (v1 - v0) * (t - t0) / (t1 - t0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(flow: usize, t: f64, received_bytes: u64) -> Sample {
        Sample { flow, t, received_bytes, ..Sample::default() }
    }

    #[test]
    fn shares_of_each_second() {
        // Alone until 2 s, then 3 : 1, then 1 : 1. The second flow is sampled at other times than the first.
        let first =
            [0, 200, 400, 550, 650].into_iter().enumerate().map(|(t, bytes)| sample(0, t as f64, bytes));
        let second = [(1.9, 0), (2.5, 25), (3.5, 100), (4.5, 200)].map(|(t, bytes)| sample(1, t, bytes));
        let series: Vec<Sample> = first.chain(second).collect();
        let found = over_time(&series, 2);
        // At 2, 3 and 4 s the second flow has 4.17, 62.5 and 150 bytes.
        let expected = |a: f64, b: f64| (a + b) * (a + b) / (2.0 * (a * a + b * b));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].1 - expected(150.0, 62.5 - 25.0 * 0.1 / 0.6)).abs() < 1e-9, "{found:?}");
        assert!((found[1].1 - expected(100.0, 87.5)).abs() < 1e-9);
        assert_eq!((found[0].0, found[1].0), (2.5, 3.5));
        assert!(over_time(&series, 1).is_empty() && over_time(&[], 2).is_empty());
    }
}
