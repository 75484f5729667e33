//! The sending half of one file: what it is, from where on, the bytes, their hash.
//!
//! The same code sends for the client (`Put`) and for the server (`Get`), and knows no network: anything that
//! reads and writes will do. Threads fetch and hash a batch ahead of the network; while the data go out, the
//! answer is listened for, so that a full disk over there ends the sending at once.

use std::fs::File;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::error::{FileCode, FileError, TransferError};
use super::hashing::Hashing;
use super::message::{self, Hash, Message, Version};
use super::progress::FileProgress;
use super::source::{ASK_ABOVE_BYTES, CHUNK_BYTES, Content, Reading, Source};
use super::work::{begin, blocking, finished};

/// How long the reason of a receiver that has stopped listening may take to arrive.
const LAST_WORD_MAX: Duration = Duration::from_secs(10);

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Hash of the whole file, equal on both sides.
    pub hash: Hash,
    /// Bytes that the receiver had already.
    pub resumed_bytes: u64,
    /// Bytes that the receiver had already, but of another file: all were sent.
    pub discarded_bytes: u64,
    /// Size of the whole file.
    pub size_bytes: u64,
    /// What else should be known about it.
    pub note: Option<Box<FileError>>,
}

/// Sends one file and waits until it is stored over there. On failure the other side has been told, as far as
/// the connection allows. The writer stays open.
pub async fn send<R, W>(
    reader: &mut R,
    writer: &mut W,
    source: Source,
    progress: &FileProgress,
    version: Version,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let result = send_file(reader, writer, Arc::new(source), progress, version).await;
    if let Some(error) = result.as_ref().err().and_then(TransferError::for_peer) {
        let _ = message::write(writer, &[Message::Error(error)]).await;
    }
    result
}

async fn send_file<R, W>(
    reader: &mut R,
    writer: &mut W,
    source: Arc<Source>,
    progress: &FileProgress,
    version: Version,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut begun = Begun::default();
    if source.meta.size_bytes > ASK_ABOVE_BYTES {
        if let Err(error) = message::write(writer, &introduction(&source, version)).await {
            // Boxed: a request that stands still is to hold little.
            return Err(Box::pin(reason_or(error, wait_until_stored(reader))).await);
        }
        begun = Box::pin(agree_on_start(reader, writer, &source, progress, version)).await?;
    }
    let (start, discarded_bytes) = (begun.start, begun.discarded_bytes);
    progress.on_resumed(start);

    let mut stored = pin!(wait_until_stored(reader));
    let mut sending = pin!(send_body(writer, &source, begun, progress, version));
    let sent = tokio::select! {
        // Nothing but an error can come before the end has been sent.
        early = &mut stored => return Err(early.err().unwrap_or_else(|| TransferError::Protocol("stored too early".into()))),
        sent = &mut sending => sent,
    };
    let (hash, note) = match sent {
        Ok(sent) => sent,
        Err(error) => return Err(reason_or(error, stored).await),
    };
    if stored.await? != hash {
        return Err(FileError::new(FileCode::Mismatch, "the other side stored something else").into());
    }
    let note = note.map(Box::new);
    Ok(Outcome { hash, resumed_bytes: start, discarded_bytes, size_bytes: source.meta.size_bytes, note })
}

/// What is about to be sent.
fn introduction(source: &Source, version: Version) -> Vec<Message> {
    let sparse = source.sparse_bytes.filter(|_| version >= Version::Two).map(Message::Sparse);
    sparse.into_iter().chain([Message::Meta(source.meta)]).collect()
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
        Ok(Err(reason)) => reason,
        Ok(Ok(_)) | Err(_) => error,
    }
}

/// Where the data begin.
#[derive(Debug, Default)]
struct Begun {
    start: u64,
    /// Over all before.
    hasher: Box<blake3::Hasher>,
    discarded_bytes: u64,
}

/// Goes on where the receiver stopped if it has the same bytes up to there, and from the beginning if not.
/// Both go through them at the same time: the receiver says how many there are before it begins.
async fn agree_on_start<R, W>(
    reader: &mut R,
    writer: &mut W,
    source: &Source,
    progress: &FileProgress,
    version: Version,
) -> Result<Begun, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let can_be = |bytes: u64| (1..=source.meta.size_bytes).contains(&bytes);
    let file = match &source.content {
        Content::File(file) => Some(file),
        Content::Whole(..) => None,
    };
    let mut early: Option<Hashing> = None;
    let (offset, hash) = loop {
        match message::read(reader).await? {
            Message::Working(_, total) => {
                if let Some(file) = file.filter(|_| early.is_none() && can_be(total)) {
                    early = Some(Hashing::begin(Arc::clone(file), total, &source.shown, progress).await);
                }
            }
            Message::Resume(offset, hash) => break (offset, hash),
            other => return Err(unexpected(&other)),
        }
    };
    let Some(file) = file.filter(|_| can_be(offset)) else { return Ok(Begun::default()) };
    let hashing = match early.filter(|early| early.total_bytes() == offset) {
        Some(hashing) => hashing,
        None => Hashing::begin(Arc::clone(file), offset, &source.shown, progress).await,
    };
    let (hashed, hasher) = hashing.finish(writer, version).await?;
    if hashed == offset && *hasher.finalize().as_bytes() == hash {
        return Ok(Begun { start: offset, hasher, discarded_bytes: 0 });
    }
    progress.say(starts_anew(&source.shown, offset));
    Ok(Begun { discarded_bytes: offset, ..Begun::default() })
}

/// What is said when what is there cannot be gone on from.
pub(super) fn starts_anew(shown: &str, bytes: u64) -> String {
    let bytes = crate::units::bytes(bytes);
    format!("{shown} starts anew: the {bytes} that were there are not the beginning of this file")
}

async fn send_body<W: AsyncWrite + Unpin>(
    writer: &mut W,
    source: &Arc<Source>,
    begun: Begun,
    progress: &FileProgress,
    version: Version,
) -> Result<(Hash, Option<FileError>), TransferError> {
    let file = match &source.content {
        Content::File(file) => Arc::clone(file),
        Content::Whole(bytes, hash, note) => {
            let mut all = match source.meta.size_bytes > ASK_ABOVE_BYTES {
                true => Vec::new(),
                false => introduction(source, version),
            };
            all.push(Message::Start(0));
            let chunks = (0..bytes.len()).step_by(CHUNK_BYTES as usize);
            all.extend(
                chunks.map(|at| Message::Data(bytes.slice(at..bytes.len().min(at + CHUNK_BYTES as usize)))),
            );
            all.extend(note.clone().filter(|_| version >= Version::Two).map(Message::Note));
            all.push(Message::End(*hash));
            message::write(writer, &all).await?;
            progress.on_bytes(bytes.len() as u64);
            return Ok((*hash, note.clone()));
        }
    };
    message::write(writer, &[Message::Start(begun.start)]).await?;
    let reading = Reading::new(Arc::clone(source), Arc::clone(&file), begun.hasher, begun.start);
    let mut reading = begin(move || reading.batch()).await;
    loop {
        let (rest, chunks) = finished(reading).await?;
        if chunks.is_empty() {
            let (hash, is_grown) = blocking(move || rest.finish()).await?;
            let note = match is_grown {
                true => Some(Box::pin(certify_grown(writer, source, file, hash, progress, version)).await?),
                false => None,
            };
            let said = note.clone().filter(|_| version >= Version::Two).map(Message::Note);
            message::write(writer, &said.into_iter().chain([Message::End(hash)]).collect::<Vec<_>>()).await?;
            return Ok((hash, note));
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

/// A file that has grown is sent as it was at first: what was sent has to be its beginning still.
async fn certify_grown<W: AsyncWrite + Unpin>(
    writer: &mut W,
    source: &Source,
    file: Arc<File>,
    sent: Hash,
    progress: &FileProgress,
    version: Version,
) -> Result<FileError, TransferError> {
    let length = source.meta.size_bytes;
    let hashing = Hashing::begin(file, length, &source.shown, progress).await;
    let (hashed, hasher) = hashing.finish(writer, version).await?;
    if hashed == length && *hasher.finalize().as_bytes() == sent {
        return Ok(source.grown());
    }
    Err(source.changed().into())
}

async fn wait_until_stored<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Hash, TransferError> {
    loop {
        match message::read(reader).await? {
            // The answer to a small file that did not wait for it.
            Message::Resume(..) | Message::Working(..) => {}
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
