//! Power cuts. Everything a receiver does to the disk is written down; then the power is cut after each step,
//! for every disk that may be left: of names, those since the folder was last synced may be there or not, in
//! the order they were made; of a file's content, what came since it was last synced may be there or not,
//! step by step. Under the final name there is the old file or the new one, always, and the new one once it
//! was said to be stored. And from whatever is left, the same copy again gives the file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::disk::{STEPS, Step};
use super::super::store::Store;
use super::*;

const OLD: &[u8] = b"what was there before";
const NEW: &[u8] = b"first part, second part, and the end of it";

fn meta() -> Meta {
    Meta { size_bytes: NEW.len() as u64, mtime_s: 1_700_000_000, mtime_ns: 0, mode: 0o644 }
}

/// Receives `NEW` as `f` as far as `until`; whether it is stored.
fn receive(folder: &Path, until: usize) -> bool {
    let place = Store::open(folder).unwrap().place(b"f").unwrap();
    let partial = place.open_partial(&meta(), true).unwrap();
    let offered = partial.offset as usize;
    // As a sender does: it goes on only from what is its own.
    let is_mine = blake3::hash(&NEW[..offered]) == partial.hasher.finalize();
    let start = if is_mine { offered } else { 0 };
    let mut writer = partial.start(start as u64).unwrap();
    for chunk in NEW[start..until.max(start)].chunks(12) {
        writer.write(chunk).unwrap();
    }
    until == NEW.len() && writer.finish(&meta(), blake3::hash(NEW).as_bytes()).is_ok()
}

/// A disk as its writer sees it, and what of it is certain.
#[derive(Debug, Clone, Default)]
struct Disk {
    /// Names that are certain, and the steps since: they get there in their order, some time.
    names: BTreeMap<PathBuf, u64>,
    names_pending: Vec<Rename>,
    contents: BTreeMap<u64, Content>,
}

/// A file's name given, or taken over from another name.
#[derive(Debug, Clone)]
enum Rename {
    Create(PathBuf, u64),
    Move(PathBuf, PathBuf),
}

#[derive(Debug, Clone, Default)]
struct Content {
    certain: Vec<u8>,
    /// (from where on, what): lengths are written as nothing at that place.
    pending: Vec<(usize, Option<Vec<u8>>)>,
    length: usize,
}

impl Disk {
    fn apply(&mut self, inode: u64, step: &Step) {
        let content = self.contents.entry(inode).or_default();
        match step {
            Step::Create(name) => self.names_pending.push(Rename::Create(name.clone(), inode)),
            Step::SetLength(length) => {
                content.length = *length as usize;
                content.pending.push((content.length, None));
            }
            Step::Append(data) => {
                content.pending.push((content.length, Some(data.clone())));
                content.length += data.len();
            }
            Step::Sync => {
                content.certain = content.left(&vec![true; content.pending.len()]);
                content.pending.clear();
            }
            Step::Rename(from, to) => self.names_pending.push(Rename::Move(from.clone(), to.clone())),
            Step::SyncFolder => {
                self.names = self.names_left(self.names_pending.len());
                self.names_pending.clear();
            }
        }
    }

    /// The names if the first `count` of those pending have got there.
    fn names_left(&self, count: usize) -> BTreeMap<PathBuf, u64> {
        let mut names = self.names.clone();
        for pending in &self.names_pending[..count] {
            match pending {
                Rename::Create(name, inode) => {
                    names.insert(name.clone(), *inode);
                }
                Rename::Move(from, to) => {
                    if let Some(inode) = names.remove(from) {
                        names.insert(to.clone(), inode);
                    }
                }
            }
        }
        names
    }

    /// All folders that a power cut now may leave.
    fn folders_left(&self) -> BTreeSet<BTreeMap<PathBuf, Vec<u8>>> {
        let mut all = BTreeSet::new();
        for count in 0..=self.names_pending.len() {
            let mut folders = vec![BTreeMap::new()];
            for (name, inode) in self.names_left(count) {
                let contents = self.contents[&inode].all_left();
                folders = contents
                    .iter()
                    .flat_map(|content| {
                        folders.iter().map(|folder| {
                            let mut folder = folder.clone();
                            folder.insert(name.clone(), content.clone());
                            folder
                        })
                    })
                    .collect();
            }
            all.extend(folders);
        }
        all
    }
}

impl Content {
    fn left(&self, is_there: &[bool]) -> Vec<u8> {
        let mut content = self.certain.clone();
        for ((at, data), _) in self.pending.iter().zip(is_there).filter(|(_, is_there)| **is_there) {
            match data {
                None => content.resize(*at, 0),
                Some(data) => {
                    content.resize(content.len().max(at + data.len()), 0);
                    content[*at..at + data.len()].copy_from_slice(data);
                }
            }
        }
        content
    }

    /// Every choice of what is pending.
    fn all_left(&self) -> BTreeSet<Vec<u8>> {
        let count = self.pending.len();
        let choices =
            (0..1_u32 << count).map(|bits| (0..count).map(|at| bits >> at & 1 == 1).collect::<Vec<_>>());
        choices.map(|choice| self.left(&choice)).collect()
    }
}

/// What stands in a folder: the disk before the copy, all of it certain.
fn disk_of(folder: &Path) -> Disk {
    let mut disk = Disk::default();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (inode, certain) = (entry.metadata().unwrap().ino(), std::fs::read(entry.path()).unwrap());
        disk.names.insert(entry.file_name().into(), inode);
        let length = certain.len();
        disk.contents.insert(inode, Content { certain, length, pending: Vec::new() });
    }
    disk
}

/// Cuts the power after each step of `copies`; returns how many different folders were left.
fn cut_everywhere(folder: &Path, copies: impl FnOnce() -> bool) -> usize {
    let mut disk = disk_of(folder);
    STEPS.set(Some(Vec::new()));
    let is_stored = copies();
    let steps = STEPS.take().unwrap();
    assert!(steps.len() > 5, "{steps:?}");
    let mut left = disk.folders_left();
    for (inode, step) in &steps {
        disk.apply(*inode, step);
        left.extend(disk.folders_left());
    }
    let is_final = |name: &Path| !name.to_string_lossy().starts_with('.');
    for (name, found) in left.iter().flatten().filter(|(name, _)| is_final(name)) {
        assert!(found == OLD || found == NEW, "half a file has the name {}: {found:?}", name.display());
    }
    let stored = std::fs::read_dir(folder).unwrap().map(|entry| PathBuf::from(entry.unwrap().file_name()));
    for name in stored.filter(|name| is_stored && is_final(name)) {
        let is_there = disk.folders_left().iter().all(|folder| folder.get(&name).is_some_and(|f| f == NEW));
        assert!(is_there, "what was said to be stored can be lost");
    }
    left.iter().for_each(copy_again);
    left.len()
}

/// Makes a folder as it was left, and gives the same command again.
fn copy_again(left: &BTreeMap<PathBuf, Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in left {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    assert!(receive(folder.path(), NEW.len()));
    assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), NEW, "from {left:?}");
}

#[test]
fn a_final_name_never_stands_for_half_a_file() {
    for old in [None, Some(OLD)] {
        for cut_off_at in [0, 20, NEW.len() - 1] {
            let folder = tempfile::tempdir().unwrap();
            old.into_iter().for_each(|old| std::fs::write(folder.path().join("f"), old).unwrap());
            // A copy that is cut off, then the same again.
            let left = cut_everywhere(folder.path(), || {
                receive(folder.path(), cut_off_at);
                receive(folder.path(), NEW.len())
            });
            assert!(left > 10, "{left}");
            assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), NEW);
        }
    }
}

/// Many files share the writing of their folder: each is whole under its name all the same, and there once it
/// was said to be.
#[test]
fn files_that_get_their_names_together_are_as_safe() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), OLD).unwrap();
    let left = cut_everywhere(folder.path(), || {
        let seal = |name: &[u8]| {
            let place = Store::open(folder.path()).unwrap().place(name).unwrap();
            let mut writer = place.open_partial(&meta(), true).unwrap().start(0).unwrap();
            writer.write(&NEW[..20]).unwrap();
            writer.write(&NEW[20..]).unwrap();
            writer.seal(&meta(), blake3::hash(NEW).as_bytes()).unwrap().1.unwrap()
        };
        publish_all(&[seal(b"e"), seal(b"f"), seal(b"g")]).iter().all(Result::is_ok)
    });
    assert!(left > 10, "{left}");
    for name in ["e", "f", "g"] {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), NEW);
    }
}

/// The same on a disk on which nothing is synced must fail, or the test above would see nothing.
#[test]
#[should_panic(expected = "half a file has the name")]
fn without_syncing_it_would() {
    let folder = tempfile::tempdir().unwrap();
    cut_everywhere(folder.path(), || {
        receive(folder.path(), NEW.len());
        STEPS.with_borrow_mut(|steps| steps.as_mut().unwrap().retain(|(_, step)| *step != Step::Sync));
        true
    });
}
