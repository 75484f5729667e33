//! The two directions of whatever a flow runs over, each of which can be cut off instead of ended.
//!
//! An end and a reset are different news: after an end everything has been said, after a reset something is
//! missing. So a half that is dropped without an end counts as cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use fulmar::{FinishError, RecvStream, SendStream, WriteError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The application's code of a stream that was cut off (docs/internals/tunnel-protocol.md, section 4).
pub const CUT_OFF: u64 = 1;

/// Sends bytes to an end, or is cut off before.
pub trait SendHalf: AsyncWrite + Unpin + Send {
    /// The peer is to learn that something is missing.
    fn cut_off(&mut self);
}

/// Receives bytes to an end, or wants no more.
pub trait RecvHalf: AsyncRead + Unpin + Send {
    /// The peer is to learn that nobody reads any more.
    fn cut_off(&mut self);
}

/// The sending half of a stream of the tunnel. Dropped before its end, it is cut off.
#[derive(Debug)]
pub struct TunnelSend {
    stream: SendStream,
    /// Ended: nothing is missing, even if not all of it has left yet.
    has_ended: bool,
}

impl From<SendStream> for TunnelSend {
    fn from(stream: SendStream) -> Self {
        Self { stream, has_ended: false }
    }
}

impl TunnelSend {
    /// Ends it after what was written.
    pub fn end(&mut self) -> io::Result<()> {
        self.has_ended = true;
        self.stream.finish().map_err(Into::into)
    }
}

impl AsyncWrite for TunnelSend {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end())
    }
}

/// Whether a stream of the tunnel failed with its connection, and not because its reader wants no more.
pub fn is_lost(error: &io::Error) -> bool {
    let cause = error.get_ref();
    let is_write = |cause: &WriteError| matches!(cause, WriteError::ConnectionLost(_));
    let is_finish = |cause: &FinishError| matches!(cause, FinishError::ConnectionLost(_));
    cause.and_then(|cause| cause.downcast_ref()).is_some_and(is_write)
        || cause.and_then(|cause| cause.downcast_ref()).is_some_and(is_finish)
}

impl SendHalf for TunnelSend {
    fn cut_off(&mut self) {
        // One that the peer has stopped, or whose connection is lost, is closed already.
        let _ = self.stream.reset(CUT_OFF);
    }
}

impl Drop for TunnelSend {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cut_off();
        }
    }
}

impl RecvHalf for RecvStream {
    fn cut_off(&mut self) {
        let _ = self.stop(CUT_OFF);
    }
}

/// A stream whose first byte was read already.
#[derive(Debug)]
pub struct Prefixed {
    first: Option<u8>,
    stream: RecvStream,
}

impl Prefixed {
    /// Puts the byte back.
    pub fn new(first: u8, stream: RecvStream) -> Self {
        Self { first: Some(first), stream }
    }
}

impl AsyncRead for Prefixed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(first) = self.first.take() {
            out.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, out)
    }
}

impl RecvHalf for Prefixed {
    fn cut_off(&mut self) {
        self.stream.cut_off();
    }
}

/// A stream of any kind, as a target or a visitor of the tunnel.
pub type BoxedHalves = (Box<dyn RecvHalf>, Box<dyn SendHalf>);

impl SendHalf for Box<dyn SendHalf> {
    fn cut_off(&mut self) {
        (**self).cut_off();
    }
}

impl RecvHalf for Box<dyn RecvHalf> {
    fn cut_off(&mut self) {
        (**self).cut_off();
    }
}
