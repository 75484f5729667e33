//! The last step of a file, its final name, for many files at once.
//!
//! A file's content is on disk before it gets its name, and the name before anybody is told; for the name a
//! folder is written to disk. Where many small files are ready at the same time, one such writing does for
//! all of them: whoever comes while the folder is being written waits for the next.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Dir;
use tokio::sync::oneshot;

use super::disk;
use super::error::{FileCode, FileError, TransferError};

/// A file that is complete and on disk, under the name of its part.
#[derive(Debug)]
pub struct Sealed {
    /// Holds the lock.
    pub(super) part: File,
    pub(super) folder: Arc<Dir>,
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
    /// For people.
    pub(super) shown: String,
}

/// Device and inode of a folder.
type FolderId = (u64, u64);

type Waiting = (Sealed, oneshot::Sender<Result<(), FileError>>);

/// Files that wait for their names, by folder. Where there is an entry, somebody is at work for it.
#[derive(Debug, Default)]
pub struct Publisher(Mutex<HashMap<FolderId, Vec<Waiting>>>);

impl Publisher {
    /// Gives the file its name, for good.
    pub async fn publish(self: &Arc<Self>, sealed: Sealed) -> Result<(), TransferError> {
        let metadata = sealed.folder.dir_metadata().map_err(|e| FileError::from_io(&sealed.shown, &e))?;
        let id = (metadata.dev(), metadata.ino());
        let (tell, told) = oneshot::channel();
        let is_first = {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_first = !waiting.contains_key(&id);
            waiting.entry(id).or_default().push((sealed, tell));
            is_first
        };
        if is_first {
            // Not by the request itself: it may end before the others have their names.
            let all = Arc::clone(self);
            tokio::task::spawn_blocking(move || all.work(id));
        }
        let stopped = || FileError::new(FileCode::Io, "the program ends");
        Ok(told.await.unwrap_or_else(|_| Err(stopped()))?)
    }

    /// Until nobody waits any more.
    fn work(&self, id: FolderId) {
        loop {
            let ready = {
                let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let ready = waiting.get_mut(&id).map(std::mem::take).unwrap_or_default();
                if ready.is_empty() {
                    waiting.remove(&id);
                    return;
                }
                ready
            };
            let (sealed, tell): (Vec<_>, Vec<_>) = ready.into_iter().unzip();
            for (tell, published) in tell.into_iter().zip(publish_all(&sealed)) {
                // Somebody who has gone meanwhile need not hear it.
                let _ = tell.send(published);
            }
        }
    }
}

/// Gives files of one folder their names, and writes the folder once.
pub(super) fn publish_all(sealed: &[Sealed]) -> Vec<Result<(), FileError>> {
    let explain = |sealed: &Sealed, error: &std::io::Error| FileError::from_io(&sealed.shown, error);
    let renamed = sealed.iter().map(|sealed| {
        let renamed = disk::rename(&sealed.part, &sealed.folder, &sealed.from, &sealed.to);
        renamed.map_err(|error| explain(sealed, &error))
    });
    let mut results: Vec<_> = renamed.collect();
    let Some(first) = sealed.first() else { return results };
    if let Err(error) = disk::sync_names(&first.part, &first.folder) {
        for (result, sealed) in results.iter_mut().zip(sealed).filter(|(result, _)| result.is_ok()) {
            *result = Err(explain(sealed, &error));
        }
    }
    results
}
