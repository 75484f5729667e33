//! One file being received: the part beside its final name, and the step from the one to the other.
//!
//! A file is received under a temporary name beside its final one and takes that only when it is complete,
//! verified and on disk. What is there of it is found again by its *content*: the receiver offers the hash of
//! what it has, and the sender goes on from there only if its own file begins with the same bytes. So no
//! record of the source is needed beside it, and a changed source or a part spoiled by a power cut is simply
//! sent anew.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_std::fs::Dir;

use super::disk;
use super::error::{FileCode, FileError};
use super::message::{Hash, Kind, Meta};
use super::meta::{NAME_BYTES_MAX, describe};

/// Bytes read at once while hashing what is there already.
const READ_BYTES: usize = 1 << 20;

/// How a part's name ends.
const PART_SUFFIX: &[u8] = b".fulmar-part";

/// Whether a file with this name is, or would be taken for, the part of another.
pub(super) fn is_part_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PART_SUFFIX)
}

/// Where one file is to be received.
#[derive(Debug, Clone)]
pub struct Place {
    pub(super) folder: Arc<Dir>,
    pub(super) name: PathBuf,
    /// For people.
    pub(super) shown: String,
}

/// What the receiver has of a file already.
#[derive(Debug)]
pub struct Partial {
    /// The temporary file, locked for this receiver.
    part: File,
    place: Place,
    /// How much of it the sender may leave out.
    pub offset: u64,
    /// Over the first `offset` bytes.
    pub hasher: Box<blake3::Hasher>,
    /// The complete file is there under its final name, as far as size, time and now hash can tell.
    is_complete: bool,
}

impl Place {
    /// Bytes that are there under the final or the temporary name: what hashing will have to go through, on
    /// both sides.
    pub fn present_bytes(&self) -> u64 {
        let length = |name: &Path| self.folder.metadata(name).map_or(0, |metadata| metadata.len());
        length(&self.part_name()).max(length(&self.name))
    }

    /// Opens what is there of the file, and hashes it, unless the sender starts from the beginning anyway.
    ///
    /// `Busy` when another receiver has it open.
    pub fn open_partial(self, meta: &Meta, is_resumable: bool) -> Result<Partial, FileError> {
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
        let mut partial =
            Partial { part, place: self, offset: 0, hasher: Box::default(), is_complete: false };
        if is_resumable {
            partial.find_what_is_there(meta).map_err(|e| partial.place.explain(&e))?;
        }
        Ok(partial)
    }

    /// The temporary name: hidden, beside the final one, recognisable.
    fn part_name(&self) -> PathBuf {
        let name = self.name.as_os_str().as_bytes();
        let full = [b".", name, PART_SUFFIX].concat();
        if full.len() <= NAME_BYTES_MAX {
            return std::ffi::OsString::from_vec(full).into();
        }
        format!(".{}{}", &blake3::hash(name).to_hex()[..32], String::from_utf8_lossy(PART_SUFFIX)).into()
    }

    fn is_still_named(&self, part: &File, name: &Path) -> bool {
        use cap_std::fs::MetadataExt as _;
        use std::os::unix::fs::MetadataExt as _;
        let (Ok(open), Ok(named)) = (part.metadata(), self.folder.symlink_metadata(name)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    fn explain(&self, error: &io::Error) -> FileError {
        FileError::from_io(&self.shown, error)
    }
}

impl Partial {
    fn find_what_is_there(&mut self, meta: &Meta) -> io::Result<()> {
        let part_bytes = self.part.metadata()?.len();
        if part_bytes > 0 && part_bytes <= meta.size_bytes {
            let part = self.part.try_clone()?;
            (self.offset, self.hasher) = hash_prefix(part, part_bytes)?;
        } else if let Ok(file) = disk::open(&self.place.folder, &self.place.name) {
            let (kind, have) = describe(&file.metadata()?);
            let is_alike = (have.size_bytes, have.mtime_s, have.mtime_ns)
                == (meta.size_bytes, meta.mtime_s, meta.mtime_ns);
            if kind == Kind::File && is_alike {
                (self.offset, self.hasher) = hash_prefix(file.into_std(), meta.size_bytes)?;
                self.is_complete = self.offset == meta.size_bytes;
            }
        }
        Ok(())
    }

    /// Prepares for data from `offset` on, which is 0 or the one offered.
    pub fn start(mut self, offset: u64) -> Result<Writer, FileError> {
        if offset == 0 {
            self.is_complete = false;
            self.hasher = Box::default();
        }
        if !self.is_complete {
            disk::cut(&self.part, offset).map_err(|e| self.place.explain(&e))?;
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
        disk::write(&self.partial.part, data).map_err(|e| self.partial.place.explain(&e))?;
        self.written += data.len() as u64;
        Ok(())
    }

    /// Gives the file its final name, if it is what was sent.
    pub fn finish(self, meta: &Meta, sent: &Hash) -> Result<Hash, FileError> {
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
        place.seal(&part, meta, is_complete).map_err(|e| place.explain(&e))?;
        Ok(hash)
    }
}

impl Place {
    fn seal(&self, part: &File, meta: &Meta, is_complete: bool) -> io::Result<()> {
        if is_complete {
            disk::set_mode(&disk::open(&self.folder, &self.name)?.into_std(), meta.mode)?;
            return disk::remove(&self.folder, &self.part_name());
        }
        disk::set_mode(part, meta.mode)?;
        disk::publish(part, system_time(meta), &self.folder, &self.part_name(), &self.name)
    }
}

fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(Into::into)
}

/// Hashes the first `length` bytes; less if there are fewer. The hasher has two kilobytes: not to be carried through
/// every future.
pub fn hash_prefix(mut file: File, length: u64) -> io::Result<(u64, Box<blake3::Hasher>)> {
    let mut hasher = Box::<blake3::Hasher>::default();
    file.seek(SeekFrom::Start(0))?;
    let mut limited = file.take(length);
    let mut buffer = vec![0; READ_BYTES];
    let mut hashed = 0;
    loop {
        match limited.read(&mut buffer)? {
            0 => return Ok((hashed, hasher)),
            n => {
                hasher.update(&buffer[..n]);
                hashed += n as u64;
            }
        }
    }
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
