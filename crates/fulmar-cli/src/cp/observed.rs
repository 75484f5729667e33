//! A copy, as `fulmar status` shows it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::task::JoinSet;

use super::plan::Direction;
use super::progress::Progress;
use crate::session::Session;
use crate::trust;
use crate::tunnel::watch::control::Socket;
use crate::tunnel::watch::report::{ConnectionReport, Observed, Report};

/// A copy with one server.
#[derive(Debug)]
pub struct ObservedCopy {
    host: String,
    direction: Direction,
    progress: Arc<Progress>,
    begin: Instant,
    /// The connection that it goes over now.
    session: Mutex<Session>,
}

impl ObservedCopy {
    /// A copy that begins over this connection.
    pub fn new(host: &str, direction: Direction, progress: &Arc<Progress>, session: &Session) -> Arc<Self> {
        Arc::new(Self {
            host: host.to_owned(),
            direction,
            progress: Arc::clone(progress),
            begin: Instant::now(),
            session: Mutex::new(session.clone()),
        })
    }

    /// The server.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// It goes on over another connection.
    pub fn moves_to(&self, session: &Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session.clone();
    }

    /// Answers `fulmar status` until what is given back is dropped.
    pub fn answer(self: &Arc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        // A home that cannot be written to is no reason not to copy.
        if let Some(socket) = trust::home().ok().and_then(|home| Socket::bind(home.path()).ok()) {
            tasks.spawn(socket.serve(vec![Arc::clone(self) as Arc<dyn Observed>]));
        }
        tasks
    }
}

impl Observed for ObservedCopy {
    fn report(&self) -> Report {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let moved = self.progress.moved_bytes.load(Ordering::Relaxed);
        let (up_bytes, down_bytes) = match self.direction {
            Direction::Up => (moved, 0),
            Direction::Down => (0, moved),
        };
        Report {
            pid: std::process::id(),
            command: "cp".into(),
            at: self.host.clone(),
            up_seconds: self.begin.elapsed().as_secs_f64(),
            up_bytes,
            down_bytes,
            connections: vec![ConnectionReport::of(&session)],
            ..Report::default()
        }
    }

    fn reload(&self) -> Result<String, String> {
        Ok("`fulmar cp` has no files to read again".into())
    }
}
