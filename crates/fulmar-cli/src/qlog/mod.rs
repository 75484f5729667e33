//! `--qlog DIR`: a file for each connection in the format of qlog (draft-ietf-quic-qlog-main-schema, JSON
//! text sequences), packet by packet (docs/carry.md).
//!
//! | part | decides |
//! |---|---|
//! | [`events`] | how what happened is written |
//! | [`log`] | what one file holds, and where it ends |

pub mod events;
pub mod log;

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use fulmar::{Connection, Side};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::exit::Failure;
use log::{Budget, Log};

/// Events of one connection that wait to be written: those of 100 ms at 650,000 packets per second.
const EVENTS_MAX: usize = 1 << 16;

/// How long the program waits in the end for what is to be written.
const FINISH_TIME_MAX: Duration = Duration::from_secs(2);

/// The logs of this process.
struct Logs {
    folder: PathBuf,
    budget: Arc<Budget>,
    writing: Mutex<JoinSet<()>>,
    /// Tells the writers that the program ends.
    end: watch::Sender<bool>,
}

static LOGS: OnceLock<Logs> = OnceLock::new();

/// Logs every connection from now on to a file of its own in this folder, which is made if need be; all of
/// them together get no longer than `bytes_max`.
pub fn start(folder: &Path, bytes_max: u64) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| Failure::File(format!("{}: {e}", folder.display())))?;
    let (folder, budget) = (folder.to_owned(), Arc::new(Budget::new(bytes_max)));
    // There is one command line.
    let _ = LOGS.set(Logs { folder, budget, writing: Mutex::default(), end: watch::Sender::new(false) });
    Ok(())
}

/// How many events a connection is to remember; `None` if connections are not logged.
pub fn events_max() -> Option<usize> {
    LOGS.get().map(|_| EVENTS_MAX)
}

/// Follows a connection to its end, if connections are logged.
pub fn follow(connection: &Connection) {
    let Some(logs) = LOGS.get() else { return };
    let side = if connection.side() == Side::Client { "client" } else { "server" };
    let path = logs.folder.join(name(side));
    let connection = connection.clone();
    match create(&path, side, &logs.budget) {
        Ok(log) => {
            let end = logs.end.subscribe();
            let mut writing = logs.writing.lock().unwrap_or_else(PoisonError::into_inner);
            while writing.try_join_next().is_some() {}
            writing.spawn(async move {
                if let Err(error) = log.follow(&connection, end).await {
                    tracing::warn!("{}: {error}", path.display());
                }
            });
        }
        Err(error) => tracing::warn!("{}: {error}", path.display()),
    }
}

/// Writes what has happened until now, for the program is about to end.
pub async fn finish() {
    let Some(logs) = LOGS.get() else { return };
    logs.end.send_replace(true);
    let writing = std::mem::take(&mut *logs.writing.lock().unwrap_or_else(PoisonError::into_inner));
    if tokio::time::timeout(FINISH_TIME_MAX, writing.join_all()).await.is_err() {
        tracing::warn!("{}: not everything could be written in time", logs.folder.display());
    }
}

fn create(path: &Path, side: &str, budget: &Arc<Budget>) -> io::Result<Log<BufWriter<File>>> {
    if !budget.has_room() {
        return Err(io::Error::new(io::ErrorKind::StorageFull, "the logs are as long as --qlog-max allows"));
    }
    Log::new(BufWriter::new(File::create_new(path)?), side, Arc::clone(budget))
}

/// A name that no other connection has.
fn name(side: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{process}-{number}_{side}.sqlog", since.as_secs())
}
