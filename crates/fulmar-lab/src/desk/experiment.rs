//! From the page's run to the experiment file that `fulmar-lab run` takes, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::path;
use super::types::{Amount, DriverName, Kind, Link, Order, Path, Refusal, Spec};
use crate::experiment::{Cell, Experiment, cells, is_profile};
use crate::link::LinkSpec;
use crate::traffic::Traffic;

/// How often values over time are noted, on the page and in experiments made there.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Specs that are made of one file, at most.
const SPECS_MAX: usize = 200;

#[derive(Serialize)]
struct File<'a> {
    title: &'a str,
    source: String,
    duration: String,
    loss_free_handshake: bool,
    repetitions: u32,
    seed: u64,
    ecn: bool,
    series: String,
    measures: Vec<&'static str>,
    drops_outliers: bool,
    link: BTreeMap<String, String>,
    flow: [Flow<'a>; 1],
    sweep: Sweep<'a>,
}

#[derive(Serialize)]
struct Flow<'a> {
    sender: &'a str,
    traffic: String,
}

#[derive(Serialize)]
struct Sweep<'a> {
    sender: &'a [String],
}

/// The experiment file of a run.
pub(crate) fn write(spec: &Spec) -> Result<String, Refusal> {
    let (duration, traffic, measures) = match spec.amount {
        Amount::Seconds(seconds) => (seconds, "bulk".to_owned(), vec!["goodput_mbps", "wire_ratio"]),
        Amount::Bytes(bytes) => (
            spec.time_max_s,
            format!("fixed:{bytes}"),
            vec!["goodput_mbps", "completion_seconds", "wire_ratio"],
        ),
    };
    let file = File {
        title: &spec.title,
        source: "saved from the operator's page".into(),
        duration: words(Duration::from_secs_f64(duration)),
        loss_free_handshake: spec.loss_free_handshake,
        repetitions: spec.transfers,
        seed: spec.seed,
        ecn: spec.ecn,
        series: words(SAMPLE_INTERVAL),
        measures,
        drops_outliers: spec.drops_outliers,
        link: link_table(&spec.path)?,
        flow: [Flow { sender: spec.transports.first().map_or("auto", String::as_str), traffic }],
        sweep: Sweep { sender: &spec.transports },
    };
    toml::to_string(&file).map_err(|error| Refusal::new(500, error.to_string()))
}

/// Both directions as one table of an experiment, if such a table can say it.
fn link_table(path: &Path) -> Result<BTreeMap<String, String>, Refusal> {
    let (there, back) = path::links(path)?;
    let rtt = there.delay + back.delay;
    let mut table = one_link(&path.forward);
    table.insert("rtt".into(), words(rtt));
    if there.delay != rtt / 2 {
        table.insert("forward_delay".into(), words(there.delay));
    }
    if let Some(backward) = path.backward.as_ref().filter(|_| back != there) {
        // The way back is without faults, but for what is said of it.
        table.insert("fwd_only".into(), "true".into());
        let flags = one_link(backward);
        let differing = flags.into_iter().filter(|(key, value)| {
            !matches!(key.as_str(), "rate" | "queue" | "queue_bdp") || table.get(key) != Some(value)
        });
        let named: Vec<_> = differing.map(|(key, value)| (format!("back_{key}"), value)).collect();
        table.extend(named);
    }
    let mut link = LinkSpec::default();
    let says_it = table.iter().all(|(key, value)| link.set(key, value).is_ok())
        && (link.forward().as_ref(), link.backward().as_ref()) == (Ok(&there), Ok(&back));
    let message = "an experiment file cannot say how this way back differs";
    if says_it { Ok(table) } else { Err(Refusal::impossible("path.backward", message)) }
}

fn one_link(link: &Link) -> BTreeMap<String, String> {
    let keys = path::KEYS.iter().filter(|(key, ..)| *key != "delay");
    let flags = keys.filter_map(|(key, ..)| path::as_flag(key, path::word(link, key)));
    flags.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A time as experiments have it.
fn words(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0 => "0".into(),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        _ if micros.is_multiple_of(1000) => format!("{}ms", micros / 1000),
        _ => format!("{micros}us"),
    }
}

/// An experiment as the page shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Loaded {
    pub(crate) name: String,
    title: String,
    source: String,
    remark: String,
    pub(crate) specs: Vec<Labelled>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Labelled {
    pub(crate) label: String,
    pub(crate) spec: Spec,
}

/// Reads an experiment file.
pub(crate) fn read(file: &str, text: &str) -> Result<Loaded, Refusal> {
    let experiment = Experiment::parse(file, text).map_err(|mistake| Refusal {
        status: 422,
        message: mistake.to_string(),
        field: None,
    })?;
    let mut notes = notes(&experiment);
    let mut specs: Vec<Labelled> = Vec::new();
    for cell in cells(&experiment).map_err(|reason| Refusal::new(422, reason))? {
        let senders = senders(&experiment, &cell);
        let rest =
            Cell { settings: cell.settings.iter().filter(|(key, _)| key != "sender").cloned().collect() };
        let label = if rest.settings.is_empty() { experiment.title.clone() } else { rest.label() };
        // Senders are compared: what differs in nothing else is one run of the page.
        match specs.iter().position(|known| known.label == label) {
            Some(at) => {
                let transports = &mut specs[at].spec.transports;
                for name in senders {
                    if !transports.contains(&name) {
                        transports.push(name);
                    }
                }
            }
            None if specs.len() < SPECS_MAX => {
                let spec = spec(&experiment, &rest, senders, &mut notes)?;
                specs.push(Labelled { label, spec });
            }
            None => notes.push(format!("only the first {SPECS_MAX} cells are shown")),
        }
    }
    for Labelled { spec, .. } in &mut specs {
        if !spec.transports.iter().all(|name| is_profile(name)) {
            spec.driver = DriverName::Real;
        }
    }
    notes.sort();
    notes.dedup();
    let Experiment { name, title, source, remark, .. } = experiment;
    Ok(Loaded { name, title, source, remark, specs, notes })
}

fn senders(experiment: &Experiment, cell: &Cell) -> Vec<String> {
    let swept = cell.value("sender");
    let all: BTreeSet<&str> =
        experiment.flows.iter().map(|flow| swept.unwrap_or(flow.sender.as_str())).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// What the page cannot show of an experiment.
fn notes(experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |is_so: bool, words: &str| {
        if is_so {
            notes.push(words.to_owned());
        }
    };
    note(!experiment.warm_up.is_zero(), "warm_up is left out: all that arrives counts");
    note(!experiment.more_links.is_empty(), "only the first bottleneck is shown");
    let count: usize = experiment.flows.iter().map(|flow| flow.count).sum();
    note(
        count > 1 || experiment.sweep.contains_key("flows"),
        "flows share a link there; here each transport has a path of its own",
    );
    note(
        experiment.flows.iter().any(|flow| flow.rtt.is_some()) || experiment.sweep.contains_key("flow_rtt"),
        "round-trip times of single flows are left out",
    );
    note(experiment.flows.iter().any(|flow| !flow.start.is_zero()), "all transports start at once");
    notes
}

fn spec(
    experiment: &Experiment,
    cell: &Cell,
    transports: Vec<String>,
    notes: &mut Vec<String>,
) -> Result<Spec, Refusal> {
    let mut flags = experiment.link_words.clone();
    let of_link = cell.settings.iter().filter(|(key, _)| LinkSpec::KEYS.contains(&key.as_str()));
    flags.extend(of_link.cloned());
    let seconds = experiment.duration.as_secs_f64();
    let traffic = match cell.value("traffic") {
        Some(words) => words.parse().map_err(|reason: String| Refusal::new(422, reason))?,
        None => experiment.flows.first().map_or(Traffic::Bulk, |flow| flow.traffic),
    };
    let amount = match traffic {
        Traffic::Fixed { bytes } => Amount::Bytes(bytes),
        Traffic::Bulk => Amount::Seconds(seconds),
        other => {
            notes.push(format!("'{other}' is shown as bulk"));
            Amount::Seconds(seconds)
        }
    };
    Ok(Spec {
        kind: Kind::Test,
        title: experiment.title.clone(),
        preset: String::new(),
        driver: DriverName::Virtual,
        transports,
        path: path_of(&flags)?,
        amount,
        time_max_s: seconds,
        transfers: experiment.repetitions,
        order: Order::InTurn,
        seed: experiment.seed,
        ecn: experiment.has_ecn,
        drops_outliers: experiment.drops_outliers,
        loss_free_handshake: experiment.loss_free_handshake,
        image: String::new(),
    })
}

/// The page's path from the flags of an experiment.
fn path_of(flags: &BTreeMap<String, String>) -> Result<Path, Refusal> {
    let time = |key: &str| {
        let read = flags.get(key).map(|value| fulmar_net::parse::duration(value)).transpose();
        read.map_err(|error| Refusal::new(422, error.to_string()))
    };
    let rtt = time("rtt")?.unwrap_or(LinkSpec::default().rtt);
    let there = time("forward_delay")?.unwrap_or(rtt / 2);
    let (mut link, mut of_back) = (Link::new(), Link::new());
    for (key, value) in flags {
        let (link, key) = match key.strip_prefix("back_") {
            Some(key) => (&mut of_back, key),
            None => (&mut link, key.as_str()),
        };
        match key {
            "rtt" | "forward_delay" | "fwd_only" => {}
            "queue_bdp" => _ = link.insert("queue".into(), format!("{value}bdp")),
            _ => _ = link.insert(key.to_owned(), value.clone()),
        }
    }
    link.insert("delay".into(), words(there));
    let is_one_way = flags.get("fwd_only").is_some_and(|value| value == "true");
    let is_apart = is_one_way || !of_back.is_empty() || there != rtt / 2;
    let backward = is_apart.then(|| {
        let is_kept = |key: &str| !is_one_way || matches!(key, "rate" | "queue");
        let kept = link.iter().filter(|(key, _)| is_kept(key));
        let mut back: Link = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        back.insert("delay".into(), words(rtt.saturating_sub(there)));
        back.extend(of_back);
        back
    });
    Ok(Path { forward: link, backward })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::spec::{checked, tests::spec};

    #[test]
    fn a_run_survives_the_way_to_a_file_and_back() {
        for change in [
            (|_| {}) as fn(&mut Spec),
            |s| s.amount = Amount::Seconds(2.5),
            |s| {
                s.path.backward =
                    Some([("rate", "10M"), ("delay", "5ms")].map(|(k, v)| (k.into(), v.into())).into())
            },
            |s| _ = s.path.forward.insert("queue".into(), "0.5bdp".into()),
            |s| s.transports = vec!["lt-tcp:rto_max=5".into()],
        ] {
            let mut spec = spec();
            change(&mut spec);
            let spec = checked(spec).unwrap();
            let text = write(&spec).unwrap();
            let loaded = read("x.toml", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let [Labelled { spec: again, .. }] = &loaded.specs[..] else { panic!("{loaded:?}") };
            assert_eq!(path::links(&again.path).unwrap(), path::links(&spec.path).unwrap(), "{text}");
            assert_eq!(
                (&again.transports, again.amount, again.seed),
                (&spec.transports, spec.amount, spec.seed)
            );
            assert_eq!(
                (&again.title, again.transfers, again.driver),
                (&spec.title, spec.transfers, spec.driver)
            );
            assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
        }
    }

    /// Whether files can say how each way differs is the laboratory's affair; what they cannot say is
    /// refused, not bent.
    #[test]
    fn ways_that_differ_are_saved_as_they_are_or_not_at_all() {
        let back: &[&[(&str, &str)]] = &[
            &[("rate", "1M"), ("delay", "5ms")],
            &[("rate", "10M"), ("delay", "50ms"), ("loss", "1%"), ("burst", "3")],
            &[("rate", "10M"), ("delay", "5ms"), ("mark", "2%"), ("jitter", "1ms")],
            &[("rate", "10M"), ("delay", "5ms"), ("corrupt", "1%")],
        ];
        for back in back {
            let mut spec = checked(spec()).unwrap();
            spec.path.backward = Some(back.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
            match write(&spec) {
                Ok(text) => {
                    let again = read("x.toml", &text).unwrap().specs.swap_remove(0).spec;
                    assert_eq!(path::links(&again.path).unwrap(), path::links(&spec.path).unwrap(), "{text}");
                }
                Err(refusal) => assert_eq!(refusal.field.as_deref(), Some("path.backward")),
            }
        }
    }

    #[test]
    fn every_experiment_that_comes_with_fulmar_can_be_shown() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let loaded = read(&path.display().to_string(), &text).unwrap();
            assert!(!loaded.specs.is_empty());
            for Labelled { label, spec } in &loaded.specs {
                path::links(&spec.path).unwrap_or_else(|e| panic!("{} {label}: {e}", path.display()));
            }
        }
    }
}
