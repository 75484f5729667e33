//! Runs: making, watching, steering, stopping, and taking home.

use std::fmt::Write;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::body::Body;
use super::desk::{Desk, Shared};
use crate::desk::types::{self, DriverName, PathChange, Refusal, Run, RunSummary, Sample, Spec};
use crate::desk::{experiment, spec};

/// Samples of one answer.
const SAMPLES_MAX: usize = 20_000;
/// Samples of a file.
const FILE_SAMPLES_MAX: usize = 2_000_000;

pub(super) async fn check(Body(spec): Body<Spec>) -> Result<Response, Refusal> {
    let spec = possible(spec).await?;
    Ok(Json(json!({ "seconds": spec::seconds(&spec) })).into_response())
}

/// The spec in full, if it can be run.
async fn possible(spec: Spec) -> Result<Spec, Refusal> {
    let checked = tokio::task::spawn_blocking(move || {
        let spec = spec::checked(spec)?;
        if spec.driver == DriverName::Virtual {
            experiment::write(&spec)?;
        }
        Ok(spec)
    });
    checked.await.map_err(|error| Refusal::new(500, error.to_string()))?
}

pub(super) async fn list(State(desk): Shared) -> Json<Vec<RunSummary>> {
    Json(desk.board.summaries())
}

pub(super) async fn create(
    State(desk): Shared,
    Body(spec): Body<Spec>,
) -> Result<(StatusCode, Json<Run>), Refusal> {
    let spec = possible(spec).await?;
    desk.board.add(spec).map(|run| (StatusCode::CREATED, Json(run)))
}

pub(super) async fn show(State(desk): Shared, Path(id): Path<String>) -> Result<Json<Run>, Refusal> {
    let folder = desk.board.store().run_folder(&id);
    desk.board.with(&id, |record| record.run(&folder)).map(Json)
}

pub(super) async fn stop(
    State(desk): Shared,
    Path(id): Path<String>,
) -> Result<(StatusCode, Json<RunSummary>), Refusal> {
    desk.board.stop(&id).map(|summary| (StatusCode::ACCEPTED, Json(summary)))
}

pub(super) async fn remove(State(desk): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    desk.board.remove(&id).map(|()| StatusCode::NO_CONTENT)
}

pub(super) async fn steer(
    State(desk): Shared,
    Path(id): Path<String>,
    Body(change): Body<PathChange>,
) -> Result<Json<types::Path>, Refusal> {
    desk.board.steer(&id, &change).map(Json)
}

#[derive(Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: usize,
}

pub(super) async fn samples(
    State(desk): Shared,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
) -> Result<Response, Refusal> {
    let samples = read_samples(&desk, id, from, SAMPLES_MAX).await?;
    Ok(Json(json!({ "next": from + samples.len(), "samples": samples })).into_response())
}

/// From memory if they are there, from disk otherwise.
async fn read_samples(
    desk: &Arc<Desk>,
    id: String,
    from: usize,
    count_max: usize,
) -> Result<Vec<Sample>, Refusal> {
    let held = desk.board.with(&id, |record| {
        let samples = record.samples()?;
        Some(samples.iter().skip(from).take(count_max).cloned().collect())
    })?;
    if let Some(samples) = held {
        return Ok(samples);
    }
    let desk = desk.clone();
    let read = tokio::task::spawn_blocking(move || desk.board.store().samples(&id, from, count_max));
    read.await.map_err(|error| Refusal::new(500, error.to_string()))
}

/// A file to be kept.
fn file(name: &str, content_type: &'static str, body: String) -> Response {
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers =
        [(header::CONTENT_TYPE, content_type.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
    (headers, body).into_response()
}

pub(super) async fn experiment(State(desk): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let spec = desk.board.with(&id, |record| record.spec.clone())?;
    let text = experiment::write(&spec)?;
    Ok(file(&format!("{id}.toml"), "application/toml", text))
}

pub(super) async fn transfers_json(State(desk): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let run = desk.board.with(&id, |record| record.run(&desk.board.store().run_folder(&id)))?;
    let body = serde_json::to_string_pretty(&run).map_err(|error| Refusal::new(500, error.to_string()))?;
    Ok(file(&format!("{id}.json"), "application/json", body))
}

pub(super) async fn transfers_csv(State(desk): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let (spec, transfers) = desk.board.with(&id, |record| (record.spec.clone(), record.transfers.clone()))?;
    let mut csv = String::from(
        "transport,transfer,seed,status,received_bytes,time_s,goodput_mbps,wire_ratio,lost_packets,offered_packets,repair_packets\n",
    );
    for t in &transfers {
        let status = json!(t.status);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            csv,
            "\"{}\",{},{},{},{},{},{},{},{},{},{}",
            spec.transports.get(t.flow).map_or("", String::as_str),
            t.transfer,
            t.seed,
            status.as_str().unwrap_or_default(),
            t.received_bytes,
            t.time_s,
            t.goodput_mbps,
            t.wire_ratio.map_or(String::new(), |ratio| ratio.to_string()),
            t.lost_packets,
            t.offered_packets,
            t.repair_packets
        );
    }
    Ok(file(&format!("{id}.csv"), "text/csv; charset=utf-8", csv))
}

pub(super) async fn samples_csv(State(desk): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let transports = desk.board.with(&id, |record| record.spec.transports.clone())?;
    let samples = read_samples(&desk, id.clone(), 0, FILE_SAMPLES_MAX).await?;
    let mut csv = String::from(
        "transport,transfer,t,received_bytes,sequence_bytes,goodput_mbps,window_bytes,in_flight_bytes,rtt_ms,pacing_mbps,\
         queue_bytes,lost_packets,dropped_packets,marked_packets,offered_packets,loss,loss_estimate,repair_packets,redundancy\n",
    );
    let maybe = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for s in &samples {
        let transport = transports.get(s.flow).map_or("", String::as_str);
        let _ =
            write!(csv, "\"{transport}\",{},{},{},{},", s.transfer, s.t, s.received_bytes, s.sequence_bytes);
        let _ = write!(csv, "{},{},{},{},", s.goodput_mbps, s.window_bytes, s.in_flight_bytes, s.rtt_ms);
        let _ = write!(
            csv,
            "{},{},{},{},",
            maybe(s.pacing_mbps),
            s.queue_bytes,
            s.lost_packets,
            s.dropped_packets
        );
        let _ =
            write!(csv, "{},{},{},{},", s.marked_packets, s.offered_packets, s.loss, maybe(s.loss_estimate));
        let _ = writeln!(csv, "{},{}", s.repair_packets, maybe(s.redundancy));
    }
    Ok(file(&format!("{id}-samples.csv"), "text/csv; charset=utf-8", csv))
}
