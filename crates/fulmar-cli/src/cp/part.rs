//! One file being received: the part beside its final name, and the step from the one to the other.
//!
//! A file is received under a temporary name beside its final one and takes that only when it is complete,
//! verified and on disk. What is there of it is found again by its *content*: the receiver offers the hash of
//! what it has, and the sender goes on from there only if its own file begins with the same bytes. So no
//! record of the source is needed beside it, and a changed source or a part spoiled by a power cut is simply
//! sent anew.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, Metadata};

use super::disk;
use super::error::{FileCode, FileError};
use super::hashing::{Hashed, hash_prefix};
use super::message::{Hash, Kind, Meta};
use super::meta::{NAME_BYTES_MAX, describe};
use super::publish::{Publisher, Sealed, publish_all};
use super::space::{Promise, Space};
use crate::platform;

/// Zeros of a sparse file are a hole in so many bytes: a block of the file systems in use.
const HOLE_BYTES: usize = 4096;

/// How a part's name ends.
const PART_SUFFIX: &str = ".fulmar-part";

/// Whether a file with this name is, or would be taken for, the part of another.
pub(super) fn is_part_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PART_SUFFIX.as_bytes())
}

/// Where one file is to be received.
#[derive(Debug, Clone)]
pub struct Place {
    pub(super) folder: Arc<Dir>,
    pub(super) name: PathBuf,
    /// For people.
    pub(super) shown: String,
    /// What others who receive into this store have been promised.
    pub(super) space: Arc<Space>,
    /// Who gives files of this store their names.
    pub(super) publisher: Arc<Publisher>,
}

/// What the receiver has of a file already.
#[derive(Debug)]
pub struct Partial {
    /// The temporary file, locked for this receiver.
    part: File,
    place: Place,
    /// What is there: bytes that have not been hashed.
    there: Option<There>,
    /// How much of it the sender may leave out.
    pub offset: u64,
    /// Over the first `offset` bytes.
    pub hasher: Box<blake3::Hasher>,
    /// The complete file is there under its final name, as far as size, time and hash can tell.
    is_complete: bool,
    /// The source has holes.
    is_sparse: bool,
    room: Promise,
}

/// The beginning of the file, or what may be it.
#[derive(Debug)]
pub struct There {
    /// Open for reading.
    pub file: Arc<File>,
    /// How much.
    pub bytes: u64,
    is_complete: bool,
}

impl Place {
    /// Bytes that are there under the final or the temporary name: what hashing will have to go through, on
    /// both sides.
    pub fn present_bytes(&self) -> u64 {
        let length = |name: &Path| self.folder.metadata(name).map_or(0, |metadata| metadata.len());
        length(&self.part_name()).max(length(&self.name))
    }

    /// As [`Place::open`], for who does not wait for the hash of what is there.
    pub fn open_partial(self, meta: &Meta, is_resumable: bool) -> Result<Partial, FileError> {
        let mut partial = self.open(meta, None, is_resumable)?;
        if let Some(there) = partial.there() {
            let hashed = hash_prefix(&there.file, there.bytes, |_| true);
            partial.on_hashed(there, hashed.map_err(|e| partial.place.explain(&e))?);
        }
        Ok(partial)
    }

    /// Opens the part, and what is there of the file, unless the sender starts from the beginning anyway. Of
    /// a sparse file, `sparse_bytes` are no holes.
    ///
    /// `Busy` when another receiver has it open, `Full` when the rest of it has no room on the disk.
    pub fn open(
        self,
        meta: &Meta,
        sparse_bytes: Option<u64>,
        is_resumable: bool,
    ) -> Result<Partial, FileError> {
        let part_name = self.part_name();
        let part = disk::open_part(&self.folder, &part_name).map_err(|e| self.explain(&e))?;
        lock(&part).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                FileError::new(FileCode::Busy, format!("{}: another copy is writing it now", self.shown))
            }
            _ => self.explain(&e),
        })?;
        // The one who had the lock before may have renamed the file meanwhile: then this is no longer the
        // part.
        if !self.is_still_named(&part, &part_name) {
            return Err(FileError::new(
                FileCode::Busy,
                format!("{}: another copy has just finished it", self.shown),
            ));
        }
        disk::make_private(&part).map_err(|e| self.explain(&e))?;
        let there =
            if is_resumable { self.what_is_there(&part, meta).map_err(|e| self.explain(&e))? } else { None };
        let room = self.room(&part, meta, sparse_bytes, there.as_ref())?;
        let is_sparse = sparse_bytes.is_some();
        let (offset, hasher) = Hashed::default();
        Ok(Partial { part, place: self, there, offset, hasher, is_complete: false, is_sparse, room })
    }

    /// The part, if there is something in it; otherwise a file under the final name that may be the one that
    /// comes.
    fn what_is_there(&self, part: &File, meta: &Meta) -> io::Result<Option<There>> {
        let bytes = part.metadata()?.len();
        if (1..=meta.size_bytes).contains(&bytes) {
            return Ok(Some(There { file: Arc::new(part.try_clone()?), bytes, is_complete: false }));
        }
        let Ok(file) = disk::open(&self.folder, &self.name) else { return Ok(None) };
        let (kind, have) = describe(&file.metadata()?);
        let is_alike =
            (have.size_bytes, have.mtime_s, have.mtime_ns) == (meta.size_bytes, meta.mtime_s, meta.mtime_ns);
        let there = There { file: Arc::new(file.into_std()), bytes: have.size_bytes, is_complete: true };
        Ok((kind == Kind::File && is_alike && have.size_bytes > 0).then_some(there))
    }

    /// Room for what is still to come.
    fn room(
        &self,
        part: &File,
        meta: &Meta,
        sparse_bytes: Option<u64>,
        there: Option<&There>,
    ) -> Result<Promise, FileError> {
        let part = Metadata::from_file(part).map_err(|e| self.explain(&e))?;
        let held_bytes = platform::held_bytes(&part).min(part.len());
        let needed = match there {
            Some(there) if there.is_complete => 0,
            _ => sparse_bytes.unwrap_or(u64::MAX).min(meta.size_bytes).saturating_sub(held_bytes),
        };
        self.space.promise(&self.folder, needed).map_err(|error| {
            if part.len() == 0 {
                let _ = disk::remove(&self.folder, &self.part_name());
                return error.about(&self.shown);
            }
            let text = format!("{}; {} of it are there already", error.text, crate::units::bytes(part.len()));
            FileError::new(error.code, text).about(&self.shown)
        })
    }

    /// The temporary name: hidden, beside the final one, recognisable.
    fn part_name(&self) -> PathBuf {
        let name = self.name.as_os_str();
        if 1 + name.len() + PART_SUFFIX.len() <= NAME_BYTES_MAX {
            return [OsStr::new("."), name, OsStr::new(PART_SUFFIX)].into_iter().collect::<OsString>().into();
        }
        format!(".{}{PART_SUFFIX}", &blake3::hash(platform::name_bytes(name)).to_hex()[..32]).into()
    }

    fn is_still_named(&self, part: &File, name: &Path) -> bool {
        let (Ok(open), Ok(named)) = (Metadata::from_file(part), self.folder.symlink_metadata(name)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    fn explain(&self, error: &io::Error) -> FileError {
        FileError::from_io(&self.shown, error)
    }

    /// What is said of an error in writing. On a disk that is full the part goes: it would keep it full for
    /// all others, under a name that nobody sees.
    fn give_up(&self, error: &io::Error) -> FileError {
        let error = self.explain(error);
        if error.code != FileCode::Full || disk::remove(&self.folder, &self.part_name()).is_err() {
            return error;
        }
        FileError::new(error.code, format!("{}; what had arrived of it was removed", error.text))
    }
}

impl Partial {
    /// What is there and has to be hashed; not a second time.
    pub fn there(&mut self) -> Option<There> {
        self.there.take()
    }

    /// It has been.
    pub fn on_hashed(&mut self, there: There, (bytes, hasher): Hashed) {
        (self.offset, self.hasher) = (bytes, hasher);
        self.is_complete = there.is_complete && bytes == there.bytes;
    }

    /// For people.
    pub fn shown(&self) -> &str {
        &self.place.shown
    }

    /// Who gives it its name when it is complete.
    pub fn publisher(&self) -> Arc<Publisher> {
        Arc::clone(&self.place.publisher)
    }

    /// Prepares for data from `offset` on, which is 0 or the one offered.
    pub fn start(mut self, offset: u64) -> Result<Writer, FileError> {
        if offset == 0 {
            self.is_complete = false;
            self.hasher = Box::default();
        }
        if !self.is_complete {
            disk::cut(&self.part, offset).map_err(|e| self.place.give_up(&e))?;
        }
        Ok(Writer { partial: self, written: offset })
    }
}

/// A file being received.
#[derive(Debug)]
pub struct Writer {
    partial: Partial,
    written: u64,
}

impl Writer {
    /// The next bytes.
    pub fn write(&mut self, data: &[u8]) -> Result<(), FileError> {
        self.partial.hasher.update(data);
        self.store(data).map_err(|e| self.partial.place.give_up(&e))?;
        self.partial.room.on_written(data.len() as u64);
        Ok(())
    }

    /// Zeros of a sparse file are left out: what nobody writes reads as zeros.
    fn store(&mut self, data: &[u8]) -> io::Result<()> {
        let part = &self.partial.part;
        if !self.partial.is_sparse {
            self.written += data.len() as u64;
            return disk::write(part, data);
        }
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let blocks: Vec<&[u8]> = data.chunks(HOLE_BYTES).collect();
        let mut rest = data;
        for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let (now, later) = rest.split_at(run.iter().map(|block| block.len()).sum());
            rest = later;
            self.written += now.len() as u64;
            if is_zero(now) {
                disk::cut(part, self.written)?;
            } else {
                disk::write(part, now)?;
            }
        }
        Ok(())
    }

    /// Gives the file its final name, if it is what was sent: for who does not wait for other files.
    pub fn finish(self, meta: &Meta, sent: &Hash) -> Result<Hash, FileError> {
        let (hash, sealed) = self.seal(meta, sent)?;
        publish_all(sealed.as_slice()).into_iter().collect::<Result<(), _>>()?;
        Ok(hash)
    }

    /// Brings the file to the disk, if it is what was sent; it needs its final name then, unless it has it.
    pub fn seal(self, meta: &Meta, sent: &Hash) -> Result<(Hash, Option<Sealed>), FileError> {
        let Partial { part, place, hasher, is_complete, .. } = self.partial;
        let hash: Hash = hasher.finalize().into();
        if self.written != meta.size_bytes || hash != *sent {
            // Nothing of it can be trusted, so nothing may be resumed from it.
            let _ = disk::remove(&place.folder, &place.part_name());
            return Err(FileError::new(
                FileCode::Mismatch,
                format!("{}: what arrived is not what was sent", place.shown),
            ));
        }
        if is_complete {
            place.keep(meta).map_err(|e| place.explain(&e))?;
            return Ok((hash, None));
        }
        let sealed = disk::set_mode(&part, meta.mode).and_then(|()| disk::seal(&part, system_time(meta)));
        sealed.map_err(|e| place.give_up(&e))?;
        let from = place.part_name();
        Ok((hash, Some(Sealed { part, folder: place.folder, from, to: place.name, shown: place.shown })))
    }
}

impl Place {
    /// What is there under the final name is the file.
    fn keep(&self, meta: &Meta) -> io::Result<()> {
        disk::set_mode(&disk::open(&self.folder, &self.name)?.into_std(), meta.mode)?;
        disk::remove(&self.folder, &self.part_name())
    }
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        TryLockError::Error(error) => error,
    })
}

/// A time from the wire; what the clock cannot express becomes 1970.
fn system_time(meta: &Meta) -> SystemTime {
    let whole = Duration::from_secs(meta.mtime_s.unsigned_abs());
    let base = if meta.mtime_s < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    };
    base.and_then(|t| t.checked_add(Duration::from_nanos(meta.mtime_ns.into())))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
#[path = "power_tests.rs"]
mod tests;
