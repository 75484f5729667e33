//! Carries out a plan: several files at once, each on a stream of its own, over connections that may break.
//!
//! When a connection is lost, what has arrived stays where it is, a new one is made, and every file goes on
//! from there. A file or a folder that fails for a reason of its own (missing, not permitted) is reported,
//! and the others go on, as with `cp`. On a full disk smaller files may still have room; larger ones are not
//! tried.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

use super::compare::{self, compare};
use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Message, Version};
use super::plan::{Direction, Folder, Item, NotCopied, Plan};
use super::progress::{FileProgress, Progress};
use super::receive::receive;
use super::send::{Outcome, send, unexpected};
use super::source::Source;
use super::work::{blocking, panicked};
use crate::exit::Failure;
use crate::session::Session;

/// Longest pause between two attempts to connect again.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Questions at the same time about what is there already.
const QUESTIONS_MAX: usize = 8;

/// How much is under way at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Files, whatever their size.
    files: usize,
    /// Files, as long as together they have at most so many bytes. A small file takes a round trip, however
    /// little it is: only many at a time fill a long path.
    small_files: usize,
    bytes: u64,
}

impl Default for Bound {
    /// 16 files of any size; up to as many as a server serves of one connection while they have less than the
    /// product of 1 Gbit/s and half a second.
    fn default() -> Self {
        Self { files: 16, small_files: super::clients::REQUESTS_PER_CONNECTION, bytes: 64 << 20 }
    }
}

impl Bound {
    /// So many files and no more.
    pub fn files(files: usize) -> Self {
        Self { files, small_files: files, bytes: u64::MAX }
    }

    /// Whether one more may begin beside so many of so many bytes together.
    fn admits(&self, files: usize, bytes: u64) -> bool {
        files < self.files || (files < self.small_files && bytes <= self.bytes)
    }
}

/// A plan being carried out.
#[derive(Debug)]
pub struct Job {
    direction: Direction,
    folders: VecDeque<Folder>,
    waiting: VecDeque<Item>,
    progress: Arc<Progress>,
    /// Size of the smallest file for which there was no room.
    no_room_for: Option<u64>,
    /// Files that were copied.
    pub done: Vec<(Item, Outcome)>,
    /// Files and folders that were not, and why.
    pub failed: Vec<NotCopied>,
    /// What was left out because it is neither file nor folder.
    pub left_out: Vec<NotCopied>,
}

impl Job {
    /// Prepares to carry out a plan.
    pub fn new(direction: Direction, plan: Plan, progress: &Arc<Progress>) -> Self {
        let total = plan.items.iter().map(|i| i.meta.size_bytes).fold(0, u64::saturating_add);
        progress.total_bytes.store(total, Ordering::Relaxed);
        progress.total_files.store(plan.items.len() as u64, Ordering::Relaxed);
        Self {
            direction,
            folders: plan.folders.into(),
            waiting: plan.items.into(),
            progress: Arc::clone(progress),
            no_room_for: None,
            done: Vec::new(),
            failed: plan.refused,
            left_out: plan.left_out,
        }
    }

    /// Works over one connection until everything is done or the connection is lost (`Connection`), or there
    /// is no point in going on. Can be called again with another connection.
    pub async fn work(&mut self, session: &Session, bound: Bound) -> Result<(), TransferError> {
        self.make_folders(session, bound).await?;
        self.find_what_is_there(session).await?;
        let direction = self.direction;
        self.copy_all(bound, |item, progress| {
            let session = session.clone();
            async move {
                let result = copy(&session, direction, &item, &progress).await;
                if result.is_ok() {
                    progress.finish();
                }
                result.map_err(|error| session.end_of_stream(error, &item.shown()))
            }
        })
        .await
    }

    /// Files that are in neither list: not begun, or cut off with the connection.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Item> {
        self.waiting.iter()
    }

    /// Small files that are on both sides need not be copied.
    async fn find_what_is_there(&mut self, session: &Session) -> Result<(), TransferError> {
        let (mut unknown, mut rest): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(compare::is_worth_asking);
        let mut asking = JoinSet::new();
        let mut verdict = Ok(());
        loop {
            while verdict.is_ok() && asking.len() < QUESTIONS_MAX && !unknown.is_empty() {
                let items: Vec<_> = unknown.drain(compare::question(&unknown)).collect();
                let (session, direction) = (session.clone(), self.direction);
                asking.spawn(async move {
                    let same = compare(&session, direction, items.clone()).await;
                    (items, same)
                });
            }
            let Some(answered) = asking.join_next().await else { break };
            let (items, same) = answered.map_err(panicked)?;
            let same = match same {
                Ok(same) => same,
                Err(error) if compare::is_no_answer(&error) => vec![None; items.len()],
                Err(error) => {
                    verdict = Err(error);
                    unknown.extend(items);
                    continue;
                }
            };
            for (mut item, outcome) in items.into_iter().zip(same) {
                let Some(outcome) = outcome else {
                    item.may_be_there = false;
                    rest.push(item);
                    continue;
                };
                let progress = FileProgress::new(&self.progress);
                progress.on_resumed(outcome.size_bytes);
                progress.finish();
                self.done.push((item, outcome));
            }
        }
        rest.extend(unknown);
        self.waiting = rest.into();
        verdict
    }

    /// Whatever becomes of a file's task, the file ends up as done, failed or waiting.
    async fn copy_all<F>(
        &mut self,
        bound: Bound,
        mut begin: impl FnMut(Item, FileProgress) -> F,
    ) -> Result<(), TransferError>
    where
        F: Future<Output = Result<Outcome, TransferError>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        // A task that panics gives nothing back: what it was about is known here.
        let mut items: Vec<(tokio::task::Id, Item)> = Vec::new();
        let mut verdict = Ok(());
        let mut too_large = Vec::new();
        loop {
            while verdict.is_ok() {
                let Some(next) = self.waiting.front() else { break };
                let bytes = items
                    .iter()
                    .map(|(_, item)| item.meta.size_bytes)
                    .fold(next.meta.size_bytes, u64::saturating_add);
                if !bound.admits(running.len(), bytes) {
                    break;
                }
                let Some(item) = self.waiting.pop_front() else { break };
                if self.no_room_for.is_some_and(|bytes| item.meta.size_bytes >= bytes) {
                    too_large.push(item);
                    continue;
                }
                let work = begin(item.clone(), FileProgress::new(&self.progress));
                items.push((running.spawn(work).id(), item));
            }
            let Some(finished) = running.join_next_with_id().await else { break };
            let id = finished.as_ref().map_or_else(tokio::task::JoinError::id, |(id, _)| *id);
            let at = items.iter().position(|(known, _)| *known == id).expect("every task has an item");
            let (_, item) = items.swap_remove(at);
            match finished.map_or_else(|error| Err(panicked(error).about(&item.shown()).into()), |(_, r)| r) {
                Ok(outcome) => self.done.push((item, outcome)),
                Err(error) if error.is_interruption() => {
                    self.waiting.push_front(item);
                    verdict = Err(error);
                }
                Err(error) => {
                    if is_full(&error) {
                        let bytes = item.meta.size_bytes;
                        self.no_room_for = Some(self.no_room_for.map_or(bytes, |least| least.min(bytes)));
                    }
                    self.failed.push(NotCopied {
                        local: item.local,
                        remote: item.remote,
                        error: whose(error),
                    });
                }
            }
        }
        self.waiting.extend(too_large);
        verdict
    }

    /// Makes all folders: those of one depth at the same time, or a tree would cost a round trip for each.
    /// One that cannot be made takes along what belongs into it, and nothing else.
    async fn make_folders(&mut self, session: &Session, bound: Bound) -> Result<(), TransferError> {
        let depth = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        self.folders.make_contiguous().sort_by_key(|folder| depth(folder.destination()));
        let mut unmade = HashSet::new();
        while let Some(first) = self.folders.front() {
            let level = depth(first.destination());
            let is_next = |folder: &&Folder| depth(folder.destination()) == level;
            let count = self.folders.iter().take(bound.small_files).take_while(is_next).count();
            let mut running = JoinSet::new();
            for (index, folder) in self.folders.iter().take(count).enumerate() {
                if is_inside(folder.destination(), &unmade) {
                    continue;
                }
                let (session, folder) = (session.clone(), folder.clone());
                running.spawn(async move { (index, make_folder(&session, folder).await) });
            }
            let mut errors = Vec::new();
            while let Some(made) = running.join_next().await {
                match made.map_err(panicked)? {
                    (_, Err(error)) if error.is_interruption() => return Err(error),
                    (index, Err(error)) => errors.push((index, error)),
                    (_, Ok(())) => {}
                }
            }
            errors.sort_by_key(|(index, _)| *index);
            let mut errors = errors.into_iter().peekable();
            for (index, folder) in self.folders.drain(..count).enumerate() {
                let own = errors.next_if(|(at, _)| *at == index).map(|(_, error)| error);
                let inherited = || is_inside(folder.destination(), &unmade).then(|| not_made(&folder.local));
                let Some(error) = own.or_else(inherited) else { continue };
                unmade.insert(folder.destination().to_vec());
                self.failed.push(NotCopied { local: folder.local, remote: folder.remote, error });
            }
        }
        self.leave_out_what_is_inside(&unmade);
        Ok(())
    }

    fn leave_out_what_is_inside(&mut self, unmade: &HashSet<Vec<u8>>) {
        if unmade.is_empty() {
            return;
        }
        let direction = self.direction;
        let is_lost = |item: &Item| is_inside(item.destination(direction), unmade);
        let (lost, rest): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_lost);
        self.waiting = rest.into();
        let lost = lost.into_iter().map(|item| {
            let error = not_made(&item.local);
            NotCopied { local: item.local, remote: item.remote, error }
        });
        self.failed.extend(lost);
    }

    /// Bytes moved so far, to tell an attempt that got somewhere from one that did not.
    pub fn moved_bytes(&self) -> u64 {
        self.progress.moved_bytes.load(Ordering::Relaxed)
    }

    /// Files that changed while they were read and were copied as they were.
    pub fn noted(&self) -> impl Iterator<Item = (&Item, &FileError)> {
        self.done.iter().filter_map(|(item, outcome)| Some((item, outcome.note.as_deref()?)))
    }

    /// Why the command as a whole has failed, if it has: the first reason, and how many more there are. A
    /// full disk and a wrong hash have codes of their own; otherwise it matters whether anything was copied.
    pub fn verdict(&self) -> Option<Failure> {
        let not_copied = self.failed.len() + self.left_out.len() + self.waiting.len();
        let worst = self.failed.iter().find(|failed| has_own_code(&failed.error));
        let first = worst.or(self.failed.first()).or(self.left_out.first())?;
        let all = not_copied + self.done.len();
        let reason = &first.error;
        let text = if all == 1 {
            reason.to_string()
        } else {
            format!("{reason} ({not_copied} of {all} not copied)")
        };
        if worst.is_none() && (self.failed.is_empty() || !self.done.is_empty()) {
            return Some(Failure::Incomplete(text));
        }
        Some(match &first.error {
            TransferError::Local(e) | TransferError::Remote(e) => FileError::new(e.code, text).into(),
            TransferError::Connection(_) | TransferError::GivenUp(_) => Failure::Unreachable(text),
            TransferError::Protocol(_) => Failure::Other(text),
        })
    }
}

/// How long to wait before the n-th attempt (from 1) without progress: 0.5, 1, 2, 4, 8, 15 s ...
pub fn pause(attempt: u32) -> Duration {
    (Duration::from_millis(250) * 2u32.saturating_pow(attempt.min(16))).min(PAUSE_MAX)
}

/// Whether a path has one of these above it.
fn is_inside(path: &[u8], folders: &HashSet<Vec<u8>>) -> bool {
    let mut slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    !folders.is_empty() && slashes.any(|(at, _)| folders.contains(&path[..at]))
}

fn not_made(local: &[u8]) -> TransferError {
    FileError::new(FileCode::NotFound, "its folder could not be made")
        .about(&super::name::shown(local))
        .into()
}

fn is_full(error: &TransferError) -> bool {
    matches!(error, TransferError::Local(e) | TransferError::Remote(e) if e.code == FileCode::Full)
}

fn has_own_code(error: &TransferError) -> bool {
    let is_mismatch =
        matches!(error, TransferError::Local(e) | TransferError::Remote(e) if e.code == FileCode::Mismatch);
    is_full(error) || is_mismatch
}

/// A full disk may be either: which it is has to be said.
fn whose(error: TransferError) -> TransferError {
    match error {
        TransferError::Local(e) if e.code == FileCode::Full => e.about("this machine").into(),
        other => other,
    }
}

async fn make_folder(session: &Session, folder: Folder) -> Result<(), TransferError> {
    let Folder { store, local, remote, mode } = folder;
    if let Some(store) = store {
        return blocking(move || store.make_folder(&local, mode)).await;
    }
    let (mut writer, mut reader) = session.open().await?;
    message::write_request(&mut writer, &Message::MakeFolder(remote, mode)).await?;
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
    let (store, local) = (Arc::clone(&item.store), item.local.clone());
    let version = Version::Two;
    match direction {
        Direction::Up => {
            let shown = item.shown();
            let source = blocking(move || Source::open(&store, &local, &shown)).await?;
            let (mut writer, mut reader) = session.open().await?;
            message::write_request(&mut writer, &Message::Put(item.remote.clone())).await?;
            let result = send(&mut reader, &mut writer, source, progress, version).await;
            let _ = writer.shutdown().await;
            result
        }
        Direction::Down => {
            let place = blocking(move || store.place(&local)).await?;
            let (mut writer, mut reader) = session.open().await?;
            message::write_request(&mut writer, &Message::Get(item.remote.clone())).await?;
            let result = receive(&mut reader, &mut writer, place, progress, version).await;
            let _ = writer.shutdown().await;
            result
        }
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
