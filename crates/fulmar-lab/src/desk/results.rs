//! What was published and what was measured, as one table: the files of the report, with the experiments they
//! belong to.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::statistics::Summary;

mod row;
mod verdicts;

use row::{ResultCell, ResultRow, SOURCES, Verdict, source};

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
    /// How many of its tables and figures have each verdict that occurs; those of the same runs count once.
    counts: BTreeMap<Verdict, usize>,
}

/// A row of the report's JSON; what a later program adds is left out.
#[derive(Clone, Debug, Deserialize)]
struct Reported {
    cell: BTreeMap<String, String>,
    measured: Vec<Option<Summary>>,
    published: Option<f64>,
    #[serde(default)]
    command: Option<String>,
}

/// What a file says of published values, beside everything else in it.
#[derive(Default, Deserialize)]
struct File {
    #[serde(default)]
    published: Vec<Bound>,
}

#[derive(Deserialize)]
struct Bound {
    #[serde(default)]
    at: BTreeMap<String, String>,
    value: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

/// Reads experiments and the report. What cannot be read is left out.
pub(crate) fn read(experiments: &Path, report: &Path) -> Results {
    let entries = std::fs::read_dir(experiments).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let rows: Vec<ResultRow> = files.iter().filter_map(|file| row(file, report)).collect();
    let rows = verdicts::read(report, &rows).unwrap_or(rows);
    let sources = SOURCES.map(|(id, title)| {
        let mut counts = BTreeMap::new();
        for row in rows.iter().filter(|row| row.source == id && row.counted) {
            *counts.entry(row.verdict).or_default() += 1;
        }
        Source { id, title, counts }
    });
    Results { sources: sources.into(), rows }
}

fn row(file: &Path, report: &Path) -> Option<ResultRow> {
    let text = std::fs::read_to_string(file).ok()?;
    let experiment = Experiment::parse(&file.display().to_string(), &text).ok()?;
    let bounds = toml::from_str::<File>(&text).unwrap_or_default().published;
    let measure = experiment.measures.first().map_or("", String::as_str);
    let reported = reported(report, &experiment.name, measure);
    let cells: Vec<ResultCell> = if reported.is_empty() {
        bounds.iter().map(unmeasured).collect()
    } else {
        reported.into_iter().map(|row| cell(row, &bounds)).collect()
    };
    Some(ResultRow {
        source: source(&experiment.name),
        place: place(&experiment.source),
        verdict: verdict(&cells),
        counted: true,
        unit: unit(measure).into(),
        cells,
        not_held: Vec::new(),
        undecided: Vec::new(),
        explanation: experiment.remark,
        command: format!("fulmar-lab run experiments/{}.toml && fulmar-lab report", experiment.name),
        title: experiment.title,
        id: experiment.name,
    })
}

/// What was measured: from the report's JSON, or from its table, which stands in the tree.
fn reported(report: &Path, name: &str, measure: &str) -> Vec<Reported> {
    let json = std::fs::read(report.join(format!("{name}.json"))).ok();
    let rows = json.and_then(|json| serde_json::from_slice(&json).ok());
    rows.or_else(|| table(&report.join(format!("{name}.csv")), measure).ok()).unwrap_or_default()
}

fn table(path: &Path, measure: &str) -> Result<Vec<Reported>, csv::Error> {
    let mut reader = csv::Reader::from_path(path)?;
    let head = reader.headers()?.clone();
    let of_cell = head.iter().position(|name| name == "runs").unwrap_or(0);
    let column = |name: &str| head.iter().position(|known| known == name);
    let parts =
        ["mean", "sd", "ci95", "median", "min", "max"].map(|part| column(&format!("{measure}_{part}")));
    let published = column("published");
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let number = |at: Option<usize>| record.get(at?)?.parse::<f64>().ok();
        let runs = record.get(of_cell).and_then(|runs| runs.parse().ok()).unwrap_or(0);
        let [mean, sd, ci95, median, min, max] = parts.map(&number);
        let rest = |value: Option<f64>| value.unwrap_or_default();
        #[allow(clippy::needless_update, reason = "a table may lack what a summary has")]
        let summary = mean.map(|mean| Summary {
            n: runs,
            mean,
            sd: rest(sd),
            ci95: rest(ci95),
            median: rest(median),
            min: rest(min),
            max: rest(max),
            ..Summary::default()
        });
        let cell = head.iter().zip(&record).take(of_cell);
        rows.push(Reported {
            cell: cell.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            measured: vec![summary],
            published: number(published),
            command: None,
        });
    }
    Ok(rows)
}

fn cell(row: Reported, bounds: &[Bound]) -> ResultCell {
    let measured = row.measured.into_iter().next().flatten();
    let published = row.published;
    let ratio = measured.zip(published.filter(|&value| value != 0.0)).map(|(m, value)| m.mean / value);
    let own =
        bounds.iter().find(|bound| bound.at.iter().all(|(key, value)| row.cell.get(key) == Some(value)));
    let (min, max) = own.map_or((None, None), |bound| (bound.min, bound.max));
    ResultCell { at: row.cell, published, min, max, measured, ratio, command: row.command }
}

fn unmeasured(bound: &Bound) -> ResultCell {
    ResultCell {
        at: bound.at.clone(),
        published: bound.value,
        min: bound.min,
        max: bound.max,
        measured: None,
        ratio: None,
        command: None,
    }
}

/// By bounds where the experiment sets some, and otherwise by the published values: reproduced if the typical
/// cell is within [`FACTOR_MAX`] of its value.
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
        let found = |&(mean, published): &(f64, f64)| {
            let summary = Summary { n: 2, mean, ..Summary::default() };
            let row = Reported {
                cell: BTreeMap::new(),
                measured: vec![Some(summary)],
                published: (published > 0.0).then_some(published),
                command: None,
            };
            let bound = Bound { at: BTreeMap::new(), value: None, min: None, max };
            cell(row, &[bound])
        };
        pairs.iter().map(found).collect()
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
    fn the_tables_of_this_repository_are_read() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let csv = root.join("docs/results/lt-tcp-table-2.1.csv");
        let rows = table(&csv, "completion_seconds").unwrap();
        let clean = rows.iter().find(|row| row.cell["loss"] == "0%" && row.published == Some(0.21)).unwrap();
        // 10 MiB at 1 Gb/s: 0.09 s, and the thesis has 0.21.
        assert!((0.05..0.5).contains(&clean.measured[0].unwrap().mean));
        let results = read(&root.join("experiments"), &root.join("docs/results"));
        let of_table = |row: &&ResultRow| row.source == "lt-tcp" && row.place.starts_with("Table 2.1");
        let row = results.rows.iter().find(of_table).unwrap();
        assert_eq!(row.unit, "s");
        assert!(row.cells.iter().any(|cell| cell.ratio.is_some_and(|ratio| ratio > 0.0)));
        let counted = results.rows.iter().filter(|row| row.counted).count();
        assert_eq!(results.sources.iter().flat_map(|s| s.counts.values()).sum::<usize>(), counted);
        assert!(counted < results.rows.len(), "some figures have the runs of another");
    }
}
