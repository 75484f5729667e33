//! An experiment file as it is read: fields with their places, checked one by one, so that a mistake is told
//! with its line.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use fulmar_net::parse;
use serde::Deserialize;
use toml::Spanned;

use super::claim::Claim;
use super::definition::{FlowLine, Plot};
use super::limits::{self, DURATION_MAX, FLOWS_MAX};
use super::plan::of_bottleneck;
use super::published::Published;
use super::sender::check_sender;
use crate::link::{DELAY_MAX, LinkSpec};
use crate::outcome::Outcome;
use crate::scenario::Access;
use crate::traffic::Traffic;

pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    pub(super) title: String,
    #[serde(default)]
    pub(super) source: String,
    #[serde(default)]
    pub(super) remark: String,
    pub(super) duration: Text,
    pub(super) warm_up: Option<Text>,
    #[serde(default)]
    pub(super) loss_free_handshake: bool,
    pub(super) repetitions: Option<Spanned<u32>>,
    pub(super) seed: Option<u64>,
    #[serde(default)]
    pub(super) ecn: bool,
    pub(super) at_once: Option<Spanned<usize>>,
    pub(super) series: Option<Text>,
    pub(super) measures: Option<Vec<Text>>,
    #[serde(default)]
    pub(super) drops_outliers: bool,
    #[serde(default)]
    pub(super) link: BTreeMap<Text, Text>,
    #[serde(default)]
    pub(super) bottleneck: Vec<BTreeMap<Text, Text>>,
    pub(super) flow: Vec<RawFlow>,
    #[serde(default)]
    pub(super) sweep: BTreeMap<Text, Vec<Text>>,
    #[serde(default)]
    pub(super) published: Vec<Spanned<Published>>,
    #[serde(default)]
    pub(super) claim: Vec<Spanned<Claim>>,
    pub(super) reference: Option<BTreeMap<String, String>>,
    pub(super) plot: Option<Spanned<Plot>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFlow {
    pub(super) sender: Text,
    pub(super) traffic: Option<Text>,
    pub(super) count: Option<Spanned<usize>>,
    pub(super) start: Option<Text>,
    pub(super) stop: Option<Text>,
    pub(super) rtt: Option<Text>,
    pub(super) place: Option<Spanned<usize>>,
    #[serde(default)]
    pub(super) priority: u8,
    #[serde(default)]
    pub(super) reverse: bool,
    pub(super) start_within: Option<Text>,
    #[serde(default)]
    pub(super) apart: bool,
    pub(super) access: Option<Text>,
    pub(super) access_delay: Option<Text>,
    pub(super) access_queue: Option<Text>,
    pub(super) decoder_symbols: Option<Text>,
}

/// A reason with the place it belongs to.
pub(super) type Placed<T> = Result<T, (Range<usize>, String)>;

fn placed<T, E: ToString>(text: &Text, parse: impl FnOnce(&str) -> Result<T, E>) -> Placed<T> {
    parse(text.get_ref()).map_err(|error| (text.span(), error.to_string()))
}

pub(super) fn maybe<T, E: ToString>(
    text: &Option<Text>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Placed<Option<T>> {
    text.as_ref().map(|text| placed(text, parse)).transpose()
}

/// A measure of a cell and its reference: goodput over goodput with an ample buffer (DFCP thesis, 4.6.3).
pub(crate) const RELATIVE: &str = "performance_utilisation";

/// Keys of a sweep that are no settings of the link.
const SWEEP_KEYS: [&str; 4] = ["sender", "flows", "flow_rtt", "traffic"];

pub(super) fn link(mut link: LinkSpec, table: &BTreeMap<Text, Text>) -> Placed<LinkSpec> {
    for (key, value) in table {
        link.set(key.get_ref(), value.get_ref()).map_err(|reason| (value.span(), reason))?;
    }
    Ok(link)
}

/// A time that is not zero.
pub(super) fn above_zero(words: &Text) -> Placed<Duration> {
    placed(words, |text| match parse::duration(text) {
        Ok(Duration::ZERO) => Err("this time must not be zero".to_owned()),
        other => other.map_err(|error| error.to_string()),
    })
}

/// A number from one to a bound.
pub(super) fn at_least_one<T: Copy + PartialOrd + Default + Display>(
    number: &Spanned<T>,
    max: T,
    what: &str,
) -> Placed<T> {
    let value = *number.get_ref();
    if value == T::default() {
        Err((number.span(), format!("there is at least one {what}")))
    } else if value > max {
        Err((number.span(), format!("{value} is too much: at most {max}, where at least one {what} is")))
    } else {
        Ok(value)
    }
}

/// Whether a list is not too long.
pub(super) fn at_most<T>(list: &[T], max: usize, what: &str) -> Placed<()> {
    if list.len() > max {
        return Err((0..0, format!("there are at most {max} {what}, not {}", list.len())));
    }
    Ok(())
}

/// A moment of a run.
fn moment(text: &str) -> Result<Duration, String> {
    match parse::duration(text) {
        Ok(at) if at > DURATION_MAX => Err("a run takes a day at most".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A round-trip time.
fn round_trip(text: &str) -> Result<Duration, String> {
    match parse::duration(text) {
        Ok(rtt) if rtt > DELAY_MAX => Err("a round trip takes an hour at most".into()),
        other => other.map_err(|error| error.to_string()),
    }
}

fn count_of_flows(text: &str) -> Result<(), String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=FLOWS_MAX).contains(&count) => Ok(()),
        Ok(count) => Err(format!("a cell has 1 to {FLOWS_MAX} flows, not {count}")),
        Err(_) => Err(format!("'{text}' is not a number of flows")),
    }
}

pub(super) fn flow(raw: &RawFlow, bottlenecks: usize, peers: &Path) -> Placed<FlowLine> {
    placed(&raw.sender, |sender| check_sender(sender, peers))?;
    // Places are those of a parking lot.
    let places = if bottlenecks > 1 { bottlenecks } else { 0 };
    if let Some(place) = raw.place.as_ref().filter(|place| *place.get_ref() > places) {
        let reason = format!("there is no place {}: the last bottleneck is {places}", place.get_ref());
        return Err((place.span(), reason));
    }
    let (access, access_delay_last) = access(raw)?;
    Ok(FlowLine {
        sender: raw.sender.get_ref().clone(),
        traffic: maybe(&raw.traffic, str::parse)?.unwrap_or(Traffic::Bulk),
        traffic_words: raw.traffic.as_ref().map_or("bulk", |words| words.get_ref()).to_owned(),
        count: raw.count.as_ref().map_or(Ok(1), |count| at_least_one(count, FLOWS_MAX, "flow"))?,
        start: maybe(&raw.start, moment)?.unwrap_or_default(),
        stop: maybe(&raw.stop, moment)?,
        rtt: maybe(&raw.rtt, round_trip)?,
        place: raw.place.as_ref().map_or(0, |place| *place.get_ref()),
        priority: raw.priority,
        is_reversed: raw.reverse,
        start_within: maybe(&raw.start_within, moment)?.unwrap_or_default(),
        is_apart: raw.apart,
        access,
        access_delay_last,
        decoder_symbols: maybe(&raw.decoder_symbols, str::parse)?,
    })
}

/// The access links of a line, and the delay of its last flow's: `1ms`, or `1ms-5ms` for flows evenly
/// between.
fn access(raw: &RawFlow) -> Placed<(Access, Duration)> {
    let none = Access::default();
    let delays = |text: &str| match text.split_once('-') {
        Some((first, last)) => Ok((round_trip(first)?, round_trip(last)?)),
        None => round_trip(text).map(|delay| (delay, delay)),
    };
    let (delay, last) = maybe(&raw.access_delay, delays)?.unwrap_or_default();
    let access = Access {
        rate: maybe(&raw.access, parse::link_rate)?.unwrap_or(none.rate),
        delay,
        queue: maybe(&raw.access_queue, parse::model::queue)?.unwrap_or(none.queue),
    };
    Ok((access, last))
}

pub(super) fn measures(names: Option<&[Text]>, flows: usize) -> Placed<Vec<String>> {
    let Some(names) = names.filter(|names| !names.is_empty()) else { return Ok(vec!["goodput_mbps".into()]) };
    names.iter().map(|name| placed(name, |name| check_measure(name, flows))).collect()
}

pub(super) fn check_measure(name: &str, flows: usize) -> Result<String, String> {
    let of_flow = name.strip_prefix("flow").and_then(|rest| rest.split_once('.'));
    if let Some((flow, _)) = of_flow.filter(|(flow, _)| !flow.parse().is_ok_and(|flow: usize| flow < flows)) {
        return Err(format!(
            "there is no flow '{flow}': they are numbered from 0 to {}",
            flows.saturating_sub(1)
        ));
    }
    if name == RELATIVE || Outcome::MEASURES.contains(&of_flow.map_or(name, |(_, name)| name)) {
        Ok(name.into())
    } else {
        Err(format!("there is no measure '{name}'; there are {}", Outcome::MEASURES.join(", ")))
    }
}

/// Checks each value as if it were set.
pub(super) fn sweep(
    link: &LinkSpec,
    table: &BTreeMap<Text, Vec<Text>>,
    peers: &Path,
) -> Placed<BTreeMap<String, Vec<String>>> {
    let mut sweep = BTreeMap::new();
    let place = table.keys().next().map_or(0..0, Spanned::span);
    limits::cells_of(table.values().map(Vec::len)).map_err(|reason| (place, reason))?;
    for (key, values) in table {
        if values.is_empty() {
            return Err((key.span(), format!("'{}' has no values", key.get_ref())));
        }
        for value in values {
            placed(value, |value| match key.get_ref().as_str() {
                "sender" => check_sender(value, peers),
                "flows" => count_of_flows(value),
                "flow_rtt" => round_trip(value).map(drop),
                "traffic" => value.parse::<Traffic>().map(drop),
                key => link.clone().set(of_bottleneck(key).map_or(key, |(_, key)| key), value).map_err(
                    |reason| {
                        if LinkSpec::KEYS.contains(&key) {
                            reason
                        } else {
                            format!(
                                "{reason}; a sweep also has {}, and bottleneck2.rtt or the like",
                                SWEEP_KEYS.join(", ")
                            )
                        }
                    },
                ),
            })?;
        }
        sweep.insert(key.get_ref().clone(), values.iter().map(|value| value.get_ref().clone()).collect());
    }
    Ok(sweep)
}
