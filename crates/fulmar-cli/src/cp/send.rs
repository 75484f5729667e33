//! The sending half of one file: what it is, from where on, the bytes, their hash.
//!
//! The same code sends for the client (`Put`) and for the server (`Get`), and knows no network: anything that
//! reads and writes will do. Threads fetch and hash a batch ahead of the network; while the data go out, the
//! answer is listened for, so that a full disk over there ends the sending at once.

use std::fs::File;
use std::io::Read;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Hash, Message, Meta};
use super::part::hash_prefix;
use super::progress::FileProgress;
use super::work::{begin, blocking, finished};

/// Files up to this size are sent at once, without waiting to hear what the receiver has of them: asking
/// would take longer than sending on any path worth the name.
pub const ASK_ABOVE_BYTES: u64 = 64 * 1024;

/// Bytes of a file in one message: enough for the hash's widest kernels, little enough that progress is seen
/// on slow paths.
const CHUNK_BYTES: u64 = 32 * 1024;

/// Chunks read in one go; as many are read ahead of the network.
const CHUNKS_AT_ONCE: usize = 16;

/// How long the reason of a receiver that has stopped listening may take to arrive.
const LAST_WORD_MAX: Duration = Duration::from_secs(10);

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

impl Source {
    fn explain(&self, error: &std::io::Error) -> FileError {
        FileError::from_io(&self.shown, error)
    }

    fn changed(&self) -> FileError {
        FileError::new(FileCode::Changed, format!("{} changed while it was read", self.shown))
    }
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

/// Sends one file and waits until it is stored over there. On failure the other side has been told, as far as
/// the connection allows. The writer stays open.
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
    if let Err(error) = message::write(writer, &[Message::Meta(meta)]).await {
        // Boxed: a request that stands still is to hold little.
        return Err(Box::pin(reason_or(error, wait_until_stored(reader))).await);
    }
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
        Err(error) => return Err(reason_or(error, stored).await),
    };
    if stored.await? != hash {
        return Err(FileError::new(FileCode::Mismatch, "the other side stored something else").into());
    }
    Ok(Outcome { hash, resumed_bytes: start, size_bytes: meta.size_bytes })
}

/// A receiver that stopped listening has said why, and that is the better reason.
async fn reason_or<T>(
    error: TransferError,
    answer: impl Future<Output = Result<T, TransferError>>,
) -> TransferError {
    if !matches!(error, TransferError::Connection(_)) {
        return error;
    }
    match tokio::time::timeout(LAST_WORD_MAX, answer).await {
        Ok(Err(reason @ TransferError::Remote(_))) => reason,
        _ => error,
    }
}

/// Goes on where the receiver stopped if it has the same bytes up to there, and from the beginning if not.
fn agree_on_start(
    source: Source,
    offered: Option<(u64, Hash)>,
) -> Result<(u64, Source, Box<blake3::Hasher>), FileError> {
    if let Some((offset, hash)) = offered.filter(|(offset, _)| (1..=source.meta.size_bytes).contains(offset))
    {
        let same = source.file.try_clone().and_then(|file| hash_prefix(file, offset));
        let (hashed, hasher) = same.map_err(|e| source.explain(&e))?;
        if hashed == offset && *hasher.finalize().as_bytes() == hash {
            return Ok((offset, source, hasher));
        }
        rewind(&source)?;
    }
    Ok((0, source, Box::default()))
}

fn rewind(source: &Source) -> Result<(), FileError> {
    use std::io::Seek;
    (&source.file).rewind().map_err(|e| source.explain(&e))
}

async fn send_body<W: AsyncWrite + Unpin>(
    writer: &mut W,
    source: Source,
    hasher: Box<blake3::Hasher>,
    start: u64,
    progress: &FileProgress,
) -> Result<Hash, TransferError> {
    message::write(writer, &[Message::Start(start)]).await?;
    let left = source.meta.size_bytes - start;
    let mut reading = begin(move || Reading { source, hasher, left }.batch()).await;
    loop {
        let (rest, chunks) = finished(reading).await?;
        if chunks.is_empty() {
            let hash = blocking(move || rest.finish()).await?;
            message::write(writer, &[Message::End(hash)]).await?;
            return Ok(hash);
        }
        // The next batch is read while this one goes out; a network that stands still holds no thread.
        reading = begin(move || rest.batch()).await;
        for chunk in chunks {
            let count = chunk.len() as u64;
            message::write(writer, &[Message::Data(chunk)]).await?;
            progress.on_bytes(count);
        }
    }
}

/// A file being read and hashed.
struct Reading {
    source: Source,
    hasher: Box<blake3::Hasher>,
    left: u64,
}

impl Reading {
    /// The next chunks, none at the end.
    fn batch(mut self) -> Result<(Self, Vec<Bytes>), FileError> {
        let mut chunks = Vec::new();
        while self.left > 0 && chunks.len() < CHUNKS_AT_ONCE {
            let mut chunk = vec![0; self.left.min(CHUNK_BYTES) as usize];
            let count = (&self.source.file).read(&mut chunk).map_err(|e| self.source.explain(&e))?;
            if count == 0 {
                return Err(self.source.changed());
            }
            chunk.truncate(count);
            self.hasher.update(&chunk);
            self.left -= count as u64;
            chunks.push(chunk.into());
        }
        Ok((self, chunks))
    }

    /// The hash, if the file stood still meanwhile.
    fn finish(self) -> Result<Hash, FileError> {
        use std::os::unix::fs::MetadataExt;
        let (meta, now) =
            (&self.source.meta, self.source.file.metadata().map_err(|e| self.source.explain(&e))?);
        let (mtime_s, mtime_ns) = (now.mtime(), now.mtime_nsec().clamp(0, 999_999_999) as u32);
        if (now.len(), mtime_s, mtime_ns) != (meta.size_bytes, meta.mtime_s, meta.mtime_ns) {
            return Err(self.source.changed());
        }
        Ok(self.hasher.finalize().into())
    }
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

/// A message that has no place here.
pub fn unexpected(message: &Message) -> TransferError {
    let debug = format!("{message:?}");
    let name = debug.split(['(', ' ']).next().unwrap_or_default().to_owned();
    TransferError::Protocol(format!("{name} was not expected here"))
}
