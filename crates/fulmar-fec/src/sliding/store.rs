//! The bytes of the newest symbols, by id: one copy per symbol, no allocation in steady state, nothing held
//! when idle.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Of the symbols retained, one in this many may be older than the newest ones: late arrivals, to which
/// repair that was asked for is the most likely to refer.
pub const LATE_SHARE: u32 = 8;
/// A symbol is short if so many of it fit into one.
const SHORT_PER_SYMBOL: usize = 4;

/// Buffers of one symbol each, lent and taken back.
#[derive(Debug)]
pub(super) struct Buffers {
    symbol_bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    pub(super) fn new(symbol_bytes: usize) -> Self {
        Self { symbol_bytes, spare: Vec::new() }
    }

    /// An empty buffer with room for a symbol.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(self.symbol_bytes));
        buffer.clear();
        buffer
    }

    /// As [`Self::take`], to hold `len` bytes: with no room beyond them if they are few and nothing is spare.
    fn take_for(&mut self, len: usize) -> Vec<u8> {
        let is_short = len * SHORT_PER_SYMBOL < self.symbol_bytes;
        if is_short && self.spare.is_empty() { Vec::with_capacity(len) } else { self.take() }
    }

    /// One that is shorter than a symbol is of no use to the next.
    pub(super) fn give(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() >= self.symbol_bytes {
            self.spare.push(buffer);
        }
    }

    pub(super) fn symbol_bytes(&self) -> usize {
        self.symbol_bytes
    }

    /// Keeps no more spare buffers than are in use.
    fn trim(&mut self, in_use: usize) {
        if self.spare.len() > in_use {
            self.spare.truncate(in_use);
            self.spare.shrink_to(in_use);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.spare.capacity() * size_of::<Vec<u8>>() + self.spare.len() * self.symbol_bytes
    }
}

/// Symbols by id: a ring over the newest ids, and a few older ones.
#[derive(Debug)]
pub(super) struct Store {
    /// Id of the first slot of the ring.
    base: u64,
    ring: VecDeque<Option<Vec<u8>>>,
    ring_max: usize,
    /// Symbols below `base`, ascending.
    late: Vec<(u64, Vec<u8>)>,
    late_max: usize,
    /// Symbols retained in the ring.
    count: usize,
    pub(super) buffers: Buffers,
}

impl Store {
    pub(super) fn new(symbol_bytes: usize, symbols_max: u32) -> Self {
        let symbols_max = symbols_max.max(1);
        let late_max = symbols_max / LATE_SHARE;
        let buffers = Buffers::new(symbol_bytes);
        Self {
            base: 0,
            ring: VecDeque::new(),
            ring_max: (symbols_max - late_max) as usize,
            late: Vec::new(),
            late_max: late_max as usize,
            count: 0,
            buffers,
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&[u8]> {
        match id.checked_sub(self.base) {
            Some(index) => self.ring.get(usize::try_from(index).ok()?)?.as_deref(),
            None => {
                self.late.binary_search_by_key(&id, |entry| entry.0).ok().map(|at| self.late[at].1.as_slice())
            }
        }
    }

    /// Retains a symbol that is not there yet. The oldest ones make room. Amortised O(1).
    pub(super) fn insert(&mut self, id: u64, symbol: &[u8]) {
        let Some(index) = id.checked_sub(self.base) else { return self.insert_late(id, symbol) };
        let index = if index >= self.ring_max as u64 { self.slide(index) } else { index as usize };
        while self.ring.len() <= index {
            self.ring.push_back(None);
        }
        let slot = &mut self.ring[index];
        let buffer = slot.get_or_insert_with(|| {
            self.count += 1;
            self.buffers.take_for(symbol.len())
        });
        buffer.clear();
        buffer.extend_from_slice(symbol);
    }

    /// Moves the ring forward until its slot `index` is the last one it may have; returns the new index of
    /// that slot.
    fn slide(&mut self, index: u64) -> usize {
        let steps = index - (self.ring_max as u64 - 1);
        for _ in 0..steps.min(self.ring.len() as u64) {
            self.drop_front();
        }
        self.base += steps;
        self.ring_max - 1
    }

    /// Forgets the first slot without moving `base`.
    fn drop_front(&mut self) {
        if let Some(Some(buffer)) = self.ring.pop_front() {
            self.count -= 1;
            self.buffers.give(buffer);
        }
    }

    fn insert_late(&mut self, id: u64, symbol: &[u8]) {
        let Err(mut at) = self.late.binary_search_by_key(&id, |entry| entry.0) else { return };
        if self.late.len() >= self.late_max {
            if at == 0 {
                return; // It would be the oldest, or there is no room at all.
            }
            self.buffers.give(self.late.remove(0).1);
            at -= 1;
        }
        let mut buffer = self.buffers.take_for(symbol.len());
        buffer.extend_from_slice(symbol);
        self.late.insert(at, (id, buffer));
    }

    /// Forgets every symbol below `below` and gives memory back that is not in use.
    pub(super) fn release(&mut self, below: u64) {
        let late = self.late.partition_point(|entry| entry.0 < below);
        for (_, buffer) in self.late.drain(..late) {
            self.buffers.give(buffer);
        }
        let steps = below.saturating_sub(self.base);
        for _ in 0..steps.min(self.ring.len() as u64) {
            self.drop_front();
        }
        self.base += steps;
        if self.ring.len() * 4 < self.ring.capacity() {
            self.ring.shrink_to(self.ring.len() * 2);
        }
        self.late.shrink_to_fit();
        self.buffers.trim(self.count + self.late.len());
    }

    /// Symbols retained.
    pub(super) fn len(&self) -> usize {
        self.count + self.late.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.ring.capacity() * size_of::<Option<Vec<u8>>>()
            + self.late.capacity() * size_of::<(u64, Vec<u8>)>();
        slots + self.len() * self.buffers.symbol_bytes + self.buffers.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_late_ones_have_a_share() {
        let mut store = Store::new(8, 16);
        for id in 0..100u64 {
            if id != 50 {
                store.insert(id, &id.to_le_bytes());
            }
        }
        assert!((86..100).all(|id| store.get(id) == Some(&id.to_le_bytes()[..])));
        assert!((0..86).all(|id| store.get(id).is_none()));
        store.insert(50, b"late");
        store.insert(20, b"older");
        store.insert(10, b"oldest: no room");
        assert_eq!(
            (store.get(50), store.get(20), store.get(10)),
            (Some(&b"late"[..]), Some(&b"older"[..]), None)
        );
        store.insert(60, b"later");
        assert_eq!((store.get(60), store.get(20)), (Some(&b"later"[..]), None));
        assert_eq!(store.len(), 16);
    }

    #[test]
    fn short_symbols_take_no_more_than_they_need_and_make_way_for_long_ones() {
        let mut store = Store::new(1000, 1000);
        store.insert(0, b"short");
        assert!(store.ring[0].as_ref().is_some_and(|buffer| buffer.capacity() < 250));
        store.insert(1, &[1; 250]);
        store.insert(0, &[2; 1000]);
        store.insert(2, b"short");
        assert_eq!(store.get(0), Some(&[2; 1000][..]));
        store.release(3);
        store.insert(3, &[3; 1000]);
        assert_eq!(store.get(3), Some(&[3; 1000][..]));
    }

    #[test]
    fn a_jump_costs_no_more_than_the_ring_and_release_gives_back() {
        let mut store = Store::new(1000, 1000);
        for id in 0..900 {
            store.insert(id, &[1; 1000]);
        }
        assert!(store.memory_bytes() > 800_000);
        store.insert(1 << 40, &[2; 1000]);
        assert_eq!(store.len(), 1);
        assert_eq!(store.get(1 << 40), Some(&[2; 1000][..]));
        store.release((1 << 40) + 1);
        assert_eq!(store.len(), 0);
        assert_eq!(store.memory_bytes(), 0);
        store.insert((1 << 40) + 5, &[3; 10]);
        assert_eq!(store.get((1 << 40) + 5), Some(&[3; 10][..]));
    }
}
