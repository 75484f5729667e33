//! The laboratory: flows over a path in virtual time, a function of the seed.

use std::path::PathBuf;
use std::time::Duration;

use fulmar::Profile;
use fulmar_lab::experiment::{self, Experiment, Mode, Results, Shard};
use fulmar_lab::link::LinkSpec;
use fulmar_lab::outcome::Outcome;
use fulmar_lab::random::{Ranges, run as run_random};
use fulmar_lab::scenario::{FlowSpec, Scenario};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

fn wrong(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

fn run(
    py: Python<'_>,
    link: Vec<(String, String)>,
    flows: Vec<(String, String, f64)>,
    duration: f64,
    seed: u64,
    interval: Option<f64>,
) -> PyResult<Outcome> {
    let mut spec = LinkSpec::default();
    for (key, value) in &link {
        spec.set(key, value).map_err(wrong)?;
    }
    let flow = |(profile, traffic, start): &(String, String, f64)| {
        let mut flow =
            FlowSpec::new(Profile::parse(profile).map_err(wrong)?, traffic.parse().map_err(wrong)?);
        flow.start = seconds(*start)?;
        Ok(flow)
    };
    let flows = flows.iter().map(flow).collect::<PyResult<Vec<_>>>()?;
    let mut scenario = Scenario::over(spec, flows, seconds(duration)?);
    scenario.sample_interval = interval.map(seconds).transpose()?.filter(|interval| !interval.is_zero());
    let (outcome, _) = py.detach(|| fulmar_lab::sim::run(&scenario, seed)).map_err(wrong)?;
    Ok(outcome)
}

/// What a run found, as JSON, values over time left out.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    link: Vec<(String, String)>,
    flows: Vec<(String, String, f64)>,
    duration: f64,
    seed: u64,
) -> PyResult<String> {
    let outcome = run(py, link, flows, duration, seed, None)?;
    serde_json::to_string(&outcome).map_err(wrong)
}

/// The same, and values over time: for each flow the names of columns with their values.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "Python takes it apart")]
pub(crate) fn simulate_series(
    py: Python<'_>,
    link: Vec<(String, String)>,
    flows: Vec<(String, String, f64)>,
    duration: f64,
    seed: u64,
    interval: f64,
) -> PyResult<(String, Vec<Vec<(&'static str, Vec<f64>)>>)> {
    let count = flows.len();
    let mut outcome = run(py, link, flows, duration, seed, Some(interval))?;
    let series = std::mem::take(&mut outcome.series);
    let columns: [(&'static str, fn(&fulmar_lab::sample::Sample) -> f64); 9] = [
        ("t", |sample| sample.t),
        ("received_bytes", |sample| sample.received_bytes as f64),
        ("window_bytes", |sample| sample.window_bytes as f64),
        ("in_flight_bytes", |sample| sample.in_flight_bytes as f64),
        ("rtt_ms", |sample| sample.rtt_ms),
        ("pacing_mbps", |sample| sample.pacing_mbps.unwrap_or(f64::NAN)),
        ("loss_estimate", |sample| sample.loss_estimate.unwrap_or(f64::NAN)),
        ("redundancy", |sample| sample.redundancy.unwrap_or(f64::NAN)),
        ("queue_bytes", |sample| sample.queue_bytes as f64),
    ];
    let of_flow = |flow: usize| {
        let samples = || series.iter().filter(move |sample| sample.flow == flow);
        columns.iter().map(|(name, value)| (*name, samples().map(value).collect())).collect()
    };
    let text = serde_json::to_string(&outcome).map_err(wrong)?;
    Ok((text, (0..count).map(of_flow).collect()))
}

/// So many random paths of a seed, on all cores: for each the command that repeats the run, and what that
/// found, as JSON.
#[pyfunction]
pub(crate) fn simulate_random(
    py: Python<'_>,
    profile: &str,
    paths: u64,
    seed: u64,
    quick: bool,
) -> PyResult<Vec<(String, String)>> {
    let parsed = Profile::parse(profile).map_err(wrong)?;
    let ranges = if quick { Ranges::quick() } else { Ranges::default() };
    let all = py.detach(|| run_random(&parsed, seed, paths, &ranges, &|_| {})).map_err(wrong)?;
    let told = |judged: &fulmar_lab::random::Judged| {
        let text = serde_json::to_string(&judged.outcome).map_err(wrong)?;
        Ok((judged.path.command(profile), text))
    };
    all.iter().map(told).collect()
}

/// Every run of an experiment's text, on all cores; each becomes a line of JSON in a file of `folder`, which
/// is empty.
#[pyfunction]
pub(crate) fn run_experiment(
    py: Python<'_>,
    name: &str,
    text: &str,
    folder: PathBuf,
    quick: bool,
) -> PyResult<()> {
    let experiment = Experiment::parse(name, text).map_err(wrong)?;
    let mode = if quick { Mode::Quick } else { Mode::Full };
    for cell in experiment::cells(&experiment).map_err(wrong)? {
        let task = experiment::task(&experiment, &cell, mode.duration(&experiment)).map_err(wrong)?;
        if task.is_real_time() {
            let words = format!("{name}: {} needs real time, as `fulmar-lab run` has it", cell.label());
            return Err(wrong(words));
        }
    }
    let run = || {
        let mut results = Results::open(folder, text).map_err(|error| error.to_string())?;
        let all = experiment::run(&experiment, mode, Shard::WHOLE, &mut results, &|_| {});
        all.map_err(|error| error.to_string())
    };
    py.detach(run).map_err(wrong)
}
