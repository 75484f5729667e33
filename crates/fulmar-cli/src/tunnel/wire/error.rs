//! Why a flow was not opened, in the terms of every protocol that has to be told: ours, SOCKS, HTTP, errno.

use std::fmt;
use std::io;

use fast_socks5::ReplyError;
use hyper::StatusCode;
use serde::{Deserialize, Serialize};

/// What went wrong, as it travels (docs/internals/tunnel-protocol.md, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The target's host is there, and nobody listens at that port.
    Refused,
    /// No way to the target's host.
    Unreachable,
    /// The target did not answer in time.
    TimedOut,
    /// The target's name has no address.
    NameUnknown,
    /// The gateway may not, or will not, connect this client there.
    Forbidden,
    /// A limit of this client is reached.
    Limit,
    /// An address to listen at is taken.
    InUse,
    /// What was asked for makes no sense.
    Malformed,
    /// The tunnel is down.
    Lost,
    /// Anything else; also codes of later versions.
    #[serde(other)]
    Other,
}

/// Why a flow was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct OpenError {
    /// For programs.
    pub code: Code,
    /// For people.
    pub text: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl OpenError {
    /// An error with its text.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// The tunnel itself failed.
    pub fn lost(error: impl fmt::Display) -> Self {
        Self::new(Code::Lost, format!("the tunnel is down: {error}"))
    }

    /// Logs why there is no flow to `target`. That the tunnel is down is said once, by who looks for another
    /// gateway, and not for each flow.
    pub fn log(&self, target: &impl fmt::Display) {
        let text = self.about(target);
        match self.code {
            Code::Lost => tracing::debug!("{text}"),
            _ => tracing::info!("{text}"),
        }
    }

    /// With the target before it, unless the text begins with that.
    pub fn about(&self, target: &impl fmt::Display) -> String {
        let target = target.to_string();
        if self.text.starts_with(&target) { self.text.clone() } else { format!("{target}: {}", self.text) }
    }

    /// What connecting to `target` failed with.
    pub fn of_connect(error: &io::Error, target: impl fmt::Display) -> Self {
        use io::ErrorKind as Kind;
        let code = match error.kind() {
            Kind::ConnectionRefused | Kind::NotFound | Kind::ConnectionReset => Code::Refused,
            Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable | Kind::NetworkDown => {
                Code::Unreachable
            }
            Kind::TimedOut => Code::TimedOut,
            Kind::PermissionDenied => Code::Forbidden,
            Kind::AddrInUse => Code::InUse,
            _ => Code::Other,
        };
        Self::new(code, format!("{target}: {error}"))
    }
}

impl Code {
    /// As a SOCKS 5 server says it (RFC 1928, section 6).
    pub fn socks_reply(self) -> ReplyError {
        match self {
            Self::Refused => ReplyError::ConnectionRefused,
            Self::Unreachable | Self::NameUnknown => ReplyError::HostUnreachable,
            Self::TimedOut => ReplyError::TtlExpired,
            Self::Forbidden | Self::Limit => ReplyError::ConnectionNotAllowed,
            Self::Lost => ReplyError::NetworkUnreachable,
            Self::InUse | Self::Malformed | Self::Other => ReplyError::GeneralFailure,
        }
    }

    /// As an HTTP proxy says it (RFC 9110, section 15).
    pub fn http_status(self) -> StatusCode {
        match self {
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Limit => StatusCode::TOO_MANY_REQUESTS,
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Self::Lost => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        }
    }

    /// As the system says it to a program that connects.
    pub fn io_kind(self) -> io::ErrorKind {
        match self {
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Unreachable | Self::NameUnknown => io::ErrorKind::HostUnreachable,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::Forbidden => io::ErrorKind::PermissionDenied,
            Self::Lost => io::ErrorKind::NetworkUnreachable,
            Self::InUse => io::ErrorKind::AddrInUse,
            Self::Malformed => io::ErrorKind::InvalidInput,
            Self::Limit | Self::Other => io::ErrorKind::Other,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        Self::new(error.code.io_kind(), error)
    }
}
