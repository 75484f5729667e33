//! Experiment files: written from the page, read into it.

use std::path::PathBuf;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::body::Body;
use super::desk::{Desk, Shared};
use crate::desk::experiment::{self, Loaded};
use crate::desk::spec;
use crate::desk::types::{Refusal, Spec};
use crate::experiment::Experiment;

#[derive(Serialize)]
pub(super) struct Listed {
    name: String,
    title: String,
    source: String,
}

pub(super) async fn write(Body(spec): Body<Spec>) -> Result<Response, Refusal> {
    let written = apart(move || experiment::write(&spec::checked(spec)?)).await?;
    Ok(written.into_response())
}

/// Work that is not for the threads that serve pages.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Refusal::new(500, error.to_string()))?
}

pub(super) async fn read(State(desk): Shared, text: String) -> Result<Json<Loaded>, Refusal> {
    // As if it lay among the others, so that it finds their peers, and no file of anybody else's.
    let file = desk.experiments.join("experiment.toml").display().to_string();
    apart(move || experiment::read(&file, &text)).await.map(Json)
}

/// Files of experiments, by name.
fn files(desk: &Desk) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(&desk.experiments).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    files
}

pub(super) async fn list(State(desk): Shared) -> Json<Vec<Listed>> {
    let listed = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).ok()?;
        let experiment = Experiment::parse(&path.display().to_string(), &text).ok()?;
        Some(Listed { name: experiment.name, title: experiment.title, source: experiment.source })
    };
    let all = tokio::task::spawn_blocking(move || files(&desk).into_iter().filter_map(listed).collect());
    Json(all.await.unwrap_or_default())
}

pub(super) async fn show(State(desk): Shared, Path(name): Path<String>) -> Result<Json<Loaded>, Refusal> {
    // One of those that are listed: a name leads nowhere else.
    let file =
        files(&desk).into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name.as_str()));
    let path = file.ok_or_else(|| Refusal::new(404, format!("there is no experiment '{name}'")))?;
    let read = move || {
        let text = std::fs::read_to_string(&path).map_err(|error| Refusal::new(500, error.to_string()))?;
        experiment::read(&path.display().to_string(), &text)
    };
    apart(read).await.map(Json)
}
