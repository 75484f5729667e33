//! An experiment as it is written: one TOML file per table or figure. Mistakes are reported with their line.
//!
//! The format is described in docs/lab.md.

use std::path::{Path, PathBuf};

use fulmar_net::parse;
use toml::Spanned;

use super::definition::Experiment;
use super::limits::{AT_ONCE_MAX, BOTTLENECKS_MAX, DURATION_MAX, FLOWS_MAX, LINES_MAX, REPETITIONS_MAX};
use super::plan::{cells, flows_max};
use super::raw::{
    Placed, Raw, above_zero, at_least_one, at_most, check_measure, flow, link, maybe, measures, sweep,
};
use super::sender::PEERS;
use crate::link::LinkSpec;

/// A mistake in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {reason}")]
pub struct Mistake {
    /// The file's name.
    pub file: String,
    /// Line, counted from one.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// The folder of the peers' files: beside an experiment, or beside the folder it is in.
fn peers_of(file: &Path) -> PathBuf {
    let beside = file.with_file_name(PEERS);
    let above = file.parent().map(|folder| folder.with_file_name(PEERS));
    above.filter(|above| !beside.is_dir() && above.is_dir()).unwrap_or(beside)
}

impl Experiment {
    /// Reads an experiment from the text of a file.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Mistake> {
        let mistake = |place: usize, reason: String| {
            let line = text.bytes().take(place).filter(|&byte| byte == b'\n').count() + 1;
            Mistake { file: file.into(), line, reason }
        };
        let raw: Raw = toml::from_str(text)
            .map_err(|error| mistake(error.span().map_or(0, |span| span.start), error.message().into()))?;
        let peers = peers_of(Path::new(file));
        let name = Path::new(file)
            .file_stem()
            .map_or_else(|| file.into(), |stem| stem.to_string_lossy().into_owned());
        let experiment = from_raw(name, raw, &peers).map_err(|(span, reason)| mistake(span.start, reason))?;
        // What only shows when everything is put together belongs to what is varied, or to who sends.
        let whole = ["[sweep]", "[[flow]]"].into_iter().find_map(|table| text.find(table)).unwrap_or(0);
        cells(&experiment).map_err(|reason| mistake(whole, reason))?;
        Ok(experiment)
    }
}

fn from_raw(name: String, raw: Raw, peers: &Path) -> Placed<Experiment> {
    at_most(&raw.bottleneck, BOTTLENECKS_MAX, "bottlenecks")?;
    at_most(&raw.flow, FLOWS_MAX, "[[flow]]")?;
    at_most(&raw.claim, LINES_MAX, "claims")?;
    at_most(&raw.published, LINES_MAX, "published values")?;
    let link = link(LinkSpec::default(), &raw.link)?;
    let more_links =
        raw.bottleneck.iter().map(|table| self::link(link.clone(), table)).collect::<Placed<Vec<_>>>()?;
    let flows =
        raw.flow.iter().map(|line| flow(line, more_links.len() + 1, peers)).collect::<Placed<Vec<_>>>()?;
    let swept = sweep(&link, &raw.sweep, peers)?;
    let duration = above_zero(&raw.duration)?;
    if duration > DURATION_MAX {
        return Err((raw.duration.span(), "a run takes a day at most".into()));
    }
    let warm_up = maybe(&raw.warm_up, parse::duration)?.unwrap_or_default();
    if let Some(words) = raw.warm_up.as_ref().filter(|_| warm_up >= duration) {
        return Err((words.span(), "the run is not longer than its warm-up".into()));
    }
    if let Some(plot) = &raw.plot {
        let keys = [&plot.get_ref().x, &plot.get_ref().lines];
        if let Some(key) = keys.into_iter().flatten().find(|key| !swept.contains_key(*key)) {
            return Err((plot.span(), format!("the sweep has no '{key}' to draw")));
        }
        if !plot.get_ref().over_time.is_empty() && raw.series.is_none() {
            return Err((plot.span(), "over_time needs a series".into()));
        }
    }
    for claim in &raw.claim {
        let checked = claim.get_ref().check(&swept);
        let measured =
            claim.get_ref().measure.as_ref().map(|name| check_measure(name, flows_max(&flows, &swept)));
        checked.and(measured.transpose().map(drop)).map_err(|reason| (claim.span(), reason))?;
    }
    for published in &raw.published {
        let unknown = published.get_ref().at.iter().find(|(key, value)| {
            raw.sweep
                .iter()
                .all(|(k, values)| k.get_ref() != *key || values.iter().all(|v| v.get_ref() != *value))
        });
        if let Some((key, value)) = unknown {
            return Err((published.span(), format!("the sweep has no {key} = \"{value}\"")));
        }
    }
    Ok(Experiment {
        name,
        title: raw.title,
        source: raw.source,
        remark: raw.remark,
        duration,
        warm_up,
        loss_free_handshake: raw.loss_free_handshake,
        repetitions: raw
            .repetitions
            .as_ref()
            .map_or(Ok(1), |n| at_least_one(n, REPETITIONS_MAX, "repetition"))?,
        seed: raw.seed.unwrap_or(1),
        has_ecn: raw.ecn,
        at_once: raw.at_once.as_ref().map_or(Ok(1), |n| at_least_one(n, AT_ONCE_MAX, "run at once"))?,
        series: raw.series.as_ref().map(above_zero).transpose()?,
        measures: measures(raw.measures.as_deref(), flows_max(&flows, &swept))?,
        drops_outliers: raw.drops_outliers,
        sweep: swept,
        link_words: raw.link.into_iter().map(|(key, value)| (key.into_inner(), value.into_inner())).collect(),
        link,
        more_links,
        flows,
        published: raw.published.into_iter().map(Spanned::into_inner).collect(),
        claims: raw.claim.into_iter().map(Spanned::into_inner).collect(),
        reference: raw.reference,
        plot: raw.plot.map(Spanned::into_inner).unwrap_or_default(),
        peers: peers.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
title = "A test"
duration = "2s"
repetitions = 2
[link]
rate = "10M"
rtt = "20ms"
[[flow]]
sender = "auto"
[sweep]
loss = ["0%", "5%"]
burst = ["none", "5"]
[[published]]
at = { loss = "5%", burst = "5" }
value = 3.5
"#;

    #[test]
    fn a_good_file_is_understood() {
        let experiment = Experiment::parse("experiments/test.toml", GOOD).unwrap();
        assert_eq!((experiment.name.as_str(), experiment.repetitions), ("test", 2));
        assert_eq!(experiment.measures, ["goodput_mbps"]);
        assert_eq!(experiment.sweep["loss"], ["0%", "5%"]);
    }

    #[test]
    fn mistakes_are_told_with_line_and_reason() {
        for (good, bad, line, reason) in [
            ("rate = \"10M\"", "rate = \"fast\"", 6, "is not a rate"),
            ("rate = \"10M\"", "colour = \"red\"", 6, "a link has no 'colour'"),
            ("duration = \"2s\"", "duration = 2", 3, "string"),
            ("repetitions = 2", "repetition = 2", 4, "unknown field"),
            ("\"auto\"", "\"tcp-\"", 9, "tcp-"),
            ("\"auto\"", "\"vegas\"", 9, "no sender 'vegas'"),
            ("[\"0%\", \"5%\"]", "[\"0%\", \"0.05\"]", 11, "is not a probability"),
            ("burst = [\"none\", \"5\"]", "burst = []", 12, "no values"),
            ("duration = \"2s\"", "duration = \"0\"", 3, "must not be zero"),
            ("repetitions = 2", "at_once = 0", 4, "at least one run at once"),
            ("repetitions = 2", "repetitions = 0", 4, "at least one repetition"),
            ("repetitions = 2", "warm_up = \"2s\"", 4, "not longer than its warm-up"),
            ("repetitions = 2", "measures = [\"jain\", \"flow1.rtt_ms\"]", 4, "no flow '1'"),
            ("repetitions = 2", "measures = [\"beauty\"]", 4, "no measure 'beauty'"),
            ("sender = \"auto\"", "sender = \"auto\"\nplace = 1", 10, "no place 1"),
            ("sender = \"auto\"", "sender = \"auto\"\ncount = 0", 10, "at least one flow"),
            ("value = 3.5", "value = 3.5\n[plot]\nx = \"colour\"", 16, "no 'colour'"),
            ("value = 3.5", "value = 3.5\n[plot]\nover_time = [\"delay\"]", 16, "needs a series"),
            ("\"5%\"]", "\"5%\", \"95%\"]", 10, "E / (E + 1)"),
            ("burst = \"5\" }", "burst = \"6\" }", 13, "the sweep has no burst"),
            ("value = 3.5", "value = 3.5.5", 15, ""),
        ] {
            assert!(GOOD.contains(good));
            let mistake = Experiment::parse("x.toml", &GOOD.replace(good, bad)).unwrap_err();
            assert!(mistake.reason.contains(reason), "{mistake}");
            assert!(
                mistake.line.abs_diff(line) <= usize::from(line == 13),
                "{mistake}, expected line {line}"
            );
        }
    }
}
