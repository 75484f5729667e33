//! A folder that requests are confined to, and the files being received in it.
//!
//! Every path is opened relative to the folder (`openat2` with `RESOLVE_BENEATH` where the kernel has it, through
//! cap-std), so neither `..` nor a symbolic link leads out: the client keeps a server's names inside the destination
//! with the same code as the server keeps a client's inside its root.
//!
//! A file is received under a temporary name beside its final one and takes that only when it is complete, verified and
//! on disk. What is there of it is found again by its *content*: the receiver offers the hash of what it has, and the
//! sender goes on from there only if its own file begins with the same bytes. So no record of the source is needed
//! beside it, and a changed source or a part spoiled by a power cut is simply sent anew.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt, OpenOptions};

use super::error::{FileCode, FileError};
use super::message::{Hash, Kind, Meta, PATH_BYTES_MAX};

/// Longest name of one file or folder, in bytes, on the file systems in use.
const NAME_BYTES_MAX: usize = 255;

/// Bytes read at once while hashing what is there already.
const READ_BYTES: usize = 1 << 20;

/// A folder and all below it.
#[derive(Debug)]
pub struct Store {
    dir: Dir,
}

/// A name in a folder, with its path from the root, and what it is; `None` if it is neither file nor folder.
pub type Entry = (PathBuf, Option<(Kind, Meta)>);

/// Where one file is to be received.
#[derive(Debug, Clone)]
pub struct Place {
    folder: Arc<Dir>,
    name: PathBuf,
    /// For people.
    shown: String,
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
    pub hasher: blake3::Hasher,
    /// The complete file is there under its final name, as far as size, time and now hash can tell.
    is_complete: bool,
}

impl Store {
    /// Opens the folder that requests are confined to.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        let dir = Dir::open_ambient_dir(folder, ambient_authority());
        Ok(Self { dir: dir.map_err(|e| FileError::from_io(&folder.display().to_string(), &e))? })
    }

    /// What is at a path. Symbolic links are followed as long as they stay inside.
    pub fn stat(&self, path: &[u8]) -> Result<(Kind, Meta), FileError> {
        let path = relative(path)?;
        match self.dir.metadata(&path) {
            Ok(metadata) => Ok(describe(&metadata)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((Kind::Missing, Meta::default())),
            Err(e) => Err(explain(&path, &e)),
        }
    }

    /// Opens a file for reading.
    pub fn open_file(&self, path: &[u8]) -> Result<(File, Meta), FileError> {
        let path = relative(path)?;
        // Opening a named pipe for reading would wait for a writer: look first, and do not wait in any case.
        let shown = |e: &io::Error| explain(&path, e);
        match describe(&self.dir.metadata(&path).map_err(|e| shown(&e))?) {
            (Kind::File, _) => {}
            (Kind::Folder, _) => {
                return Err(FileError::new(FileCode::WrongKind, format!("{} is a folder", path.display())));
            }
            _ => {
                return Err(FileError::new(FileCode::WrongKind, format!("{} is not a file", path.display())));
            }
        }
        let file = self.dir.open(&path).map_err(|e| shown(&e))?;
        let (_, meta) = describe(&file.metadata().map_err(|e| shown(&e))?);
        Ok((file.into_std(), meta))
    }

    /// Makes a folder and those above it. A folder that is there already stays as it is.
    pub fn make_folder(&self, path: &[u8], mode: u32) -> Result<(), FileError> {
        let path = relative(path)?;
        if path == Path::new(".") {
            return Ok(());
        }
        let is_new = self.dir.symlink_metadata(&path).is_err();
        self.dir.create_dir_all(&path).map_err(|e| explain(&path, &e))?;
        if is_new {
            // Writable for its owner whatever the source says, or nothing could be put inside.
            let permissions = std::fs::Permissions::from_mode(mode & 0o777 | 0o700);
            let permissions = cap_std::fs::Permissions::from_std(permissions);
            self.dir.set_permissions(&path, permissions).map_err(|e| explain(&path, &e))?;
        }
        Ok(())
    }

    /// Where a file with this path is to be received; its folder must exist.
    pub fn place(&self, path: &[u8]) -> Result<Place, FileError> {
        let path = relative(path)?;
        let shown = path.display().to_string();
        let Some(name) = path.file_name() else {
            return Err(FileError::new(FileCode::WrongKind, "a file needs a name"));
        };
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = self.dir.open_dir(parent).map_err(|e| explain(parent, &e))?;
        if folder.metadata(name).is_ok_and(|m| m.is_dir()) {
            return Err(FileError::new(FileCode::WrongKind, format!("{shown} is a folder")));
        }
        Ok(Place { folder: Arc::new(folder), name: name.into(), shown })
    }

    /// The path that every spelling of it becomes, as a key.
    pub fn key(path: &[u8]) -> Result<PathBuf, FileError> {
        relative(path)
    }

    /// The entries of one folder, in the order of their names.
    pub fn entries(&self, path: &Path) -> Result<Vec<Entry>, FileError> {
        let mut entries = Vec::new();
        for entry in self.dir.read_dir(path).map_err(|e| explain(path, &e))? {
            let entry = entry.map_err(|e| explain(path, &e))?;
            let name = path.join(entry.file_name());
            // Not followed: a link could lead in circles.
            let metadata = entry.metadata().map_err(|e| explain(&name, &e))?;
            let is_plain = metadata.is_file() || metadata.is_dir();
            if !is_part_name(entry.file_name().as_bytes()) {
                entries.push((name, is_plain.then(|| describe(&metadata))));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }
}

impl Place {
    /// Opens what is there of the file, and hashes it, unless the sender starts from the beginning anyway.
    ///
    /// `Busy` when another receiver has it open.
    pub fn open_partial(self, meta: &Meta, is_resumable: bool) -> Result<Partial, FileError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).follow(FollowSymlinks::No);
        let part_name = self.part_name();
        let part = self.folder.open_with(&part_name, &options).map_err(|e| self.explain(&e))?.into_std();
        lock(&part).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                FileError::new(FileCode::Busy, format!("{}: another copy is writing it now", self.shown))
            }
            _ => self.explain(&e),
        })?;
        // The one who had the lock before may have renamed the file meanwhile: then this is no longer the part.
        if !self.is_still_named(&part, &part_name) {
            return Err(FileError::new(
                FileCode::Busy,
                format!("{}: another copy has just finished it", self.shown),
            ));
        }
        let mut partial =
            Partial { part, place: self, offset: 0, hasher: blake3::Hasher::new(), is_complete: false };
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
        } else if let Ok(file) = self.place.folder.open(&self.place.name) {
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
            self.hasher = blake3::Hasher::new();
        }
        if !self.is_complete {
            let prepared = self.part.set_len(offset).and_then(|()| self.part.seek(SeekFrom::Start(offset)));
            prepared.map_err(|e| self.place.explain(&e))?;
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
        self.partial.part.write_all(data).map_err(|e| self.partial.place.explain(&e))?;
        self.written += data.len() as u64;
        Ok(())
    }

    /// Gives the file its final name, if it is what was sent.
    pub fn finish(self, meta: &Meta, sent: &Hash) -> Result<Hash, FileError> {
        let Partial { part, place, hasher, is_complete, .. } = self.partial;
        let hash: Hash = hasher.finalize().into();
        if self.written != meta.size_bytes || hash != *sent {
            // Nothing of it can be trusted, so nothing may be resumed from it.
            let _ = place.folder.remove_file(place.part_name());
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
        let target = if is_complete { &self.folder.open(&self.name)?.into_std() } else { part };
        target.set_permissions(std::fs::Permissions::from_mode(meta.mode & 0o777))?;
        if is_complete {
            return self.folder.remove_file(self.part_name());
        }
        part.set_modified(system_time(meta))?;
        // The name must not outlive a power cut that the data do not.
        part.sync_all()?;
        self.folder.rename(self.part_name(), &self.folder, &self.name)
    }
}

const PART_SUFFIX: &[u8] = b".fulmar-part";

fn is_part_name(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(PART_SUFFIX)
}

fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(Into::into)
}

/// Hashes the first `length` bytes; less if there are fewer.
pub fn hash_prefix(mut file: File, length: u64) -> io::Result<(u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
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

/// A path from the wire as one below the folder: `.` for the folder itself. A leading `/` means the folder, too.
fn relative(path: &[u8]) -> Result<PathBuf, FileError> {
    let shown = || crate::units::printable(&String::from_utf8_lossy(path));
    if path.len() > PATH_BYTES_MAX || path.contains(&0) {
        return Err(FileError::new(FileCode::BadName, "a path that no file can have"));
    }
    let mut clean = PathBuf::new();
    for component in Path::new(std::ffi::OsStr::from_bytes(path)).components() {
        match component {
            Component::Normal(name) if name.len() <= NAME_BYTES_MAX => clean.push(name),
            Component::Normal(_) => {
                return Err(FileError::new(FileCode::BadName, format!("{}: a name is too long", shown())));
            }
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(FileError::new(FileCode::Outside, format!("{}: `..` is not allowed", shown())));
            }
        }
    }
    Ok(if clean.as_os_str().is_empty() { ".".into() } else { clean })
}

fn explain(path: &Path, error: &io::Error) -> FileError {
    // cap-std reports a path that leads out as a permission error of its own making, without a number of the system.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return FileError::new(FileCode::Outside, format!("{}: leads out of the folder", path.display()));
    }
    FileError::from_io(&path.display().to_string(), error)
}

fn describe(metadata: &cap_std::fs::Metadata) -> (Kind, Meta) {
    let kind = match () {
        () if metadata.is_file() => Kind::File,
        () if metadata.is_dir() => Kind::Folder,
        () => Kind::Other,
    };
    let meta = Meta {
        size_bytes: if kind == Kind::File { metadata.len() } else { 0 },
        mtime_s: metadata.mtime(),
        mtime_ns: metadata.mtime_nsec().clamp(0, 999_999_999) as u32,
        mode: metadata.mode() & 0o777,
    };
    (kind, meta)
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
#[path = "store_tests.rs"]
mod tests;
