//! Why a connection ends. A peer's violation, a limit and a local decision are different variants.

use bytes::Bytes;
use std::fmt;

/// Codes of errors the transport itself reports to the peer (docs/internals/wire.md, "Error codes").
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportErrorCode {
    /// Closed without an error.
    NoError,
    /// A bug or an exhausted resource at the end that reports it.
    Internal,
    /// The server does not take new connections.
    ConnectionRefused,
    /// More data than flow control allowed.
    FlowControl,
    /// A stream beyond the limit on streams.
    StreamLimit,
    /// A frame for a stream in a state that does not allow it.
    StreamState,
    /// Data beyond a stream's final size, or a final size that changed.
    FinalSize,
    /// A frame that cannot be parsed or is not allowed where it stood.
    FrameEncoding,
    /// Connection parameters that are malformed, missing or out of range.
    Parameters,
    /// Anything else the specification forbids.
    ProtocolViolation,
    /// A symbol or its coding contradicts what was sent before or what was negotiated.
    Coding,
    /// Handshake data beyond what can be buffered.
    CryptoBufferExceeded,
    /// A key was used too often or updated too early.
    KeyUpdate,
    /// Symbols or data beyond the negotiated memory bounds.
    BufferExceeded,
    /// A Retry's token that this server did not give to this address, or too long ago.
    InvalidToken,
    /// The TLS handshake failed with this alert (RFC 8446 6).
    Tls(u8),
    /// A code this implementation does not know.
    Unknown(u64),
}

impl TransportErrorCode {
    const NAMED: &[(Self, u64)] = &[
        (Self::NoError, 0x0),
        (Self::Internal, 0x1),
        (Self::ConnectionRefused, 0x2),
        (Self::FlowControl, 0x3),
        (Self::StreamLimit, 0x4),
        (Self::StreamState, 0x5),
        (Self::FinalSize, 0x6),
        (Self::FrameEncoding, 0x7),
        (Self::Parameters, 0x8),
        (Self::ProtocolViolation, 0x9),
        (Self::Coding, 0xa),
        (Self::CryptoBufferExceeded, 0xb),
        (Self::KeyUpdate, 0xc),
        (Self::BufferExceeded, 0xd),
        (Self::InvalidToken, 0xe),
    ];
    /// TLS alerts are reported as this plus the alert (RFC 9001 4.8).
    const TLS_BASE: u64 = 0x100;

    /// The code on the wire.
    pub fn to_wire(self) -> u64 {
        match self {
            Self::Tls(alert) => Self::TLS_BASE + u64::from(alert),
            Self::Unknown(code) => code,
            named => Self::NAMED.iter().find(|(code, _)| *code == named).map_or(0x1, |(_, wire)| *wire),
        }
    }

    /// The code that travels as `wire`.
    pub fn from_wire(wire: u64) -> Self {
        if (Self::TLS_BASE..Self::TLS_BASE + 256).contains(&wire) {
            return Self::Tls((wire - Self::TLS_BASE) as u8);
        }
        Self::NAMED.iter().find(|(_, w)| *w == wire).map_or(Self::Unknown(wire), |(code, _)| *code)
    }
}

/// A violation or failure that ends the connection, as detected here: its code goes to the peer with the
/// reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// What kind.
    pub code: TransportErrorCode,
    /// What exactly, for people.
    pub reason: String,
}

impl TransportError {
    /// An error of kind `code`.
    pub fn new(code: TransportErrorCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

macro_rules! shorthand {
    ($($name:ident => $code:ident),* $(,)?) => {
        impl TransportError {
            $(pub(crate) fn $name(reason: impl Into<String>) -> Self { Self::new(TransportErrorCode::$code, reason) })*
        }
    };
}

shorthand! {
    internal => Internal,
    flow_control => FlowControl,
    stream_limit => StreamLimit,
    stream_state => StreamState,
    final_size => FinalSize,
    frame_encoding => FrameEncoding,
    parameters => Parameters,
    protocol_violation => ProtocolViolation,
    coding => Coding,
    buffer_exceeded => BufferExceeded,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.code)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

impl std::error::Error for TransportError {}

/// Why a connection is no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The peer speaks no version this end speaks.
    #[error("the peer speaks no common version of the protocol")]
    VersionMismatch,
    /// The peer broke a rule, or the handshake failed at this end.
    #[error("connection failed: {0}")]
    Transport(#[from] TransportError),
    /// The peer reported an error of the transport.
    #[error("closed by the peer: {0}")]
    PeerTransport(TransportError),
    /// The peer's application closed.
    #[error("closed by the peer's application with code {code}{}", reason_suffix(.reason))]
    ApplicationClosed {
        /// The application's code.
        code: u64,
        /// The application's reason.
        reason: Bytes,
    },
    /// The peer lost its state (a stateless reset arrived).
    #[error("the peer has forgotten this connection (stateless reset)")]
    Reset,
    /// Nothing was heard within the idle timeout, or the handshake did not complete in time.
    #[error("timed out")]
    TimedOut,
    /// This end closed.
    #[error("closed locally")]
    LocallyClosed,
}

fn reason_suffix(reason: &Bytes) -> String {
    if reason.is_empty() { String::new() } else { format!(": {}", String::from_utf8_lossy(reason)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_wire() {
        for &(code, wire) in TransportErrorCode::NAMED {
            assert_eq!(code.to_wire(), wire);
            assert_eq!(TransportErrorCode::from_wire(wire), code);
        }
        for code in [TransportErrorCode::Tls(40), TransportErrorCode::Unknown(0x7777)] {
            assert_eq!(TransportErrorCode::from_wire(code.to_wire()), code);
        }
    }
}
