//! The page: what `make dashboard` has built, inside the program. A program that was built without it says
//! how to get it.

use axum::http::{StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Response};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../dashboard/dist"]
#[allow_missing = true]
struct Dist;

const UNBUILT: &str = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
    <title>Fulmar: the operator's desk</title><body style='font:16px/1.5 system-ui;max-width:38em;margin:4em auto;padding:0 1em'>\
    <h1>The page is not in this program</h1><p>It was built without the front end, which needs Node.js once, when it is built. \
    In a clone of Fulmar:</p><pre>make dashboard\nmake operator</pre><p>Everything else works: the interface is described in \
    docs/internals/operator-api.md, and <a href='/api/state'>/api/state</a> answers.</p></body></html>";

/// Whether the program has the page inside.
pub(crate) fn is_built() -> bool {
    Dist::get("index.html").is_some()
}

/// The page itself.
pub(super) async fn index() -> Response {
    match Dist::get("index.html") {
        Some(file) => ([(header::CACHE_CONTROL, "no-cache")], Html(file.data)).into_response(),
        None => Html(UNBUILT).into_response(),
    }
}

/// What belongs to it. Names of assets change with their contents, so they may be kept for ever.
pub(super) async fn asset(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let Some(file) = Dist::get(path) else {
        return (StatusCode::NOT_FOUND, "there is nothing here\n").into_response();
    };
    let keep = if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers =
        [(header::CONTENT_TYPE, file.metadata.mimetype().to_owned()), (header::CACHE_CONTROL, keep.into())];
    (headers, file.data).into_response()
}
