//! The sending half of a stream.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use fulmar_proto as proto;
use proto::{ConnectionError, Favor, StreamId};
use tokio::io::AsyncWrite;

use crate::connection::shared::{Fate, Handle};
use crate::error::{ClosedStream, FinishError, WriteError};

/// Sends bytes, in order, to the peer's [`RecvStream`](crate::RecvStream).
///
/// **Call [`finish`](Self::finish) (or tokio's `shutdown`) when everything is written.** Dropping a stream
/// that was not finished resets it with code 0: the peer's reads fail, and bytes that have not arrived yet
/// may be lost. So a write that was cancelled or failed half-way never looks like a complete one to the peer.
/// (quinn finishes dropped streams;
/// [`Connection::finish_dropped_streams`](crate::Connection::finish_dropped_streams) does so here.)
#[derive(Debug)]
pub struct SendStream {
    connection: Handle,
    id: StreamId,
    /// Finished, reset or found closed: nothing is to be done on drop.
    is_over: bool,
}

impl SendStream {
    pub(crate) fn new(connection: Handle, id: StreamId) -> Self {
        Self { connection, id, is_over: false }
    }

    /// The stream's number within its connection.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Writes some of `data`, at least a byte if there is one; waits for room. Gives how many.
    ///
    /// Cancel-safe: a write that was given up took nothing.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        std::future::poll_fn(|cx| self.poll_write_some(cx, data)).await
    }

    /// Writes all of `data`. Not cancel-safe: one that was given up may have written a part.
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        while !data.is_empty() {
            let len = self.write(data).await?;
            data = &data[len..];
        }
        Ok(())
    }

    /// Writes all of `data` without copying it into the stream's queue; it is let go of when the peer has it.
    /// Not cancel-safe: one that was given up may have written a part.
    pub async fn write_chunk(&mut self, mut data: Bytes) -> Result<(), WriteError> {
        let id = self.id;
        while !data.is_empty() {
            std::future::poll_fn(|cx| self.poll_with(cx, |proto| proto.write_chunk(id, &mut data))).await?;
        }
        Ok(())
    }

    fn poll_write_some(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, WriteError>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let id = self.id;
        self.poll_with(cx, |proto| proto.write(id, data))
    }

    fn poll_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut proto::Connection) -> Result<usize, proto::stream::WriteError>,
    ) -> Poll<Result<usize, WriteError>> {
        let id = self.id;
        self.connection.act(|state| match write(&mut state.proto) {
            Ok(len) => Poll::Ready(Ok(len)),
            Err(proto::stream::WriteError::Blocked) => {
                state.await_writable(id, cx);
                Poll::Pending
            }
            Err(proto::stream::WriteError::Stopped(code)) => Poll::Ready(Err(WriteError::Stopped(code))),
            Err(proto::stream::WriteError::Closed) => {
                let lost = state.ending().filter(|_| !self.is_over);
                Poll::Ready(Err(lost.map_or(WriteError::ClosedStream, WriteError::ConnectionLost)))
            }
        })
    }

    /// Ends the stream after what was written. Does not wait: for that, see [`stopped`](Self::stopped) and
    /// [`Connection::shutdown`](crate::Connection::shutdown).
    pub fn finish(&mut self) -> Result<(), FinishError> {
        let (id, was_over) = (self.id, std::mem::replace(&mut self.is_over, true));
        self.connection.act(|state| match state.proto.finish(id) {
            Ok(()) => {
                state.on_released(id);
                Ok(())
            }
            Err(proto::stream::FinishError::Stopped(code)) => Err(FinishError::Stopped(code)),
            Err(proto::stream::FinishError::Closed) => {
                let lost = state.ending().filter(|_| !was_over);
                Err(lost.map_or(FinishError::ClosedStream, FinishError::ConnectionLost))
            }
        })
    }

    /// Gives the stream up: what was not sent yet is dropped, and the peer's reads fail with `code`.
    pub fn reset(&mut self, code: u64) -> Result<(), ClosedStream> {
        self.is_over = true;
        self.connection.act(|state| {
            state.proto.reset(self.id, code).map_err(|_| ClosedStream)?;
            state.on_released(self.id);
            Ok(())
        })
    }

    /// Streams of higher priority are sent first; those of one priority take turns. At first it is 0.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        self.connection.act(|state| state.proto.set_priority(self.id, priority)).map_err(|_| ClosedStream)
    }

    /// What this stream favours, in place of what its connection does
    /// ([`Profile::favoring`](crate::Profile::favoring)). Amid bulk data, what a stream that favours latency
    /// sends is followed by copies on a path that loses packets, as long as it is a small part of the whole.
    pub fn set_favor(&self, favor: Favor) -> Result<(), ClosedStream> {
        self.connection.act(|state| state.proto.set_favor(self.id, favor)).map_err(|_| ClosedStream)
    }

    /// Resolves when the peer has all of a [finished](Self::finish) stream (or knows that it was
    /// [reset](Self::reset)), with `None`, or wants no more of it, with the code of
    /// [`RecvStream::stop`](crate::RecvStream::stop).
    ///
    /// "Has" means that its end of the connection got it, not that its application has read it. Delivery is
    /// noticed when everything written on the whole connection has been delivered.
    pub async fn stopped(&mut self) -> Result<Option<u64>, ConnectionError> {
        let fate = std::future::poll_fn(|cx| self.connection.lock().poll_fate(self.id, cx)).await?;
        Ok(match fate {
            Fate::Delivered => None,
            Fate::Stopped(code) => Some(code),
        })
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_some(cx, data).map_err(Into::into)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is held back here: what was written leaves as soon as congestion control lets it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().finish().map_err(Into::into))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let (id, is_over) = (self.id, self.is_over);
        let finishes = self.connection.finishes_dropped.load(Ordering::Relaxed) && !std::thread::panicking();
        self.connection.act(|state| {
            state.forget_sending(id);
            // A stream that is closed already is fine.
            let _ = match (is_over, finishes) {
                (true, _) => Ok(()),
                (false, true) => state.proto.finish(id).map_err(|_| ClosedStream),
                (false, false) => state.proto.reset(id, 0).map_err(|_| ClosedStream),
            };
        });
    }
}
