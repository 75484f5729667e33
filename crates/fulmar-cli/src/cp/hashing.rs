//! Going through what is there of a file already, on a thread, while others watch how far it is: the other
//! side, which must not take it for standstill, and whoever looks at the progress line.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio::task::JoinHandle;

use super::error::{FileError, TransferError};
use super::message::{self, Message, Version};
use super::progress::{Checking, FileProgress};
use super::work::{begin, panicked};
use crate::platform;

/// Bytes read at once while hashing.
const READ_BYTES: usize = 1 << 20;

/// How often the other side hears how far it is: often enough for people who look, and far below any
/// patience.
const WORD_INTERVAL: Duration = Duration::from_secs(1);

/// How many bytes there were, and the hasher over them. It has two kilobytes: not to be carried through every
/// future.
pub type Hashed = (u64, Box<blake3::Hasher>);

/// The first bytes of a file being hashed. It stops when this is dropped.
#[derive(Debug)]
pub struct Hashing {
    work: JoinHandle<Result<Hashed, FileError>>,
    state: Arc<State>,
    total_bytes: u64,
}

#[derive(Debug, Default)]
struct State {
    done_bytes: AtomicU64,
    is_stopped: AtomicBool,
}

impl Hashing {
    /// Begins to hash the first `length` bytes, less if there are fewer.
    pub async fn begin(file: Arc<File>, length: u64, shown: &str, progress: &FileProgress) -> Self {
        let state = Arc::<State>::default();
        let (theirs, shown) = (Arc::clone(&state), shown.to_owned());
        let mut checking = Checking::begin(progress, length);
        let work = begin(move || {
            let hashed = hash_prefix(&file, length, |count| {
                checking.on_bytes(count);
                theirs.done_bytes.fetch_add(count, Ordering::Relaxed);
                !theirs.is_stopped.load(Ordering::Relaxed)
            });
            hashed.map_err(|error| FileError::from_io(&shown, &error))
        });
        Self { work: work.await, state, total_bytes: length }
    }

    /// Bytes it is to go through.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Tells the other side how far it is, if that understands.
    pub async fn tell<W: AsyncWrite + Unpin>(
        &self,
        writer: &mut W,
        version: Version,
    ) -> Result<(), TransferError> {
        if version < Version::Two {
            return Ok(());
        }
        let done = self.state.done_bytes.load(Ordering::Relaxed);
        message::write(writer, &[Message::Working(done, self.total_bytes)]).await
    }

    /// Waits for the end of it, and tells the other side meanwhile.
    pub async fn finish<W: AsyncWrite + Unpin>(
        mut self,
        writer: &mut W,
        version: Version,
    ) -> Result<Hashed, TransferError> {
        let (state, total_bytes) = (Arc::clone(&self.state), self.total_bytes);
        let done = || (state.done_bytes.load(Ordering::Relaxed), total_bytes);
        let work = async { Ok((&mut self.work).await.map_err(panicked)??) };
        telling(writer, version, WORD_INTERVAL, done, work).await
    }
}

/// Waits for the end of some work, and says at this interval how much of how much is done, if the other side
/// understands.
pub async fn telling<W: AsyncWrite + Unpin, T>(
    writer: &mut W,
    version: Version,
    interval: Duration,
    done: impl Fn() -> (u64, u64),
    work: impl Future<Output = Result<T, TransferError>>,
) -> Result<T, TransferError> {
    let mut work = std::pin::pin!(work);
    let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
    loop {
        tokio::select! {
            ended = &mut work => return ended,
            _ = ticks.tick(), if version >= Version::Two => {
                let (done, total) = done();
                message::write(writer, &[Message::Working(done, total)]).await?;
            }
        }
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Hashes the first `length` bytes; less if there are fewer, or `on_read`, which hears of each piece, wants
/// no more.
pub fn hash_prefix(file: &File, length: u64, mut on_read: impl FnMut(u64) -> bool) -> io::Result<Hashed> {
    let mut hasher = Box::<blake3::Hasher>::default();
    let mut buffer = vec![0; length.min(READ_BYTES as u64) as usize];
    let mut hashed = 0;
    while hashed < length {
        let wanted = (length - hashed).min(READ_BYTES as u64) as usize;
        let count = match platform::read_at(file, &mut buffer[..wanted], hashed) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        hashed += count as u64;
        if !on_read(count as u64) {
            break;
        }
    }
    Ok((hashed, hasher))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_hashed_as_far_as_there_is_one_and_somebody_wants_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), vec![7; 3 * READ_BYTES]).unwrap();
        let file = File::open(folder.path().join("f")).unwrap();
        let hash = |length, wanted: u64| {
            let (mut left, mut seen) = (wanted, 0);
            let (hashed, hasher) = hash_prefix(&file, length, |count| {
                (left, seen) = (left.saturating_sub(1), seen + count);
                left > 0
            })
            .unwrap();
            assert_eq!(seen, hashed);
            assert_eq!(hasher.finalize(), blake3::hash(&vec![7; hashed as usize]));
            hashed
        };
        let read = READ_BYTES as u64;
        assert_eq!(hash(10, 9), 10);
        assert_eq!(hash(2 * read + 1, 9), 2 * read + 1);
        assert_eq!(hash(u64::MAX, 9), 3 * read);
        assert_eq!(hash(u64::MAX, 1), read, "stopped");
    }
}
