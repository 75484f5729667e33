//! What to copy where: the command line's paths become a list of folders and files, as `cp -r` would place
//! them. What cannot be copied is in the list as well, with its reason: the others go on.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::AsyncRead;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Kind, Message, Meta, PATH_BYTES_MAX};
use super::name;
use super::send::unexpected;
use super::store::Store;
use super::walk::{Found, Walk};
use super::work::blocking;
use crate::platform;
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
    /// As the source was when it was planned.
    pub meta: Meta,
    /// Something may be at the destination already.
    pub may_be_there: bool,
}

impl Item {
    /// Its path here, for people.
    pub fn shown(&self) -> String {
        name::shown(&self.local)
    }

    /// Its path at the destination.
    pub fn destination(&self, direction: Direction) -> &[u8] {
        match direction {
            Direction::Up => &self.remote,
            Direction::Down => &self.local,
        }
    }

    fn not_copied(self, error: impl Into<TransferError>) -> NotCopied {
        NotCopied { local: self.local, remote: self.remote, error: error.into() }
    }
}

/// One folder to make.
#[derive(Debug, Clone)]
pub struct Folder {
    /// Where its path is relative to, if it is to be made here; there otherwise.
    pub store: Option<Arc<Store>>,
    /// Path here.
    pub local: Vec<u8>,
    /// Path there.
    pub remote: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
}

impl Folder {
    /// Where it is to be made.
    pub fn destination(&self) -> &[u8] {
        if self.store.is_some() { &self.local } else { &self.remote }
    }
}

/// What is not copied, and why.
#[derive(Debug)]
pub struct NotCopied {
    /// Path here.
    pub local: Vec<u8>,
    /// Path there.
    pub remote: Vec<u8>,
    /// Why.
    pub error: TransferError,
}

/// Everything that one command copies.
#[derive(Debug, Default)]
pub struct Plan {
    /// Folders to make.
    pub folders: Vec<Folder>,
    /// Files to copy.
    pub items: Vec<Item>,
    /// Files and folders that cannot be copied.
    pub refused: Vec<NotCopied>,
    /// What is neither file nor folder: links, pipes, devices.
    pub left_out: Vec<NotCopied>,
    /// Folders here that something is relative to: each is open once.
    pub(super) stores: HashMap<PathBuf, Arc<Store>>,
}

/// Whether an error is about one source, so that the others can go on.
fn is_of_one_source(error: &TransferError) -> bool {
    match error {
        TransferError::Local(e) | TransferError::Remote(e) => {
            !matches!(e.code, FileCode::Version | FileCode::Protocol)
        }
        TransferError::Connection(_) | TransferError::GivenUp(_) | TransferError::Protocol(_) => false,
    }
}

impl Plan {
    /// Everything that is to go to the server's `target`.
    pub async fn up(
        session: &Session,
        sources: &[PathBuf],
        target: &[u8],
        is_recursive: bool,
    ) -> Result<Self, TransferError> {
        let (kind, _) = stat(session, target).await?;
        let shown = name::shown(target);
        if kind == Kind::Missing && target.ends_with(b"/") {
            return Err(no_folder(&shown).into());
        }
        if kind != Kind::Folder && sources.len() > 1 {
            return Err(
                FileError::new(FileCode::WrongKind, format!("{shown} is no folder on the server")).into()
            );
        }
        let mut plan = Self::default();
        for source in sources {
            match plan.add_up(session, source, target, (kind, sources.len() > 1), is_recursive).await {
                Err(error) if is_of_one_source(&error) => {
                    let local = platform::path_bytes(source);
                    plan.refused.push(NotCopied { local, remote: target.to_vec(), error });
                }
                result => result?,
            }
        }
        plan.refuse_twice(Direction::Up, sources.len());
        Ok(plan)
    }

    /// Adds a file or, recursively, a folder of this machine.
    async fn add_up(
        &mut self,
        session: &Session,
        source: &Path,
        target: &[u8],
        (kind, is_one_of_many): (Kind, bool),
        is_recursive: bool,
    ) -> Result<(), TransferError> {
        let named = platform::path_bytes(source);
        let shown = name::shown(&named);
        let whole = std::fs::canonicalize(source).map_err(|e| FileError::from_io(&shown, &e))?;
        let own_name = whole.file_name().unwrap_or_default().to_owned();
        // `cp -r folder/. there` means what is in the folder, as it does for cp.
        let is_contents = named == b"." || named.ends_with(b"/.");
        let remote = match kind {
            Kind::Folder if !is_contents => {
                join(target, platform::name_bytes(source.file_name().unwrap_or(&own_name)))
            }
            _ => target.to_vec(),
        };
        if !whole.is_dir() {
            let store = self.store(whole.parent().unwrap_or(Path::new("/")))?;
            let local = platform::name_bytes(&own_name).to_vec();
            let (_, meta) = store.open_file(&local)?;
            self.push(Item { store, local, remote, meta, may_be_there: is_one_of_many })?;
            return Ok(());
        }
        check_recursive(is_recursive, &shown)?;
        if kind == Kind::File {
            let text = format!("{} is a file on the server", name::shown(target));
            return Err(FileError::new(FileCode::WrongKind, text).into());
        }
        let store = self.store(&whole)?;
        let mode = store.stat(b".")?.1.mode;
        let walked = Arc::clone(&store);
        let found = blocking(move || collect(walked)).await.map_err(|error| about(error, &shown))?;
        let may_be_there = kind == Kind::Folder
            && (is_contents || stat(session, &remote).await.is_ok_and(|(kind, _)| kind == Kind::Folder));
        self.push_folder(Folder { store: None, local: named, remote: remote.clone(), mode })?;
        for found in found {
            let base = Base { store: &store, remote: &remote, may_be_there, direction: Direction::Up };
            let (path, entry) = match found {
                Found::Entry(path, kind, meta) => (path, Ok((kind, meta))),
                Found::Part(path, _) => (path, Err(Found::part())),
                Found::LeftOut(path, error) => (path, Err(error)),
            };
            self.push_found(platform::path_bytes(&path), entry, &base)?;
        }
        Ok(())
    }

    /// Everything that is to go to `target` on this machine.
    pub async fn down(
        session: &Session,
        sources: &[Vec<u8>],
        target: &Path,
        is_recursive: bool,
    ) -> Result<Self, TransferError> {
        if sources.len() > 1 && !target.is_dir() {
            let text = format!("{} is no folder here", target.display());
            return Err(FileError::new(FileCode::WrongKind, text).into());
        }
        let mut plan = Self::default();
        let kinds = stat_all(session, sources).await?;
        for (source, kind) in sources.iter().zip(kinds) {
            let added = match kind {
                Ok(kind) => {
                    plan.add_down(session, source, target, kind, sources.len() > 1, is_recursive).await
                }
                Err(error) => Err(error),
            };
            match added {
                Err(error) if is_of_one_source(&error) => {
                    let local = platform::path_bytes(target);
                    plan.refused.push(NotCopied { local, remote: source.clone(), error });
                }
                result => result?,
            }
        }
        plan.refuse_twice(Direction::Down, sources.len());
        Ok(plan)
    }

    /// Adds a file or, recursively, a folder of the server.
    async fn add_down(
        &mut self,
        session: &Session,
        source: &[u8],
        target: &Path,
        (kind, meta): (Kind, Meta),
        is_one_of_many: bool,
        is_recursive: bool,
    ) -> Result<(), TransferError> {
        let shown = name::shown(source);
        let path = platform::path_of(source).unwrap_or_default();
        let own_name = if source.ends_with(b"/.") { None } else { path.file_name() };
        let destination = match own_name {
            Some(name) if target.is_dir() => target.join(name),
            _ => target.to_owned(),
        };
        match kind {
            Kind::File => {
                let (store, local) = self.parent_store(&destination)?;
                let remote = source.to_vec();
                Ok(self.push(Item { store, local, remote, meta, may_be_there: is_one_of_many })?)
            }
            Kind::Folder => {
                check_recursive(is_recursive, &shown)?;
                self.add_folder_down(session, source, &destination, meta.mode).await
            }
            Kind::Missing => Err(missing(&shown).into()),
            Kind::Other => {
                let text = format!("{shown} is neither file nor folder");
                Err(FileError::new(FileCode::WrongKind, text).into())
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
        let was_there = destination.is_dir();
        if !was_there {
            let (parent, name) = self.parent_store(destination)?;
            parent.make_folder(&name, mode)?;
        }
        let store = self.store(destination)?;
        let (mut writer, mut reader) = session.open().await?;
        message::write_request(&mut writer, &Message::List(source.to_owned())).await?;
        let base =
            Base { store: &store, remote: source, may_be_there: was_there, direction: Direction::Down };
        self.read_listing(&mut reader, &base).await
    }

    async fn read_listing<R: AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        base: &Base<'_>,
    ) -> Result<(), TransferError> {
        loop {
            let (path, entry) = match message::read(reader).await? {
                Message::Entry(path, kind @ (Kind::File | Kind::Folder), meta) => (path, Ok((kind, meta))),
                Message::LeftOut(path, error) => (path, Err(error)),
                Message::EndList(_) => return Ok(()),
                other => return Err(unexpected(&other)),
            };
            self.push_found(path, entry, base)?;
        }
    }

    /// What a walk has found, here or there, or why it is left out.
    fn push_found(
        &mut self,
        local: Vec<u8>,
        entry: Result<(Kind, Meta), FileError>,
        base: &Base<'_>,
    ) -> Result<(), FileError> {
        let remote = join(base.remote, &local);
        let (store, may_be_there) = (Arc::clone(base.store), base.may_be_there);
        let item = Item { store, local, remote, meta: Meta::default(), may_be_there };
        let is_too_long = item.remote.len() > PATH_BYTES_MAX || item.local.len() > PATH_BYTES_MAX;
        let (kind, meta) = match entry {
            Ok(_) if is_too_long => {
                let text = format!("its path is longer than {PATH_BYTES_MAX} bytes");
                return self.refuse(item, FileError::new(FileCode::BadName, text));
            }
            Ok(entry) => entry,
            Err(error) => return self.refuse(item, error),
        };
        if kind == Kind::File {
            return self.push(Item { meta, ..item });
        }
        let store = (base.direction == Direction::Down).then_some(item.store);
        self.push_folder(Folder { store, local: item.local, remote: item.remote, mode: meta.mode })
    }

    fn refuse(&mut self, item: Item, error: FileError) -> Result<(), FileError> {
        self.check_room()?;
        let is_no_file = error.code == FileCode::WrongKind;
        let list = if is_no_file { &mut self.left_out } else { &mut self.refused };
        let error = error.about(&item.shown());
        list.push(item.not_copied(error));
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

    /// Of two sources that would become the same file, the first is copied, as with `cp`.
    fn refuse_twice(&mut self, direction: Direction, sources: usize) {
        if sources < 2 {
            return;
        }
        let mut taken = HashSet::new();
        for item in std::mem::take(&mut self.items) {
            let key = match direction {
                Direction::Up => (0, item.remote.clone()),
                Direction::Down => (Arc::as_ptr(&item.store) as usize, item.local.clone()),
            };
            if taken.insert(key) {
                self.items.push(item);
                continue;
            }
            let text = format!("{}: another source has become this file", item.shown());
            self.refused.push(item.not_copied(FileError::new(FileCode::Busy, text)));
        }
    }

    fn store(&mut self, folder: &Path) -> Result<Arc<Store>, FileError> {
        if let Some(store) = self.stores.get(folder) {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(Store::open(folder)?);
        self.stores.insert(folder.to_owned(), Arc::clone(&store));
        Ok(store)
    }

    fn parent_store(&mut self, path: &Path) -> Result<(Arc<Store>, Vec<u8>), FileError> {
        let Some(name) = path.file_name() else {
            return Err(FileError::new(FileCode::WrongKind, format!("{} cannot be a file", path.display())));
        };
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok((self.store(parent)?, platform::name_bytes(name).to_vec()))
    }

    fn check_room(&self) -> Result<(), FileError> {
        let count = self.items.len() + self.folders.len() + self.refused.len() + self.left_out.len();
        if count < ITEMS_MAX {
            return Ok(());
        }
        Err(FileError::new(FileCode::Io, format!("more than {ITEMS_MAX} files in one command")))
    }
}

/// Where what is found belongs.
struct Base<'a> {
    store: &'a Arc<Store>,
    remote: &'a [u8],
    may_be_there: bool,
    direction: Direction,
}

fn collect(store: Arc<Store>) -> Result<Vec<Found>, FileError> {
    Ok(Walk::begin(store, PathBuf::from("."))?.take(ITEMS_MAX).collect())
}

/// An error of what is inside a folder, with the name that the folder was given.
fn about(error: TransferError, shown: &str) -> TransferError {
    match error {
        TransferError::Local(error) => error.about(shown).into(),
        other => other,
    }
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

type Stated = Result<(Kind, Meta), TransferError>;

/// What is at each of these paths; asked at the same time, or many would cost a round trip each.
async fn stat_all(session: &Session, paths: &[Vec<u8>]) -> Result<Vec<Stated>, TransferError> {
    const AT_ONCE: usize = 64;
    let mut all = Vec::new();
    for some in paths.chunks(AT_ONCE) {
        let asking = some.iter().map(|path| {
            let (session, path) = (session.clone(), path.clone());
            tokio::spawn(async move { stat(&session, &path).await })
        });
        for asked in asking.collect::<Vec<_>>() {
            all.push(asked.await.map_err(super::work::panicked)?);
        }
    }
    Ok(all)
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

fn no_folder(path: &str) -> FileError {
    FileError::new(FileCode::NotFound, format!("{path} is no folder on the server"))
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
