//! What a source claims, as bounds on the quantity the claim is about.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::cell::Cell;
use super::published::Published;
use crate::statistics::Summary;

/// A claim: a measure, or its ratio to another cell's, lies between bounds in every cell it speaks of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// In words.
    pub says: String,
    /// The published tables or figures (`Figure 4.9 and Figure 4.10`), where the experiment serves several.
    pub of: Option<String>,
    /// Which measure; by default the experiment's first.
    pub measure: Option<String>,
    /// What counts of the runs of a cell.
    #[serde(default)]
    pub statistic: Statistic,
    /// The cells: values of the sweep. What is not named may be anything.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Another cell, by what differs: the claim is about the ratio.
    pub over: Option<BTreeMap<String, String>>,
    /// Another experiment, of which the other cell is: what runs in virtual time against what needs real
    /// time.
    pub over_in: Option<String>,
    /// Not below.
    pub min: Option<f64>,
    /// Not above.
    pub max: Option<f64>,
    /// Within this factor of the published value, either way, wherever there is one.
    pub within: Option<f64>,
}

/// One number of many runs.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Their mean.
    #[default]
    Mean,
    /// The one in the middle.
    Median,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The 99th percentile.
    P99,
}

impl Statistic {
    /// That number, and half of its 95 % interval where one is known: that of a mean of several runs.
    fn with_error(self, summary: &Summary) -> (f64, f64) {
        let half = if self == Self::Mean { summary.ci95 } else { 0.0 };
        (self.of(summary), half)
    }

    /// That number.
    pub fn of(self, summary: &Summary) -> f64 {
        match self {
            Self::Mean => summary.mean,
            Self::Median => summary.median,
            Self::Min => summary.min,
            Self::Max => summary.max,
            Self::P99 => summary.p99,
        }
    }
}

/// A ratio of two numbers with the halves of their 95 % intervals: relative errors add up in squares. None
/// against none is as much.
fn ratio((value, half): (f64, f64), (other, other_half): (f64, f64)) -> (f64, f64) {
    if value == other {
        return (1.0, relative(half, value).hypot(relative(other_half, other)));
    }
    let ratio = value / other;
    (ratio, ratio.abs() * relative(half, value).hypot(relative(other_half, other)))
}

fn relative(half: f64, value: f64) -> f64 {
    if half == 0.0 { 0.0 } else { (half / value).abs() }
}

/// How a claim fared.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It holds in every cell it speaks of; with the smallest and the largest value.
    Holds(f64, f64),
    /// It holds in those that were measured, with the smallest and the largest value; these were not.
    Partly(f64, f64, Vec<String>),
    /// Nothing contradicts it, but in these cells a bound lies within the 95 % interval of the mean: more
    /// runs would have to tell.
    Open(Vec<String>),
    /// It does not: in which cells, in words.
    Fails(Vec<String>),
    /// No cell it speaks of was measured.
    Unmeasured,
}

impl Claim {
    /// Says what is wrong with it.
    pub(super) fn check(&self, sweep: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
        if self.min.is_none() && self.max.is_none() && self.within.is_none() {
            return Err("a claim sets min, max or within".into());
        }
        if self.within.is_some_and(|factor| factor.is_nan() || factor < 1.0) {
            return Err("within is a factor of at least 1".into());
        }
        if self.within.is_some() && self.over.is_some() {
            return Err("within is about published values, not about ratios".into());
        }
        if self.over_in.is_some() && self.over.is_none() {
            return Err("over_in says where the cell of over is".into());
        }
        // What another experiment varies is seen when there are results.
        let own_over = self.over.iter().filter(|_| self.over_in.is_none()).flatten();
        let named = self.at.iter().chain(own_over);
        for (key, value) in named {
            if !sweep.get(key).is_some_and(|values| values.contains(value)) {
                return Err(format!("the sweep has no {key} = \"{value}\""));
            }
        }
        Ok(())
    }

    /// Whether it is about a published table or figure.
    pub fn is_about(&self, item: &str) -> bool {
        self.of.as_ref().is_none_or(|of| of.split(" and ").any(|name| name == item))
    }

    /// Whether it speaks of a cell.
    pub fn matches(&self, cell: &Cell) -> bool {
        self.at.iter().all(|(key, value)| cell.value(key) == Some(value))
    }

    /// The cell that one is set against.
    pub fn against(&self, cell: &Cell) -> Option<Cell> {
        let over = self.over.as_ref()?;
        let settings = cell.settings.iter();
        let settings = settings.map(|(key, value)| (key.clone(), over.get(key).unwrap_or(value).clone()));
        Some(Cell { settings: settings.collect() })
    }

    /// Judges it by what was measured of a cell and a measure, here or in another experiment.
    pub fn judge(
        &self,
        cells: &[Cell],
        published: &[Published],
        first_measure: &str,
        measured: impl Fn(Option<&str>, &Cell, &str) -> Option<Summary>,
    ) -> Finding {
        let measure = self.measure.as_deref().unwrap_or(first_measure);
        let number = |place: Option<&str>, cell: &Cell| {
            Some(self.statistic.with_error(&measured(place, cell, measure)?))
        };
        let (mut found, mut fails, mut open, mut missing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for cell in cells.iter().filter(|cell| self.matches(cell)) {
            let Some((min, max)) = self.bounds(cell, published) else { continue };
            let own = number(None, cell);
            let value = match self.against(cell) {
                Some(other) => {
                    own.zip(number(self.over_in.as_deref(), &other)).map(|(own, other)| ratio(own, other))
                }
                None => own,
            };
            let Some((value, half)) = value else {
                missing.push(cell.label());
                continue;
            };
            found.push(value);
            // What is no number is within no bounds.
            let is_within = min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max);
            let is_in_interval = |bound: f64| (value - bound).abs() < half;
            if min.into_iter().chain(max).any(is_in_interval) {
                let error = interval_digits(half, value);
                open.push(format!("{}: {} +- {error} ({})", cell.label(), digits(value), range(min, max)));
            } else if !is_within {
                fails.push(format!("{}: {} ({})", cell.label(), digits(value), range(min, max)));
            }
        }
        let low = found.iter().copied().fold(f64::INFINITY, f64::min);
        let high = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if found.is_empty() {
            Finding::Unmeasured
        } else if !fails.is_empty() {
            Finding::Fails(fails)
        } else if !open.is_empty() {
            Finding::Open(open)
        } else if !missing.is_empty() {
            Finding::Partly(low, high, missing)
        } else {
            Finding::Holds(low, high)
        }
    }

    /// The bounds in a cell; `None` if the claim is about published values and there is none.
    fn bounds(&self, cell: &Cell, published: &[Published]) -> Option<(Option<f64>, Option<f64>)> {
        let Some(factor) = self.within else { return Some((self.min, self.max)) };
        let value = published.iter().find(|p| p.matches(cell)).and_then(|p| p.value)?;
        Some((Some(value / factor), Some(value * factor)))
    }

    /// Its bounds in words.
    pub fn bounds_in_words(&self) -> String {
        match self.within {
            Some(factor) => format!("within a factor of {factor}"),
            None => range(self.min, self.max),
        }
    }
}

fn range(min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{} to {}", digits(min), digits(max)),
        (Some(min), None) => format!("at least {}", digits(min)),
        (None, Some(max)) => format!("at most {}", digits(max)),
        (None, None) => String::new(),
    }
}

/// Three digits that count.
pub fn digits(value: f64) -> String {
    rounded(value, places(value))
}

/// Half of the interval of a mean, to one place more than the mean has in `digits`.
pub fn interval_digits(half: f64, mean: f64) -> String {
    rounded(half, if mean == 0.0 { places(half) } else { places(mean) + 1 })
}

/// Places after the point that leave three digits.
fn places(value: f64) -> usize {
    if value == 0.0 || !value.is_finite() {
        0
    } else {
        (2 - value.abs().log10().floor() as i32).max(0) as usize
    }
}

/// To so many places after the point at most.
pub fn rounded(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(sender: &str, loss: &str) -> Cell {
        Cell { settings: vec![("loss".into(), loss.into()), ("sender".into(), sender.into())] }
    }

    fn at(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    fn judge(claim: &Claim, ctcp: f64) -> Finding {
        let cells = [cell("ctcp", "1%"), cell("cubic", "1%"), cell("ctcp", "9%"), cell("cubic", "9%")];
        let published = [Published { at: at(&[("sender", "ctcp"), ("loss", "9%")]), value: Some(10.0) }];
        claim.judge(&cells, &published, "goodput_mbps", |place, cell, measure| {
            assert_eq!((place, measure), (None, "goodput_mbps"));
            match (cell.value("sender")?, cell.value("loss")?) {
                ("ctcp", "9%") => Summary::of(&[ctcp]),
                ("cubic", "9%") => Summary::of(&[1.0]),
                _ => None,
            }
        })
    }

    /// A result that is wrong must not pass: below, above, or no number at all.
    #[test]
    fn wrong_results_fail() {
        let ratio = Claim {
            at: at(&[("sender", "ctcp"), ("loss", "9%")]),
            over: Some(at(&[("sender", "cubic")])),
            min: Some(10.0),
            max: Some(20.0),
            ..Claim::default()
        };
        assert_eq!(judge(&ratio, 12.0), Finding::Holds(12.0, 12.0));
        for wrong in [9.0, 21.0, 0.0, f64::NAN] {
            assert!(matches!(judge(&ratio, wrong), Finding::Fails(_)), "{wrong}");
        }
        let within = Claim { at: at(&[("sender", "ctcp")]), within: Some(1.5), ..Claim::default() };
        assert!(matches!(judge(&within, 14.9), Finding::Holds(..)));
        assert!(
            matches!(judge(&within, 15.1), Finding::Fails(_))
                && matches!(judge(&within, 6.6), Finding::Fails(_))
        );
        let elsewhere = Claim { at: at(&[("loss", "1%")]), ..ratio.clone() };
        assert_eq!(judge(&elsewhere, 12.0), Finding::Unmeasured);
        let everywhere = Claim { at: at(&[("sender", "ctcp")]), ..ratio };
        let label = cell("ctcp", "1%").label();
        assert_eq!(judge(&everywhere, 12.0), Finding::Partly(12.0, 12.0, vec![label]));
    }

    #[test]
    fn the_worst_run_may_count() {
        let claim = |statistic| Claim { min: Some(0.9), statistic, ..Claim::default() };
        let found = |statistic| {
            let runs = Summary::of(&[0.85, 0.98, 0.99, 1.0, 1.0, 0.99, 0.98, 1.0]);
            claim(statistic).judge(&[cell("a", "0%")], &[], "x", |_, _, _| runs)
        };
        assert!(matches!(found(Statistic::Mean), Finding::Holds(..)));
        assert!(matches!(found(Statistic::Min), Finding::Fails(_)));
        assert!(matches!(found(Statistic::Median), Finding::Holds(low, _) if low == 0.99));
    }

    /// A coin is no evidence: neither for a claim nor against it.
    #[test]
    fn a_bound_within_the_interval_decides_nothing() {
        let claim = Claim { min: Some(1.0), max: Some(2.0), ..Claim::default() };
        let found = |runs: &[f64]| {
            let runs = Summary::of(runs);
            claim.judge(&[cell("a", "0%")], &[], "x", |_, _, _| runs)
        };
        assert!(matches!(found(&[1.4, 1.5, 1.6]), Finding::Holds(..)));
        assert!(matches!(found(&[0.5, 1.2, 1.9]), Finding::Open(_)), "as often below as not");
        assert!(matches!(found(&[0.4, 0.9, 1.4]), Finding::Open(_)), "its mean alone is outside");
        assert!(matches!(found(&[2.4, 2.5, 2.6]), Finding::Fails(_)));
        let ratio = Claim { at: at(&[("sender", "a")]), over: Some(at(&[("sender", "b")])), ..claim };
        let of_two = |a: &[f64], b: &[f64]| {
            let (a, b) = (Summary::of(a), Summary::of(b));
            let cells = [cell("a", "0%"), cell("b", "0%")];
            ratio.judge(&cells, &[], "x", |_, cell, _| if cell.value("sender") == Some("a") { a } else { b })
        };
        assert!(matches!(of_two(&[15.0, 15.1], &[10.0, 10.0]), Finding::Holds(..)));
        assert!(matches!(of_two(&[11.0, 11.0], &[8.0, 12.0]), Finding::Open(_)));
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, words) in
            [(1234.5, "1234"), (12.34, "12.3"), (0.01234, "0.0123"), (5.0, "5"), (0.0, "0"), (100.0, "100")]
        {
            assert_eq!(digits(value), words);
        }
    }

    #[test]
    fn an_interval_has_a_place_more_than_its_mean() {
        for (mean, half, words) in [
            (0.151, 9e-17, "0"),
            (0.974, 0.003214, "0.0032"),
            (24.34, 1.62713, "1.63"),
            (46754.0, 134.7968, "134.8"),
        ] {
            assert_eq!(interval_digits(half, mean), words);
        }
        assert_eq!(interval_digits(0.000_123_4, 0.0), "0.000123");
    }
}
