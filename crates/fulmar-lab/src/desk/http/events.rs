//! Server-sent events: what changes, as it changes.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};

use super::desk::Shared;

/// How often something is sent if nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The state first, then every event.
pub(super) async fn events(State(desk): Shared) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let watcher = desk.board.listen();
    let events = stream::unfold(watcher, |mut watcher| async {
        let event = watcher.next().await?;
        Some((Ok(Event::default().event(event.name).data(&event.data)), watcher))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}
