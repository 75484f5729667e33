//! One list of packets per flow, sharing one buffer: the ground of the fair queues.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::discipline::Queued;
use super::fifo::Fifo;
use super::limit::Bound;
use crate::stats::{Backlog, LinkStats};

/// Lists by key. A flow exists while it has packets; its list is then reused. Invariants: every flow in
/// `index` has at least one packet, `total` is the sum over all lists.
#[derive(Clone, Debug)]
pub(super) struct Flows<P, S> {
    index: BTreeMap<u64, usize>,
    slots: Vec<Slot<P, S>>,
    free: Vec<usize>,
    total: Backlog,
}

/// A flow and what its discipline remembers of it.
#[derive(Clone, Debug)]
pub(super) struct Slot<P, S> {
    key: u64,
    pub(super) waiting: Fifo<P>,
    pub(super) state: S,
}

impl<P, S: Default> Flows<P, S> {
    pub(super) const fn new() -> Self {
        Self {
            index: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            total: Backlog { packets: 0, bytes: 0 },
        }
    }

    /// Appends a packet to the list of `key`; returns the slot and whether the flow is new.
    pub(super) fn push(&mut self, key: u64, item: Queued<P>) -> (usize, bool) {
        self.total.add(item.bytes);
        let known = self.index.get(&key).copied();
        let slot = known.unwrap_or_else(|| self.open(key));
        self.slots[slot].waiting.push(item);
        (slot, known.is_none())
    }

    fn open(&mut self, key: u64) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { key, waiting: Fifo::new(), state: S::default() });
            self.slots.len() - 1
        });
        self.slots[slot].key = key;
        self.slots[slot].state = S::default();
        self.index.insert(key, slot);
        slot
    }

    /// The oldest packet of a flow, and whether it was its last: then the slot is no longer the flow's.
    pub(super) fn pop(&mut self, slot: usize) -> Option<(Queued<P>, bool)> {
        let item = self.slots[slot].waiting.pop()?;
        Some(self.taken(slot, item))
    }

    fn taken(&mut self, slot: usize, item: Queued<P>) -> (Queued<P>, bool) {
        self.total.remove(item.bytes);
        let is_last = self.slots[slot].waiting.is_empty();
        if is_last {
            self.index.remove(&self.slots[slot].key);
            self.free.push(slot);
        }
        (item, is_last)
    }

    /// Buffer stealing (McKenney 1990; Shreedhar and Varghese 1995): while there is more than the bound
    /// allows, the flow with most bytes loses its newest packet. Among equals the one in `arrived` loses.
    /// Calls `emptied` for each flow that has none left.
    pub(super) fn shed(
        &mut self,
        bound: Bound,
        arrived: usize,
        stats: &mut LinkStats,
        mut on_drop: impl FnMut(Shed<'_, S>),
    ) {
        while !bound.holds(self.total) {
            let bytes = |slot: usize| (self.slots[slot].waiting.bytes(), slot == arrived);
            let Some(longest) = self.index.values().copied().max_by_key(|&slot| bytes(slot)) else { return };
            let Some(item) = self.slots[longest].waiting.pop_newest() else { return };
            let (item, is_last) = self.taken(longest, item);
            stats.dropped.add(item.bytes);
            on_drop(Shed {
                slot: longest,
                state: &mut self.slots[longest].state,
                bytes: item.bytes,
                is_last,
            });
        }
    }

    pub(super) fn slot(&mut self, slot: usize) -> &mut Slot<P, S> {
        &mut self.slots[slot]
    }

    pub(super) const fn total(&self) -> Backlog {
        self.total
    }

    pub(super) fn drain(&mut self) -> Vec<Queued<P>> {
        let items = self.slots.iter_mut().flat_map(|slot| slot.waiting.drain()).collect();
        *self = Self::new();
        items
    }
}

/// A packet that was dropped to make room.
pub(super) struct Shed<'a, S> {
    pub(super) slot: usize,
    pub(super) state: &'a mut S,
    pub(super) bytes: u32,
    pub(super) is_last: bool,
}
