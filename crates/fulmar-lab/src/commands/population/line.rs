//! One run of `fulmar-lab sim`, written as its flags, and the figures that are taken from it.

use clap::Parser;
use fulmar_proto::control::Company;

use super::super::sim;
use crate::outcome::{Outcome, PAYLOAD_SHARE};
use crate::sample::Sample;

/// What stands in the flags for the profile that is tried.
const PROFILE: &str = "{profile}";

/// By then a flow should know who shares its path.
const TOLD_FROM_SECONDS: f64 = 5.0;

/// What is taken from a run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Goodput of all flows over (1 - p) x capacity x [`PAYLOAD_SHARE`].
    Share,
    /// Goodput of all flows, Mb/s.
    Goodput,
    /// Goodput of the first flow, Mb/s.
    First,
    /// Jain's index.
    Jain,
    /// Packets that the first link's queue or policer dropped, of those offered to it, in per cent.
    Dropped,
    /// Mean time in the first link's queue, ms.
    QueueMs,
    /// The second in which least arrived, from this one on, Mb/s.
    WorstSecond(u32),
    /// The share of the time from [`TOLD_FROM_SECONDS`] on in which the first flow takes these to share the
    /// path, or cannot tell.
    Company(Option<Company>),
}

/// How a figure of several seeds is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Mean,
    Least,
}

/// A run, and what is taken from it.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The flags of `fulmar-lab sim`.
    pub(super) flags: String,
    pub(super) figures: Vec<(Figure, Over)>,
}

/// The flags of `fulmar-lab sim`, alone.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    sim: sim::Args,
}

impl Line {
    /// Runs it with a seed.
    pub(super) fn run(&self, profile: &str, seed: u64) -> Result<Vec<f64>, String> {
        let (outcome, _) = crate::sim::run(&self.parse(profile)?.scenario(), seed)?;
        Ok(self.figures.iter().map(|(figure, _)| figure.of(&outcome)).collect())
    }

    pub(super) fn parse(&self, profile: &str) -> Result<sim::Args, String> {
        let words = self.flags.split_whitespace().map(|word| word.replace(PROFILE, profile));
        let words = ["fulmar-lab sim".to_owned()].into_iter().chain(words);
        let flags = Flags::try_parse_from(words).map_err(|error| format!("{}: {error}", self.flags))?;
        Ok(flags.sim)
    }

    /// The figures of all seeds as a table has them.
    pub(super) fn over_seeds(&self, seeds: &[Vec<f64>]) -> Vec<f64> {
        let of = |(index, (_, over)): (usize, &(Figure, Over))| {
            let values = seeds.iter().map(|figures| figures[index]);
            match over {
                Over::Mean => values.sum::<f64>() / seeds.len().max(1) as f64,
                Over::Least => values.fold(f64::INFINITY, f64::min),
            }
        };
        self.figures.iter().enumerate().map(of).collect()
    }
}

impl Figure {
    fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Share => outcome.fraction_of_limit.unwrap_or(0.0) / PAYLOAD_SHARE,
            Self::Goodput => outcome.goodput_mbps,
            Self::First => outcome.flows.first().map_or(0.0, |flow| flow.goodput_mbps),
            Self::Jain => outcome.jain,
            Self::Dropped => outcome
                .links
                .first()
                .map_or(0.0, |link| 100.0 * link.share_of_offered(link.dropped.saturating_add(link.policed))),
            Self::QueueMs => outcome.queue_delay.mean_ms,
            Self::WorstSecond(from) => worst_second(&outcome.series, from),
            Self::Company(who) => share_of_time(&outcome.series, who),
        }
    }
}

/// Of the first flow.
fn share_of_time(series: &[Sample], who: Option<Company>) -> f64 {
    let who = who.map(Company::name);
    let told: Vec<_> = series.iter().filter(|at| at.flow == 0 && at.t >= TOLD_FROM_SECONDS).collect();
    let count = told.iter().filter(|sample| sample.company.as_deref() == who).count();
    count as f64 / told.len().max(1) as f64
}

/// Of a flow whose values were recorded at least each second.
fn worst_second(series: &[Sample], from: u32) -> f64 {
    let last = series.last().map_or(0.0, |sample| sample.t);
    let by = |second: u32| {
        let before = series.iter().take_while(|sample| sample.t <= f64::from(second) + 1e-6);
        before.last().map_or(0, |sample| sample.received_bytes)
    };
    let seconds = (from..).take_while(|second| f64::from(second + 1) <= last + 1e-6);
    let rates = seconds.map(|second| by(second + 1).saturating_sub(by(second)) as f64 * 8.0 / 1e6);
    let worst = rates.fold(f64::INFINITY, f64::min);
    if worst.is_finite() { worst } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_is_found_from_the_one_that_counts_on() {
        let at = |t: f64, received_bytes| Sample { t, received_bytes, ..Sample::default() };
        let series = [at(1.0, 0), at(2.0, 1_000_000), at(3.0, 1_250_000), at(4.0, 2_250_000)];
        assert_eq!(worst_second(&series, 0), 0.0);
        assert_eq!(worst_second(&series, 1), 2.0);
        assert_eq!(worst_second(&series, 3), 8.0);
        assert_eq!(worst_second(&series, 4), 0.0, "no second is left");
    }

    #[test]
    fn who_is_taken_to_be_there_counts_from_the_fifth_second_on_and_for_the_first_flow() {
        let at = |t, flow, who: Option<Company>| Sample {
            t,
            flow,
            company: who.map(|who| who.name().into()),
            ..Sample::default()
        };
        let series = [
            at(4.9, 0, Some(Company::Kin)),
            at(5.0, 0, Some(Company::Nobody)),
            at(5.0, 1, Some(Company::Kin)),
            at(6.0, 0, None),
            at(7.0, 0, None),
            at(8.0, 0, Some(Company::Kin)),
        ];
        let shares = [Some(Company::Nobody), Some(Company::Kin), None, Some(Company::Policer)]
            .map(|who| share_of_time(&series, who));
        assert_eq!(shares, [0.25, 0.25, 0.5, 0.0]);
    }

    #[test]
    fn seeds_become_their_mean_or_the_least() {
        let figures = vec![(Figure::Share, Over::Least), (Figure::Jain, Over::Mean)];
        let line = Line { flags: String::new(), figures };
        assert_eq!(line.over_seeds(&[vec![0.5, 1.0], vec![0.75, 0.5]]), [0.5, 0.75]);
    }

    #[test]
    fn flags_that_mean_nothing_are_said() {
        let line = Line { flags: "--profile {profile} --rtt soon".into(), figures: Vec::new() };
        assert!(line.parse("auto").unwrap_err().contains("--rtt"));
    }
}
