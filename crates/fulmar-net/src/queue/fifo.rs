//! A list of waiting packets that knows its size: what every discipline is made of.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::discipline::Queued;
use crate::stats::Backlog;

/// Invariant: `bytes` is the sum over `items`.
#[derive(Clone, Debug)]
pub(super) struct Fifo<P> {
    items: VecDeque<Queued<P>>,
    bytes: u64,
}

impl<P> Fifo<P> {
    pub(super) const fn new() -> Self {
        Self { items: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, item: Queued<P>) {
        self.bytes += u64::from(item.bytes);
        self.items.push_back(item);
    }

    pub(super) fn pop(&mut self) -> Option<Queued<P>> {
        let item = self.items.pop_front()?;
        self.bytes -= u64::from(item.bytes);
        Some(item)
    }

    pub(super) fn pop_newest(&mut self) -> Option<Queued<P>> {
        let item = self.items.pop_back()?;
        self.bytes -= u64::from(item.bytes);
        Some(item)
    }

    pub(super) fn front(&self) -> Option<&Queued<P>> {
        self.items.front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn backlog(&self) -> Backlog {
        Backlog { packets: self.items.len() as u64, bytes: self.bytes }
    }

    pub(super) fn drain(&mut self) -> Vec<Queued<P>> {
        self.bytes = 0;
        self.items.drain(..).collect()
    }
}
