//! Pictures: those that can be sent, and what has been received of one so far.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use super::desk::Shared;
use crate::desk::image::{Image, Picture};
use crate::desk::types::Refusal;

static NEXT: AtomicU32 = AtomicU32::new(1);

pub(super) async fn list(State(desk): Shared) -> Json<Vec<Image>> {
    Json(desk.board.pictures().iter().map(|picture| picture.image.clone()).collect())
}

#[derive(Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    name: String,
}

pub(super) async fn add(
    State(desk): Shared,
    Query(Named { name }): Query<Named>,
    body: Bytes,
) -> Result<(StatusCode, Json<Image>), Refusal> {
    let id = format!("image-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let picture = desk.board.add_picture(Picture::read(id, &name, body.to_vec())?);
    Ok((StatusCode::CREATED, Json(picture.image.clone())))
}

pub(super) async fn show(State(desk): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let picture = desk.board.pictures().into_iter().find(|picture| picture.image.id == id);
    let picture = picture.ok_or_else(|| Refusal::new(404, format!("there is no picture '{id}'")))?;
    Ok(([(header::CONTENT_TYPE, picture.image.content_type)], picture.bytes.clone()).into_response())
}

#[derive(Deserialize)]
pub(super) struct From {
    #[serde(default)]
    from: usize,
}

pub(super) async fn received(
    State(desk): Shared,
    Path((id, flow)): Path<(String, usize)>,
    Query(From { from }): Query<From>,
) -> Result<Response, Refusal> {
    let found = desk.board.with(&id, |record| {
        let picture = record.picture.clone()?;
        let all = record.received.get(flow)?;
        Some((picture, all.get(from..).unwrap_or_default().to_vec(), all.len()))
    })?;
    let (picture, part, count) =
        found.ok_or_else(|| Refusal::new(404, "there is no such picture (any more)"))?;
    let status = if part.is_empty() { StatusCode::NO_CONTENT } else { StatusCode::OK };
    let headers = [
        ("content-type", picture.image.content_type.to_owned()),
        ("x-received-bytes", count.to_string()),
        ("x-total-bytes", picture.bytes.len().to_string()),
    ];
    Ok((status, headers, part).into_response())
}
