//! Everything below a folder, one entry after the other.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::FileError;
use super::message::{Kind, Meta};
use super::store::{Entry, Store};

/// Deepest folder that is descended into.
const DEPTH_MAX: usize = 256;

/// Names every file and folder below one, folders before what is in them. A part, or a file that has the name
/// of one, comes as `Other`: it is not to be copied, and whoever wants it is to hear so.
#[derive(Debug)]
pub struct Walk {
    store: Arc<Store>,
    root: PathBuf,
    /// What is left of each folder on the way down.
    open: Vec<std::vec::IntoIter<Entry>>,
    skipped: u64,
}

impl Walk {
    /// Begins at a folder.
    pub fn begin(store: Arc<Store>, root: PathBuf) -> Result<Self, FileError> {
        let open = vec![store.entries(&root)?.into_iter()];
        Ok(Self { store, root, open, skipped: 0 })
    }

    /// Entries left out so far: links, devices, and folders that may not be read or lie too deep.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn descend(&mut self, folder: &std::path::Path) {
        match self.store.entries(folder) {
            Ok(entries) if self.open.len() < DEPTH_MAX => self.open.push(entries.into_iter()),
            _ => self.skipped += 1,
        }
    }
}

impl Iterator for Walk {
    type Item = (PathBuf, Kind, Meta);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(entry) = self.open.last_mut()?.next() else {
                self.open.pop();
                continue;
            };
            let below = entry.path.strip_prefix(&self.root).unwrap_or(&entry.path).to_owned();
            match entry.kind {
                Kind::File if entry.is_part => return Some((below, Kind::Other, entry.meta)),
                Kind::File => return Some((below, Kind::File, entry.meta)),
                Kind::Folder => {
                    self.descend(&entry.path);
                    return Some((below, Kind::Folder, entry.meta));
                }
                _ => self.skipped += 1,
            }
        }
    }
}
