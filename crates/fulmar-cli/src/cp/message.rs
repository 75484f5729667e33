//! The messages of the copy protocol and their bytes (docs/internals/cp-protocol.md, sections 3 and 4).
//!
//! Parse, don't validate: a [`Message`] holds only what the specification allows, and no input makes parsing
//! panic or allocate more than the frame it came in.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::error::{FileCode, FileError, TransferError};
use crate::frames::{self, Frame};

/// What opens every request stream: a magic number and the version of this protocol.
pub const PREAMBLE: [u8; 4] = *b"FCP\x02";

/// A version of the protocol that a request is made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Answers to it hold nothing that came later.
    One = 1,
    /// What clients of this program speak.
    Two,
}

impl Version {
    /// By its number.
    pub fn from_wire(number: u8) -> Option<Self> {
        [Self::One, Self::Two].into_iter().find(|version| *version as u8 == number)
    }
}

/// Longest path on the wire, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// Longest path of what is left out, in bytes: perhaps because it is longer than [`PATH_BYTES_MAX`].
pub const LEFT_OUT_BYTES_MAX: usize = 2 * PATH_BYTES_MAX;

/// Permission bits of a folder, the sticky bit among them: it only takes rights away, from others than the
/// owner of a file.
pub const FOLDER_MODE_MAX: u32 = 0o1777;

/// Files in one comparison.
pub const COMPARED_MAX: usize = 1024;

/// Longest text of an error on the wire, in bytes.
const ERROR_TEXT_BYTES_MAX: usize = 1024;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Nothing is there.
    Missing,
    /// A device, a socket, a symbolic link: not copied.
    Other,
}

/// Size, time and permissions of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meta {
    /// Length in bytes.
    pub size_bytes: u64,
    /// Time of last change: seconds since 1970.
    pub mtime_s: i64,
    /// Time of last change: nanoseconds within that second, below 10^9.
    pub mtime_ns: u32,
    /// Unix permission bits, `0o777` at most, of folders [`FOLDER_MODE_MAX`].
    pub mode: u32,
}

/// Everything that is said on a request stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Request: I send a file, to be stored under this path.
    Put(Vec<u8>),
    /// Request: send me the file with this path.
    Get(Vec<u8>),
    /// Request: what is at this path?
    Stat(Vec<u8>),
    /// Request: everything below this folder.
    List(Vec<u8>),
    /// Request: make this folder, and those above it, with these permission bits.
    MakeFolder(Vec<u8>, u32),
    /// Request: which of these files are there like this? At most [`COMPARED_MAX`].
    Compare(Vec<(Vec<u8>, Meta)>),
    /// Answer to `Compare`, in the same order: the hash of each that has size, time and mode like that.
    Same(Vec<Option<Hash>>),
    /// Sender: what is about to be sent.
    Meta(Meta),
    /// Receiver: I have so many bytes already, and this is their hash.
    Resume(u64, Hash),
    /// Sender: the data begin at this offset, 0 or the one offered.
    Start(u64),
    /// Sender: the next bytes.
    Data(Bytes),
    /// Sender: that was all; the hash of the whole file.
    End(Hash),
    /// Receiver: stored under its name, with this hash. Also the answer to `MakeFolder`, with zeros.
    Done(Hash),
    /// Answer to `Stat`.
    Info(Kind, Meta),
    /// Answer to `List`: one entry, its path relative to the folder.
    Entry(Vec<u8>, Kind, Meta),
    /// Answer to `List`: that was all; so many entries were left out.
    EndList(u64),
    /// Answer to `List`: an entry that is left out, and why; `WrongKind` if it is neither file nor folder.
    LeftOut(Vec<u8>, FileError),
    /// Either side, while it goes through what is there of the file: so many bytes of so many.
    Working(u64, u64),
    /// Sender, before `Meta`: the file has holes, and so many bytes besides.
    Sparse(u64),
    /// Sender, before `End`: something that should be known about the file, although it was sent.
    Note(FileError),
    /// Either side: this request has failed.
    Error(FileError),
}

mod kind {
    pub(super) const PUT: u8 = 0x01;
    pub(super) const GET: u8 = 0x02;
    pub(super) const STAT: u8 = 0x03;
    pub(super) const LIST: u8 = 0x04;
    pub(super) const MAKE_FOLDER: u8 = 0x05;
    pub(super) const COMPARE: u8 = 0x06;
    pub(super) const META: u8 = 0x10;
    pub(super) const RESUME: u8 = 0x11;
    pub(super) const START: u8 = 0x12;
    pub(super) const DATA: u8 = 0x13;
    pub(super) const END: u8 = 0x14;
    pub(super) const DONE: u8 = 0x15;
    pub(super) const INFO: u8 = 0x16;
    pub(super) const ENTRY: u8 = 0x17;
    pub(super) const END_LIST: u8 = 0x18;
    pub(super) const LEFT_OUT: u8 = 0x19;
    pub(super) const WORKING: u8 = 0x1a;
    pub(super) const SPARSE: u8 = 0x1b;
    pub(super) const NOTE: u8 = 0x1c;
    pub(super) const SAME: u8 = 0x1d;
    pub(super) const ERROR: u8 = 0x7f;
}

impl Message {
    /// The frame that says this.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Self::Put(path) => with(&mut body, path, kind::PUT),
            Self::Get(path) => with(&mut body, path, kind::GET),
            Self::Stat(path) => with(&mut body, path, kind::STAT),
            Self::List(path) => with(&mut body, path, kind::LIST),
            Self::MakeFolder(path, mode) => {
                body.extend_from_slice(&mode.to_be_bytes());
                with(&mut body, path, kind::MAKE_FOLDER)
            }
            Self::Meta(meta) => {
                append_meta(&mut body, meta);
                kind::META
            }
            Self::Resume(offset, hash) => {
                body.extend_from_slice(&offset.to_be_bytes());
                with(&mut body, hash, kind::RESUME)
            }
            Self::Start(offset) => with(&mut body, &offset.to_be_bytes(), kind::START),
            Self::Data(data) => return frames::append(out, kind::DATA, data),
            Self::End(hash) => with(&mut body, hash, kind::END),
            Self::Done(hash) => with(&mut body, hash, kind::DONE),
            Self::Info(what, meta) => {
                body.push(kind_byte(*what));
                append_meta(&mut body, meta);
                kind::INFO
            }
            Self::Entry(path, what, meta) => {
                body.push(kind_byte(*what));
                append_meta(&mut body, meta);
                with(&mut body, path, kind::ENTRY)
            }
            Self::EndList(skipped) => with(&mut body, &skipped.to_be_bytes(), kind::END_LIST),
            Self::Compare(asked) => {
                for (path, meta) in asked {
                    append_meta(&mut body, meta);
                    append_path(&mut body, path);
                }
                kind::COMPARE
            }
            Self::Same(hashes) => {
                for hash in hashes {
                    body.push(hash.is_some().into());
                    body.extend_from_slice(&hash.unwrap_or_default());
                }
                kind::SAME
            }
            Self::LeftOut(path, error) => {
                append_path(&mut body, &path[..path.len().min(LEFT_OUT_BYTES_MAX)]);
                append_error(&mut body, error);
                kind::LEFT_OUT
            }
            Self::Working(done, total) => {
                body.extend_from_slice(&done.to_be_bytes());
                with(&mut body, &total.to_be_bytes(), kind::WORKING)
            }
            Self::Sparse(bytes) => with(&mut body, &bytes.to_be_bytes(), kind::SPARSE),
            Self::Note(error) => {
                append_error(&mut body, error);
                kind::NOTE
            }
            Self::Error(error) => {
                append_error(&mut body, error);
                kind::ERROR
            }
        };
        frames::append(out, kind, &body);
    }

    /// Parses a frame; an error names what is wrong with it.
    pub fn parse(frame: Frame) -> Result<Self, &'static str> {
        let mut body = Fields(&frame.body);
        let message = match frame.kind {
            kind::PUT => Self::Put(body.path()?),
            kind::GET => Self::Get(body.path()?),
            kind::STAT => Self::Stat(body.path()?),
            kind::LIST => Self::List(body.path()?),
            kind::MAKE_FOLDER => {
                let mode = body.mode()?;
                Self::MakeFolder(body.path()?, mode)
            }
            kind::COMPARE => Self::Compare(body.compared()?),
            kind::SAME => Self::Same(body.same()?),
            kind::LEFT_OUT => {
                let path = body.short_path(LEFT_OUT_BYTES_MAX)?;
                Self::LeftOut(path, body.error()?)
            }
            kind::WORKING => Self::Working(body.u64()?, body.u64()?),
            kind::SPARSE => Self::Sparse(body.u64()?),
            kind::NOTE => Self::Note(body.error()?),
            kind::META => Self::Meta(body.meta()?),
            kind::RESUME => Self::Resume(body.u64()?, body.hash()?),
            kind::START => Self::Start(body.u64()?),
            kind::DATA if frame.body.is_empty() => return Err("DATA without data"),
            kind::DATA => return Ok(Self::Data(frame.body)),
            kind::END => Self::End(body.hash()?),
            kind::DONE => Self::Done(body.hash()?),
            kind::INFO => Self::Info(body.kind()?, body.meta()?),
            kind::ENTRY => {
                let (what, meta) = (body.kind()?, body.meta()?);
                Self::Entry(body.path()?, what, meta)
            }
            kind::END_LIST => Self::EndList(body.u64()?),
            kind::ERROR => Self::Error(body.error()?),
            _ => return Err("a message of unknown kind"),
        };
        if body.0.is_empty() { Ok(message) } else { Err("a message with bytes left over") }
    }
}

fn with(body: &mut Vec<u8>, bytes: &[u8], kind: u8) -> u8 {
    body.extend_from_slice(bytes);
    kind
}

fn append_meta(body: &mut Vec<u8>, meta: &Meta) {
    body.extend_from_slice(&meta.size_bytes.to_be_bytes());
    body.extend_from_slice(&meta.mtime_s.to_be_bytes());
    body.extend_from_slice(&meta.mtime_ns.to_be_bytes());
    body.extend_from_slice(&(meta.mode & FOLDER_MODE_MAX).to_be_bytes());
}

/// With its length, where something follows. Paths here are shorter than 64 KiB.
fn append_path(body: &mut Vec<u8>, path: &[u8]) {
    body.extend_from_slice(&u16::try_from(path.len()).unwrap_or(u16::MAX).to_be_bytes());
    body.extend_from_slice(path);
}

fn append_error(body: &mut Vec<u8>, error: &FileError) {
    body.extend_from_slice(&error.code.to_wire().to_be_bytes());
    body.extend_from_slice(&error.text.as_bytes()[..text_end(&error.text)]);
}

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Missing => 0,
        Kind::File => 1,
        Kind::Folder => 2,
        Kind::Other => 3,
    }
}

/// Where to cut a text so that it fits and stays UTF-8.
fn text_end(text: &str) -> usize {
    (0..=text.len().min(ERROR_TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0)
}

/// Reads fields from the front of a body.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, rest) = self.0.split_first_chunk().ok_or("a message cut short")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_be_bytes)
    }

    fn hash(&mut self) -> Result<Hash, &'static str> {
        self.array()
    }

    fn mode(&mut self) -> Result<u32, &'static str> {
        match self.array().map(u32::from_be_bytes)? {
            mode @ 0..=FOLDER_MODE_MAX => Ok(mode),
            _ => Err("permission bits out of range"),
        }
    }

    fn kind(&mut self) -> Result<Kind, &'static str> {
        match self.array()? {
            [0] => Ok(Kind::Missing),
            [1] => Ok(Kind::File),
            [2] => Ok(Kind::Folder),
            [3] => Ok(Kind::Other),
            _ => Err("an unknown kind of file"),
        }
    }

    fn meta(&mut self) -> Result<Meta, &'static str> {
        let size_bytes = self.u64()?;
        let mtime_s = self.array().map(i64::from_be_bytes)?;
        let mtime_ns = self.array().map(u32::from_be_bytes)?;
        if mtime_ns >= 1_000_000_000 {
            return Err("a time out of range");
        }
        Ok(Meta { size_bytes, mtime_s, mtime_ns, mode: self.mode()? })
    }

    fn path(&mut self) -> Result<Vec<u8>, &'static str> {
        let path = std::mem::take(&mut self.0);
        if path.len() <= PATH_BYTES_MAX { Ok(path.to_vec()) } else { Err("a path that is too long") }
    }

    fn error(&mut self) -> Result<FileError, &'static str> {
        let code = FileCode::from_wire(u16::from_be_bytes(self.array()?));
        let text = std::mem::take(&mut self.0);
        if text.len() > ERROR_TEXT_BYTES_MAX {
            return Err("an error text that is too long");
        }
        Ok(FileError::new(code, String::from_utf8_lossy(text)))
    }

    fn short_path(&mut self, bytes_max: usize) -> Result<Vec<u8>, &'static str> {
        let length = usize::from(u16::from_be_bytes(self.array()?));
        let (path, rest) = self.0.split_at_checked(length).ok_or("a message cut short")?;
        self.0 = rest;
        if length <= bytes_max { Ok(path.to_vec()) } else { Err("a path that is too long") }
    }

    fn compared(&mut self) -> Result<Vec<(Vec<u8>, Meta)>, &'static str> {
        let mut asked = Vec::new();
        while !self.0.is_empty() {
            if asked.len() == COMPARED_MAX {
                return Err("a comparison of too many files");
            }
            let meta = self.meta()?;
            asked.push((self.short_path(PATH_BYTES_MAX)?, meta));
        }
        Ok(asked)
    }

    fn same(&mut self) -> Result<Vec<Option<Hash>>, &'static str> {
        let mut hashes = Vec::new();
        while !self.0.is_empty() {
            let (is_there, hash) = (self.array()?, self.hash()?);
            hashes.push(match is_there {
                [1] => Some(hash),
                [0] if hash == Hash::default() => None,
                _ => return Err("an unknown answer to a comparison"),
            });
        }
        Ok(hashes)
    }
}

/// Reads the next message; an `Error` message comes back as [`TransferError::Remote`] or
/// [`TransferError::GivenUp`], the end of the stream as a lost connection: no exchange of this protocol ends
/// while a message is waited for.
pub async fn read<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Message, TransferError> {
    let frame = frames::read(reader).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => TransferError::Protocol(error.to_string()),
        _ => TransferError::Connection(error),
    })?;
    let frame = frame.ok_or_else(|| TransferError::Connection(io::ErrorKind::UnexpectedEof.into()))?;
    match Message::parse(frame) {
        Ok(Message::Error(error)) => Err(TransferError::from_peer(error)),
        Ok(message) => Ok(message),
        Err(what) => Err(TransferError::Protocol(what.to_owned())),
    }
}

/// Writes messages in one go.
pub async fn write<W: AsyncWrite + Unpin>(writer: &mut W, messages: &[Message]) -> Result<(), TransferError> {
    let mut out = Vec::new();
    for message in messages {
        message.append_to(&mut out);
    }
    write_all(writer, &out).await
}

/// Writes the preamble, of the newest version, and the request that opens a stream.
pub async fn write_request<W: AsyncWrite + Unpin>(
    writer: &mut W,
    request: &Message,
) -> Result<(), TransferError> {
    let mut out = PREAMBLE.to_vec();
    request.append_to(&mut out);
    write_all(writer, &out).await
}

async fn write_all<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8]) -> Result<(), TransferError> {
    tokio::io::AsyncWriteExt::write_all(writer, bytes).await.map_err(TransferError::Connection)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
