//! Carries out a plan: several files at once, each on a stream of its own, over connections that may break.
//!
//! When a connection is lost, what has arrived stays where it is, a new one is made, and every file goes on
//! from there. A file that fails for a reason of its own (missing, not permitted) is reported, and the others
//! go on, as with `cp`; a full disk ends everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Message};
use super::plan::{Direction, Folder, Item, Plan};
use super::progress::{FileProgress, Progress};
use super::receive::receive;
use super::send::{Outcome, Source, send, unexpected};
use super::work::{blocking, panicked};
use crate::session::Session;

/// Longest pause between two attempts to connect again.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// A plan being carried out.
#[derive(Debug)]
pub struct Job {
    direction: Direction,
    folders: VecDeque<Folder>,
    waiting: VecDeque<Item>,
    progress: Arc<Progress>,
    /// Files that were copied.
    pub done: Vec<(Item, Outcome)>,
    /// Files that were not, and why.
    pub failed: Vec<(Item, TransferError)>,
}

impl Job {
    /// Prepares to carry out a plan.
    pub fn new(direction: Direction, plan: Plan, progress: &Arc<Progress>) -> Self {
        let total: u64 = plan.items.iter().map(|i| i.size_bytes).sum();
        progress.total_bytes.store(total, Ordering::Relaxed);
        Self {
            direction,
            folders: plan.folders.into(),
            waiting: plan.items.into(),
            progress: Arc::clone(progress),
            done: Vec::new(),
            failed: plan.refused.into_iter().map(|(item, error)| (item, error.into())).collect(),
        }
    }

    /// Works over one connection until everything is done or the connection is lost (`Connection`), or there
    /// is no point in going on. Can be called again with another connection.
    pub async fn work(&mut self, session: &Session, streams_max: usize) -> Result<(), TransferError> {
        self.make_folders(session, streams_max).await?;
        let direction = self.direction;
        self.copy_all(streams_max, |item, progress| {
            let session = session.clone();
            async move {
                let result = copy(&session, direction, &item, &progress).await;
                if result.is_ok() {
                    progress.finish();
                }
                result.map_err(|error| end_of_stream(error, &session, &item))
            }
        })
        .await
    }

    /// Files that are in neither list: not begun, or cut off with the connection.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Item> {
        self.waiting.iter()
    }

    /// Whatever becomes of a file's task, the file ends up as done, failed or waiting.
    async fn copy_all<F>(
        &mut self,
        streams_max: usize,
        mut begin: impl FnMut(Item, FileProgress) -> F,
    ) -> Result<(), TransferError>
    where
        F: Future<Output = Result<Outcome, TransferError>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        // A task that panics gives nothing back: what it was about is known here.
        let mut items = Vec::new();
        let mut verdict = Ok(());
        loop {
            while verdict.is_ok() && running.len() < streams_max {
                let Some(item) = self.waiting.pop_front() else { break };
                let work = begin(item.clone(), FileProgress::new(&self.progress));
                items.push((running.spawn(work).id(), item));
            }
            let Some(finished) = running.join_next_with_id().await else { return verdict };
            let id = finished.as_ref().map_or_else(tokio::task::JoinError::id, |(id, _)| *id);
            let at = items.iter().position(|(known, _)| *known == id).expect("every task has an item");
            let (_, item) = items.swap_remove(at);
            match finished.map_or_else(|error| Err(panicked(error).about(&item.shown()).into()), |(_, r)| r) {
                Ok(outcome) => self.done.push((item, outcome)),
                Err(error @ TransferError::Connection(_)) => {
                    self.waiting.push_front(item);
                    verdict = Err(error);
                }
                Err(error) => {
                    if is_full(&error) && verdict.is_ok() {
                        // The other files will not fit either.
                        verdict = Err(clone_full(&error));
                        running.shutdown().await;
                        self.waiting.extend(items.drain(..).map(|(_, item)| item));
                    }
                    self.failed.push((item, error));
                }
            }
        }
    }

    /// Makes all folders: those of one depth at the same time, or a tree would cost a round trip for each.
    async fn make_folders(&mut self, session: &Session, streams_max: usize) -> Result<(), TransferError> {
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        self.folders.make_contiguous().sort_by_key(|folder| depth(&folder.path));
        while let Some(first) = self.folders.front() {
            let level = depth(&first.path);
            let count = self.folders.iter().take(streams_max).take_while(|f| depth(&f.path) == level).count();
            let mut running = JoinSet::new();
            for folder in self.folders.iter().take(count).cloned() {
                let session = session.clone();
                running.spawn(async move { make_folder(&session, folder).await });
            }
            while let Some(made) = running.join_next().await {
                made.map_err(panicked)??;
            }
            self.folders.drain(..count);
        }
        Ok(())
    }

    /// Bytes moved so far, to tell an attempt that got somewhere from one that did not.
    pub fn moved_bytes(&self) -> u64 {
        self.progress.moved_bytes.load(Ordering::Relaxed)
    }
}

/// How long to wait before the n-th attempt (from 1) without progress: 0.5, 1, 2, 4, 8, 15 s ...
pub fn pause(attempt: u32) -> Duration {
    (Duration::from_millis(250) * 2u32.saturating_pow(attempt.min(16))).min(PAUSE_MAX)
}

fn is_full(error: &TransferError) -> bool {
    matches!(error, TransferError::Local(e) | TransferError::Remote(e) if e.code == FileCode::Full)
}

fn clone_full(error: &TransferError) -> TransferError {
    match error {
        TransferError::Local(e) => TransferError::Local(e.clone()),
        TransferError::Remote(e) => TransferError::Remote(e.clone()),
        other => TransferError::Protocol(other.to_string()),
    }
}

async fn make_folder(session: &Session, folder: Folder) -> Result<(), TransferError> {
    let Folder { store, path, mode } = folder;
    if let Some(store) = store {
        return blocking(move || store.make_folder(&path, mode)).await;
    }
    let (mut writer, mut reader) = session.open().await?;
    message::write_request(&mut writer, &Message::MakeFolder(path, mode)).await?;
    match message::read(&mut reader).await? {
        Message::Done(_) => Ok(()),
        other => Err(unexpected(&other)),
    }
}

async fn copy(
    session: &Session,
    direction: Direction,
    item: &Item,
    progress: &FileProgress,
) -> Result<Outcome, TransferError> {
    let (mut writer, mut reader) = session.open().await?;
    let (store, local) = (Arc::clone(&item.store), item.local.clone());
    let result = match direction {
        Direction::Up => {
            let shown = String::from_utf8_lossy(&local).into_owned();
            let (file, meta) = blocking(move || store.open_file(&local)).await?;
            message::write_request(&mut writer, &Message::Put(item.remote.clone())).await?;
            send(&mut reader, &mut writer, Source { file, meta, shown }, progress).await
        }
        Direction::Down => {
            let place = blocking(move || store.place(&local)).await?;
            message::write_request(&mut writer, &Message::Get(item.remote.clone())).await?;
            receive(&mut reader, &mut writer, place, progress).await
        }
    };
    let _ = writer.shutdown().await;
    result
}

/// A stream that ended while its connection goes on: there is no other connection to wait for, so the file
/// has failed.
fn end_of_stream(error: TransferError, session: &Session, item: &Item) -> TransferError {
    match error {
        TransferError::Connection(why) if session.is_open() => {
            let text = format!("{}: the other side gave up without a reason ({why})", item.shown());
            FileError::new(FileCode::Io, text).into()
        }
        error => error,
    }
}

/// The reason why a command with failed files has failed: the first of them, and how many more.
pub fn summary(failed: &[(Item, TransferError)]) -> Option<crate::exit::Failure> {
    use crate::exit::Failure;
    let (_, first) = failed.first()?;
    let (text, more) = (first.to_string(), failed.len() - 1);
    let text = if more == 0 { text } else { format!("{text} (and {more} more files)") };
    Some(match first {
        TransferError::Local(e) | TransferError::Remote(e) => FileError::new(e.code, text).into(),
        TransferError::Connection(_) => Failure::Unreachable(text),
        TransferError::Protocol(_) => Failure::Other(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cp::store::Store;

    fn job(names: &[&str]) -> (tempfile::TempDir, Job) {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path()).unwrap());
        let item = |name: &&str| Item {
            store: Arc::clone(&store),
            local: name.as_bytes().to_vec(),
            remote: name.as_bytes().to_vec(),
            size_bytes: 1,
        };
        let plan = Plan { items: names.iter().map(item).collect(), ..Plan::default() };
        (folder, Job::new(Direction::Up, plan, &Arc::default()))
    }

    fn names<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<String> {
        let mut names: Vec<_> = items.into_iter().map(Item::shown).collect();
        names.sort();
        names
    }

    const DONE: Outcome = Outcome { hash: [0; 32], resumed_bytes: 0, size_bytes: 1 };

    #[tokio::test]
    async fn a_copy_that_panics_is_named_and_the_others_go_on() {
        let (_folder, mut job) = job(&["a", "b", "c", "d"]);
        let work = job.copy_all(2, |item, _| async move {
            assert!(item.local != b"b", "on purpose");
            Ok(DONE)
        });
        work.await.unwrap();
        assert_eq!(names(job.done.iter().map(|(item, _)| item)), ["a", "c", "d"]);
        assert_eq!(names(job.failed.iter().map(|(item, _)| item)), ["b"]);
        let failure = summary(&job.failed).unwrap();
        assert_eq!(failure.exit_code(), 5);
        assert!(
            failure.to_string().starts_with("b: ") && failure.to_string().contains("on purpose"),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn every_file_is_in_a_list_when_the_disk_is_full_or_the_connection_lost() {
        let error = |code: Option<FileCode>| match code {
            Some(code) => TransferError::Remote(FileError::new(code, "full")),
            None => TransferError::Connection(std::io::ErrorKind::ConnectionReset.into()),
        };
        for code in [Some(FileCode::Full), None] {
            let (_folder, mut job) = job(&["a", "b", "c", "d"]);
            let work = job.copy_all(3, |item, _| async move {
                match &item.local[..] {
                    b"a" => Ok(DONE),
                    b"b" => Err(error(code)),
                    _ if code.is_some() => std::future::pending().await,
                    _ => Err(error(None)),
                }
            });
            assert!(work.await.is_err());
            let listed = job.done.iter().map(|(item, _)| item);
            let listed = listed.chain(job.failed.iter().map(|(item, _)| item)).chain(job.waiting());
            assert_eq!(names(listed), ["a", "b", "c", "d"]);
        }
    }
}
