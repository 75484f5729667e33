//! Everything below a folder, one entry after the other, also what cannot be copied: whoever asks is to hear
//! of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{FileCode, FileError};
use super::message::{Kind, Meta};
use super::store::{Entry, Store};

/// What a walk comes by; paths are relative to where it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A file or a folder.
    Entry(PathBuf, Kind, Meta),
    /// A file with the name of a part: perhaps one, and not to be copied.
    Part(PathBuf, Meta),
    /// What is left out, and why: `WrongKind` for what is neither file nor folder.
    LeftOut(PathBuf, FileError),
}

impl Found {
    /// Why a file with the name of a part is left out.
    pub fn part() -> FileError {
        FileError::new(FileCode::BadName, "left out, its name is that of the part of another copy")
    }
}

/// Names everything below one folder, folders before what is in them.
#[derive(Debug)]
pub struct Walk {
    store: Arc<Store>,
    root: PathBuf,
    /// What is left of each folder on the way down. A path can only be so long, so this can only be so deep.
    open: Vec<std::vec::IntoIter<Entry>>,
    /// A folder that could not be opened, to be told after its own entry.
    closed: Option<(PathBuf, FileError)>,
}

impl Walk {
    /// Begins at a folder. An error does not name it: whoever asks knows it by another name.
    pub fn begin(store: Arc<Store>, root: PathBuf) -> Result<Self, FileError> {
        let entries = store.entries(&root)?;
        Ok(Self { store, root, open: vec![entries.into_iter()], closed: None })
    }

    fn below(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    fn descend(&mut self, folder: &Path) {
        match self.store.entries(folder) {
            Ok(entries) => self.open.push(entries.into_iter()),
            Err(error) => self.closed = Some((self.below(folder), error)),
        }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some((path, error)) = self.closed.take() {
            return Some(Found::LeftOut(path, error));
        }
        let entry = loop {
            match self.open.last_mut()?.next() {
                Some(entry) => break entry,
                None => self.open.pop(),
            };
        };
        let below = self.below(&entry.path);
        Some(match entry.what {
            Ok((Kind::File, meta)) if entry.is_part => Found::Part(below, meta),
            Ok((kind, meta)) => {
                if kind == Kind::Folder {
                    self.descend(&entry.path);
                }
                Found::Entry(below, kind, meta)
            }
            Err(error) => Found::LeftOut(below, error),
        })
    }
}
