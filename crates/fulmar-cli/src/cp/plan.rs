//! What to copy where: the command line's paths become a list of folders and files, as `cp -r` would place
//! them.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncRead;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Kind, Message, Meta};
use super::send::unexpected;
use super::store::Store;
use super::walk::Walk;
use super::work::blocking;
use crate::session::Session;

/// Files to copy at most in one command; a name on both sides is kept for each.
const ITEMS_MAX: usize = 4_000_000;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From here to the server.
    Up,
    /// From the server to here.
    Down,
}

/// One file.
#[derive(Debug, Clone)]
pub struct Item {
    /// The folder here that the local path is relative to.
    pub store: Arc<Store>,
    /// Path here.
    pub local: Vec<u8>,
    /// Path there.
    pub remote: Vec<u8>,
    /// Its size when it was planned.
    pub size_bytes: u64,
}

impl Item {
    /// Its path here, for people.
    pub fn shown(&self) -> String {
        crate::units::printable(&String::from_utf8_lossy(&self.local))
    }
}

/// One folder to make.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Where its path is relative to, if it is to be made here; there otherwise.
    pub store: Option<Arc<Store>>,
    /// Path at the destination.
    pub path: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

/// Everything that one command copies.
#[derive(Debug, Default)]
pub struct Plan {
    /// Folders to make.
    pub folders: Vec<Folder>,
    /// Files to copy.
    pub items: Vec<Item>,
    /// Files that are not going to be copied, and why.
    pub refused: Vec<(Item, FileError)>,
    /// Entries left out because they are neither file nor folder.
    pub skipped: u64,
}

impl Plan {
    /// Adds a file or, recursively, a folder of this machine, for the server's `target`.
    pub async fn add_up(
        &mut self,
        session: &Session,
        source: &Path,
        target: &str,
        is_recursive: bool,
    ) -> Result<(), TransferError> {
        let (kind, _) = stat(session, target.as_bytes()).await?;
        if kind == Kind::Missing && target.ends_with('/') {
            return Err(
                FileError::new(FileCode::NotFound, format!("{target} is no folder on the server")).into()
            );
        }
        let shown = source.display().to_string();
        let whole = std::fs::canonicalize(source).map_err(|e| FileError::from_io(&shown, &e))?;
        let name = whole.file_name().unwrap_or_default().to_owned();
        // `cp -r folder/. there` means what is in the folder, as it does for cp.
        let is_contents =
            source.as_os_str().as_bytes() == b"." || source.as_os_str().as_bytes().ends_with(b"/.");
        let remote = match kind {
            Kind::Folder if !is_contents => {
                join(target.as_bytes(), named(source).unwrap_or(&name).as_bytes())
            }
            _ => target.as_bytes().to_vec(),
        };
        if !whole.is_dir() {
            let store = Arc::new(Store::open(whole.parent().unwrap_or(Path::new("/")))?);
            let (_, meta) = store.open_file(name.as_bytes())?;
            self.push(Item { store, local: name.into_vec(), remote, size_bytes: meta.size_bytes })?;
            return Ok(());
        }
        check_recursive(is_recursive, &shown)?;
        if kind == Kind::File {
            return Err(
                FileError::new(FileCode::WrongKind, format!("{target} is a file on the server")).into()
            );
        }
        let store = Arc::new(Store::open(&whole)?);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&whole).map_err(|e| FileError::from_io(&shown, &e))?.permissions(),
        );
        self.push_folder(Folder { store: None, path: remote.clone(), mode: mode & 0o777 })?;
        let walked = Arc::clone(&store);
        let (entries, skipped) = blocking(move || collect(walked)).await?;
        self.skipped += skipped;
        for (path, kind, meta) in entries {
            let local = path.into_os_string().into_vec();
            let remote = join(&remote, &local);
            match kind {
                Kind::Folder => self.push_folder(Folder { store: None, path: remote, mode: meta.mode })?,
                _ => {
                    let size_bytes = meta.size_bytes;
                    self.push_found(kind, Item { store: Arc::clone(&store), local, remote, size_bytes })?;
                }
            }
        }
        Ok(())
    }

    /// Adds a file or, recursively, a folder of the server, for `target` on this machine.
    pub async fn add_down(
        &mut self,
        session: &Session,
        source: &str,
        target: &Path,
        is_recursive: bool,
    ) -> Result<(), TransferError> {
        let (kind, meta) = stat(session, source.as_bytes()).await?;
        let name = if source.ends_with("/.") { None } else { named(Path::new(source)) };
        let destination = match name {
            Some(name) if target.is_dir() => target.join(name),
            _ => target.to_owned(),
        };
        match kind {
            Kind::File => {
                let (store, name) = parent_store(&destination)?;
                Ok(self.push(Item {
                    store,
                    local: name,
                    remote: source.into(),
                    size_bytes: meta.size_bytes,
                })?)
            }
            Kind::Folder => {
                check_recursive(is_recursive, source)?;
                self.add_folder_down(session, source.as_bytes(), &destination, meta.mode).await
            }
            Kind::Missing => Err(missing(source).into()),
            Kind::Other => {
                Err(FileError::new(FileCode::WrongKind, format!("{source} is neither file nor folder"))
                    .into())
            }
        }
    }

    async fn add_folder_down(
        &mut self,
        session: &Session,
        source: &[u8],
        destination: &Path,
        mode: u32,
    ) -> Result<(), TransferError> {
        if !destination.is_dir() {
            let (parent, name) = parent_store(destination)?;
            parent.make_folder(&name, mode)?;
        }
        let store = Arc::new(Store::open(destination)?);
        let (mut writer, mut reader) = session.open().await?;
        message::write_request(&mut writer, &Message::List(source.to_owned())).await?;
        self.skipped += self.read_listing(&mut reader, source, &store).await?;
        Ok(())
    }

    async fn read_listing<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        source: &[u8],
        store: &Arc<Store>,
    ) -> Result<u64, TransferError> {
        loop {
            match message::read(reader).await? {
                Message::Entry(path, Kind::Folder, meta) => {
                    self.push_folder(Folder { store: Some(Arc::clone(store)), path, mode: meta.mode })?;
                }
                Message::Entry(path, kind @ (Kind::File | Kind::Other), meta) => {
                    let (store, remote) = (Arc::clone(store), join(source, &path));
                    self.push_found(kind, Item { store, local: path, remote, size_bytes: meta.size_bytes })?;
                }
                Message::EndList(skipped) => return Ok(skipped),
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// What a walk has found that is no folder.
    fn push_found(&mut self, kind: Kind, item: Item) -> Result<(), FileError> {
        if kind == Kind::File {
            return self.push(item);
        }
        self.check_room()?;
        let error = reserved(&item);
        self.refused.push((item, error));
        Ok(())
    }

    fn push(&mut self, item: Item) -> Result<(), FileError> {
        self.check_room()?;
        self.items.push(item);
        Ok(())
    }

    fn push_folder(&mut self, folder: Folder) -> Result<(), FileError> {
        self.check_room()?;
        self.folders.push(folder);
        Ok(())
    }

    fn check_room(&self) -> Result<(), FileError> {
        if self.items.len() + self.folders.len() + self.refused.len() < ITEMS_MAX {
            return Ok(());
        }
        Err(FileError::new(FileCode::Io, format!("more than {ITEMS_MAX} files in one command")))
    }
}

type Entries = Vec<(PathBuf, Kind, Meta)>;

fn collect(store: Arc<Store>) -> Result<(Entries, u64), FileError> {
    let mut walk = Walk::begin(store, PathBuf::from("."))?;
    let entries = walk.by_ref().take(ITEMS_MAX).collect();
    Ok((entries, walk.skipped()))
}

/// What is said of a file whose name means something else.
fn reserved(item: &Item) -> FileError {
    let text = format!("{}: left out, its name is that of the part of another copy", item.shown());
    FileError::new(FileCode::BadName, text)
}

/// Asks the server what is at a path.
pub async fn stat(session: &Session, path: &[u8]) -> Result<(Kind, Meta), TransferError> {
    let (mut writer, mut reader) = session.open().await?;
    message::write_request(&mut writer, &Message::Stat(path.to_owned())).await?;
    match message::read(&mut reader).await? {
        Message::Info(kind, meta) => Ok((kind, meta)),
        other => Err(unexpected(&other)),
    }
}

fn check_recursive(is_recursive: bool, shown: &str) -> Result<(), FileError> {
    if is_recursive {
        return Ok(());
    }
    Err(FileError::new(
        FileCode::WrongKind,
        format!("{shown} is a folder: use -r to copy it with all that is in it"),
    ))
}

fn missing(path: &str) -> FileError {
    FileError::new(FileCode::NotFound, format!("{path}: there is no such file on the server"))
}

/// The last name of a path, if it ends in one.
fn named(path: &Path) -> Option<&OsStr> {
    path.file_name()
}

fn parent_store(path: &Path) -> Result<(Arc<Store>, Vec<u8>), FileError> {
    let Some(name) = path.file_name() else {
        return Err(FileError::new(FileCode::WrongKind, format!("{} cannot be a file", path.display())));
    };
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Arc::new(Store::open(parent)?), name.as_bytes().to_vec()))
}

fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    match folder {
        [] => name.to_vec(),
        [.., b'/'] => [folder, name].concat(),
        _ => [folder, b"/", name].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_join_with_one_slash() {
        assert_eq!(join(b"", b"a"), b"a");
        assert_eq!(join(b"x", b"a"), b"x/a");
        assert_eq!(join(b"x/", b"a/b"), b"x/a/b");
    }
}
