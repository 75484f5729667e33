//! What others say to the desk: bodies of requests, experiment files, and the messages of controller and
//! agents. All of it is read here first, so that it can be tried with any bytes.

use serde::de::DeserializeOwned;

use super::control::{Order, Report};
use super::types::{Path, PathChange, Refusal, Spec};
use super::{control, experiment, path, spec};

/// A value in JSON: 400 if it is none, 422 if it is another than was asked for.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let value: serde_json::Value =
        serde_json::from_slice(bytes).map_err(|error| Refusal::new(400, format!("no JSON: {error}")))?;
    serde_json::from_value(value).map_err(|error| Refusal::new(422, error.to_string()))
}

/// The run that `POST /api/runs` asks for, with all that was left out.
///
/// # Errors
/// If it is none, or cannot be run.
pub fn run(bytes: &[u8]) -> Result<Spec, Refusal> {
    spec::checked(json(bytes)?)
}

/// The path after a change that `PATCH /api/runs/{id}/path` asks for.
///
/// # Errors
/// If it is none, or the path cannot become that while a run is under way.
pub fn change(path: &Path, bytes: &[u8]) -> Result<Path, Refusal> {
    path::changed(path, &json::<PathChange>(bytes)?)
}

/// The experiment file of a run.
///
/// # Errors
/// If such a file cannot say it.
pub fn file(spec: &Spec) -> Result<String, Refusal> {
    experiment::write(spec)
}

/// The runs that an experiment file shows on the page. `name` is where the file would lie.
///
/// # Errors
/// If it is no experiment.
pub fn experiment(name: &str, text: &str) -> Result<Vec<Spec>, Refusal> {
    Ok(experiment::read(name, text)?.specs.into_iter().map(|labelled| labelled.spec).collect())
}

/// A message of an agent, said again as it was understood.
///
/// # Errors
/// If it is none.
pub fn report(bytes: &[u8]) -> Result<String, String> {
    again::<Report>(bytes)
}

/// A message of a controller, said again as it was understood.
///
/// # Errors
/// If it is none.
pub fn order(bytes: &[u8]) -> Result<String, String> {
    again::<Order>(bytes)
}

fn again<M: DeserializeOwned + serde::Serialize>(bytes: &[u8]) -> Result<String, String> {
    serde_json::to_string(&control::message::<M>(bytes)?).map_err(|error| error.to_string())
}
