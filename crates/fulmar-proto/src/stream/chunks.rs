//! A queue of bytes in chunks: what the application wrote and no symbol carries yet, or what arrived and was
//! not read.
//!
//! One copy in, and out again either by one copy or, as [`Bytes`], by none: then a chunk lives until the last
//! of them is let go. Chunks are sized by what is queued, from [`CHUNK_BYTES_MIN`] to [`CHUNK_BYTES_MAX`]: a
//! short message costs little, a gigabyte passes through chunks of one size, which a [`Pool`] keeps: an
//! allocator would give them back to the system, and the system clear their pages again. An empty queue owns
//! no memory.
//!
//! Invariant: the memory held is at most a constant times the bytes queued, plus one chunk, however the bytes
//! came in (see [`ChunkQueue::append`]).

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// Smallest chunk allocated.
const CHUNK_BYTES_MIN: usize = 64;
/// Largest chunk allocated. Below the size from which allocators map pages of their own (128 KiB in glibc).
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Pieces shorter than this are copied: a handle and its allocation would cost as much.
const LINK_BYTES_MIN: usize = 512;

/// Chunks kept for reuse: what one turn of the receiving task may bring.
const SPARE_MAX: usize = 32;

/// Chunks of the largest size that hold nothing now. Shared by the queues of one direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pool {
    spare: Vec<BytesMut>,
}

impl Pool {
    /// An empty chunk for at least one byte and about `bytes`.
    fn take(&mut self, bytes: usize) -> BytesMut {
        let recycled = if bytes >= CHUNK_BYTES_MAX { self.spare.pop() } else { None };
        recycled.unwrap_or_else(|| BytesMut::with_capacity(bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)))
    }

    /// Takes back a chunk of which everything was read, if nobody else refers to it.
    pub(super) fn give(&mut self, chunk: Bytes) {
        if self.spare.len() < SPARE_MAX
            && let Ok(chunk) = chunk.try_into_mut()
        {
            self.give_tail(chunk);
        }
    }

    fn give_tail(&mut self, mut chunk: BytesMut) {
        chunk.clear();
        // What applications hand over may be far longer.
        let is_chunk = chunk.try_reclaim(CHUNK_BYTES_MAX) && chunk.capacity() <= 2 * CHUNK_BYTES_MAX;
        if self.spare.len() < SPARE_MAX && is_chunk {
            self.spare.push(chunk);
        }
    }

    /// Gives all memory back.
    pub(super) fn release(&mut self) {
        self.spare = Vec::new();
    }
}

/// Bytes in the order in which they were pushed.
#[derive(Debug, Default)]
pub(super) struct ChunkQueue {
    /// In order, none empty.
    full: VecDeque<Bytes>,
    /// Comes after `full`, and is being written to.
    tail: BytesMut,
    len: usize,
}

impl ChunkQueue {
    /// Bytes queued.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a copy of `data`.
    pub(super) fn push(&mut self, mut data: &[u8], pool: &mut Pool) {
        while !data.is_empty() {
            if self.spare() == 0 {
                self.seal();
                self.tail = pool.take(data.len().max(self.len));
            }
            let (head, rest) = data.split_at(data.len().min(self.spare()));
            self.tail.extend_from_slice(head);
            self.len += head.len();
            data = rest;
        }
    }

    /// Appends `data`, without copying it unless it is short.
    pub(super) fn push_chunk(&mut self, data: Bytes, pool: &mut Pool) {
        if self.is_worth_linking(data.len()) {
            self.seal();
            self.len += data.len();
            self.full.push_back(data);
        } else {
            self.push(&data, pool);
        }
    }

    /// Appends what `other` holds, mostly without copying.
    ///
    /// A chunk is linked only if it is longer than the room left in the chunk before it, which the link
    /// wastes: so at most half of the memory is waste, and each byte is copied at most once more.
    pub(super) fn append(&mut self, mut other: Self, pool: &mut Pool) {
        while let Some(chunk) = other.full.pop_front() {
            self.push_chunk(chunk, pool);
        }
        if self.is_worth_linking(other.tail.len()) {
            self.seal();
            self.len += other.tail.len();
            self.tail = other.tail;
        } else {
            self.push(&other.tail, pool);
            pool.give_tail(other.tail);
        }
    }

    fn is_worth_linking(&self, chunk_bytes: usize) -> bool {
        chunk_bytes >= LINK_BYTES_MIN.max(self.spare())
    }

    /// Takes up to `out.len()` bytes; returns how many.
    pub(super) fn read(&mut self, out: &mut [u8], pool: &mut Pool) -> usize {
        let mut done = 0;
        self.take(out.len(), pool, |piece| {
            out[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        });
        done
    }

    /// Takes `len` bytes, or all there are, and appends them to `out`.
    pub(super) fn move_to(&mut self, out: &mut Vec<u8>, len: usize, pool: &mut Pool) {
        self.take(len, pool, |piece| out.extend_from_slice(piece));
    }

    /// Takes up to `max` bytes without copying them; empty only if the queue or `max` is.
    pub(super) fn read_chunk(&mut self, max: usize) -> Bytes {
        let chunk = match self.full.front_mut() {
            Some(front) if front.len() > max => front.split_to(max),
            Some(_) => self.full.pop_front().unwrap_or_default(),
            None => self.tail.split_to(max.min(self.tail.len())).freeze(),
        };
        self.len -= chunk.len();
        self.release_if_empty();
        chunk
    }

    /// Takes `len` bytes without copying them, if they lie in one chunk and are worth it.
    pub(super) fn link(&mut self, len: usize) -> Option<Bytes> {
        let first_bytes = self.full.front().map_or(self.tail.len(), Bytes::len);
        (LINK_BYTES_MIN..=first_bytes).contains(&len).then(|| self.read_chunk(len))
    }

    fn take(&mut self, len: usize, pool: &mut Pool, mut sink: impl FnMut(&[u8])) {
        let mut left = len.min(self.len);
        self.len -= left;
        while let Some(front) = self.full.front_mut() {
            let piece = left.min(front.len());
            sink(&front[..piece]);
            left -= piece;
            if piece < front.len() {
                front.advance(piece);
                return;
            }
            pool.give(self.full.pop_front().unwrap_or_default());
        }
        sink(&self.tail[..left]);
        self.tail.advance(left);
        if self.len == 0 {
            pool.give_tail(std::mem::take(&mut self.tail));
        }
        self.release_if_empty();
    }

    fn release_if_empty(&mut self) {
        if self.len == 0 {
            *self = Self::default();
        }
    }

    /// Room in the last chunk.
    fn spare(&self) -> usize {
        self.tail.capacity() - self.tail.len()
    }

    fn seal(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            self.full.push_back(tail.freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut ChunkQueue) -> Vec<u8> {
        let mut out = vec![0; queue.len()];
        assert_eq!(queue.read(&mut out, &mut Pool::default()), out.len());
        out
    }

    #[test]
    fn bytes_come_out_as_they_went_in_by_every_way_out() {
        let data: Vec<u8> = (0..300_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let mut queue = ChunkQueue::default();
        data.chunks(1234).for_each(|piece| queue.push(piece, &mut Pool::default()));
        let mut out = vec![0; 70_000];
        assert_eq!(queue.read(&mut out, &mut Pool::default()), 70_000);
        queue.move_to(&mut out, 70_000, &mut Pool::default());
        while !queue.is_empty() {
            out.extend_from_slice(&queue.read_chunk(999));
        }
        assert_eq!(out, data);
    }

    #[test]
    fn an_empty_queue_owns_nothing() {
        let mut queue = ChunkQueue::default();
        queue.push(&[1; 100_000], &mut Pool::default());
        drain(&mut queue);
        assert_eq!((queue.full.capacity(), queue.tail.capacity()), (0, 0));
        queue.push(&[1; 100], &mut Pool::default());
        queue.read_chunk(100);
        assert_eq!((queue.full.capacity(), queue.tail.capacity()), (0, 0));
    }

    #[test]
    fn chunks_are_used_again_until_they_are_released() {
        let (mut queue, mut pool) = (ChunkQueue::default(), Pool::default());
        queue.push(&[1; 200_000], &mut pool);
        let addresses: Vec<_> = queue.full.iter().map(|chunk| chunk.as_ptr()).collect();
        let held = queue.full.front().cloned();
        assert_eq!(queue.read(&mut [0; 200_000], &mut pool), 200_000);
        // All, and the last one that was not full, but for the one that somebody else holds.
        assert_eq!(pool.spare.len(), addresses.len());
        drop(held);
        queue.push(&[2; 100_000], &mut pool);
        assert!(addresses.contains(&queue.tail.as_ptr()));
        pool.release();
        assert_eq!(pool.spare.capacity(), 0);
    }

    #[test]
    fn chunks_grow_with_the_queue_and_stop_growing() {
        let mut queue = ChunkQueue::default();
        (0..2000).for_each(|_| queue.push(&[5; 1200], &mut Pool::default()));
        assert!(queue.full.len() < 50, "{}", queue.full.len());
        assert!(queue.full.iter().all(|chunk| chunk.len() <= CHUNK_BYTES_MAX));
    }

    #[test]
    fn joining_wastes_no_more_than_it_holds() {
        let mut queue = ChunkQueue::default();
        queue.push(&[0; CHUNK_BYTES_MAX], &mut Pool::default());
        for _ in 0..500 {
            let mut other = ChunkQueue::default();
            other.push(&[1; LINK_BYTES_MIN], &mut Pool::default());
            queue.push(&[2], &mut Pool::default());
            queue.append(other, &mut Pool::default());
        }
        // Linking each would have left 500 chunks of 64 KiB with one byte in each.
        assert!(queue.full.len() < 20, "{}", queue.full.len());
        assert_eq!(
            drain(&mut queue).iter().map(|&b| usize::from(b)).sum::<usize>(),
            500 * (LINK_BYTES_MIN + 2)
        );
    }

    #[test]
    fn long_data_are_linked_and_short_data_copied() {
        let (mut queue, pool) = (ChunkQueue::default(), &mut Pool::default());
        let (short, long) = (Bytes::from(vec![1; LINK_BYTES_MIN - 1]), Bytes::from(vec![2; 10_000]));
        queue.push_chunk(short.clone(), pool);
        queue.push_chunk(long.clone(), pool);
        queue.push_chunk(Bytes::new(), pool);
        assert_ne!(queue.full[0].as_ptr(), short.as_ptr());
        assert_eq!(queue.full[1].as_ptr(), long.as_ptr());
        assert_eq!(drain(&mut queue), [&short[..], &long[..]].concat());
        // The writer still holds it, so it is nobody's to use again.
        assert!(long.iter().all(|&byte| byte == 2));
    }

    #[test]
    fn long_chunks_are_joined_without_copying() {
        let mut other = ChunkQueue::default();
        other.push(&[1; 100_000], &mut Pool::default());
        let address = other.full[0].as_ptr();
        let mut queue = ChunkQueue::default();
        queue.push(&[2; 10], &mut Pool::default());
        queue.append(other, &mut Pool::default());
        assert_eq!(queue.full[1].as_ptr(), address);
        assert_eq!(drain(&mut queue).len(), 100_010);
    }

    #[test]
    fn only_long_pieces_of_one_chunk_are_linked_and_the_chunk_comes_back() {
        let (mut queue, mut pool) = (ChunkQueue::default(), Pool::default());
        queue.push(&vec![1; 2 * CHUNK_BYTES_MAX], &mut pool);
        assert_eq!(queue.link(LINK_BYTES_MIN - 1), None);
        let first = queue.link(CHUNK_BYTES_MAX - 1000).expect("the first chunk has it");
        assert_eq!(queue.link(1001), None, "it lies in two");
        let second = queue.link(1000).expect("the rest");
        assert_eq!(queue.len(), CHUNK_BYTES_MAX);
        pool.give(first);
        assert!(pool.spare.is_empty(), "the second piece is in use");
        pool.give(second);
        assert_eq!(pool.spare.len(), 1);
        // What an application handed over is not kept.
        pool.give(vec![0; 3 * CHUNK_BYTES_MAX].into());
        assert_eq!(pool.spare.len(), 1);
    }
}
