//! How the program ends: an error with the exit code that a script can act on.

use std::process::ExitCode;

use crate::cp::error::{FileCode, FileError, TransferError};

/// The table of `fulmar --help` and the manual.
pub const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed for a reason not listed here
    2  the command line is wrong
    3  no connection: name unknown, no answer, port taken, connection lost
    4  not trusted: the server's key is unknown or changed, or ours is unknown
    5  a file, here or there: missing, not permitted, disk full, busy
    6  what arrived is not what was sent
    7  not everything was copied: what was left out is named, the rest is there
  130  interrupted; give the same command again to resume a copy";

/// Why the program failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What none of the others says.
    #[error("{0}")]
    Other(String),
    /// The command line asks for what makes no sense.
    #[error("{0}")]
    Usage(String),
    /// No connection, or no longer.
    #[error("{0}")]
    Unreachable(String),
    /// A key is not trusted, by this side or the other.
    #[error("{0}")]
    Untrusted(String),
    /// A file.
    #[error("{0}")]
    File(String),
    /// Hashes differ.
    #[error("{0}")]
    Mismatch(String),
    /// Some were copied and some were not.
    #[error("{0}")]
    Incomplete(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// One of the others, which has been reported as JSON already.
    #[error("{0}")]
    Reported(Box<Failure>),
}

impl Failure {
    /// The number for the shell.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Other(_) => 1,
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::Untrusted(_) => 4,
            Self::File(_) => 5,
            Self::Mismatch(_) => 6,
            Self::Incomplete(_) => 7,
            Self::Interrupted => 130,
            Self::Reported(failure) => failure.exit_code(),
        }
    }

    /// For programs that read `--json`.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "kind": self.kind(), "message": self.to_string() })
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Other(_) => "other",
            Self::Usage(_) => "usage",
            Self::Unreachable(_) => "unreachable",
            Self::Untrusted(_) => "untrusted",
            Self::File(_) => "file",
            Self::Mismatch(_) => "mismatch",
            Self::Incomplete(_) => "incomplete",
            Self::Interrupted => "interrupted",
            Self::Reported(failure) => failure.kind(),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error.code {
            FileCode::Mismatch => Self::Mismatch(error.text),
            FileCode::Protocol | FileCode::Version => Self::Other(error.text),
            _ => Self::File(error.text),
        }
    }
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let text = error.to_string();
        match error {
            TransferError::Local(error) => error.into(),
            TransferError::Remote(error) => FileError::new(error.code, text).into(),
            TransferError::Connection(_) | TransferError::GivenUp(_) => Self::Unreachable(text),
            TransferError::Protocol(_) => Self::Other(text),
        }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> Self {
        failure.exit_code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_code() {
        let all = [
            Failure::Other(String::new()),
            Failure::Usage(String::new()),
            Failure::Unreachable(String::new()),
            Failure::Untrusted(String::new()),
            Failure::File(String::new()),
            Failure::Mismatch(String::new()),
            Failure::Incomplete(String::new()),
            Failure::Interrupted,
        ];
        let listed: Vec<u8> = EXIT_CODES
            .lines()
            .filter_map(|l| l.split_whitespace().next().and_then(|w| w.parse().ok()))
            .collect();
        assert_eq!(listed[0], 0);
        assert_eq!(listed[1..], all.map(|f| f.exit_code()));
    }

    #[test]
    fn a_full_disk_over_there_is_a_file_error() {
        let full = FileError::new(FileCode::Full, "f: No space left on device");
        assert_eq!(Failure::from(TransferError::Remote(full)).exit_code(), 5);
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        assert_eq!(Failure::from(TransferError::Connection(reset)).exit_code(), 3);
    }
}
