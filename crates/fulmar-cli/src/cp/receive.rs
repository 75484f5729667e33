//! The receiving half of one file: what there is of it already, the bytes, the check, the final name.
//!
//! The same code receives for the server (`Put`) and for the client (`Get`). Writing and hashing happen on
//! threads, a batch at a time behind the network, so a slow disk slows the sender down through flow control,
//! and a sender that stops holds no thread.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Hash, Message, Meta};
use super::part::{Partial, Place, Writer};
use super::progress::FileProgress;
use super::send::{ASK_ABOVE_BYTES, Outcome, unexpected};
use super::work::{begin, blocking, finished};

/// What waits while as much is written.
const BATCH_BYTES: usize = 512 << 10;

/// How often, and after how long each time, a file that another receiver holds is tried again.
const BUSY_RETRIES: usize = 20;
const BUSY_WAIT: Duration = Duration::from_millis(100);

/// Receives one file. On failure the other side has been told, as far as the connection allows.
pub async fn receive<R, W>(
    reader: &mut R,
    writer: &mut W,
    place: Place,
    progress: &FileProgress,
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let result = receive_file(reader, writer, place, progress).await;
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
) -> Result<Outcome, TransferError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let meta = match message::read(reader).await? {
        Message::Meta(meta) => meta,
        other => return Err(unexpected(&other)),
    };
    let partial = open_patiently(place, meta).await?;
    let offered = partial.offset;
    message::write(writer, &[Message::Resume(offered, partial.hasher.finalize().into())]).await?;

    let start = match message::read(reader).await? {
        Message::Start(offset) if offset == 0 || offset == offered => offset,
        Message::Start(_) => return Err(TransferError::Protocol("a start that was not offered".into())),
        other => return Err(unexpected(&other)),
    };
    progress.on_resumed(start);
    let file = blocking(move || partial.start(start)).await?;

    let mut behind = Behind::new(file);
    let received =
        receive_body(reader, &mut behind, meta.size_bytes - start.min(meta.size_bytes), progress).await;
    // What has come is kept even if no more does: the next attempt goes on from there.
    let file = behind.finish().await;
    // A disk that is full ends the receiving as well: the disk is the reason.
    let sent = match received {
        Err(error @ TransferError::Local(_)) => return Err(error),
        other => other,
    };
    let (file, sent) = (file?, sent?);

    let hash = blocking(move || file.finish(&meta, &sent)).await?;
    message::write(writer, &[Message::Done(hash)]).await?;
    Ok(Outcome { hash, resumed_bytes: start, size_bytes: meta.size_bytes })
}

/// Opens the part; waits a little for another receiver that is on its way out, a replaced request for
/// instance.
async fn open_patiently(place: Place, meta: Meta) -> Result<Partial, TransferError> {
    let is_resumable = meta.size_bytes > ASK_ABOVE_BYTES;
    for _ in 0..BUSY_RETRIES {
        let place = place.clone();
        match blocking(move || place.open_partial(&meta, is_resumable)).await {
            Err(TransferError::Local(error)) if error.code == FileCode::Busy => {
                tokio::time::sleep(BUSY_WAIT).await
            }
            result => return result,
        }
    }
    blocking(move || place.open_partial(&meta, is_resumable)).await
}

async fn receive_body<R: AsyncRead + Unpin>(
    reader: &mut R,
    behind: &mut Behind,
    mut left: u64,
    progress: &FileProgress,
) -> Result<Hash, TransferError> {
    loop {
        match message::read(reader).await? {
            Message::Data(data) => {
                let count = data.len() as u64;
                left = left
                    .checked_sub(count)
                    .ok_or_else(|| TransferError::Protocol("more data than the file is long".into()))?;
                behind.push(data).await?;
                progress.on_bytes(count);
            }
            Message::End(hash) if left == 0 => return Ok(hash),
            Message::End(_) => {
                return Err(TransferError::Protocol("fewer data than the file is long".into()));
            }
            other => return Err(unexpected(&other)),
        }
    }
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
        self.file.ok_or_else(|| FileError::new(FileCode::Io, "writing has stopped").into())
    }
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
