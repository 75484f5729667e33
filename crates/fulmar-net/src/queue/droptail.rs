//! First in, first out, with a limit.

use alloc::vec::Vec;

use fulmar_units::Instant;

use super::discipline::{Discipline, Queued};
use super::fifo::Fifo;
use super::limit::Bound;
use crate::stats::{Backlog, LinkStats};

/// Drops what arrives when the queue is full. Invariant: the backlog never exceeds the bound.
#[derive(Clone, Debug)]
pub(crate) struct DropTail<P> {
    waiting: Fifo<P>,
    bound: Bound,
}

impl<P> DropTail<P> {
    pub(crate) const fn new(bound: Bound) -> Self {
        Self { waiting: Fifo::new(), bound }
    }
}

impl<P> Discipline<P> for DropTail<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        if self.bound.admits(self.backlog(), item.bytes) {
            self.waiting.push(item);
        } else {
            stats.dropped.add(item.bytes);
        }
    }

    fn pop(&mut self, _now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        self.waiting.pop()
    }

    fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.waiting.drain()
    }
}
