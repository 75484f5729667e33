//! Puts the bytes of a stream back in order.
//!
//! Bytes that continue what is there go straight into one queue. Others wait in runs, one run per stretch
//! without a gap, so what is held besides the bytes is in proportion to the gaps; the caller bounds
//! [`Assembler::runs`]. Each symbol arrives exactly once, hence no byte twice: an overlap is the sender's
//! fault, not a retransmission.

use super::chunks::{ChunkQueue, Pool};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Runs up to this long are copied to the run before them once they touch, so that a sender of tiny fragments
/// cannot leave many runs behind. Longer ones stay apart until they are in order. Bounds the work of one
/// insertion.
const JOIN_BYTES_MAX: usize = 2048;

/// A byte was received twice.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap;

/// Bytes of one stream, from the first one not read.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// What can be read now.
    ready: ChunkQueue,
    /// Everything before this offset has arrived.
    end: u64,
    /// What lies beyond a gap, by offset. No two overlap.
    runs: BTreeMap<u64, ChunkQueue>,
}

impl Assembler {
    /// Takes `data`, which stands at `offset`.
    pub(super) fn insert(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> Result<(), Overlap> {
        if data.is_empty() {
            return Ok(());
        }
        if offset < self.end {
            return Err(Overlap);
        }
        if !self.runs.is_empty() {
            self.check_next(offset, data)?;
        }
        if offset > self.end {
            return self.insert_run(offset, data, pool);
        }
        self.ready.push(data, pool);
        self.end += data.len() as u64;
        while let Some(entry) = self.runs.first_entry().filter(|entry| *entry.key() == self.end) {
            let run = entry.remove();
            self.end += run.len() as u64;
            self.ready.append(run, pool);
        }
        Ok(())
    }

    fn check_next(&self, offset: u64, data: &[u8]) -> Result<(), Overlap> {
        match self.runs.range(offset..).next() {
            Some((&start, _)) if start < offset + data.len() as u64 => Err(Overlap),
            _ => Ok(()),
        }
    }

    fn insert_run(&mut self, offset: u64, data: &[u8], pool: &mut Pool) -> Result<(), Overlap> {
        let previous =
            self.runs.range(..offset).next_back().map(|(&start, run)| (start, start + run.len() as u64));
        let start = match previous {
            Some((_, end)) if end > offset => return Err(Overlap),
            Some((start, end)) if end == offset => start,
            _ => offset,
        };
        let end = offset + data.len() as u64;
        let next = self.runs.get(&end).filter(|run| run.len() <= JOIN_BYTES_MAX).map(|_| end);
        let next = next.and_then(|start| self.runs.remove(&start));
        let run = self.runs.entry(start).or_default();
        run.push(data, pool);
        if let Some(next) = next {
            run.append(next, pool);
        }
        Ok(())
    }

    /// Offset of the first byte not read.
    pub(super) fn read_offset(&self) -> u64 {
        self.end - self.ready.len() as u64
    }

    /// Everything before this offset has arrived.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether there is something to read.
    pub(super) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Stretches that wait beyond a gap.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Reads up to `out.len()` bytes in order.
    pub(super) fn read(&mut self, out: &mut [u8], pool: &mut Pool) -> usize {
        self.ready.read(out, pool)
    }

    /// Reads up to `max` bytes in order without copying them.
    pub(super) fn read_chunk(&mut self, max: usize) -> Bytes {
        self.ready.read_chunk(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    fn read_all(assembler: &mut Assembler) -> Vec<u8> {
        let mut out = vec![0; 1 << 16];
        let len = assembler.read(&mut out, &mut Pool::default());
        out.truncate(len);
        out
    }

    #[test]
    fn order_is_restored() {
        let mut a = Assembler::default();
        for (offset, data) in [(6, "gh"), (3, "d"), (1, "b"), (4, "ef"), (2, "c")] {
            a.insert(offset, data.as_bytes(), &mut Pool::default()).unwrap();
            assert!(!a.is_readable());
        }
        a.insert(0, b"a", &mut Pool::default()).unwrap();
        assert_eq!((a.end(), a.runs()), (8, 0));
        assert_eq!(read_all(&mut a), b"abcdefgh");
        assert_eq!(a.read_offset(), 8);
    }

    #[test]
    fn no_byte_may_come_twice() {
        let mut a = Assembler::default();
        a.insert(0, b"0123", &mut Pool::default()).unwrap();
        a.insert(10, b"abcd", &mut Pool::default()).unwrap();
        a.insert(20, b"efgh", &mut Pool::default()).unwrap();
        for (offset, len) in
            [(0, 1), (3, 1), (3, 5), (10, 4), (9, 2), (13, 1), (12, 4), (4, 7), (5, 30), (11, 1), (19, 2)]
        {
            assert_eq!(a.insert(offset, &vec![0; len], &mut Pool::default()), Err(Overlap), "{offset}+{len}");
        }
        for offset in [0, 4, 11, 24] {
            assert_eq!(a.insert(offset, b"", &mut Pool::default()), Ok(()));
        }
        a.insert(4, b"456789", &mut Pool::default()).unwrap();
        a.insert(14, b"......", &mut Pool::default()).unwrap();
        assert_eq!(read_all(&mut a), b"0123456789abcd......efgh");
    }

    #[test]
    fn agrees_with_a_table_of_bytes_received() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for _ in 0..40 {
            let size = 1 + (rng.next_u64() % 8000) as usize;
            let len_max = 1 + rng.next_u64() % 3000;
            let (mut a, mut received, mut read) = (Assembler::default(), vec![false; size], Vec::new());
            let content: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8)) as u8).collect();
            while received.contains(&false) {
                let start = (rng.next_u64() % size as u64) as usize;
                let end = size.min(start + (rng.next_u64() % len_max) as usize);
                // Half of the time what fits, which random picks alone would rarely hit in the end.
                let gap = received[start..].iter().position(|&is| !is).map(|i| start + i);
                let (start, end) = match gap.filter(|_| rng.next_u64() % 2 == 0) {
                    Some(gap) => (
                        gap,
                        received
                            .iter()
                            .skip(gap)
                            .position(|&is| is)
                            .map_or(size, |i| gap + i)
                            .min(gap + 1 + end - start),
                    ),
                    None => (start, end),
                };
                let overlaps = received[start..end].contains(&true);
                assert_eq!(
                    a.insert(start as u64, &content[start..end], &mut Pool::default()).is_err(),
                    overlaps
                );
                if !overlaps {
                    received[start..end].fill(true);
                }
                let ready = received.iter().position(|&is| !is).unwrap_or(size);
                assert_eq!((a.end(), a.read_offset()), (ready as u64, read.len() as u64));
                if rng.next_u64() % 4 == 0 {
                    read.extend_from_slice(&a.read_chunk(700));
                }
            }
            read.extend(read_all(&mut a));
            assert_eq!((read, a.runs()), (content, 0));
        }
    }

    #[test]
    fn fragments_that_touch_become_one_run() {
        let mut a = Assembler::default();
        for offset in (1..2001).step_by(2) {
            a.insert(offset, b"o", &mut Pool::default()).unwrap();
        }
        assert_eq!(a.runs(), 1000);
        for offset in (2..2001).step_by(2) {
            a.insert(offset, b"e", &mut Pool::default()).unwrap();
        }
        assert_eq!(a.runs(), 1);
        a.insert(0, b"e", &mut Pool::default()).unwrap();
        assert_eq!(read_all(&mut a), b"eo".repeat(1000).into_iter().chain(*b"e").collect::<Vec<_>>());
    }
}
