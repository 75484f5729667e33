//! The steps by which a receiver changes a disk. They are here and nowhere else, because their order is what
//! keeps a final name from ever standing for half a file: the tests write every step down and cut the power
//! after each (`power_tests`).

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

use crate::platform;

/// Of a part: whatever the file may be seen by in the end, until it is complete and has its mode it is its
/// owner's.
const PART_MODE: u32 = 0o600;

/// Opens for reading. That must not wait for the other end of a named pipe that somebody has put there.
pub(super) fn open(folder: &Dir, name: &Path) -> io::Result<cap_std::fs::File> {
    folder.open_with(name, platform::without_waiting(OpenOptions::new().read(true)))
}

/// Opens the part with this name; made if there is none.
pub(super) fn open_part(folder: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).follow(FollowSymlinks::No);
    let options = platform::without_waiting(platform::with_mode(&mut options, PART_MODE));
    let part = folder.open_with(name, options)?.into_std();
    if !part.metadata()?.is_file() {
        return Err(io::Error::other(format!("{} is in the way", name.display())));
    }
    record(&part, || Step::Create(name.to_owned()));
    Ok(part)
}

/// A part that was there may be open to others. To be called by who holds its lock: another may just be
/// giving it its mode.
pub(super) fn make_private(part: &File) -> io::Result<()> {
    if platform::mode(&Metadata::from_file(part)?) & 0o777 == PART_MODE {
        Ok(())
    } else {
        set_mode(part, PART_MODE)
    }
}

/// Makes it `length` bytes long, with a hole where there was less, and goes on writing there.
pub(super) fn cut(mut part: &File, length: u64) -> io::Result<()> {
    part.set_len(length)?;
    record(part, || Step::SetLength(length));
    part.seek(SeekFrom::Start(length)).map(drop)
}

/// Appends.
pub(super) fn write(mut part: &File, data: &[u8]) -> io::Result<()> {
    part.write_all(data)?;
    record(part, || Step::Append(data.to_vec()));
    Ok(())
}

/// Gives a file its permissions.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    platform::set_mode(file, mode & 0o777)
}

/// The content is on disk when this returns: before it gets its name.
pub(super) fn seal(part: &File, modified: SystemTime) -> io::Result<()> {
    part.set_modified(modified)?;
    part.sync_all()?;
    record(part, || Step::Sync);
    Ok(())
}

/// Gives a sealed part the name `to`, in place of what has it now.
pub(super) fn rename(part: &File, folder: &Dir, from: &Path, to: &Path) -> io::Result<()> {
    folder.rename(from, folder, to)?;
    record(part, || Step::Rename(from.to_owned(), to.to_owned()));
    Ok(())
}

/// The names that this and other parts got are on disk when this returns: before anybody is told.
pub(super) fn sync_names(part: &File, folder: &Dir) -> io::Result<()> {
    sync_folder(folder)?;
    record(part, || Step::SyncFolder);
    Ok(())
}

/// Takes a part away.
pub(super) fn remove(folder: &Dir, name: &Path) -> io::Result<()> {
    folder.remove_file(name)
}

/// Names are on disk when this returns.
pub(super) fn sync_folder(folder: &Dir) -> io::Result<()> {
    platform::sync_folder(folder)
}

/// One step, as the tests write it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Create(std::path::PathBuf),
    SetLength(u64),
    Append(Vec<u8>),
    Sync,
    Rename(std::path::PathBuf, std::path::PathBuf),
    SyncFolder,
}

#[cfg(not(test))]
fn record(_: &File, _: impl FnOnce() -> Step) {}

#[cfg(test)]
fn record(file: &File, step: impl FnOnce() -> Step) {
    use cap_fs_ext::MetadataExt;
    STEPS.with_borrow_mut(|steps| {
        if let Some(steps) = steps {
            steps.push((Metadata::from_file(file).map_or(0, |metadata| metadata.ino()), step()));
        }
    });
}

#[cfg(test)]
thread_local! {
    /// What this thread has done, with the inode it did it to, if somebody wants to know.
    pub(super) static STEPS: std::cell::RefCell<Option<Vec<(u64, Step)>>> = const { std::cell::RefCell::new(None) };
}
