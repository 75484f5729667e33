//! Which plots an experiment gets: its first measure over the sweep, and values over time if they were
//! recorded.

use super::chapter::Chapter;
use super::row::Row;
use super::svg::{Chart, Line};
use super::words;
use crate::experiment::{Curve, Experiment};
use crate::fairness;
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::sample::Sample;

/// The folder for pictures over time.
pub(super) const CURVES: &str = "curves";

/// All plots of an experiment.
pub(super) fn of(chapter: &Chapter) -> Vec<Chart> {
    let mut charts = over_sweep(chapter);
    for (row, outcome) in chapter.rows.iter().zip(&chapter.firsts) {
        if let Some(outcome) = outcome.as_ref().filter(|outcome| !outcome.series.is_empty()) {
            charts.extend(over_time(&label(row), outcome, loss_rate(chapter, row)));
        }
    }
    charts
}

/// The file of a picture over time, within the folder of the report.
pub(super) fn place(experiment: &Experiment, curve: Curve) -> String {
    format!("{CURVES}/{}-{}.svg", experiment.name, curve.name())
}

/// The pictures over time that the source has as well, and their places. None where no run is at hand.
pub(super) fn kept(chapter: &Chapter) -> Vec<(String, Chart)> {
    let experiment = &chapter.experiment;
    let drawn = experiment.plot.over_time.iter().map(|curve| {
        let runs = chapter.rows.iter().zip(&chapter.firsts);
        let lines = runs.filter_map(|(row, outcome)| {
            Some(Line { name: label(row), ..line_over_time(*curve, outcome.as_ref()?) })
        });
        let lines: Vec<Line> = lines.filter(|line| line.points.len() > 1).collect();
        let (x_label, y_label) = ("time, s".into(), axis(*curve).into());
        let chart = Chart { title: experiment.title.clone(), x_label, y_label, lines, ..Chart::default() };
        (place(experiment, *curve), chart)
    });
    drawn.filter(|(_, chart)| !chart.lines.is_empty()).collect()
}

fn axis(curve: Curve) -> &'static str {
    match curve {
        Curve::Delivered => "MB delivered in order",
        Curve::Window => "window, KiB",
        Curve::Redundancy => "redundancy, %",
        Curve::Delay => "longest delay in order, ms",
        Curve::Fairness => "Jain's index",
    }
}

/// Of the first flow, or of all.
fn line_over_time(curve: Curve, outcome: &Outcome) -> Line {
    let reading = match curve {
        Curve::Delivered => DELIVERED,
        Curve::Window => WINDOW,
        Curve::Redundancy => REDUNDANCY,
        Curve::Delay => DELAY,
        Curve::Fairness => return fairness_line(outcome),
    };
    curve_of(outcome, 0, &reading)
}

/// The loss rate that a cell configures, where it is one number.
fn loss_rate(chapter: &Chapter, row: &Row) -> Option<f64> {
    let mut link = chapter.experiment.link.clone();
    for (key, value) in row.cell.iter().filter(|(key, _)| LinkSpec::KEYS.contains(&key.as_str())) {
        link.set(key, value).ok()?;
    }
    link.loss_rate()
}

fn label(row: &Row) -> String {
    row.cell.iter().map(|(key, value)| line_name(key, value)).collect::<Vec<_>>().join(", ")
}

/// The number a swept value stands for: `5%`, `100ms`, `20M`.
fn number(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    let factor = match &value[end..] {
        "" | "%" | "ms" | "M" => 1.0,
        "us" | "k" => 1e-3,
        "s" | "G" => 1e3,
        _ => return None,
    };
    value[..end].parse::<f64>().ok().map(|number| number * factor)
}

/// The first measure over the sweep: a plot for each combination of what is neither on the axis nor a line.
fn over_sweep(chapter: &Chapter) -> Vec<Chart> {
    let experiment = &chapter.experiment;
    let mut keys = experiment.sweep.keys();
    let Some(x_key) = experiment.plot.x.clone().or_else(|| keys.next().cloned()) else { return Vec::new() };
    let lines_key =
        experiment.plot.lines.clone().or_else(|| experiment.sweep.keys().find(|key| **key != x_key).cloned());
    let Some(x_values) = experiment.sweep.get(&x_key).filter(|values| values.len() > 1) else {
        return Vec::new();
    };
    let has_numbers = x_values.iter().all(|value| number(value).is_some());
    let place = |value: &str| {
        let index = x_values.iter().position(|v| v == value).unwrap_or(0) as f64;
        if has_numbers { number(value).unwrap_or(index) } else { index }
    };
    let mut charts: Vec<(String, Chart)> = Vec::new();
    for row in &chapter.rows {
        let is_other = |key: &String| *key != x_key && Some(key) != lines_key.as_ref();
        let others: Vec<String> =
            row.cell.iter().filter(|(key, _)| is_other(key)).map(|(k, v)| line_name(k, v)).collect();
        let others = others.join(", ");
        let index = charts.iter().position(|(name, _)| *name == others).unwrap_or_else(|| {
            charts.push((others.clone(), empty(chapter, &x_key, &others, x_values, has_numbers)));
            charts.len() - 1
        });
        let name = lines_key.as_ref().and_then(|key| Some(line_name(key, row.cell.get(key)?)));
        let name = name.unwrap_or_else(|| words::of(&experiment.measures[0]));
        let x = row.cell.get(&x_key).map_or(0.0, |value| place(value));
        add(&mut charts[index].1, &name, x, row);
    }
    charts.into_iter().map(|(_, chart)| chart).collect()
}

/// Senders speak for themselves.
fn line_name(key: &str, value: &str) -> String {
    if key == "sender" { value.to_owned() } else { format!("{} {value}", words::of(key)) }
}

fn empty(chapter: &Chapter, x_key: &str, others: &str, x_values: &[String], has_numbers: bool) -> Chart {
    let plot = &chapter.experiment.plot;
    let title = &chapter.experiment.title;
    let title = if others.is_empty() { title.clone() } else { format!("{title}: {others}") };
    let unit = x_values[0].trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let x_label = if has_numbers && !unit.is_empty() {
        format!("{}, {unit}", words::of(x_key))
    } else {
        words::of(x_key)
    };
    let names = |values: &[String]| {
        values.iter().enumerate().map(|(index, name)| (index as f64, name.clone())).collect()
    };
    let ticks = |values: &[String]| {
        let plain = |v: &String| v.trim_end_matches(|c: char| !c.is_ascii_digit()).to_owned();
        values.iter().filter_map(|v| Some((number(v)?, plain(v)))).collect()
    };
    Chart {
        title,
        x_label,
        y_label: plot.y_label.clone().unwrap_or_else(|| words::of(&chapter.experiment.measures[0])),
        is_x_log: plot.log_x && has_numbers,
        is_y_log: plot.log_y,
        is_x_unordered: !has_numbers && x_key == "sender",
        x_names: if has_numbers { ticks(x_values) } else { names(x_values) },
        lines: Vec::new(),
    }
}

/// Adds the values of a row to its line, and to the published one behind it.
fn add(chart: &mut Chart, name: &str, x: f64, row: &Row) {
    let mut line_of = |name: String, is_published: bool, after: Option<usize>| {
        chart.lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            let at = after.map_or(chart.lines.len(), |after| after + 1);
            chart.lines.insert(at, Line { name, is_published, ..Line::default() });
            at
        })
    };
    let own = line_of(name.to_owned(), false, None);
    let published =
        row.published.map(|value| (line_of(format!("{name}, published"), true, Some(own)), value));
    if let Some(Some(summary)) = row.measured.first() {
        chart.lines[own].points.push((x, summary.mean, summary.ci95));
    }
    if let Some((at, value)) = published {
        chart.lines[at].points.push((x, value, 0.0));
    }
}

/// A value of a sample over time.
type Reading = (&'static str, fn(&Sample) -> Option<f64>);

const DELIVERED: Reading = ("delivered", |s| Some(s.received_bytes as f64 / 1e6));
const WINDOW: Reading = ("window", |s| Some(s.window_bytes as f64 / 1024.0));
const REDUNDANCY: Reading = ("redundancy", |s| s.redundancy.map(|r| r * 100.0));
const DELAY: Reading = ("longest delay", |s| s.delay_ms);

/// Rate, sequence, windows, round-trip time, estimates and fairness over time.
fn over_time(label: &str, outcome: &Outcome, loss_rate: Option<f64>) -> Vec<Chart> {
    let chart = |title: &str, y_label: &str, lines: Vec<Line>| {
        let lines: Vec<Line> = lines.into_iter().filter(|line| line.points.len() > 1).collect();
        let title = if label.is_empty() { title.to_owned() } else { format!("{title}: {label}") };
        Chart { title, x_label: "time, s".into(), y_label: y_label.into(), lines, ..Chart::default() }
    };
    let curves = |curves: &[Reading]| {
        let of_flow = |flow: usize| curves.iter().map(move |curve| curve_of(outcome, flow, curve));
        (0..outcome.flows.len()).flat_map(of_flow).collect::<Vec<Line>>()
    };
    let charts = [
        chart(
            "Goodput and pace",
            "Mbit/s",
            [rates(outcome), curves(&[("pace", |s| s.pacing_mbps)])].concat(),
        ),
        chart("Sequence", "MB delivered in order", curves(&[DELIVERED])),
        chart(
            "Window, flight and queue",
            "KiB",
            curves(&[
                WINDOW,
                ("in flight", |s| Some(s.in_flight_bytes as f64 / 1024.0)),
                ("queue", |s| Some(s.queue_bytes as f64 / 1024.0)),
            ]),
        ),
        chart("Round-trip time", "ms", curves(&[("RTT", |s| Some(s.rtt_ms))])),
        chart("Delay of messages in order", "ms", curves(&[DELAY])),
        chart(
            "Loss estimate and redundancy",
            "%",
            [
                curves(&[("loss estimate", |s| s.loss_estimate.map(|p| p * 100.0)), REDUNDANCY]),
                level("configured loss", loss_rate, outcome),
            ]
            .concat(),
        ),
        chart("Fairness, second by second", "Jain's index", vec![fairness_line(outcome)]),
    ];
    charts.into_iter().filter(|chart| !chart.lines.is_empty()).collect()
}

/// A value that does not change, in percent, beside curves that do.
fn level(name: &str, share: Option<f64>, outcome: &Outcome) -> Vec<Line> {
    let has_estimates = outcome.series.iter().any(|sample| sample.loss_estimate.is_some());
    let ends = outcome.series.first().zip(outcome.series.last()).filter(|_| has_estimates);
    let line = share.zip(ends).map(|(share, (first, last))| Line {
        name: name.into(),
        points: vec![(first.t, share * 100.0, 0.0), (last.t, share * 100.0, 0.0)],
        is_dense: true,
        ..Line::default()
    });
    line.into_iter().collect()
}

fn fairness_line(outcome: &Outcome) -> Line {
    let points = fairness::over_time(&outcome.series, outcome.flows.len());
    let points = points.into_iter().map(|(t, jain)| (t, jain, 0.0)).collect();
    Line { name: "Jain's index".into(), points, is_dense: true, ..Line::default() }
}

fn curve_of(outcome: &Outcome, flow: usize, (name, value): &Reading) -> Line {
    let name = if outcome.flows.len() > 1 { format!("{name} {flow}") } else { (*name).to_owned() };
    let points = outcome
        .series
        .iter()
        .filter(|s| s.flow == flow)
        .filter_map(|s| Some((s.t, value(s)?, 0.0)))
        .collect();
    Line { name, points, is_dense: true, ..Line::default() }
}

/// Goodput between samples.
fn rates(outcome: &Outcome) -> Vec<Line> {
    let of_flow = |flow: usize| {
        let own: Vec<&Sample> = outcome.series.iter().filter(|s| s.flow == flow).collect();
        let rate = |pair: &[&Sample]| {
            let bits =
                (pair[1].received_bytes - pair[0].received_bytes.min(pair[1].received_bytes)) as f64 * 8.0;
            (pair[1].t, bits / (pair[1].t - pair[0].t).max(1e-9) / 1e6, 0.0)
        };
        let name = if outcome.flows.len() > 1 { format!("goodput {flow}") } else { "goodput".into() };
        Line { name, points: own.windows(2).map(rate).collect(), is_dense: true, ..Line::default() }
    };
    (0..outcome.flows.len()).map(of_flow).collect()
}
