//! A folder that requests are confined to, and the files being received in it.
//!
//! Every path is opened relative to the folder (`openat2` with `RESOLVE_BENEATH` where the kernel has it,
//! through cap-std), so neither `..` nor a symbolic link leads out: the client keeps a server's names inside
//! the destination with the same code as the server keeps a client's inside its root.

use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::disk;
use super::error::{FileCode, FileError};
use super::message::{FOLDER_MODE_MAX, Kind, Meta, PATH_BYTES_MAX};
use super::meta::{NAME_BYTES_MAX, describe};
use super::name;
use super::part::{Place, is_part_name};
use super::publish::Publisher;
use super::space::Space;
use crate::platform;

/// A folder and all below it.
#[derive(Debug)]
pub struct Store {
    dir: Dir,
    space: Arc<Space>,
    publisher: Arc<Publisher>,
}

/// What a folder contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the root.
    pub path: PathBuf,
    /// A file or a folder, as the system says; or why it is neither. Symbolic links are not followed, they
    /// could lead in circles.
    pub what: Result<(Kind, Meta), FileError>,
    /// It has the name of a part: if it is a file, perhaps one.
    pub is_part: bool,
}

impl Store {
    /// Opens the folder that requests are confined to.
    pub fn open(folder: &Path) -> Result<Self, FileError> {
        let dir = Dir::open_ambient_dir(folder, ambient_authority());
        let dir = dir.map_err(|e| FileError::from_io(&folder.display().to_string(), &e))?;
        Ok(Self { dir, space: Arc::default(), publisher: Arc::default() })
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
        let file = disk::open(&self.dir, &path).map_err(|e| shown(&e))?;
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
            let mode = mode & FOLDER_MODE_MAX | 0o700;
            platform::set_folder_mode(&self.dir, &path, mode).map_err(|e| explain(&path, &e))?;
            self.sync_above(&path).map_err(|e| explain(&path, &e))?;
        }
        Ok(())
    }

    /// A folder's name is on disk before files are put inside: they would be lost with it.
    fn sync_above(&self, path: &Path) -> io::Result<()> {
        match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => disk::sync_folder(&self.dir.open_dir(parent)?),
            None => disk::sync_folder(&self.dir),
        }
    }

    /// Where a file with this path is to be received; its folder must exist.
    pub fn place(&self, path: &[u8]) -> Result<Place, FileError> {
        let path = relative(path)?;
        let shown = path.display().to_string();
        let Some(name) = path.file_name() else {
            return Err(FileError::new(FileCode::WrongKind, "a file needs a name"));
        };
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if is_part_name(platform::name_bytes(name)) {
            let text = format!("{shown}: a name like this is that of the part of another file");
            return Err(FileError::new(FileCode::BadName, text));
        }
        let folder = self.dir.open_dir(parent).map_err(|e| explain(parent, &e))?;
        let wrong = |what: &str| Err(FileError::new(FileCode::WrongKind, format!("{shown} is {what}")));
        match folder.metadata(name) {
            Ok(there) if there.is_dir() => return wrong("a folder"),
            // A pipe or a device is not replaced by a file, nor written to.
            Ok(there) if !there.is_file() => return wrong("neither file nor folder"),
            _ => {}
        }
        let (space, publisher) = (Arc::clone(&self.space), Arc::clone(&self.publisher));
        Ok(Place { folder: Arc::new(folder), name: name.into(), shown, space, publisher })
    }

    /// The path that every spelling of it becomes, as a key.
    pub fn key(path: &[u8]) -> Result<PathBuf, FileError> {
        relative(path)
    }

    /// The entries of one folder, in the order of their names. Errors name nothing: whoever asks knows of
    /// what.
    pub fn entries(&self, path: &Path) -> Result<Vec<Entry>, FileError> {
        let mut entries = Vec::new();
        for entry in self.dir.read_dir(path).map_err(|e| reason(&e))? {
            let entry = entry.map_err(|e| reason(&e))?;
            // One that has gone meanwhile must not take its neighbours along.
            let what =
                entry.metadata().map_err(|e| reason(&e)).and_then(|metadata| match describe(&metadata) {
                    (Kind::Other | Kind::Missing, _) => {
                        Err(FileError::new(FileCode::WrongKind, platform::odd_kind(&metadata)))
                    }
                    known => Ok(known),
                });
            let is_part = is_part_name(platform::name_bytes(&entry.file_name()));
            entries.push(Entry { path: path.join(entry.file_name()), what, is_part });
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(entries)
    }
}

/// A path from the wire as one below the folder: `.` for the folder itself. A leading `/` means the folder,
/// too.
fn relative(path: &[u8]) -> Result<PathBuf, FileError> {
    let shown = || name::shown(path);
    let can_be = path.len() <= PATH_BYTES_MAX && !path.contains(&0);
    let Some(named) = platform::path_of(path).filter(|_| can_be) else {
        return Err(FileError::new(FileCode::BadName, format!("a path that no file can have: {}", shown())));
    };
    let mut clean = PathBuf::new();
    for component in named.components() {
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
    reason(error).about(&path.display().to_string())
}

fn reason(error: &io::Error) -> FileError {
    // cap-std reports a path that leads out as a permission error of its own making, without a number of the
    // system.
    if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return FileError::new(FileCode::Outside, "leads out of the folder");
    }
    FileError::reason(error)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
