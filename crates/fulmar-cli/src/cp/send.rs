//! The sending half of one file: what it is, from where on, the bytes, their hash.
//!
//! The same code sends for the client (`Put`) and for the server (`Get`), and knows no network: anything that reads and
//! writes will do. A reader thread fetches and hashes ahead of the network; while the data go out, the answer is listened
//! for, so that a full disk over there ends the sending at once.

use std::fs::File;
use std::future::Future;
use std::io::Read;
use std::pin::pin;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Hash, Message, Meta};
use super::progress::FileProgress;
use super::store::hash_prefix;

/// Files up to this size are sent at once, without waiting to hear what the receiver has of them: asking would take
/// longer than sending on any path worth the name.
pub const ASK_ABOVE_BYTES: u64 = 64 * 1024;

/// Bytes of a file in one message: enough for the hash's widest kernels, little enough that progress is seen on slow paths.
const CHUNK_BYTES: u64 = 32 * 1024;

/// Chunks read ahead of the network.
const CHUNKS_AHEAD: usize = 32;

/// A file to be sent.
#[derive(Debug)]
pub struct Source {
    /// Open for reading.
    pub file: File,
    /// As it was when it was opened.
    pub meta: Meta,
    /// For people.
    pub shown: String,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of the whole file, equal on both sides.
    pub hash: Hash,
    /// Bytes that the receiver had already.
    pub resumed_bytes: u64,
    /// Size of the whole file.
    pub size_bytes: u64,
}

/// Sends one file and waits until it is stored over there. On failure the other side has been told, as far as the
/// connection allows. The writer stays open.
pub async fn send<R, W>(
    reader: &mut R,
    writer: &mut W,
    source: Source,
    progress: &FileProgress,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let result = send_file(reader, writer, source, progress).await;
    if let Some(error) = result.as_ref().err().and_then(TransferError::for_peer) {
        let _ = message::write(writer, &[Message::Error(error)]).await;
    }
    result
}

async fn send_file<R, W>(
    reader: &mut R,
    writer: &mut W,
    source: Source,
    progress: &FileProgress,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let meta = source.meta;
    message::write(writer, &[Message::Meta(meta)]).await?;
    let offered = if meta.size_bytes > ASK_ABOVE_BYTES {
        match message::read(reader).await? {
            Message::Resume(offset, hash) => Some((offset, hash)),
            other => return Err(unexpected(&other)),
        }
    } else {
        None
    };
    let (start, source, hasher) = blocking(move || agree_on_start(source, offered)).await?;
    progress.on_resumed(start);

    let mut stored = pin!(wait_until_stored(reader));
    let mut sending = pin!(send_body(writer, source, hasher, start, progress));
    let sent = tokio::select! {
        // Nothing but an error can come before the end has been sent.
        early = &mut stored => return Err(early.err().unwrap_or_else(|| TransferError::Protocol("stored too early".into()))),
        sent = &mut sending => sent,
    };
    let hash = match sent {
        Ok(hash) => hash,
        // The receiver stopped listening: it has said why, and that is the better reason.
        Err(error @ TransferError::Connection(_)) => {
            let said = tokio::time::timeout(std::time::Duration::from_secs(2), stored).await;
            return Err(match said {
                Ok(Err(reason @ TransferError::Remote(_))) => reason,
                _ => error,
            });
        }
        Err(error) => return Err(error),
    };
    if stored.await? != hash {
        return Err(FileError::new(FileCode::Mismatch, "the other side stored something else").into());
    }
    Ok(Outcome { hash, resumed_bytes: start, size_bytes: meta.size_bytes })
}

/// Goes on where the receiver stopped if it has the same bytes up to there, and from the beginning if not.
fn agree_on_start(
    source: Source,
    offered: Option<(u64, Hash)>,
) -> Result<(u64, Source, blake3::Hasher), FileError> {
    if let Some((offset, hash)) = offered.filter(|(offset, _)| (1..=source.meta.size_bytes).contains(offset))
    {
        let same = source.file.try_clone().and_then(|file| hash_prefix(file, offset));
        let (hashed, hasher) = same.map_err(|e| FileError::from_io(&source.shown, &e))?;
        if hashed == offset && *hasher.finalize().as_bytes() == hash {
            return Ok((offset, source, hasher));
        }
        rewind(&source)?;
    }
    Ok((0, source, blake3::Hasher::new()))
}

fn rewind(source: &Source) -> Result<(), FileError> {
    use std::io::Seek;
    (&source.file).rewind().map_err(|e| FileError::from_io(&source.shown, &e))
}

async fn send_body<W: AsyncWrite + Unpin>(
    writer: &mut W,
    source: Source,
    hasher: blake3::Hasher,
    start: u64,
    progress: &FileProgress,
) -> Result<Hash, TransferError> {
    message::write(writer, &[Message::Start(start)]).await?;
    let (chunks, mut ready) = mpsc::channel(CHUNKS_AHEAD);
    let reading = tokio::task::spawn_blocking(move || read_ahead(&source, hasher, start, &chunks));
    while let Some(chunk) = ready.recv().await {
        let count = chunk.len() as u64;
        message::write(writer, &[Message::Data(chunk)]).await?;
        progress.on_bytes(count);
    }
    let hash = reading.await.map_err(|e| TransferError::Connection(e.into()))??;
    message::write(writer, &[Message::End(hash)]).await?;
    Ok(hash)
}

/// Reads from `start` to the size promised, and makes sure that the file stood still meanwhile.
fn read_ahead(
    source: &Source,
    mut hasher: blake3::Hasher,
    start: u64,
    chunks: &mpsc::Sender<Bytes>,
) -> Result<Hash, FileError> {
    let changed = || FileError::new(FileCode::Changed, format!("{} changed while it was read", source.shown));
    let mut left = source.meta.size_bytes - start;
    while left > 0 {
        let mut chunk = vec![0; left.min(CHUNK_BYTES) as usize];
        let count = (&source.file).read(&mut chunk).map_err(|e| FileError::from_io(&source.shown, &e))?;
        if count == 0 {
            return Err(changed());
        }
        chunk.truncate(count);
        hasher.update(&chunk);
        left -= count as u64;
        if chunks.blocking_send(chunk.into()).is_err() {
            break; // Nobody wants the rest: the network half has ended with an error of its own.
        }
    }
    let now = source.file.metadata().map_err(|e| FileError::from_io(&source.shown, &e))?;
    use std::os::unix::fs::MetadataExt;
    let (mtime_s, mtime_ns) = (now.mtime(), now.mtime_nsec().clamp(0, 999_999_999) as u32);
    if (now.len(), mtime_s, mtime_ns) != (source.meta.size_bytes, source.meta.mtime_s, source.meta.mtime_ns) {
        return Err(changed());
    }
    Ok(hasher.finalize().into())
}

async fn wait_until_stored<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Hash, TransferError> {
    loop {
        match message::read(reader).await? {
            // The answer to a small file that did not wait for it.
            Message::Resume(..) => {}
            Message::Done(hash) => return Ok(hash),
            other => return Err(unexpected(&other)),
        }
    }
}

/// Runs file work where it may block.
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> impl Future<Output = Result<T, TransferError>> {
    let task = tokio::task::spawn_blocking(work);
    async move { Ok(task.await.map_err(panicked)??) }
}

/// Work that panicked: a mistake of this program, and no reason to believe that the connection is at fault.
pub fn panicked(error: tokio::task::JoinError) -> FileError {
    let why =
        error.try_into_panic().map_or_else(|cancelled| cancelled.to_string(), |panic| words_of(&*panic));
    FileError::new(FileCode::Io, format!("a mistake in this program: {why}"))
}

/// What a panic said.
pub fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
        .to_owned()
}

/// A message that has no place here.
pub fn unexpected(message: &Message) -> TransferError {
    let debug = format!("{message:?}");
    let name = debug.split(['(', ' ']).next().unwrap_or_default().to_owned();
    TransferError::Protocol(format!("{name} was not expected here"))
}
