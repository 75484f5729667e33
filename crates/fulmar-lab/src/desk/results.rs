//! What was published and what was measured, as one table: the files of the report, with the experiments they belong to.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::statistics::Summary;

/// Sources by the beginning of the experiments' names.
const SOURCES: [(&str, &str); 6] = [
    ("lt-tcp", "LT-TCP (Hourt, RPI 2014)"),
    ("dfcp", "DFCP (Solymos, BME 2014)"),
    ("tcp-fec", "TCP-FEC (Sato, Kitakyushu 2019)"),
    ("ctcp", "Coded TCP (Leith, Medard et al.)"),
    ("tcp-nc", "TCP/NC (Medina-Ruiz et al., NetCod 2012)"),
    ("fulmar", "Fulmar's own experiments"),
];
/// A published value counts as reproduced within this factor.
const FACTOR_MAX: f64 = 1.25;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Results {
    sources: Vec<Source>,
    rows: Vec<ResultRow>,
}

#[derive(Clone, Debug, Serialize)]
struct Source {
    id: &'static str,
    title: &'static str,
    reproduced: usize,
    differs: usize,
    not_comparable: usize,
}

/// What is found of a published table or figure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
enum Verdict {
    #[serde(rename = "reproduced")]
    Reproduced,
    #[serde(rename = "differs")]
    Differs,
    #[serde(rename = "not comparable")]
    NotComparable,
    #[serde(rename = "not measured")]
    NotMeasured,
}

#[derive(Clone, Debug, Serialize)]
struct ResultRow {
    id: String,
    source: &'static str,
    #[serde(rename = "where")]
    place: String,
    title: String,
    verdict: Verdict,
    unit: String,
    cells: Vec<ResultCell>,
    explanation: String,
    command: String,
}

#[derive(Clone, Debug, Serialize)]
struct ResultCell {
    at: BTreeMap<String, String>,
    published: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    measured: Option<Summary>,
    ratio: Option<f64>,
    command: Option<String>,
}

/// A row of the report's JSON; what a later program adds is left out.
#[derive(Clone, Debug, Deserialize)]
struct Reported {
    cell: BTreeMap<String, String>,
    measured: Vec<Option<Summary>>,
    published: Option<f64>,
    #[serde(default)]
    bounds: (Option<f64>, Option<f64>),
    #[serde(default)]
    command: Option<String>,
}

/// Reads experiments and the report. What cannot be read is left out.
pub(crate) fn read(experiments: &Path, report: &Path) -> Results {
    let entries = std::fs::read_dir(experiments).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let rows: Vec<ResultRow> = files.iter().filter_map(|file| row(file, report)).collect();
    let sources = SOURCES.map(|(id, title)| {
        let count = |verdict| rows.iter().filter(|row| row.source == id && row.verdict == verdict).count();
        Source {
            id,
            title,
            reproduced: count(Verdict::Reproduced),
            differs: count(Verdict::Differs),
            not_comparable: count(Verdict::NotComparable),
        }
    });
    Results { sources: sources.into(), rows }
}

fn row(file: &Path, report: &Path) -> Option<ResultRow> {
    let text = std::fs::read_to_string(file).ok()?;
    let experiment = Experiment::parse(&file.display().to_string(), &text).ok()?;
    let json = std::fs::read(report.join(format!("{}.json", experiment.name))).unwrap_or_default();
    let reported: Vec<Reported> = serde_json::from_slice(&json).unwrap_or_default();
    let cells: Vec<ResultCell> = if reported.is_empty() {
        experiment.published.iter().map(unmeasured).collect()
    } else {
        reported.into_iter().map(cell).collect()
    };
    let measure = experiment.measures.first().map_or("", String::as_str);
    Some(ResultRow {
        source: source(&experiment.name),
        place: place(&experiment.source),
        verdict: verdict(&cells),
        unit: unit(measure).into(),
        cells,
        explanation: experiment.remark,
        command: format!("fulmar-lab run experiments/{}.toml && fulmar-lab report", experiment.name),
        title: experiment.title,
        id: experiment.name,
    })
}

fn cell(row: Reported) -> ResultCell {
    let measured = row.measured.into_iter().next().flatten();
    let published = row.published;
    let ratio = measured.zip(published.filter(|&value| value != 0.0)).map(|(m, value)| m.mean / value);
    let (min, max) = row.bounds;
    ResultCell { at: row.cell, published, min, max, measured, ratio, command: row.command }
}

fn unmeasured(published: &crate::experiment::Published) -> ResultCell {
    ResultCell {
        at: published.at.clone(),
        published: published.value,
        min: published.min,
        max: published.max,
        measured: None,
        ratio: None,
        command: None,
    }
}

/// By bounds where the experiment sets some, and otherwise by the published values: reproduced if the typical cell is within
/// [`FACTOR_MAX`] of its value.
fn verdict(cells: &[ResultCell]) -> Verdict {
    if cells.iter().all(|cell| cell.measured.is_none()) {
        return Verdict::NotMeasured;
    }
    let is_claim = |cell: &&ResultCell| cell.published.is_some() || cell.min.is_some() || cell.max.is_some();
    let claims: Vec<&ResultCell> = cells.iter().filter(is_claim).collect();
    if claims.is_empty() {
        return Verdict::NotComparable;
    }
    let is_outside = |cell: &&ResultCell| {
        let mean = cell.measured.map(|measured| measured.mean);
        mean.zip(cell.min).is_some_and(|(mean, min)| mean < min)
            || mean.zip(cell.max).is_some_and(|(mean, max)| mean > max)
    };
    let mut distances: Vec<f64> = claims
        .iter()
        .filter_map(|cell| cell.ratio.filter(|&r| r > 0.0))
        .map(|ratio| ratio.ln().abs())
        .collect();
    distances.sort_by(f64::total_cmp);
    let typical = crate::statistics::quantile_of_sorted(&distances, 0.5).unwrap_or(0.0);
    if claims.iter().any(is_outside) || typical > FACTOR_MAX.ln() {
        Verdict::Differs
    } else {
        Verdict::Reproduced
    }
}

fn source(name: &str) -> &'static str {
    let of_name =
        SOURCES.iter().find(|(id, _)| name.strip_prefix(id).is_some_and(|rest| rest.starts_with('-')));
    of_name.map_or("fulmar", |(id, _)| id)
}

/// `Table 2.1` or the like, out of the words of a source.
fn place(source: &str) -> String {
    let at =
        ["Table", "Figure", "Fig.", "figure", "Section", "section"].iter().find_map(|word| source.find(word));
    let Some(at) = at else { return source.to_owned() };
    let end = source[at..].find([':', ',', ';', '(']).map_or(source.len(), |end| at + end);
    source[at..end].trim().to_owned()
}

fn unit(measure: &str) -> &'static str {
    let name = measure.rsplit('.').next().unwrap_or_default();
    [("_mbps", "Mbit/s"), ("_kib_s", "KiB/s"), ("_ms", "ms"), ("_seconds", "s"), ("_mean", ""), ("ratio", "")]
        .iter()
        .find(|(ending, _)| name.ends_with(ending))
        .map_or("", |(_, unit)| unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(pairs: &[(f64, f64)], max: Option<f64>) -> Vec<ResultCell> {
        let cell = |&(mean, published): &(f64, f64)| {
            let summary = Summary { n: 2, mean, ..Summary::default() };
            cell(Reported {
                cell: BTreeMap::new(),
                measured: vec![Some(summary)],
                published: (published > 0.0).then_some(published),
                bounds: (None, max),
                command: None,
            })
        };
        pairs.iter().map(cell).collect()
    }

    #[test]
    fn a_verdict_is_what_the_numbers_say() {
        assert_eq!(verdict(&cells(&[(10.0, 9.0), (5.0, 5.5), (1.0, 3.0)], None)), Verdict::Reproduced);
        assert_eq!(verdict(&cells(&[(10.0, 5.0), (5.0, 5.0), (9.0, 3.0)], None)), Verdict::Differs);
        assert_eq!(verdict(&cells(&[(10.0, 10.0)], Some(9.0))), Verdict::Differs);
        assert_eq!(verdict(&cells(&[(10.0, 0.0)], None)), Verdict::NotComparable);
        assert_eq!(verdict(&[]), Verdict::NotMeasured);
    }

    #[test]
    fn the_report_of_this_repository_is_read() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let results = read(&root.join("experiments"), &root.join("docs/results"));
        let table = results.rows.iter().find(|row| row.id == "lt-tcp-table-2.1").unwrap();
        assert_eq!(
            (table.source, table.place.as_str(), table.unit.as_str()),
            ("lt-tcp", "Table 2.1", "KiB/s")
        );
        let at = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let clean = table.cells.iter().find(|cell| {
            cell.published == Some(48762.0)
                && cell.at.contains_key("loss")
                && cell.at.get("loss") == Some(&at("", "0%").1)
        });
        assert!(clean.unwrap().ratio.unwrap() > 0.0);
        assert!(results.sources.iter().map(|s| s.reproduced + s.differs).sum::<usize>() > 10);
    }
}
