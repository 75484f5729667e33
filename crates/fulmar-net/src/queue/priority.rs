//! Strict priority: of what waits, the most urgent goes first (the `pfifo_fast` of old, or a router's
//! low-latency queue).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fulmar_units::Instant;

use super::discipline::{Discipline, Queued};
use super::fifo::Fifo;
use super::limit::Bound;
use crate::Payload;
use crate::stats::{Backlog, LinkStats};

/// A list for each priority that occurs, first in, first out. When all together are full, the newest of the
/// least urgent list gives
/// way to what is more urgent. Invariants: the backlog never exceeds the bound; no list is empty.
#[derive(Clone, Debug)]
pub(crate) struct Priority<P> {
    waiting: BTreeMap<u8, Fifo<P>>,
    backlog: Backlog,
    bound: Bound,
}

impl<P> Priority<P> {
    pub(crate) const fn new(bound: Bound) -> Self {
        Self { waiting: BTreeMap::new(), backlog: Backlog { packets: 0, bytes: 0 }, bound }
    }

    fn take(
        &mut self,
        priority: u8,
        pick: impl FnOnce(&mut Fifo<P>) -> Option<Queued<P>>,
    ) -> Option<Queued<P>> {
        let list = self.waiting.get_mut(&priority)?;
        let item = pick(list)?;
        if list.is_empty() {
            self.waiting.remove(&priority);
        }
        self.backlog.remove(item.bytes);
        Some(item)
    }
}

impl<P: Payload> Discipline<P> for Priority<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        let priority = item.packet.priority();
        while !self.bound.admits(self.backlog, item.bytes) {
            let Some(least) = self.waiting.keys().next().copied().filter(|&least| least < priority) else {
                return stats.dropped.add(item.bytes);
            };
            if let Some(victim) = self.take(least, Fifo::pop_newest) {
                stats.dropped.add(victim.bytes);
            }
        }
        self.backlog.add(item.bytes);
        self.waiting.entry(priority).or_insert_with(Fifo::new).push(item);
    }

    fn pop(&mut self, _now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        let most = *self.waiting.keys().next_back()?;
        self.take(most, Fifo::pop)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.backlog = Backlog::default();
        core::mem::take(&mut self.waiting).into_values().flat_map(|mut list| list.drain()).collect()
    }
}
