//! One experiment with what was measured: a row for each cell.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::experiment::{Cell, Experiment, Mode, Results, cells, kernel_congestion, task};
use crate::outcome::Outcome;
use crate::statistics::Summary;

/// An experiment and its results.
#[derive(Debug)]
pub struct Chapter {
    /// What was run.
    pub experiment: Experiment,
    /// What came of it, in the order of the sweep.
    pub rows: Vec<Row>,
    /// The first run of each cell, for values over time.
    pub(super) firsts: Vec<Option<Outcome>>,
}

/// One cell.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cell's settings.
    pub cell: BTreeMap<String, String>,
    /// For each measure, in the order of the experiment, what was found.
    pub measured: Vec<Option<Summary>>,
    /// The published value of the first measure.
    pub published: Option<f64>,
    /// Bounds of the first measure.
    pub bounds: (Option<f64>, Option<f64>),
    /// The command of one run like this, where there is one.
    pub command: Option<String>,
}

impl Chapter {
    /// Reads the results of every cell.
    ///
    /// # Errors
    /// If the experiment cannot be run (any more).
    pub fn new(experiment: Experiment, results: Results) -> Result<Self, String> {
        let mode = if experiment.name.ends_with("-quick") { Mode::Quick } else { Mode::Full };
        let (mut rows, mut firsts) = (Vec::new(), Vec::new());
        for cell in cells(&experiment)? {
            let words = task(&experiment, &cell, mode.duration(&experiment))?.words();
            firsts.push(results.outcomes(&words).next().cloned());
            let measured =
                experiment.measures.iter().map(|measure| results.summary(&experiment, &words, measure));
            let published =
                experiment.published.iter().find(|p| p.at.iter().all(|(k, v)| cell.value(k) == Some(v)));
            rows.push(Row {
                measured: measured.collect(),
                published: published.and_then(|p| p.value),
                bounds: published.map_or((None, None), |p| (p.min, p.max)),
                command: command(&experiment, &cell),
                cell: cell.settings.into_iter().collect(),
            });
        }
        Ok(Self { experiment, rows, firsts })
    }

    /// Results of the first measure that are outside the bounds the experiment sets, in words.
    pub fn outside_bounds(&self) -> impl Iterator<Item = String> {
        self.rows.iter().filter_map(|row| {
            let mean = row.measured.first()?.as_ref()?.mean;
            let (min, max) = row.bounds;
            let is_outside = min.is_some_and(|min| mean < min) || max.is_some_and(|max| mean > max);
            is_outside.then(|| {
                format!("{} {:?}: {mean:.3}, bounds {min:?} {max:?}", self.experiment.name, row.cell)
            })
        })
    }

    /// A line for each cell.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        let keys: Vec<&String> = self.experiment.sweep.keys().collect();
        keys.iter().for_each(|key| csv.push_str(&format!("{key},")));
        csv.push_str("runs");
        for measure in &self.experiment.measures {
            let _ = write!(
                csv,
                ",{measure}_mean,{measure}_sd,{measure}_ci95,{measure}_median,{measure}_min,{measure}_max"
            );
        }
        csv.push_str(",published\n");
        for row in &self.rows {
            keys.iter().for_each(|key| {
                csv.push_str(&format!("\"{}\",", row.cell.get(*key).map_or("", String::as_str)))
            });
            let _ = write!(csv, "{}", row.measured.first().and_then(Option::as_ref).map_or(0, |s| s.n));
            for summary in &row.measured {
                match summary {
                    Some(s) => {
                        _ = write!(csv, ",{},{},{},{},{},{}", s.mean, s.sd, s.ci95, s.median, s.min, s.max)
                    }
                    None => csv.push_str(",,,,,,"),
                }
            }
            let _ = writeln!(csv, ",{}", row.published.map_or(String::new(), |value| value.to_string()));
        }
        csv
    }
}

/// The one-off command for a cell, where one link and equal flows say it all.
fn command(experiment: &Experiment, cell: &Cell) -> Option<String> {
    let [flow] = &experiment.flows[..] else { return None };
    if !experiment.more_links.is_empty() || cell.value("flow_rtt").is_some() || flow.rtt.is_some() {
        return None;
    }
    let sender = cell.value("sender").unwrap_or(&flow.sender);
    let mut line = match kernel_congestion(sender) {
        Some(congestion) => format!("fulmar-lab tcp --cc {congestion}"),
        None => format!("fulmar-lab sim --profile {sender}"),
    };
    // The flags of the link in the experiment's words; a cell's value replaces the file's.
    let mut flags = experiment.link_words.clone();
    let link_keys =
        cell.settings.iter().filter(|(key, _)| crate::link::LinkSpec::KEYS.contains(&key.as_str()));
    flags.extend(link_keys.cloned());
    let mut rate_first = String::new();
    for (key, value) in flags.iter().filter(|(_, value)| *value != "none" && *value != "false") {
        let flag = key.replace('_', "-");
        let word = if value == "true" { format!(" --{flag}") } else { format!(" --{flag} {value}") };
        if key == "rate" { rate_first = word } else { line.push_str(&word) }
    }
    let at = line.find(" --profile").or_else(|| line.find(" --cc")).unwrap_or(line.len());
    line.insert_str(at, &rate_first);
    let traffic = cell.value("traffic").map_or_else(|| flow.traffic_words.clone(), str::to_owned);
    if traffic != "bulk" {
        let _ = write!(line, " --traffic {traffic}");
    }
    let count = cell.value("flows").and_then(|n| n.parse().ok()).unwrap_or(flow.count);
    if count > 1 {
        let _ = write!(line, " --flows {count}");
    }
    if experiment.has_ecn && kernel_congestion(sender).is_some() {
        line.push_str(" --ecn");
    }
    if experiment.loss_free_handshake {
        line.push_str(" --loss-free-handshake");
    }
    if !experiment.warm_up.is_zero() {
        let _ = write!(line, " --warm-up {:?}", experiment.warm_up);
    }
    let _ = write!(line, " -t {} --seed {}", experiment.duration.as_secs_f64(), experiment.seed);
    Some(line)
}
