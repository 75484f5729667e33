//! The receiving half of one file: what there is of it already, the bytes, the check, the final name.
//!
//! The same code receives for the server (`Put`) and for the client (`Get`). Writing and hashing happen on
//! threads, a batch at a time behind the network, so a slow disk slows the sender down through flow control,
//! and a sender that stops holds no thread.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::error::{FileCode, FileError, TransferError};
use super::hashing::{Hashing, telling};
use super::message::{self, Hash, Message, Meta, Version};
use super::part::{Partial, Place, There, Writer};
use super::progress::FileProgress;
use super::publish::Sealed;
use super::send::{Outcome, starts_anew, unexpected};
use super::source::ASK_ABOVE_BYTES;
use super::work::{begin, blocking, finished};

/// What waits while as much is written.
const BATCH_BYTES: usize = 512 << 10;

/// How often the sender hears that the data come, and how many: far below the patience of one who has sent
/// all and hears nothing.
const WORD_INTERVAL: Duration = Duration::from_secs(10);

/// How often, and after how long each time, a file that another receiver holds is tried again.
const BUSY_RETRIES: usize = 20;
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Receives one file. On failure the other side has been told, as far as the connection allows.
pub async fn receive<R, W>(
    reader: &mut R,
    writer: &mut W,
    place: Place,
    progress: &FileProgress,
    version: Version,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let result = receive_file(reader, writer, place, progress, version).await;
    if let Some(error) = result.as_ref().err().and_then(TransferError::for_peer) {
        let _ = message::write(writer, &[Message::Error(error)]).await;
    }
    result
}

async fn receive_file<R, W>(
    reader: &mut R,
    writer: &mut W,
    place: Place,
    progress: &FileProgress,
    version: Version,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (meta, sparse_bytes) = read_introduction(reader).await?;
    // Boxed, here and below: a request that stands still is to hold little.
    let mut partial = Box::pin(open_patiently(place, meta, sparse_bytes)).await?;
    if let Some(there) = partial.there() {
        Box::pin(hash_what_is_there(writer, &mut partial, there, progress, version)).await?;
    }
    let offered = partial.offset;
    message::write(writer, &[Message::Resume(offered, partial.hasher.finalize().into())]).await?;

    let start = loop {
        match message::read(reader).await? {
            Message::Working(..) => {}
            Message::Start(offset) if offset == 0 || offset == offered => break offset,
            Message::Start(_) => return Err(TransferError::Protocol("a start that was not offered".into())),
            other => return Err(unexpected(&other)),
        }
    };
    progress.on_resumed(start);
    let discarded_bytes = if start < offered { offered } else { 0 };
    if discarded_bytes > 0 {
        progress.say(starts_anew(partial.shown(), discarded_bytes));
    }
    let coming = Coming { meta, start };
    let done = || (progress.present_bytes(), meta.size_bytes);
    let storing = Box::pin(store(reader, partial, coming, progress));
    let (hash, note) = telling(writer, version, WORD_INTERVAL, done, storing).await?;
    message::write(writer, &[Message::Done(hash)]).await?;
    let note = note.map(Box::new);
    Ok(Outcome { hash, resumed_bytes: start, discarded_bytes, size_bytes: meta.size_bytes, note })
}

/// The sender hears at once how much it is, and goes through it at the same time.
async fn hash_what_is_there<W: AsyncWrite + Unpin>(
    writer: &mut W,
    partial: &mut Partial,
    there: There,
    progress: &FileProgress,
    version: Version,
) -> Result<(), TransferError> {
    let hashing = Hashing::begin(Arc::clone(&there.file), there.bytes, partial.shown(), progress).await;
    hashing.tell(writer, version).await?;
    partial.on_hashed(there, hashing.finish(writer, version).await?);
    Ok(())
}

/// What is about to come.
async fn read_introduction<R: AsyncRead + Unpin>(
    reader: &mut R,
) -> Result<(Meta, Option<u64>), TransferError> {
    match message::read(reader).await? {
        Message::Meta(meta) => Ok((meta, None)),
        Message::Sparse(bytes) => match message::read(reader).await? {
            Message::Meta(meta) => Ok((meta, Some(bytes))),
            other => Err(unexpected(&other)),
        },
        other => Err(unexpected(&other)),
    }
}

/// What of a file is still to come.
#[derive(Debug, Clone, Copy)]
struct Coming {
    meta: Meta,
    start: u64,
}

/// Its hash, the step that is left, and what should be known about it.
type Stored = (Hash, Option<Sealed>, Option<FileError>);

/// Takes the bytes and puts them on disk under their name.
async fn store<R: AsyncRead + Unpin>(
    reader: &mut R,
    partial: Partial,
    coming: Coming,
    progress: &FileProgress,
) -> Result<(Hash, Option<FileError>), TransferError> {
    let publisher = partial.publisher();
    let received = match coming.meta.size_bytes <= ASK_ABOVE_BYTES {
        true => Box::pin(receive_small(reader, partial, coming, progress)).await,
        false => Box::pin(receive_large(reader, partial, coming, progress)).await,
    };
    let (hash, sealed, note) = received?;
    if let Some(sealed) = sealed {
        Box::pin(publisher.publish(sealed)).await?;
    }
    Ok((hash, note))
}

/// A small file is written in one go, when all of it is there.
async fn receive_small<R: AsyncRead + Unpin>(
    reader: &mut R,
    partial: Partial,
    Coming { meta, start }: Coming,
    progress: &FileProgress,
) -> Result<Stored, TransferError> {
    let mut sink = Sink::Memory(Vec::new());
    let (sent, note) = receive_body(reader, &mut sink, meta.size_bytes - start, progress).await?;
    let work = move || {
        let mut file = partial.start(start)?;
        if let Sink::Memory(bytes) = sink {
            file.write(&bytes)?;
        }
        file.seal(&meta, &sent)
    };
    let (hash, sealed) = blocking(work).await?;
    Ok((hash, sealed, note))
}

async fn receive_large<R: AsyncRead + Unpin>(
    reader: &mut R,
    partial: Partial,
    Coming { meta, start }: Coming,
    progress: &FileProgress,
) -> Result<Stored, TransferError> {
    let file = blocking(move || partial.start(start)).await?;
    let mut sink = Sink::Disk(Behind::new(file));
    let received = receive_body(reader, &mut sink, meta.size_bytes - start, progress).await;
    // What has arrived goes to the disk in any case: the next attempt goes on from there.
    let file = match sink {
        Sink::Disk(behind) => behind.finish().await,
        Sink::Memory(_) => Err(writing_has_stopped()),
    };
    // A disk that is full ends the receiving as well: the disk is the reason.
    let sent = match received {
        Err(error @ TransferError::Local(_)) => return Err(error),
        other => other,
    };
    let (file, (sent, note)) = (file?, sent?);
    let (hash, sealed) = blocking(move || file.seal(&meta, &sent)).await?;
    Ok((hash, sealed, note))
}

/// Opens the part; waits a little for another receiver that is on its way out, a replaced request for
/// instance.
async fn open_patiently(
    place: Place,
    meta: Meta,
    sparse_bytes: Option<u64>,
) -> Result<Partial, TransferError> {
    let is_resumable = meta.size_bytes > ASK_ABOVE_BYTES;
    for _ in 0..BUSY_RETRIES {
        let place = place.clone();
        match blocking(move || place.open(&meta, sparse_bytes, is_resumable)).await {
            Err(TransferError::Local(error)) if error.code == FileCode::Busy => {
                tokio::time::sleep(BUSY_WAIT).await
            }
            result => return result,
        }
    }
    blocking(move || place.open(&meta, sparse_bytes, is_resumable)).await
}

/// The bytes; their hash as it was sent, and what should be known about them.
async fn receive_body<R: AsyncRead + Unpin>(
    reader: &mut R,
    sink: &mut Sink,
    mut left: u64,
    progress: &FileProgress,
) -> Result<(Hash, Option<FileError>), TransferError> {
    let mut note = None;
    loop {
        match message::read(reader).await? {
            Message::Data(data) => {
                let count = data.len() as u64;
                left = left
                    .checked_sub(count)
                    .ok_or_else(|| TransferError::Protocol("more data than the file is long".into()))?;
                sink.push(data).await?;
                progress.on_bytes(count);
            }
            // It goes through all again before it says that it has grown.
            Message::Working(..) if left == 0 => {}
            Message::Note(remark) if left == 0 => note = Some(remark),
            Message::End(hash) if left == 0 => return Ok((hash, note)),
            Message::End(_) => {
                return Err(TransferError::Protocol("fewer data than the file is long".into()));
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// Where the bytes go.
enum Sink {
    Memory(Vec<u8>),
    Disk(Behind),
}

impl Sink {
    async fn push(&mut self, chunk: Bytes) -> Result<(), TransferError> {
        match self {
            Self::Memory(bytes) => {
                bytes.extend_from_slice(&chunk);
                Ok(())
            }
            Self::Disk(behind) => behind.push(chunk).await,
        }
    }
}

fn writing_has_stopped() -> TransferError {
    FileError::new(FileCode::Io, "writing has stopped").into()
}

/// Writes behind the network: a batch at a time, on a thread that is held only while there is something to
/// write.
struct Behind {
    /// At rest, or gone with an error that has been told.
    file: Option<Writer>,
    writing: Option<JoinHandle<Result<Writer, FileError>>>,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
}

impl Behind {
    fn new(file: Writer) -> Self {
        Self { file: Some(file), writing: None, waiting: Vec::new(), waiting_bytes: 0 }
    }

    /// Takes a chunk; waits while a whole batch does.
    async fn push(&mut self, chunk: Bytes) -> Result<(), TransferError> {
        self.waiting_bytes += chunk.len();
        self.waiting.push(chunk);
        let is_idle = self.writing.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle || self.waiting_bytes >= BATCH_BYTES { self.write().await } else { Ok(()) }
    }

    /// Begins to write what waits.
    async fn write(&mut self) -> Result<(), TransferError> {
        self.rest().await?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let chunks = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let work = begin(move || {
            chunks.iter().try_for_each(|chunk| file.write(chunk))?;
            Ok(file)
        });
        self.writing = Some(work.await);
        Ok(())
    }

    /// Waits until nothing is being written.
    async fn rest(&mut self) -> Result<(), TransferError> {
        if let Some(writing) = self.writing.take() {
            self.file = Some(finished(writing).await?);
        }
        Ok(())
    }

    /// Everything is written.
    async fn finish(mut self) -> Result<Writer, TransferError> {
        if !self.waiting.is_empty() {
            self.write().await?;
        }
        self.rest().await?;
        self.file.ok_or_else(writing_has_stopped)
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
