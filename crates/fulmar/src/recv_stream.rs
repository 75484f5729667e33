//! The receiving half of a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use fulmar_proto as proto;
use proto::stream::Read;
use proto::{Instant, StreamId};
use tokio::io::{AsyncRead, ReadBuf};

use crate::clock;
use crate::connection::shared::Handle;
use crate::error::{ClosedStream, ReadError, ReadExactError, ReadToEndError};

/// Receives, in order, the bytes that the peer's [`SendStream`](crate::SendStream) sends.
///
/// What arrived before a connection ended can still be read after that. Dropping one that was not read to its
/// end stops it with code 0.
#[derive(Debug)]
pub struct RecvStream {
    connection: Handle,
    id: StreamId,
    end: Option<End>,
}

/// How the stream ended, as far as this end has read.
#[derive(Copy, Clone, Debug)]
enum End {
    Finished,
    Reset(u64),
    Stopped,
}

impl RecvStream {
    pub(crate) fn new(connection: Handle, id: StreamId) -> Self {
        Self { connection, id, end: None }
    }

    /// The stream's number within its connection.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads what is there, up to the length of `out`; waits if there is nothing. `None` at the end of the
    /// stream.
    ///
    /// Cancel-safe. Large buffers read faster.
    pub async fn read(&mut self, out: &mut [u8]) -> Result<Option<usize>, ReadError> {
        std::future::poll_fn(|cx| self.poll_read_some(cx, out)).await
    }

    /// Reads up to `bytes_max` bytes as they arrived, without copying them. `None` at the end of the stream.
    /// Cancel-safe.
    pub async fn read_chunk(&mut self, bytes_max: usize) -> Result<Option<Bytes>, ReadError> {
        let id = self.id;
        std::future::poll_fn(|cx| self.poll_with(cx, |proto, now| proto.read_chunk(now, id, bytes_max))).await
    }

    /// Fills `out`. Not cancel-safe: one that was given up may have read a part.
    pub async fn read_exact(&mut self, out: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < out.len() {
            match self.read(&mut out[filled..]).await? {
                Some(len) => filled += len,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Reads to the end, but no more than `limit_bytes`: a longer stream is stopped with code 0.
    pub async fn read_to_end(&mut self, limit_bytes: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.read_chunk(usize::MAX).await? {
            if all.len() + chunk.len() > limit_bytes {
                // It may have ended meanwhile.
                let _ = self.stop(0);
                return Err(ReadToEndError::TooLong { limit_bytes });
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    /// Wants no more: the peer's writes fail with `code`, and what it sent already is dropped.
    pub fn stop(&mut self, code: u64) -> Result<(), ClosedStream> {
        if self.end.is_some() {
            return Err(ClosedStream);
        }
        self.end = Some(End::Stopped);
        self.connection.act(|state| state.proto.stop(self.id, code)).map_err(|_| ClosedStream)
    }

    fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if out.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let id = self.id;
        self.poll_with(cx, |proto, now| proto.read(now, id, out))
    }

    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut proto::Connection, Instant) -> Result<Read<T>, proto::stream::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        match self.end {
            Some(End::Finished) => return Poll::Ready(Ok(None)),
            Some(End::Reset(code)) => return Poll::Ready(Err(ReadError::Reset(code))),
            Some(End::Stopped) => return Poll::Ready(Err(ReadError::ClosedStream)),
            None => {}
        }
        let (id, end) = (self.id, &mut self.end);
        let mut over = |how| *end = Some(how);
        self.connection.act_if(|state| {
            let now = clock::now();
            let result = match read(&mut state.proto, now) {
                Ok(Read::Data(data)) => Ok(Some(data)),
                Ok(Read::End) => {
                    over(End::Finished);
                    Ok(None)
                }
                Err(proto::stream::ReadError::Reset(code)) => {
                    over(End::Reset(code));
                    Err(ReadError::Reset(code))
                }
                Err(proto::stream::ReadError::Closed) => {
                    Err(state.closed().map_or(ReadError::ClosedStream, ReadError::ConnectionLost))
                }
                Err(proto::stream::ReadError::Blocked) => match state.closed() {
                    Some(error) => Err(ReadError::ConnectionLost(error)),
                    None => {
                        state.await_readable(id, cx);
                        return (Poll::Pending, false);
                    }
                },
            };
            (Poll::Ready(result), state.has_work_after_read(now))
        })
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let len = ready!(self.get_mut().poll_read_some(cx, out.initialize_unfilled()))?;
        out.advance(len.unwrap_or(0));
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        let (id, is_over) = (self.id, self.end.is_some());
        self.connection.act_if(|state| {
            state.forget_receiving(id);
            // One that has come to its end unread is closed already.
            let is_stopped = !is_over && state.proto.stop(id, 0).is_ok();
            ((), is_stopped)
        });
    }
}
