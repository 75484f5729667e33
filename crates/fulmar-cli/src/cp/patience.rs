//! A peer that does not move is given up: bytes have to come, or to be taken, within a time.
//!
//! The connection's own timeout does not see it: a client that is stopped in the middle of a file, or never
//! meant to send it, still answers as a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Time for the next byte of a peer that has nothing else to do.
pub const STALL_MAX: Duration = Duration::from_secs(120);

/// The slowest disk that is waited for while it is hashed or written to.
const DISK_BYTES_PER_SECOND: u64 = 20 << 20;

/// How long a peer may be silent that has to go through so many bytes meanwhile.
pub fn patience_for(bytes: u64) -> Duration {
    STALL_MAX + Duration::from_secs(bytes / DISK_BYTES_PER_SECOND)
}

/// A half of a stream that fails with `TimedOut` when nothing moves for too long.
#[derive(Debug)]
pub struct Patient<S> {
    inner: S,
    limit: Duration,
    /// Runs while somebody waits.
    waiting: Option<Pin<Box<Sleep>>>,
    has_given_up: bool,
}

impl<S> Patient<S> {
    /// Waits for `inner` up to so long each time.
    pub fn new(inner: S, limit: Duration) -> Self {
        Self { inner, limit, waiting: None, has_given_up: false }
    }

    /// From the next wait on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Whether that was why it failed.
    pub fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        if waiting.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.has_given_up = true;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.judge(cx, polled)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, data);
        self.judge(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_trickles_is_waited_for_and_one_that_stops_is_not() {
        let (mut near, far) = tokio::io::duplex(10);
        let mut far = Patient::new(far, Duration::from_secs(5));
        let writing = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                near.write_all(b"x").await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let reading = async {
            far.read_exact(&mut [0; 10]).await.unwrap();
            let error = far.read(&mut [0]).await.unwrap_err();
            assert_eq!((error.kind(), far.has_given_up()), (io::ErrorKind::TimedOut, true));
        };
        tokio::select! { () = writing => {}, () = reading => {} }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (_near, far) = tokio::io::duplex(10);
        let mut far = Patient::new(far, STALL_MAX);
        assert_eq!(far.write_all(&[0; 11]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(far.has_given_up());
    }
}
