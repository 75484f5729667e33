//! A peer that does not move is given up: bytes have to come, or to be taken, within a time.
//!
//! The connection's own timeout does not see it: a client that is stopped in the middle of a file, or never
//! meant to send it, still answers as a connection.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::error::FileCode;
use crate::frames::Boundary;

/// Time for the next byte of a peer that has nothing else to do.
pub const STALL_MAX: Duration = Duration::from_secs(120);

/// The slowest disk that is waited for while it is hashed or written to.
const DISK_BYTES_PER_SECOND: u64 = 20 << 20;

/// How long a peer may be silent that has to go through so many bytes meanwhile.
pub fn patience_for(bytes: u64) -> Duration {
    STALL_MAX + Duration::from_secs(bytes / DISK_BYTES_PER_SECOND)
}

/// The half of a stream that an answer goes out on.
pub trait Reply: AsyncWrite + Unpin {
    /// Lets it fall in the middle of a frame, so that only a code can still say why.
    fn give_up(&mut self, why: FileCode);
}

/// When something moved last, in either direction.
#[derive(Debug, Default)]
struct Moved(Mutex<Option<Instant>>);

impl Moved {
    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn at(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A half of a stream that fails with `TimedOut` when nothing moves for too long.
#[derive(Debug)]
pub struct Patient<S> {
    inner: S,
    limit: Duration,
    moved: Arc<Moved>,
    /// Runs while somebody waits.
    waiting: Option<Pin<Box<Sleep>>>,
    has_given_up: bool,
    /// Of what was written.
    boundary: Boundary,
}

/// Both halves of a stream: a peer that takes what it gets moves, although it has nothing to say, and the
/// other way round.
pub fn both<R, W>(reader: R, writer: W, limit: Duration) -> (Patient<R>, Patient<W>) {
    let (reader, mut writer) = (Patient::new(reader, limit), Patient::new(writer, limit));
    writer.moved = Arc::clone(&reader.moved);
    (reader, writer)
}

impl<S> Patient<S> {
    /// Waits for `inner` up to so long each time.
    pub fn new(inner: S, limit: Duration) -> Self {
        let (moved, boundary) = (Arc::default(), Boundary::default());
        Self { inner, limit, moved, waiting: None, has_given_up: false, boundary }
    }

    /// From the next wait on.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Whether that was why it failed.
    pub fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    /// Whether another frame can follow what was written.
    pub fn is_between_frames(&self) -> bool {
        self.boundary.is_between_frames()
    }

    /// What this waits for.
    pub fn inner(&mut self) -> &mut S {
        &mut self.inner
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            self.moved.set();
            return polled;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        while waiting.as_mut().poll(cx).is_ready() {
            match self.moved.at().map(|at| at + limit).filter(|until| *until > Instant::now()) {
                Some(until) => waiting.as_mut().reset(until),
                None => {
                    self.has_given_up = true;
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        Poll::Pending
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
        if let Poll::Ready(Ok(count)) = polled {
            self.boundary.on_written(&data[..count]);
        }
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

    /// A download that took longer than the patience was given up in the middle: who only takes was taken for
    /// one who does not move.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_only_takes_is_waited_for_until_it_takes_no_more() {
        let (near, far) = tokio::io::duplex(1);
        let (mut near_read, _near_write) = tokio::io::split(near);
        let (far_read, far_write) = tokio::io::split(far);
        let (mut far_read, mut far_write) = both(far_read, far_write, Duration::from_secs(5));
        let taking = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(4)).await;
                near_read.read_exact(&mut [0]).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let mut answer = [0];
        let listening = async {
            let error = far_read.read(&mut answer).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            tokio::time::Instant::now()
        };
        let begin = tokio::time::Instant::now();
        let writing = async {
            far_write.write_all(&[0; 11]).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = taking => {}
            () = writing => {}
            at = listening => assert_eq!((at - begin).as_secs(), 4 * 10 + 5),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (_near, far) = tokio::io::duplex(10);
        let mut far = Patient::new(far, STALL_MAX);
        assert_eq!(far.write_all(&[0; 11]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(far.has_given_up());
    }
}
