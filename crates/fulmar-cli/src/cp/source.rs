//! A file to be sent, as it is when it is opened, and the pieces in which it is read.
//!
//! What the system says of a file is not always so. A file in `/proc` says that it is empty; one that is
//! being written grows while it is read. So the end is looked at: nothing is sent as whole that was not read
//! to its end, and what has changed meanwhile is said.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use cap_std::fs::Metadata;

use super::error::{FileCode, FileError};
use super::message::{Hash, Meta};
use super::store::Store;
use crate::platform;

/// Files up to this size are sent at once, without waiting to hear what the receiver has of them: asking
/// would take longer than sending on any path worth the name.
pub const ASK_ABOVE_BYTES: u64 = 64 * 1024;

/// Longest file of those whose length shows only in reading: a server may hold as many as it serves requests.
const PSEUDO_BYTES_MAX: u64 = 2 << 20;

/// Bytes of a file in one message: enough for the hash's widest kernels, little enough that progress is seen
/// on slow paths.
pub const CHUNK_BYTES: u64 = 32 * 1024;

/// Chunks read in one go; as many are read ahead of the network.
const CHUNKS_AT_ONCE: usize = 16;

/// A file to be sent.
#[derive(Debug)]
pub struct Source {
    /// What is sent of it.
    pub content: Content,
    /// As it was when it was opened.
    pub meta: Meta,
    /// Bytes besides holes, if it has holes.
    pub sparse_bytes: Option<u64>,
    /// For people.
    pub shown: String,
}

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub enum Content {
    /// All of a small file, its hash, and what should be known about it.
    Whole(Bytes, Hash, Option<FileError>),
    /// Open for reading.
    File(Arc<File>),
}

impl Source {
    /// Opens a file of a folder; reads it if it is small.
    pub fn open(store: &Store, path: &[u8], shown: &str) -> Result<Self, FileError> {
        let (file, meta) = store.open_file(path)?;
        Self::new(file, meta, shown)
    }

    pub(super) fn new(file: File, meta: Meta, shown: &str) -> Result<Self, FileError> {
        let mut source = Self {
            content: Content::File(Arc::new(file)),
            meta,
            sparse_bytes: None,
            shown: shown.to_owned(),
        };
        let Content::File(file) = source.content.clone() else { return Ok(source) };
        if meta.size_bytes <= ASK_ABOVE_BYTES {
            source.read_whole(&file)?;
        } else {
            let metadata = Metadata::from_file(&file).map_err(|e| source.explain(&e))?;
            let held = platform::held_bytes(&metadata);
            source.sparse_bytes = (held < meta.size_bytes).then_some(held);
        }
        Ok(source)
    }

    /// All bytes of a small file, and what happened to it meanwhile.
    fn read_whole(&mut self, file: &File) -> Result<(), FileError> {
        let said = self.meta.size_bytes;
        // One more than it says: the end has to be seen.
        let mut bytes = self.read(file, said + 1)?;
        let mut note = None;
        match self.fate(file)? {
            Fate::Still if bytes.len() as u64 != said => {
                bytes = self.read(file, PSEUDO_BYTES_MAX + 1)?;
                if bytes.len() as u64 > PSEUDO_BYTES_MAX {
                    let text = format!("{} is longer than the system says", self.shown);
                    return Err(FileError::new(FileCode::Changed, text));
                }
                self.meta.size_bytes = bytes.len() as u64;
            }
            Fate::Still => {}
            Fate::Grown => {
                bytes.truncate(said as usize);
                // What was there before has to be there still.
                if self.read(file, said)? != bytes {
                    return Err(self.changed());
                }
                note = Some(self.grown());
            }
            Fate::Changed => return Err(self.changed()),
        }
        let hash = blake3::hash(&bytes).into();
        self.content = Content::Whole(bytes.into(), hash, note);
        Ok(())
    }

    fn read(&self, file: &File, bytes_max: u64) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        At(file, 0).take(bytes_max).read_to_end(&mut bytes).map_err(|e| self.explain(&e))?;
        Ok(bytes)
    }

    /// What has become of the file since it was opened.
    pub fn fate(&self, file: &File) -> Result<Fate, FileError> {
        let (meta, now) = (&self.meta, Metadata::from_file(file).map_err(|e| self.explain(&e))?);
        let is_as_old = platform::modified(&now) == (meta.mtime_s, meta.mtime_ns);
        Ok(match now.len().cmp(&meta.size_bytes) {
            std::cmp::Ordering::Greater => Fate::Grown,
            std::cmp::Ordering::Equal if is_as_old => Fate::Still,
            _ => Fate::Changed,
        })
    }

    /// What is said of a file that is not what it was.
    pub fn changed(&self) -> FileError {
        FileError::new(FileCode::Changed, format!("{} changed while it was read", self.shown))
    }

    /// What is said of a file of which the beginning was sent.
    pub fn grown(&self) -> FileError {
        let size = crate::units::bytes(self.meta.size_bytes);
        let text =
            format!("{} grew while it was read: the {size} that it had at first were copied", self.shown);
        FileError::new(FileCode::Changed, text)
    }

    fn explain(&self, error: &io::Error) -> FileError {
        FileError::from_io(&self.shown, error)
    }
}

/// What has become of a file since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing.
    Still,
    /// It is longer now.
    Grown,
    /// It is another.
    Changed,
}

/// A file from a place on, whoever else reads it.
struct At<'a>(&'a File, u64);

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = platform::read_at(self.0, buffer, self.1)?;
        self.1 += count as u64;
        Ok(count)
    }
}

/// A file being read and hashed.
#[derive(Debug)]
pub struct Reading {
    source: Arc<Source>,
    file: Arc<File>,
    hasher: Box<blake3::Hasher>,
    at: u64,
}

impl Reading {
    /// From a place on; the hasher has seen what is before.
    pub fn new(source: Arc<Source>, file: Arc<File>, hasher: Box<blake3::Hasher>, at: u64) -> Self {
        Self { source, file, hasher, at }
    }

    /// The next chunks, none at the end.
    pub fn batch(mut self) -> Result<(Self, Vec<Bytes>), FileError> {
        let mut chunks = Vec::new();
        let mut file = At(&self.file, self.at);
        while self.at < self.source.meta.size_bytes && chunks.len() < CHUNKS_AT_ONCE {
            let mut chunk = vec![0; (self.source.meta.size_bytes - self.at).min(CHUNK_BYTES) as usize];
            let count = match file.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|e| self.source.explain(&e))?,
            };
            if count == 0 {
                return Err(self.source.changed());
            }
            chunk.truncate(count);
            self.hasher.update(&chunk);
            self.at += count as u64;
            chunks.push(chunk.into());
        }
        Ok((self, chunks))
    }

    /// The hash of all, and whether the file has grown meanwhile; in every other way it has stood still.
    pub fn finish(self) -> Result<(Hash, bool), FileError> {
        match self.source.fate(&self.file)? {
            Fate::Changed => Err(self.source.changed()),
            fate => Ok((self.hasher.finalize().into(), fate == Fate::Grown)),
        }
    }
}
