//! The page and its interface (docs/internals/operator-api.md).

mod body;
mod desk;
mod events;
mod experiments;
mod guard;
mod images;
mod page;
mod runs;
mod serve;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router, middleware};
use serde_json::json;

use super::types::Refusal;
use super::{catalogue, image, results};
pub(crate) use desk::Desk;
use desk::Shared;
pub(crate) use guard::{Guard, token};
pub(crate) use page::is_built as page_is_built;
pub(crate) use serve::serve;

/// Bytes of a request that is no picture.
const BODY_MAX: usize = 1 << 20;
/// Bytes of an experiment file: the longest of this project has 7 kB.
const EXPERIMENT_MAX: usize = 1 << 17;

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut error = json!({ "message": self.message });
        if let Some(field) = self.field {
            error["field"] = field.into();
        }
        (status, Json(json!({ "error": error }))).into_response()
    }
}

/// Everything that can be asked.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let api = Router::new()
        .route("/state", get(async |State(desk): Shared| Json(desk.board.state())))
        .route("/events", get(events::events))
        .route(
            "/catalogue",
            get(async |State(desk): Shared| Json(catalogue::catalogue(&desk.board.drivers()))),
        )
        .route("/check", post(runs::check))
        .route("/runs", get(runs::list).post(runs::create))
        .route("/runs/{id}", get(runs::show).delete(runs::remove))
        .route("/runs/{id}/stop", post(runs::stop))
        .route("/runs/{id}/path", patch(runs::steer))
        .route("/runs/{id}/samples", get(runs::samples))
        .route("/runs/{id}/samples.csv", get(runs::samples_csv))
        .route("/runs/{id}/transfers.csv", get(runs::transfers_csv))
        .route("/runs/{id}/transfers.json", get(runs::transfers_json))
        .route("/runs/{id}/experiment.toml", get(runs::experiment))
        .route("/runs/{id}/flows/{flow}/received", get(images::received))
        .route("/experiments", get(experiments::list))
        .route("/experiments/write", post(experiments::write))
        .route("/experiments/read", post(experiments::read).layer(DefaultBodyLimit::max(EXPERIMENT_MAX)))
        .route("/experiments/{name}", get(experiments::show))
        .route("/images", get(images::list).post(images::add).layer(DefaultBodyLimit::max(image::BYTES_MAX)))
        .route("/images/{id}", get(images::show))
        .route("/results", get(results))
        .fallback(async || Refusal::new(404, "there is nothing here"))
        .layer(middleware::map_response(told_alike));
    Router::new()
        .nest("/api", api)
        .route("/", get(page::index))
        .fallback(page::asset)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(Arc::new(desk.guard.clone()), guard::check))
        .with_state(desk)
}

/// What the interface says is of this moment, and refusals of the router read like all others.
async fn told_alike(response: Response) -> Response {
    let status = response.status();
    let json = header::HeaderValue::from_static("application/json");
    let is_told = response.headers().get(header::CONTENT_TYPE) == Some(&json);
    let mut response = if status.is_success() || is_told {
        response
    } else {
        Refusal::new(status.as_u16(), status.canonical_reason().unwrap_or("refused")).into_response()
    };
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(header::HeaderValue::from_static("no-store"));
    response
}

async fn results(State(desk): Shared) -> Result<Response, Refusal> {
    let read = tokio::task::spawn_blocking(move || results::read(&desk.experiments, &desk.report));
    let results = read.await.map_err(|error| Refusal::new(500, error.to_string()))?;
    Ok(Json(results).into_response())
}
