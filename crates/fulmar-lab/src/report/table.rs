//! The table of an experiment as CSV: what stays in the tree, and what a report can be made from again.

use std::collections::BTreeMap;

use super::row::Row;
use crate::experiment::{Cell, Experiment, Provenance, ScenarioHash};
use crate::statistics::Summary;

type Measured = (Vec<Option<Summary>>, Provenance);

/// What is written of a measure. A run may lack one: what did not end has no time.
const PARTS: [&str; 8] = ["mean", "sd", "ci95", "median", "p99", "min", "max", "n"];

fn parts(s: &Summary) -> [f64; 8] {
    [s.mean, s.sd, s.ci95, s.median, s.p99, s.min, s.max, s.n as f64]
}

/// A line for each cell.
pub(super) fn write(experiment: &Experiment, rows: &[Row]) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let keys: Vec<&String> = experiment.sweep.keys().collect();
    let of_measures = experiment.measures.iter().flat_map(|m| PARTS.map(|part| format!("{m}_{part}")));
    let head = keys.iter().map(|key| (*key).clone()).chain(["runs".into()]).chain(of_measures);
    writer.write_record(
        head.chain(["published", "commit", "scenario", "seeds", "processor", "kernel"].map(String::from)),
    )?;
    for row in rows {
        let cell = keys.iter().map(|key| row.cell.get(*key).cloned().unwrap_or_default());
        let runs = row.runs().to_string();
        let of = |index| match row.measured.get(index).and_then(Option::as_ref) {
            Some(summary) => parts(summary).map(|value| value.to_string()),
            None => PARTS.map(|_| String::new()),
        };
        let values = (0..experiment.measures.len()).flat_map(of);
        let published = row.published.map_or(String::new(), |value| value.to_string());
        let Provenance { commit, scenario, seeds, processor, kernel } = row.provenance.clone();
        let scenario = scenario.map_or(String::new(), |hash| hash.to_string());
        let from = [published, commit.unwrap_or_default(), scenario, seeds, processor, kernel];
        writer.write_record(cell.chain([runs]).chain(values).chain(from))?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a table says of each cell, by its label. Measures it does not have are none.
pub(super) fn read(experiment: &Experiment, text: &str) -> Result<BTreeMap<String, Measured>, String> {
    let words = |error: csv::Error| format!("{}.csv: {error}", experiment.name);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().map_err(words)?.clone();
    let column = |name: &str| head.iter().position(|other| other == name);
    let mut rows = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(words)?;
        let value = |name: &str| column(name).and_then(|at| record.get(at)).filter(|text| !text.is_empty());
        let number = |name: &str| value(name).and_then(|text| text.parse::<f64>().ok());
        let settings =
            experiment.sweep.keys().map(|key| (key.clone(), value(key).unwrap_or_default().to_owned()));
        let cell = Cell { settings: settings.collect() };
        let runs = number("runs").unwrap_or(1.0);
        let summary = |measure: &String| {
            let part = |part: &str| number(&format!("{measure}_{part}"));
            let (mean, max) = (part("mean")?, part("max").unwrap_or_default());
            let or_zero = |name| part(name).unwrap_or_default();
            let p99 = part("p99").unwrap_or(max);
            let n = part("n").unwrap_or(runs) as usize;
            let [sd, ci95, median, min] = ["sd", "ci95", "median", "min"].map(or_zero);
            Some(Summary { n, mean, sd, ci95, median, p99, min, max })
        };
        let measured = experiment.measures.iter().map(summary).collect();
        let word = |name: &str| value(name).unwrap_or_default().to_owned();
        let commit = value("commit").map(str::to_owned);
        let scenario = value("scenario").and_then(ScenarioHash::read);
        let [seeds, processor, kernel] = ["seeds", "processor", "kernel"].map(word);
        rows.insert(cell.label(), (measured, Provenance { commit, scenario, seeds, processor, kernel }));
    }
    Ok(rows)
}
