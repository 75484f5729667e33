//! The serving side of the copy protocol: one request per stream, confined to the root.
//!
//! Knows streams as anything that reads and writes; connections and identities are the business of
//! `fulmar serve`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

use super::clients::{Admission, Client, Clients};
use super::compare;
use super::error::{FileCode, FileError, STALLED, TransferError};
use super::message::{self, Hash, Kind, Message, Meta, PATH_BYTES_MAX, PREAMBLE, Version};
use super::name;
use super::patience::{self, Patient, Reply, STALL_MAX, patience_for};
use super::progress::{FileProgress, Progress};
use super::receive::receive;
use super::send::{send, unexpected};
use super::source::Source;
use super::store::Store;
use super::walk::{Found, Walk};
use super::work::{SHARE, blocking, caught};
use crate::platform;

/// How long a client may take to take the last word.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// How long a request may take to say what it wants.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Entries of a listing that wait for the network.
const ENTRIES_AT_ONCE: usize = 256;

/// What is served, and the files being received at this moment.
#[derive(Debug)]
pub struct Served {
    store: Arc<Store>,
    is_read_only: bool,
    receiving: Mutex<HashMap<PathBuf, Receiving>>,
    progress: Arc<Progress>,
    /// Who is there, and what of the server they have.
    clients: Clients,
}

/// A file being received: for whom, and how to end that.
#[derive(Debug)]
struct Receiving {
    client: String,
    replace: oneshot::Sender<()>,
}

/// The right of a client to one request.
#[derive(Debug)]
pub struct Admitted {
    client: String,
    bounds: Arc<Client>,
    _admission: Option<Admission>,
}

/// A request that has been served, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// What was asked for.
    pub request: &'static str,
    /// Of what, for people.
    pub path: String,
    /// The same exactly, if that is something else (see [`name::exact`]).
    pub path_bytes: Option<String>,
    /// Bytes of the file, and how many of them had not to be sent.
    pub bytes: Option<(u64, u64)>,
}

impl Served {
    /// Serves what is below this folder.
    pub fn new(root: &Path, is_read_only: bool) -> Result<Self, FileError> {
        Ok(Self {
            store: Arc::new(Store::open(root)?),
            is_read_only,
            receiving: Mutex::default(),
            progress: Arc::default(),
            clients: Clients::new(),
        })
    }

    /// Counts what is received.
    pub fn with_progress(self, progress: &Arc<Progress>) -> Self {
        Self { progress: Arc::clone(progress), ..self }
    }

    /// Waits until this client has room for one more request. That may take long: the client may have left
    /// meanwhile, and then nobody should wait for it.
    pub async fn admit(&self, client: &str) -> Admitted {
        let bounds = self.clients.client(client);
        let admission = bounds.admit().await;
        Admitted { client: client.to_owned(), bounds, _admission: admission }
    }

    /// Serves one request stream to its end. Errors have been told to the client, as far as possible.
    pub async fn handle<R, W>(
        &self,
        admitted: Admitted,
        reader: &mut R,
        writer: &mut W,
    ) -> Result<Handled, TransferError>
    where
        R: AsyncRead + Unpin,
        W: Reply,
    {
        let Admitted { client, bounds, _admission } = admitted;
        SHARE.scope(Arc::clone(&bounds.work), self.handle_admitted(&client, reader, writer)).await
    }

    /// Tells a client whose key may not copy files so, whatever it asks for. Without a word it would take the
    /// connection for lost and come again.
    pub async fn refuse<W: AsyncWrite + Unpin>(writer: &mut W) {
        let mut writer = Patient::new(writer, FAREWELL_MAX);
        let refusal = FileError::new(FileCode::Denied, "this key may not copy files here");
        let _ = message::write(&mut writer, &[Message::Error(refusal)]).await;
        let _ = writer.shutdown().await;
    }

    async fn handle_admitted<R, W>(
        &self,
        client: &str,
        reader: &mut R,
        writer: &mut W,
    ) -> Result<Handled, TransferError>
    where
        R: AsyncRead + Unpin,
        W: Reply,
    {
        let (mut reader, mut writer) = patience::both(reader, writer, STALL_MAX);
        let late = || FileError::new(FileCode::Protocol, "no request came");
        let request = tokio::time::timeout(REQUEST_TIME_MAX, read_request(&mut reader)).await;
        let result = match request.unwrap_or_else(|_| Err(late().into())) {
            Ok((version, request)) => {
                let serving = self.serve(client, (version, request), &mut reader, &mut writer);
                // A mistake in here ends this request, and its client hears of it.
                caught(async { Ok(serving.await) }).await.unwrap_or_else(|mistake| Err((mistake, true)))
            }
            Err(error) => Err((error, true)),
        };
        let result = match result {
            Err(_) if reader.has_given_up() || writer.has_given_up() => {
                Err((FileError::new(FileCode::Stalled, STALLED).into(), true))
            }
            other => other,
        };
        writer.set_limit(FAREWELL_MAX);
        let (result, untold) = match result {
            Ok(handled) => (Ok(handled), None),
            Err((error, is_untold)) => {
                let untold = error.for_peer().filter(|_| is_untold);
                (Err(error), untold)
            }
        };
        let why = untold.as_ref().map_or(FileCode::Io, |error| error.code);
        if let Some(error) = untold.filter(|_| writer.is_between_frames()) {
            let _ = message::write(&mut writer, &[Message::Error(error)]).await;
        }
        // Behind half a frame an ERROR would be taken for the rest of it, and an end for all that there is.
        if writer.is_between_frames() {
            let _ = writer.shutdown().await;
        } else {
            writer.inner().give_up(why);
        }
        result
    }

    /// The error comes with whether the client still has to be told.
    async fn serve<R, W>(
        &self,
        client: &str,
        (version, request): (Version, Message),
        reader: &mut Patient<R>,
        writer: &mut Patient<W>,
    ) -> Result<Handled, (TransferError, bool)>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let untold = |error| (error, true);
        let store = Arc::clone(&self.store);
        let handled = |request, path: &[u8], bytes| {
            Ok(Handled { request, path: name::shown(path), path_bytes: name::exact(path), bytes })
        };
        match request {
            Message::Put(path) => {
                let outcome = self.put(client, &path, version, reader, writer).await?;
                handled("put", &path, Some((outcome.size_bytes, outcome.resumed_bytes)))
            }
            Message::Get(path) => {
                let opening = path.clone();
                let source = blocking(move || Source::open(&store, &opening, &name::shown(&opening)));
                let source = source.await.map_err(untold)?;
                // It may have to go through as much on its disk before it says more, if it does not say how
                // far it is.
                reader.set_limit(silence_max(version, source.meta.size_bytes));
                let progress = FileProgress::new(&Arc::default());
                let sending = Box::pin(send(reader, writer, source, &progress, version));
                let outcome = sending.await.map_err(|e| (e, false))?;
                handled("get", &path, Some((outcome.size_bytes, outcome.resumed_bytes)))
            }
            Message::Stat(path) => {
                let asked = path.clone();
                let (kind, meta) = blocking(move || store.stat(&asked)).await.map_err(untold)?;
                let meta = as_known_to(version, meta);
                message::write(writer, &[Message::Info(kind, meta)]).await.map_err(untold)?;
                handled("stat", &path, None)
            }
            Message::List(path) => {
                Box::pin(list(store, path.clone(), version, writer)).await.map_err(untold)?;
                handled("list", &path, None)
            }
            Message::MakeFolder(path, mode) => {
                self.check_writable().map_err(|e| untold(e.into()))?;
                let made = path.clone();
                blocking(move || store.make_folder(&made, mode)).await.map_err(untold)?;
                message::write(writer, &[Message::Done(Hash::default())]).await.map_err(untold)?;
                handled("make folder", &path, None)
            }
            Message::Compare(asked) => {
                let files = format!("{} files", asked.len());
                let same = Box::pin(compare::answer(store, asked)).await.map_err(untold)?;
                message::write(writer, &[Message::Same(same)]).await.map_err(untold)?;
                handled("compare", files.as_bytes(), None)
            }
            other => Err(untold(unexpected(&other))),
        }
    }

    async fn put<R, W>(
        &self,
        client: &str,
        path: &[u8],
        version: Version,
        reader: &mut Patient<R>,
        writer: &mut Patient<W>,
    ) -> Result<super::send::Outcome, (TransferError, bool)>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let untold = |error: FileError| (error.into(), true);
        self.check_writable().map_err(untold)?;
        let key = Store::key(path).map_err(untold)?;
        let (store, asked) = (Arc::clone(&self.store), path.to_owned());
        let placing = blocking(move || store.place(&asked).map(|place| (place.present_bytes(), place)));
        let (present_bytes, place) = Box::pin(placing).await.map_err(|e| (e, true))?;
        // The client compares what is here with what it has before it says more, if it does not say how far
        // it is.
        reader.set_limit(silence_max(version, present_bytes));

        let replaced = self.replace_earlier(client, key.clone());
        let progress = FileProgress::new(&self.progress);
        let result = tokio::select! {
            result = receive(reader, writer, place, &progress, version) => result.map_err(|e| (e, false)),
            Ok(()) = replaced => {
                Err(untold(FileError::new(FileCode::Replaced, "a later request for the same file took over")))
            }
        };
        self.forget(&key, &result);
        if result.is_ok() {
            progress.finish();
        }
        result
    }

    /// A client that was cut off and comes again finds its own earlier request still waiting for data that
    /// will not come. The later one is right. Another client's is left alone: its lock makes this one wait,
    /// then fail as busy.
    fn replace_earlier(&self, client: &str, key: PathBuf) -> oneshot::Receiver<()> {
        let (replace, replaced) = oneshot::channel();
        let mut receiving = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        let is_others = receiving.get(&key).is_some_and(|r| r.client != client && !r.replace.is_closed());
        if is_others {
            return replaced;
        }
        if let Some(earlier) = receiving.insert(key, Receiving { client: client.to_owned(), replace }) {
            let _ = earlier.replace.send(());
        }
        replaced
    }

    /// Takes the entry out again, unless a later request has put its own there.
    fn forget<T>(&self, key: &Path, result: &Result<T, (TransferError, bool)>) {
        let is_replaced = matches!(result, Err((TransferError::Local(e), _)) if e.code == FileCode::Replaced);
        let mut receiving = self.receiving.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_replaced && receiving.get(key).is_some_and(|r| r.replace.is_closed()) {
            receiving.remove(key);
        }
    }

    fn check_writable(&self) -> Result<(), FileError> {
        if self.is_read_only {
            Err(FileError::new(FileCode::Denied, "this server only gives files"))
        } else {
            Ok(())
        }
    }
}

/// Reads the preamble and the request. A version that is not known here is told so, and nothing else is read.
async fn read_request<R: AsyncRead + Unpin>(reader: &mut R) -> Result<(Version, Message), TransferError> {
    let mut preamble = [0; 4];
    reader.read_exact(&mut preamble).await.map_err(TransferError::Connection)?;
    if preamble[..3] != PREAMBLE[..3] {
        return Err(TransferError::Protocol("not a copy request".into()));
    }
    let Some(version) = Version::from_wire(preamble[3]) else {
        let text = format!(
            "version {} of the copy protocol is not spoken here: it is {} at most",
            preamble[3], PREAMBLE[3]
        );
        return Err(FileError::new(FileCode::Version, text).into());
    };
    Ok((version, message::read(reader).await?))
}

/// How long a client may be silent that has to go through so many bytes. From version 2 on it says how far it
/// is.
fn silence_max(version: Version, bytes: u64) -> Duration {
    if version < Version::Two { patience_for(bytes) } else { STALL_MAX }
}

/// Version 1 knows no sticky bit.
fn as_known_to(version: Version, meta: Meta) -> Meta {
    let mode = if version < Version::Two { meta.mode & 0o777 } else { meta.mode };
    Meta { mode, ..meta }
}

async fn list<W: AsyncWrite + Unpin>(
    store: Arc<Store>,
    path: Vec<u8>,
    version: Version,
    writer: &mut W,
) -> Result<(), TransferError> {
    let root = Store::key(&path)?;
    let (begun, below) = (Arc::clone(&store), root.clone());
    let begin = move || Walk::begin(begun, below).map_err(|error| error.about(&name::shown(&path)));
    let mut walk = blocking(begin).await?;
    let mut left_out = 0;
    loop {
        // A piece at a time: a client that does not read holds no thread.
        let (rest, entries) = blocking(move || {
            let entries: Vec<_> = walk.by_ref().take(ENTRIES_AT_ONCE).collect();
            Ok((walk, entries))
        })
        .await?;
        walk = rest;
        if entries.is_empty() {
            return message::write(writer, &[Message::EndList(left_out)]).await;
        }
        let mut out = Vec::new();
        for found in entries {
            let said = listed(found, version);
            left_out += u64::from(matches!(said, None | Some(Message::LeftOut(..))));
            said.iter().for_each(|message| message.append_to(&mut out));
        }
        writer.write_all(&out).await.map_err(TransferError::Connection)?;
    }
}

/// What is said of an entry: nothing, where version 1 has no words for it.
fn listed(found: Found, version: Version) -> Option<Message> {
    let bytes = |path: PathBuf| platform::path_bytes(&path);
    let too_long =
        || FileError::new(FileCode::BadName, format!("its path is longer than {PATH_BYTES_MAX} bytes"));
    let (path, said) = match found {
        Found::Entry(path, ..) | Found::Part(path, _) if path.as_os_str().len() > PATH_BYTES_MAX => {
            (bytes(path), Err(too_long()))
        }
        Found::Entry(path, kind, meta) => (bytes(path), Ok((kind, meta))),
        Found::Part(path, meta) if version < Version::Two => (bytes(path), Ok((Kind::Other, meta))),
        Found::Part(path, _) => (bytes(path), Err(Found::part())),
        Found::LeftOut(path, error) => (bytes(path), Err(error)),
    };
    match said {
        Ok((kind, meta)) => Some(Message::Entry(path, kind, as_known_to(version, meta))),
        Err(error) => (version >= Version::Two).then_some(Message::LeftOut(path, error)),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
