//! Files of lines that people edit and several processes change: read as they are, replaced in one step under
//! a lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_proto::crypto::KeyParseError;

/// Why keys could not be read or written. Says in which file, and where it has lines, in which.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither `$FULMAR_HOME` nor a home folder is set.
    #[error("no place for keys: set FULMAR_HOME")]
    NoHome,
    /// There is no private key yet.
    #[error("{}: no identity yet; create one with \"fulmar keygen\"", .path.display())]
    NoIdentity {
        /// Where it would be.
        path: PathBuf,
    },
    /// A private key is never overwritten.
    #[error("{}: there is an identity already", .path.display())]
    IdentityExists {
        /// Where.
        path: PathBuf,
    },
    /// Others can read the private key.
    #[error("{}: others may read this private key (mode {mode:03o}); make it yours alone: chmod 600", .path.display())]
    TooOpen {
        /// Of the private key.
        path: PathBuf,
        /// What its owner, group and the others may do.
        mode: u32,
    },
    /// Others can change what decides who is trusted.
    #[error("{}: others may write here (mode {mode:03o}), and what stands here is believed: chmod go-w", .path.display())]
    Writable {
        /// Of the file, or of the folder it is in.
        path: PathBuf,
        /// What its owner, group and the others may do.
        mode: u32,
    },
    /// Somebody else can change what decides who is trusted.
    #[error("{}: belongs to somebody else (user {owner}), and what stands here is believed", .path.display())]
    Foreign {
        /// Of the file, or of the folder it is in.
        path: PathBuf,
        /// Neither this user nor root.
        owner: u32,
    },
    /// The private key is none.
    #[error("{}: {why}", .path.display())]
    Identity {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        why: KeyParseError,
    },
    /// A line is not what it should be.
    #[error("{}:{line}: {why}", .path.display())]
    Line {
        /// Of the file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A server cannot listen there.
    #[error("cannot listen at {address}: {error}")]
    Bind {
        /// Where.
        address: std::net::SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The system would not.
    #[error("{}: {error}", .path.display())]
    Io {
        /// What was to be read or written.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl StoreError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io { path, error }
    }
}

/// A file's lines with something on them: numbers from 1, without space around.
pub(super) fn meaningful(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The whole file; empty if there is none.
pub(super) fn read(path: &Path) -> Result<String, StoreError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(StoreError::io(path)),
    }
}

/// Refuses a file that others than this user and root can change, by itself or with its folder, as SSH does.
/// A file that is not there is fine.
///
/// # Errors
/// [`StoreError::Writable`] and [`StoreError::Foreign`], which name the file or the folder.
#[cfg(unix)]
pub fn check_trusted(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    // A link is followed: what it leads to is what is read.
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(StoreError::io(path))?,
    };
    for (path, may_be_sticky) in
        [Some(path.as_path()), path.parent()].into_iter().flatten().zip([false, true])
    {
        let metadata = fs::metadata(path).map_err(StoreError::io(path))?;
        let (mode, owner) = (metadata.mode() & 0o7777, metadata.uid());
        if mode & OTHERS_WRITE != 0 && !(may_be_sticky && mode & STICKY != 0) {
            return Err(StoreError::Writable { path: path.to_owned(), mode: mode & 0o777 });
        }
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(StoreError::Foreign { path: path.to_owned(), owner });
        }
    }
    Ok(())
}

/// Refuses nothing: there are no modes here.
#[cfg(not(unix))]
pub fn check_trusted(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// What tells a file as it is now from what it was; nothing if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<Vec<u64>>);

impl Stamp {
    /// Of the file at `path` now.
    pub(super) fn of(path: &Path) -> Self {
        Self(fs::metadata(path).ok().map(|metadata| stamps(&metadata)))
    }

    /// Whether a change that comes now is certain to give another: a clock that ticks in milliseconds may
    /// stand still between two.
    pub(super) fn is_settled(&self, path: &Path) -> bool {
        let changed = fs::metadata(path).and_then(|metadata| metadata.modified());
        changed.map_or(self.0.is_none(), |at| at.elapsed().is_ok_and(|age| age > Duration::from_millis(100)))
    }
}

#[cfg(unix)]
fn stamps(metadata: &fs::Metadata) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let mut stamps: Vec<u64> = times.into_iter().map(i64::cast_unsigned).collect();
    stamps.extend([metadata.dev(), metadata.ino(), metadata.len(), metadata.mode().into()]);
    stamps
}

#[cfg(not(unix))]
fn stamps(metadata: &fs::Metadata) -> Vec<u64> {
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    vec![modified.map_or(0, |at| at.as_nanos() as u64), metadata.len()]
}

/// Changes a file as a whole, while nobody else does. `edit` gets what it holds and gives what it shall hold;
/// `None` leaves it alone.
pub(super) fn update(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<Option<String>, StoreError>,
) -> Result<(), StoreError> {
    create_folder(path)?;
    let lock = lock(path)?;
    if let Some(text) = edit(&read(path)?)? {
        replace(path, text.as_bytes())?;
    }
    // Released when it is closed.
    drop(lock);
    Ok(())
}

/// The lock is a file beside: the file itself is replaced by another one, which a lock would not follow.
fn lock(path: &Path) -> Result<File, StoreError> {
    let path = beside(path, "lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(StoreError::io(&path))?;
    file.lock().map_err(StoreError::io(&path))?;
    Ok(file)
}

/// Puts a complete file in place of the old one: at no time is there a part of it. The lock is held.
fn replace(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    // A link is followed, so that it stays one.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let new = beside(&path, "new");
    let write = || {
        let mut file = private().create(true).truncate(true).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        fs::rename(&new, &path)
    };
    write().map_err(StoreError::io(&path))
}

/// Creates a file that only its owner can read, and that was not there before.
pub(super) fn create_private(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    create_folder(path)?;
    let mut file = private().create_new(true).open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => StoreError::IdentityExists { path: path.to_owned() },
        _ => StoreError::io(path)(error),
    })?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(StoreError::io(path))
}

fn create_folder(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(StoreError::io(folder))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// `text`, which may lack an end of line, and one more line.
pub(super) fn with_line(text: &str, line: &str) -> String {
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{separator}{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_many_threads_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/lines");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for index in 0..10 {
                        let line = format!("{thread} {index}");
                        update(path, |text| Ok(Some(with_line(text, &line)))).unwrap();
                    }
                });
            }
        });
        let text = read(&path).unwrap();
        assert_eq!(meaningful(&text).count(), 80);
        assert!(!beside(&path, "new").exists());
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_survive() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "# old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        update(&link, |text| Ok(Some(with_line(text, "new")))).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "# old\nnew\n");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(error.to_string().starts_with(&folder.path().display().to_string()), "{error}");
    }
}
