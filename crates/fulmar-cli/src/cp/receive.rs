//! The receiving half of one file: what there is of it already, the bytes, the check, the final name.
//!
//! The same code receives for the server (`Put`) and for the client (`Get`). Writing and hashing happen on a thread of
//! their own, a bounded number of chunks behind the network, so a slow disk slows the sender down through flow control.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::error::{FileCode, FileError, TransferError};
use super::message::{self, Hash, Message, Meta};
use super::progress::FileProgress;
use super::send::{ASK_ABOVE_BYTES, Outcome, blocking, unexpected};
use super::store::{Partial, Place, Writer};

/// Chunks between the network and the disk.
const CHUNKS_BEHIND: usize = 64;

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

    let (chunks, to_write) = mpsc::channel(CHUNKS_BEHIND);
    let writing = tokio::task::spawn_blocking(move || write_behind(file, to_write));
    let received =
        receive_body(reader, &chunks, meta.size_bytes - start.min(meta.size_bytes), progress).await;
    drop(chunks);
    let file = writing.await.map_err(|e| TransferError::Connection(e.into()))?;
    // A disk that is full ends the writing first, and the receiving because of it: the disk is the reason.
    let (file, sent) = (file?, received?);

    let hash = blocking(move || file.finish(&meta, &sent)).await?;
    message::write(writer, &[Message::Done(hash)]).await?;
    Ok(Outcome { hash, resumed_bytes: start, size_bytes: meta.size_bytes })
}

/// Opens the part; waits a little for another receiver that is on its way out, a replaced request for instance.
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
    chunks: &mpsc::Sender<Bytes>,
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
                if chunks.send(data).await.is_err() {
                    return Err(FileError::new(FileCode::Io, "writing has stopped").into());
                }
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

fn write_behind(mut file: Writer, mut chunks: mpsc::Receiver<Bytes>) -> Result<Writer, FileError> {
    while let Some(chunk) = chunks.blocking_recv() {
        file.write(&chunk)?;
    }
    Ok(file)
}

#[cfg(test)]
#[path = "transfer_tests.rs"]
mod tests;
