//! First in, first out, with a limit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use fulmar_control::Instant;

use super::{Bound, Discipline, Queued};
use crate::stats::{Backlog, LinkStats};

/// Drops what arrives when the queue is full. Invariant: the backlog never exceeds the bound.
#[derive(Clone, Debug)]
pub(crate) struct DropTail<P> {
    waiting: VecDeque<Queued<P>>,
    bytes: u64,
    bound: Bound,
}

impl<P> DropTail<P> {
    pub(crate) const fn new(bound: Bound) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, bound }
    }
}

impl<P> Discipline<P> for DropTail<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        if self.bound.admits(self.backlog(), item.bytes) {
            self.bytes += u64::from(item.bytes);
            self.waiting.push_back(item);
        } else {
            stats.dropped.add(item.bytes);
        }
    }

    fn pop(&mut self, _now: Instant, _stats: &mut LinkStats) -> Option<Queued<P>> {
        let item = self.waiting.pop_front()?;
        self.bytes -= u64::from(item.bytes);
        Some(item)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.bytes = 0;
        self.waiting.drain(..).collect()
    }
}
