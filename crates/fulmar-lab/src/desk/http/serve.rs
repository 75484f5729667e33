//! Connections of pages: how many there are, and how long one may take to say what it wants.
//!
//! Whoever reaches the port can open connections and say half a request on each. So a request has a time to
//! be whole, and of connections that have not shown the token only so many stay: the oldest goes when one
//! more comes. A page that has the token is none of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

/// How long the head of a request may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Connections that have not shown the token.
const STRANGERS_MAX: usize = 128;
/// Connections that have. A page has six at most.
const KNOWN_MAX: usize = 512;
/// How long no connection is taken when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a request of this connection has shown the token.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Arc<AtomicBool>);

impl Known {
    pub(super) fn show(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_shown(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Connections that are open, the oldest first.
#[derive(Debug, Default)]
struct Guests(VecDeque<(AbortHandle, Known)>);

impl Guests {
    /// Makes room for one more, and strikes off those that have gone.
    fn make_room(&mut self) {
        self.0.retain(|(task, _)| !task.is_finished());
        for (is_known, max) in [(false, STRANGERS_MAX), (true, KNOWN_MAX)] {
            let of_kind = |(_, known): &(AbortHandle, Known)| known.is_shown() == is_known;
            let count = self.0.iter().filter(|guest| of_kind(guest)).count();
            if count >= max
                && let Some(oldest) = self.0.iter().position(of_kind)
                && let Some((task, _)) = self.0.remove(oldest)
            {
                task.abort();
            }
        }
    }
}

/// Serves pages as long as it is polled.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let mut guests = Guests::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a connection of a page: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        guests.make_room();
        let known = Known::default();
        let service = TowerToHyperService::new(router.clone());
        let noted = known.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(noted.clone());
            service.call(request)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("a connection of a page: {error}");
            }
        });
        guests.0.push_back((task.abort_handle(), known));
    }
}
