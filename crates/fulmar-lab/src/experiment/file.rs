//! An experiment as it is written: one TOML file per table or figure. Mistakes are reported with their line.
//!
//! The format is described in docs/lab.md.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fulmar_net::parse;
use serde::Deserialize;
use toml::Spanned;

use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::traffic::Traffic;

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

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Name: that of the file without its ending.
    pub name: String,
    /// For people.
    pub title: String,
    /// Where the published values stand.
    pub source: String,
    /// What a reader should know beside the figures.
    pub remark: String,
    /// Length of a run.
    pub duration: Duration,
    /// What arrives before this does not count.
    pub warm_up: Duration,
    /// No faults until the handshakes are complete.
    pub loss_free_handshake: bool,
    /// Runs of each cell, with seeds `seed`, `seed + 1` ..
    pub repetitions: u32,
    /// First seed.
    pub seed: u64,
    /// Kernel TCP negotiates ECN.
    pub has_ecn: bool,
    /// Values over time at this interval.
    pub series: Option<Duration>,
    /// What is reported, the first in tables and plots.
    pub measures: Vec<String>,
    /// Leave out runs by the rule of the LT-TCP thesis ([`crate::statistics::without_outliers`]).
    pub drops_outliers: bool,
    /// The link, or the first bottleneck.
    pub link: LinkSpec,
    /// The link's settings as they are written.
    pub link_words: BTreeMap<String, String>,
    /// Further bottlenecks: a parking lot.
    pub more_links: Vec<LinkSpec>,
    /// Who sends.
    pub flows: Vec<FlowLine>,
    /// What is varied: name and values.
    pub sweep: BTreeMap<String, Vec<String>>,
    /// Figures to set beside the results.
    pub published: Vec<Published>,
    /// How to draw.
    pub plot: Plot,
}

/// One or several equal flows.
#[derive(Clone, Debug)]
pub struct FlowLine {
    /// A profile, or `tcp-` and a congestion control.
    pub sender: String,
    /// What it sends.
    pub traffic: Traffic,
    /// The same as it is written.
    pub traffic_words: String,
    /// How many.
    pub count: usize,
    /// When it starts.
    pub start: Duration,
    /// When it stops.
    pub stop: Option<Duration>,
    /// Its own round-trip time.
    pub rtt: Option<Duration>,
    /// Its place in a parking lot.
    pub place: usize,
}

/// A published figure, or a bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The cell: values of the sweep. What is not named may be anything.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The figure.
    pub value: Option<f64>,
    /// The result may not be below.
    pub min: Option<f64>,
    /// The result may not be above.
    pub max: Option<f64>,
}

/// How to draw.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The swept value on the horizontal axis; by default the first.
    pub x: Option<String>,
    /// A line for each value of this; by default the second.
    pub lines: Option<String>,
    /// Logarithmic horizontal axis.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic vertical axis.
    #[serde(default)]
    pub log_y: bool,
    /// Words at the vertical axis.
    pub y_label: Option<String>,
}

type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    title: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    remark: String,
    duration: Text,
    warm_up: Option<Text>,
    #[serde(default)]
    loss_free_handshake: bool,
    repetitions: Option<u32>,
    seed: Option<u64>,
    #[serde(default)]
    ecn: bool,
    series: Option<Text>,
    measures: Option<Vec<Text>>,
    #[serde(default)]
    drops_outliers: bool,
    #[serde(default)]
    link: BTreeMap<Text, Text>,
    #[serde(default)]
    bottleneck: Vec<BTreeMap<Text, Text>>,
    flow: Vec<RawFlow>,
    #[serde(default)]
    sweep: BTreeMap<Text, Vec<Text>>,
    #[serde(default)]
    published: Vec<Spanned<Published>>,
    #[serde(default)]
    plot: Plot,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlow {
    sender: Text,
    traffic: Option<Text>,
    count: Option<usize>,
    start: Option<Text>,
    stop: Option<Text>,
    rtt: Option<Text>,
    #[serde(default)]
    place: usize,
}

/// A reason with the place it belongs to.
type Placed<T> = Result<T, (Range<usize>, String)>;

fn placed<T, E: ToString>(text: &Text, parse: impl FnOnce(&str) -> Result<T, E>) -> Placed<T> {
    parse(text.get_ref()).map_err(|error| (text.span(), error.to_string()))
}

fn maybe<T, E: ToString>(text: &Option<Text>, parse: impl FnOnce(&str) -> Result<T, E>) -> Placed<Option<T>> {
    text.as_ref().map(|text| placed(text, parse)).transpose()
}

/// Keys of a sweep that are no settings of the link.
const SWEEP_KEYS: [&str; 4] = ["sender", "flows", "flow_rtt", "traffic"];

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
        let name = std::path::Path::new(file)
            .file_stem()
            .map_or_else(|| file.into(), |stem| stem.to_string_lossy().into_owned());
        let experiment = from_raw(name, raw).map_err(|(span, reason)| mistake(span.start, reason))?;
        // What only shows when everything is put together belongs to the file as a whole.
        super::plan::cells(&experiment).map_err(|reason| mistake(0, reason))?;
        Ok(experiment)
    }
}

fn from_raw(name: String, raw: Raw) -> Placed<Experiment> {
    let link = link(LinkSpec::default(), &raw.link)?;
    let more_links =
        raw.bottleneck.iter().map(|table| self::link(link.clone(), table)).collect::<Placed<Vec<_>>>()?;
    let flows = raw.flow.iter().map(flow).collect::<Placed<Vec<_>>>()?;
    let swept = sweep(&link, &raw.sweep)?;
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
        duration: placed(&raw.duration, parse::duration)?,
        warm_up: maybe(&raw.warm_up, parse::duration)?.unwrap_or_default(),
        loss_free_handshake: raw.loss_free_handshake,
        repetitions: raw.repetitions.unwrap_or(1).max(1),
        seed: raw.seed.unwrap_or(1),
        has_ecn: raw.ecn,
        series: maybe(&raw.series, parse::duration)?,
        measures: measures(raw.measures.as_deref())?,
        drops_outliers: raw.drops_outliers,
        sweep: swept,
        link_words: raw.link.into_iter().map(|(key, value)| (key.into_inner(), value.into_inner())).collect(),
        link,
        more_links,
        flows,
        published: raw.published.into_iter().map(Spanned::into_inner).collect(),
        plot: raw.plot,
    })
}

fn link(mut link: LinkSpec, table: &BTreeMap<Text, Text>) -> Placed<LinkSpec> {
    for (key, value) in table {
        link.set(key.get_ref(), value.get_ref()).map_err(|reason| (value.span(), reason))?;
    }
    Ok(link)
}

fn flow(raw: &RawFlow) -> Placed<FlowLine> {
    placed(&raw.sender, super::plan::check_sender)?;
    Ok(FlowLine {
        sender: raw.sender.get_ref().clone(),
        traffic: maybe(&raw.traffic, str::parse)?.unwrap_or(Traffic::Bulk),
        traffic_words: raw.traffic.as_ref().map_or("bulk", |words| words.get_ref()).to_owned(),
        count: raw.count.unwrap_or(1),
        start: maybe(&raw.start, parse::duration)?.unwrap_or_default(),
        stop: maybe(&raw.stop, parse::duration)?,
        rtt: maybe(&raw.rtt, parse::duration)?,
        place: raw.place,
    })
}

fn measures(names: Option<&[Text]>) -> Placed<Vec<String>> {
    let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(vec!["goodput_mbps".into()]) };
    names.iter().map(|name| placed(name, check_measure)).collect()
}

fn check_measure(name: &str) -> Result<String, String> {
    let of_flow = name.strip_prefix("flow").and_then(|rest| rest.split_once('.')).map(|(_, name)| name);
    if Outcome::MEASURES.contains(&of_flow.unwrap_or(name)) {
        Ok(name.into())
    } else {
        Err(format!("there is no measure '{name}'; there are {}", Outcome::MEASURES.join(", ")))
    }
}

/// Checks each value as if it were set.
fn sweep(link: &LinkSpec, table: &BTreeMap<Text, Vec<Text>>) -> Placed<BTreeMap<String, Vec<String>>> {
    let mut sweep = BTreeMap::new();
    for (key, values) in table {
        if values.is_empty() {
            return Err((key.span(), format!("'{}' has no values", key.get_ref())));
        }
        for value in values {
            placed(value, |value| match key.get_ref().as_str() {
                "sender" => super::plan::check_sender(value),
                "flows" => value
                    .parse::<usize>()
                    .map(drop)
                    .map_err(|_| format!("'{value}' is not a number of flows")),
                "flow_rtt" => parse::duration(value).map(drop).map_err(|e| e.to_string()),
                "traffic" => value.parse::<Traffic>().map(drop),
                key => link.clone().set(key, value).map_err(|reason| {
                    if LinkSpec::KEYS.contains(&key) {
                        reason
                    } else {
                        format!("{reason}; a sweep also {}", SWEEP_KEYS.join(", "))
                    }
                }),
            })?;
        }
        sweep.insert(key.get_ref().clone(), values.iter().map(|value| value.get_ref().clone()).collect());
    }
    Ok(sweep)
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
            ("[\"0%\", \"5%\"]", "[\"0%\", \"5\"]", 11, "is not a probability"),
            ("burst = [\"none\", \"5\"]", "burst = []", 12, "no values"),
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
