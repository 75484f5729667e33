//! From two sets of runs to a verdict.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::Results;
use crate::outcome::{Better, Outcome, better};
use crate::statistics::{Summary, holm, paired_t_test};

/// Differences less probable than this are believed.
const LEVEL: f64 = 0.05;

/// One measure in one cell: what both sides had, and the second less the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The cell's settings, empty if nothing is swept.
    pub cell: String,
    /// Which measure.
    pub measure: String,
    /// Pairs of runs with the same seed.
    pub pairs: usize,
    /// Mean of the first side.
    pub a: f64,
    /// Mean of the second.
    pub b: f64,
    /// Mean of the differences.
    pub difference: f64,
    /// Half of its 95 % confidence interval.
    pub ci95: f64,
    /// Probability of such a difference if there were none, after Holm's correction over all lines.
    pub p: f64,
    /// What that means.
    pub verdict: Verdict,
}

/// What a line shows.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every pair is equal, to the last bit.
    Equal,
    /// The second side is better.
    Better,
    /// The second side is worse.
    Worse,
    /// They differ, in something that is neither good nor bad in itself.
    Differs,
    /// The runs show no difference.
    NotShown,
}

type Runs<'a> = BTreeMap<(String, u64), &'a Outcome>;

fn runs(results: &Results) -> Runs<'_> {
    let label = |cell: &BTreeMap<String, String>| {
        cell.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    };
    results.valid().map(|record| ((label(&record.cell), record.outcome.seed), &record.outcome)).collect()
}

/// Compares run by run what both sides have. Measures that runs of this kind do not have are left out.
pub fn differences(a: &Results, b: &Results, measures: &[String]) -> Vec<Difference> {
    let (a, b) = (runs(a), runs(b));
    let mut cells: Vec<&String> = a.keys().map(|(cell, _)| cell).collect();
    cells.sort_by_cached_key(|cell| natural(cell));
    cells.dedup();
    let mut lines: Vec<Difference> = Vec::new();
    for cell in cells {
        for measure in measures {
            let of_cell = a.iter().filter(|((c, _), _)| c == cell);
            let pairs: Vec<(f64, f64)> = of_cell
                .filter_map(|(key, run)| Some((run.measure(measure)?, b.get(key)?.measure(measure)?)))
                .collect();
            lines.extend(line(cell, measure, &pairs));
        }
    }
    let corrected = holm(&lines.iter().map(|line| line.p).collect::<Vec<_>>());
    for (line, p) in lines.iter_mut().zip(corrected) {
        line.p = p;
        line.verdict = verdict(line);
    }
    lines
}

/// Orders words by the numbers in them, as people do: 5 % before 10 %.
fn natural(words: &str) -> Vec<(String, u64)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut rest = words;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
        let (number, tail) = tail.split_at(tail.find(|c| !is_digit(c)).unwrap_or(tail.len()));
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    parts
}

fn line(cell: &str, measure: &str, pairs: &[(f64, f64)]) -> Option<Difference> {
    let test = paired_t_test(pairs)?;
    let mean = |pick: fn(&(f64, f64)) -> f64| {
        Summary::of(&pairs.iter().map(pick).collect::<Vec<_>>()).map_or(0.0, |summary| summary.mean)
    };
    Some(Difference {
        cell: cell.into(),
        measure: measure.into(),
        pairs: pairs.len(),
        a: mean(|pair| pair.0),
        b: mean(|pair| pair.1),
        difference: test.difference.mean,
        ci95: test.difference.ci95,
        p: test.p_value,
        verdict: if pairs.iter().all(|(a, b)| a == b) { Verdict::Equal } else { Verdict::NotShown },
    })
}

fn verdict(line: &Difference) -> Verdict {
    if line.verdict == Verdict::Equal || line.p >= LEVEL {
        return line.verdict;
    }
    match better(&line.measure) {
        Better::Neither => Verdict::Differs,
        Better::Larger if line.difference > 0.0 => Verdict::Better,
        Better::Smaller if line.difference < 0.0 => Verdict::Better,
        Better::Larger | Better::Smaller => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Record, ScenarioHash};
    use crate::outcome::Flow;

    fn results(folder: &std::path::Path, goodput: &[f64], wire: f64) -> Results {
        let mut results = Results::open(folder.into(), "").unwrap();
        for (seed, &goodput_mbps) in goodput.iter().enumerate() {
            let flows = vec![Flow { goodput_mbps, wire_ratio: Some(wire), ..Flow::default() }];
            let outcome =
                Outcome { seed: seed as u64, valid: true, goodput_mbps, flows, ..Outcome::default() };
            let cell = Cell { settings: vec![("loss".into(), "5%".into())] };
            results.add(Record::new("c", ScenarioHash::of("w"), &cell, outcome)).unwrap();
        }
        results
    }

    #[test]
    fn cells_stand_in_the_order_of_their_numbers() {
        let mut cells = ["loss=10%", "loss=1%", "loss=5%", "burst=2 loss=20%", "burst=none loss=5%"];
        cells.sort_by_cached_key(|cell| natural(cell));
        assert_eq!(cells, ["burst=2 loss=20%", "burst=none loss=5%", "loss=1%", "loss=5%", "loss=10%"]);
    }

    #[test]
    fn better_worse_equal_and_unknown_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let a = results(&folder.path().join("a"), &[10.0, 20.0, 30.0, 40.0], 1.1);
        let b = results(&folder.path().join("b"), &[11.0, 21.1, 31.0, 41.1, 99.0], 1.1);
        let measures = ["goodput_mbps", "wire_ratio", "completion_seconds"].map(String::from);
        let lines = differences(&a, &b, &measures);
        assert_eq!(lines.len(), 2, "no run has a completion time: {lines:?}");
        let [goodput, wire] = &lines[..] else { panic!() };
        assert_eq!((goodput.pairs, goodput.cell.as_str(), goodput.a, goodput.b), (4, "loss=5%", 25.0, 26.05));
        assert!((goodput.difference - 1.05).abs() < 1e-9 && goodput.p < 0.001);
        assert_eq!((goodput.verdict, wire.verdict), (Verdict::Better, Verdict::Equal));
        let back = differences(&b, &a, &measures);
        assert_eq!(back[0].verdict, Verdict::Worse);
        let noise = results(&folder.path().join("c"), &[12.0, 17.0, 33.0, 38.0], 1.1);
        assert_eq!(differences(&a, &noise, &measures)[0].verdict, Verdict::NotShown);
    }
}
