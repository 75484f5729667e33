//! One error per operation, so that a caller can match on what can happen to it and nothing else.

use std::io;
use std::net::SocketAddr;

use fulmar_proto as proto;
use proto::ConnectionError;

/// Why no connection could be begun. Failures of the handshake come later, as [`ConnectionError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint was closed, or lost its socket.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// [`Endpoint::connect`](crate::Endpoint::connect) without
    /// [`set_client_config`](crate::Endpoint::set_client_config).
    #[error("no client configuration is set")]
    NoClientConfig,
    /// Nothing can be sent to this address from the endpoint's socket.
    #[error("{0} cannot be reached from this endpoint")]
    InvalidAddress(SocketAddr),
    /// The server's name is neither a DNS name nor an IP address, or the configuration of TLS makes no
    /// handshake.
    #[error("{0}")]
    Handshake(String),
}

impl From<proto::ConnectError> for ConnectError {
    fn from(error: proto::ConnectError) -> Self {
        match error {
            proto::ConnectError::InvalidAddress(address) => Self::InvalidAddress(address),
            error => Self::Handshake(error.to_string()),
        }
    }
}

/// Why a write took nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more of the stream, for the application's reason.
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset at this end.
    #[error("the stream was finished or reset before")]
    ClosedStream,
    /// The connection has ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why a stream could not be finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer wanted no more, and does not have all of it.
    #[error("stopped by the peer with code {0}")]
    Stopped(u64),
    /// The stream was finished or reset before.
    #[error("the stream was finished or reset before")]
    ClosedStream,
    /// The connection has ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// The stream, or the half of it that was meant, is over: finished, reset, stopped or read to its end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed")]
pub struct ClosedStream;

/// Why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer gave the stream up, for the application's reason.
    #[error("reset by the peer with code {0}")]
    Reset(u64),
    /// The stream was stopped at this end.
    #[error("the stream was stopped before")]
    ClosedStream,
    /// The connection has ended. What had arrived before was read.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why [`RecvStream::read_exact`](crate::RecvStream::read_exact) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended after this many bytes.
    #[error("the stream ended after {0} bytes")]
    FinishedEarly(usize),
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why [`RecvStream::read_to_end`](crate::RecvStream::read_to_end) failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// The stream is longer than allowed; it was stopped.
    #[error("the stream is longer than {limit_bytes} bytes")]
    TooLong {
        /// What was allowed.
        limit_bytes: usize,
    },
    /// A read failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Why an unreliable datagram was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// It does not fit a packet of the path, or the peer takes none so long.
    #[error("datagram too large: at most {max_bytes} bytes fit now")]
    TooLarge {
        /// Most bytes that fit now.
        max_bytes: usize,
    },
    /// The queue is full ([`Connection::try_send_datagram`](crate::Connection::try_send_datagram) only).
    #[error("the queue of datagrams is full")]
    Full,
    /// The peer takes no datagrams, or the handshake has not told yet.
    #[error("the peer takes no datagrams")]
    Unsupported,
    /// The connection has ended.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Maps errors to the kinds that users of `AsyncRead` and `AsyncWrite` know.
macro_rules! into_io {
    ($($error:ty: $this:ident => $kind:expr;)*) => {
        $(impl From<$error> for io::Error {
            fn from($this: $error) -> Self {
                let kind = $kind;
                Self::new(kind, $this)
            }
        })*
    };
}

into_io! {
    WriteError: error => match &error {
        WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
        WriteError::ClosedStream => io::ErrorKind::BrokenPipe,
        WriteError::ConnectionLost(why) => kind_of(why),
    };
    FinishError: error => match &error {
        FinishError::Stopped(_) => io::ErrorKind::ConnectionReset,
        FinishError::ClosedStream => io::ErrorKind::BrokenPipe,
        FinishError::ConnectionLost(why) => kind_of(why),
    };
    ReadError: error => match &error {
        ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
        ReadError::ClosedStream => io::ErrorKind::NotConnected,
        ReadError::ConnectionLost(why) => kind_of(why),
    };
    ReadExactError: error => match &error {
        ReadExactError::FinishedEarly(_) => io::ErrorKind::UnexpectedEof,
        ReadExactError::Read(ReadError::ConnectionLost(why)) => kind_of(why),
        ReadExactError::Read(_) => io::ErrorKind::ConnectionReset,
    };
    ReadToEndError: error => match &error {
        ReadToEndError::TooLong { .. } => io::ErrorKind::InvalidData,
        ReadToEndError::Read(ReadError::ConnectionLost(why)) => kind_of(why),
        ReadToEndError::Read(_) => io::ErrorKind::ConnectionReset,
    };
    ClosedStream: error => io::ErrorKind::NotConnected;
}

fn kind_of(why: &ConnectionError) -> io::ErrorKind {
    match why {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::ApplicationClosed { .. } | ConnectionError::PeerTransport(_) => {
            io::ErrorKind::ConnectionAborted
        }
        ConnectionError::LocallyClosed => io::ErrorKind::NotConnected,
        _ => io::ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_errors_keep_their_cause() {
        let error = io::Error::from(WriteError::ConnectionLost(ConnectionError::TimedOut));
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<WriteError>());
        assert_eq!(cause, Some(&WriteError::ConnectionLost(ConnectionError::TimedOut)));
        assert_eq!(io::Error::from(ReadExactError::FinishedEarly(3)).kind(), io::ErrorKind::UnexpectedEof);
    }
}
