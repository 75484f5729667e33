//! Small files that are there already are found by asking about many at once, in one round trip: nothing of
//! them is sent, written or put on disk again.
//!
//! That is as safe as sending them: a file counts as the same only if size, time and mode agree *and* both
//! sides have read it and come to the same BLAKE3 hash. Larger files need none of this: their transfer begins
//! with that question.

use std::ops::Range;
use std::sync::Arc;

use super::error::{FileCode, FileError, TransferError};
use super::hashing::hash_prefix;
use super::message::{self, COMPARED_MAX, Hash, Kind, Message, Meta};
use super::plan::{Direction, Item};
use super::send::{Outcome, unexpected};
use super::source::ASK_ABOVE_BYTES;
use super::store::Store;
use super::work::blocking;
use crate::session::Session;

/// Files in one question: several questions at a time keep several threads of the server at work.
const FILES_AT_ONCE: usize = 256;

/// Bytes of names in one question, so that it fits into a message.
const NAMES_BYTES_MAX: usize = 128 << 10;

const _: () = assert!(FILES_AT_ONCE <= COMPARED_MAX);

/// The answer of the side that is asked: what it has of these.
pub async fn answer(
    store: Arc<Store>,
    asked: Vec<(Vec<u8>, Meta)>,
) -> Result<Vec<Option<Hash>>, TransferError> {
    blocking(move || Ok(asked.iter().map(|(path, meta)| hash_if_alike(&store, path, meta)).collect())).await
}

/// Whether it is worth asking about.
pub fn is_worth_asking(item: &Item) -> bool {
    item.may_be_there && item.meta.size_bytes <= ASK_ABOVE_BYTES
}

/// The first of these that fit into one question.
pub fn question(items: &[Item]) -> Range<usize> {
    let mut bytes = 0;
    let fit = items.iter().take(FILES_AT_ONCE).take_while(|item| {
        bytes += item.remote.len() + 32;
        bytes <= NAMES_BYTES_MAX
    });
    0..fit.count().max(1).min(items.len())
}

/// Which of these files are on both sides, and the same there.
pub async fn compare(
    session: &Session,
    direction: Direction,
    items: Vec<Item>,
) -> Result<Vec<Option<Outcome>>, TransferError> {
    let count = items.len();
    let asked_of: Vec<usize> = match direction {
        Direction::Up => (0..count).collect(),
        // What is not here like that need not be asked about.
        Direction::Down => {
            let here = items.clone();
            let is_alike = move |index: &usize| {
                let Item { store, local, meta, .. } = &here[*index];
                store.stat(local).is_ok_and(|there| there == (Kind::File, *meta))
            };
            blocking(move || Ok((0..count).filter(is_alike).collect())).await?
        }
    };
    let mut outcomes = vec![None; count];
    if asked_of.is_empty() {
        return Ok(outcomes);
    }
    let asked: Vec<_> =
        asked_of.iter().map(|index| (items[*index].remote.clone(), items[*index].meta)).collect();
    let sizes: Vec<_> = asked.iter().map(|(_, meta)| meta.size_bytes).collect();
    let own: Vec<_> = asked_of.iter().map(|index| items[*index].clone()).collect();
    let hashing = blocking(move || {
        Ok(own.iter().map(|item| hash_if_alike(&item.store, &item.local, &item.meta)).collect::<Vec<_>>())
    });
    let (theirs, ours) = tokio::try_join!(ask(session, asked), hashing)?;
    for ((index, size_bytes), pair) in asked_of.into_iter().zip(sizes).zip(theirs.into_iter().zip(ours)) {
        if let (Some(theirs), Some(ours)) = pair
            && theirs == ours
        {
            outcomes[index] =
                Some(Outcome { hash: ours, resumed_bytes: size_bytes, size_bytes, ..Outcome::default() });
        }
    }
    Ok(outcomes)
}

async fn ask(session: &Session, asked: Vec<(Vec<u8>, Meta)>) -> Result<Vec<Option<Hash>>, TransferError> {
    let count = asked.len();
    let (mut writer, mut reader) = session.open().await?;
    message::write_request(&mut writer, &Message::Compare(asked)).await?;
    match message::read(&mut reader).await? {
        Message::Same(hashes) if hashes.len() == count => Ok(hashes),
        other => Err(unexpected(&other)),
    }
}

/// The hash of a small file, if it is like that.
fn hash_if_alike(store: &Store, path: &[u8], meta: &Meta) -> Option<Hash> {
    let is_alike = |there: Result<(Kind, Meta), FileError>| there == Ok((Kind::File, *meta));
    if meta.size_bytes > ASK_ABOVE_BYTES || !is_alike(store.stat(path)) {
        return None;
    }
    let (file, opened) = store.open_file(path).ok()?;
    let (bytes, hasher) = hash_prefix(&file, meta.size_bytes + 1, |_| true).ok()?;
    (opened == *meta && bytes == meta.size_bytes).then(|| hasher.finalize().into())
}

/// Whether a failed comparison is only that: the files are sent then.
pub fn is_no_answer(error: &TransferError) -> bool {
    match error {
        TransferError::Connection(_) | TransferError::GivenUp(_) => false,
        TransferError::Local(e) | TransferError::Remote(e) => e.code != FileCode::Version,
        TransferError::Protocol(_) => true,
    }
}
