//! What can go wrong with a copy, on which side, and what travels to the other side about it.

use std::io;

use strum::IntoEnumIterator as _;

use crate::units::printable;

/// Where the codes of streams that are reset begin.
const RESET_CODES: u64 = 0x100;

/// What is said of [`FileCode::Stalled`].
pub const STALLED: &str = "nothing has moved for too long";

/// Why a request failed, as the wire says it (docs/internals/cp-protocol.md, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter)]
#[non_exhaustive]
pub enum FileCode {
    /// There is no such file or folder.
    NotFound,
    /// The system does not permit it, or this server only gives.
    Denied,
    /// A folder where a file is needed, or the other way round.
    WrongKind,
    /// The disk, the quota or the largest file size is exhausted.
    Full,
    /// Reading or writing failed in another way.
    Io,
    /// What arrived is not what was sent: the hashes differ.
    Mismatch,
    /// Somebody else is writing this file now.
    Busy,
    /// The source changed while it was read.
    Changed,
    /// The other side broke the protocol.
    Protocol,
    /// The other side speaks another version of the protocol.
    Version,
    /// The path leads out of the folder that is served.
    Outside,
    /// A name that cannot be stored.
    BadName,
    /// A later request for the same file took over.
    Replaced,
    /// Nothing came, or nothing was taken, for too long.
    Stalled,
    /// The server has no memory for another request.
    Crowded,
    /// A code that this version does not know.
    Unknown(u16),
}

impl FileCode {
    /// The number on the wire.
    pub fn to_wire(self) -> u16 {
        match self {
            Self::NotFound => 1,
            Self::Denied => 2,
            Self::WrongKind => 3,
            Self::Full => 4,
            Self::Io => 5,
            Self::Mismatch => 6,
            Self::Busy => 7,
            Self::Changed => 8,
            Self::Protocol => 9,
            Self::Version => 10,
            Self::Outside => 11,
            Self::BadName => 12,
            Self::Replaced => 13,
            Self::Stalled => 14,
            Self::Crowded => 15,
            Self::Unknown(code) => code,
        }
    }

    /// From the number on the wire.
    pub fn from_wire(code: u16) -> Self {
        Self::iter().find(|known| known.to_wire() == code).unwrap_or(Self::Unknown(code))
    }

    /// The code that a stream is reset with where no ERROR can be said any more
    /// (docs/internals/cp-protocol.md, clause 4.10.1).
    pub fn to_reset(self) -> u64 {
        RESET_CODES + u64::from(self.to_wire())
    }

    /// What such a code says.
    pub fn from_reset(code: u64) -> Option<Self> {
        code.checked_sub(RESET_CODES).and_then(|code| u16::try_from(code).ok()).map(Self::from_wire)
    }

    /// What it means, where it came without a text.
    pub fn words(self) -> String {
        let words = match self {
            Self::NotFound => "no such file or folder",
            Self::Denied => "not permitted",
            Self::WrongKind => "a folder where a file is needed, or the other way round",
            Self::Full => "no space left",
            Self::Io => "reading or writing failed",
            Self::Mismatch => "what arrived is not what was sent",
            Self::Busy => "another copy is writing this file",
            Self::Changed => "the source changed while it was read",
            Self::Protocol => "the protocol was broken",
            Self::Version => "the version of the protocol is not spoken",
            Self::Outside => "the path leads out of the folder served",
            Self::BadName => "a name that cannot be stored",
            Self::Replaced => "a later request for the same file took over",
            Self::Stalled => STALLED,
            Self::Crowded => "there is no memory for another request at the moment",
            Self::Unknown(code) => return format!("error {code}, which this version does not know"),
        };
        words.into()
    }

    /// Whether the same request may fare better soon, where it did not end by a fault of its own.
    fn is_passing(self) -> bool {
        matches!(self, Self::Stalled | Self::Crowded)
    }
}

/// A failed request: why, and in words that name the file. The words are made printable when they come in:
/// what prints them need not think of that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct FileError {
    /// Why.
    pub code: FileCode,
    /// For people: a whole sentence's worth, with the name of the file.
    pub text: String,
}

impl FileError {
    /// An error in own words. Whatever they name, they are fit for a terminal from here on.
    pub fn new(code: FileCode, text: impl AsRef<str>) -> Self {
        Self { code, text: printable(text.as_ref()) }
    }

    /// The same, with the name of the file it is about in front.
    pub fn about(self, name: &str) -> Self {
        Self { text: format!("{}: {}", printable(name), self.text), ..self }
    }

    /// What the system said about a file.
    pub fn from_io(name: &str, error: &io::Error) -> Self {
        Self::reason(error).about(name)
    }

    /// What the system said, without a name.
    pub fn reason(error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => FileCode::NotFound,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FileCode::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                FileCode::Full
            }
            io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => FileCode::WrongKind,
            io::ErrorKind::InvalidFilename => FileCode::BadName,
            _ => FileCode::Io,
        };
        // "No space left on device (os error 28)" reads better without the number.
        let reason = error.to_string();
        let reason = reason.split(" (os error").next().unwrap_or(&reason);
        Self::new(code, reason)
    }
}

/// Why one file was not copied.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// Something on this machine.
    #[error("{0}")]
    Local(FileError),
    /// Something on the other machine, in its words.
    #[error("the other side says: {0}")]
    Remote(FileError),
    /// The connection broke: what has arrived stays, and a new attempt goes on from there.
    #[error("the connection was lost: {0}")]
    Connection(io::Error),
    /// The other side gave this request up, which may fare better if it comes again. What has arrived stays.
    #[error("the other side gave up: {0}")]
    GivenUp(FileError),
    /// The other side sent what the protocol does not allow.
    #[error("the other side broke the protocol: {0}")]
    Protocol(String),
}

impl TransferError {
    /// What the other side says: an error, or that it gave up.
    pub fn from_peer(error: FileError) -> Self {
        if error.code.is_passing() { Self::GivenUp(error) } else { Self::Remote(error) }
    }

    /// Whether another connection may go on where this request ended.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Connection(_) | Self::GivenUp(_))
    }

    /// What to tell the other side, if it is worth telling: it knows its own errors, and a broken connection
    /// carries none.
    pub fn for_peer(&self) -> Option<FileError> {
        match self {
            Self::Local(error) => Some(error.clone()),
            Self::Protocol(what) => Some(FileError::new(FileCode::Protocol, what.clone())),
            Self::Remote(_) | Self::Connection(_) | Self::GivenUp(_) => None,
        }
    }
}

impl From<FileError> for TransferError {
    fn from(error: FileError) -> Self {
        Self::Local(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_trip() {
        for code in 0..40 {
            assert_eq!(FileCode::from_wire(code).to_wire(), code);
        }
        assert_eq!(FileCode::from_wire(4), FileCode::Full);
        assert_eq!(FileCode::from_wire(999), FileCode::Unknown(999));
        for code in (0..40).map(FileCode::from_wire) {
            assert_eq!(FileCode::from_reset(code.to_reset()), Some(code));
            assert!(!code.words().is_empty());
        }
        assert_eq!([0, 1, 0xff, u64::MAX].map(FileCode::from_reset), [None; 4]);
    }

    /// A file's name is anybody's text: an escape sequence in it went to the terminal as it was.
    #[test]
    fn no_name_in_an_error_reaches_the_terminal_raw() {
        let denied = io::Error::from_raw_os_error(13);
        let name = "esc\u{1b}]0;owned\u{7}";
        let errors = [
            FileError::from_io(name, &denied),
            FileError::new(FileCode::WrongKind, format!("{name} is a folder")),
            FileError::new(FileCode::Io, "x").about(name),
        ];
        for error in errors {
            assert!(error.text.contains("esc?]0;owned?"), "{error}");
        }
    }

    #[test]
    fn the_system_s_words_lose_their_number() {
        let error = FileError::from_io("a.iso", &io::Error::from_raw_os_error(28));
        assert_eq!(error, FileError::new(FileCode::Full, "a.iso: No space left on device"));
    }
}
