//! The serving side of the copy protocol: one request per stream, confined to the root.
//!
//! Knows streams as anything that reads and writes; connections and identities are the business of `fulmar serve`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Hash, Kind, Message, Meta, PREAMBLE};
use super::progress::{FileProgress, Progress};
use super::receive::receive;
use super::send::{Source, blocking, send, unexpected};
use super::store::Store;

/// How long a request may take to say what it wants.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Deepest folder that a listing descends into.
const DEPTH_MAX: usize = 256;

/// Entries of a listing that wait for the network.
const ENTRIES_AHEAD: usize = 256;

/// What is served, and the files being received at this moment.
#[derive(Debug)]
pub struct Served {
    store: Arc<Store>,
    is_read_only: bool,
    receiving: Mutex<HashMap<PathBuf, Receiving>>,
    progress: Arc<Progress>,
}

/// A file being received: for whom, and how to end that.
#[derive(Debug)]
struct Receiving {
    client: String,
    replace: oneshot::Sender<()>,
}

/// A request that has been served, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// What was asked for.
    pub request: &'static str,
    /// Of what.
    pub path: String,
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
        })
    }

    /// Counts what is received.
    pub fn with_progress(self, progress: &Arc<Progress>) -> Self {
        Self { progress: Arc::clone(progress), ..self }
    }

    /// Serves one request stream to its end. Errors have been told to the client, as far as possible.
    pub async fn handle<R, W>(
        &self,
        client: &str,
        reader: &mut R,
        writer: &mut W,
    ) -> Result<Handled, TransferError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let late = || FileError::new(FileCode::Protocol, "no request came");
        let request = tokio::time::timeout(REQUEST_TIME_MAX, read_request(reader)).await;
        let result = match request.unwrap_or_else(|_| Err(late().into())) {
            Ok(request) => self.serve(client, request, reader, writer).await,
            Err(error) => Err((error, true)),
        };
        let result = match result {
            Ok(handled) => Ok(handled),
            Err((error, is_untold)) => {
                if let Some(error) = error.for_peer().filter(|_| is_untold) {
                    let _ = message::write(writer, &[Message::Error(error)]).await;
                }
                Err(error)
            }
        };
        let _ = writer.shutdown().await;
        result
    }

    /// The error comes with whether the client still has to be told.
    async fn serve<R, W>(
        &self,
        client: &str,
        request: Message,
        reader: &mut R,
        writer: &mut W,
    ) -> Result<Handled, (TransferError, bool)>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let untold = |error| (error, true);
        let store = Arc::clone(&self.store);
        let handled = |request, path: &[u8], bytes| {
            let path = crate::units::printable(&String::from_utf8_lossy(path));
            Ok(Handled { request, path, bytes })
        };
        match request {
            Message::Put(path) => {
                let outcome = self.put(client, &path, reader, writer).await?;
                handled("put", &path, Some((outcome.size_bytes, outcome.resumed_bytes)))
            }
            Message::Get(path) => {
                let (opening, shown) = (path.clone(), String::from_utf8_lossy(&path).into_owned());
                let (file, meta) = blocking(move || store.open_file(&opening)).await.map_err(untold)?;
                let source = Source { file, meta, shown };
                let outcome = send(reader, writer, source, &FileProgress::new(&Arc::default()))
                    .await
                    .map_err(|e| (e, false))?;
                handled("get", &path, Some((outcome.size_bytes, outcome.resumed_bytes)))
            }
            Message::Stat(path) => {
                let asked = path.clone();
                let (kind, meta) = blocking(move || store.stat(&asked)).await.map_err(untold)?;
                message::write(writer, &[Message::Info(kind, meta)]).await.map_err(untold)?;
                handled("stat", &path, None)
            }
            Message::List(path) => {
                list(store, path.clone(), writer).await.map_err(untold)?;
                handled("list", &path, None)
            }
            Message::MakeFolder(path, mode) => {
                self.check_writable().map_err(|e| untold(e.into()))?;
                let made = path.clone();
                blocking(move || store.make_folder(&made, mode)).await.map_err(untold)?;
                message::write(writer, &[Message::Done(Hash::default())]).await.map_err(untold)?;
                handled("make folder", &path, None)
            }
            other => Err(untold(unexpected(&other))),
        }
    }

    async fn put<R, W>(
        &self,
        client: &str,
        path: &[u8],
        reader: &mut R,
        writer: &mut W,
    ) -> Result<super::send::Outcome, (TransferError, bool)>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let untold = |error: FileError| (error.into(), true);
        self.check_writable().map_err(untold)?;
        let key = Store::key(path).map_err(untold)?;
        let (store, asked) = (Arc::clone(&self.store), path.to_owned());
        let place = blocking(move || store.place(&asked)).await.map_err(|e| (e, true))?;

        let replaced = self.replace_earlier(client, key.clone());
        let progress = FileProgress::new(&self.progress);
        let result = tokio::select! {
            result = receive(reader, writer, place, &progress) => result.map_err(|e| (e, false)),
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

    /// A client that was cut off and comes again finds its own earlier request still waiting for data that will not
    /// come. The later one is right. Another client's is left alone: its lock makes this one wait, then fail as busy.
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
async fn read_request<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Message, TransferError> {
    let mut preamble = [0; 4];
    reader.read_exact(&mut preamble).await.map_err(TransferError::Connection)?;
    if preamble[..3] != PREAMBLE[..3] {
        return Err(TransferError::Protocol("not a copy request".into()));
    }
    if preamble[3] != PREAMBLE[3] {
        let text =
            format!("version {} of the copy protocol is not spoken here: it is {}", preamble[3], PREAMBLE[3]);
        return Err(FileError::new(FileCode::Version, text).into());
    }
    message::read(reader).await
}

async fn list<W: AsyncWrite + Unpin>(
    store: Arc<Store>,
    path: Vec<u8>,
    writer: &mut W,
) -> Result<(), TransferError> {
    let root = Store::key(&path)?;
    let (entries, mut ready) = mpsc::channel(ENTRIES_AHEAD);
    let walking = blocking(move || {
        walk(&store, &root, |path, kind, meta| entries.blocking_send((path, kind, meta)).is_ok())
    });
    let mut out = Vec::new();
    while let Some((path, kind, meta)) = ready.recv().await {
        use std::os::unix::ffi::OsStringExt;
        Message::Entry(path.into_os_string().into_vec(), kind, meta).append_to(&mut out);
        if ready.is_empty() || out.len() > crate::frames::BODY_BYTES_MAX {
            writer.write_all(&out).await.map_err(TransferError::Connection)?;
            out.clear();
        }
    }
    let skipped = walking.await?;
    message::write(writer, &[Message::EndList(skipped)]).await
}

/// Names every file and folder below one, folders before what is in them, until `visit` has had enough. Returns how
/// many entries were left out: links, devices, and folders that may not be read.
pub fn walk(
    store: &Store,
    root: &Path,
    mut visit: impl FnMut(PathBuf, Kind, Meta) -> bool,
) -> Result<u64, FileError> {
    let mut skipped = 0;
    let mut open = vec![store.entries(root)?.into_iter()];
    while let Some(level) = open.last_mut() {
        let Some((path, what)) = level.next() else {
            open.pop();
            continue;
        };
        let Some((kind, meta)) = what else {
            skipped += 1;
            continue;
        };
        let below = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if !visit(below, kind, meta) {
            break;
        }
        if kind == Kind::Folder {
            match store.entries(&path) {
                Ok(entries) if open.len() < DEPTH_MAX => open.push(entries.into_iter()),
                _ => skipped += 1,
            }
        }
    }
    Ok(skipped)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
