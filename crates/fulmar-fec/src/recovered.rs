//! The queue at the end of every decoder: symbols recovered and not collected yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::SymbolId;

/// Recovered symbols in the order in which they were determined.
#[derive(Debug, Default)]
pub struct Recovered {
    queue: VecDeque<(SymbolId, Vec<u8>)>,
}

impl Recovered {
    /// At the end.
    pub fn push(&mut self, id: u64, symbol: Vec<u8>) {
        self.queue.push_back((SymbolId(id), symbol));
    }

    /// The first.
    pub fn pop(&mut self) -> Option<(SymbolId, Vec<u8>)> {
        self.queue.pop_front()
    }

    /// What [`crate::Decoder::poll_recovered`] does.
    pub fn poll(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        let (id, symbol) = self.pop()?;
        *out = symbol;
        Some(id)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives memory back that an empty queue does not need.
    pub fn shrink(&mut self) {
        if self.queue.is_empty() {
            self.queue.shrink_to_fit();
        }
    }

    /// Bytes of memory held now.
    pub fn memory_bytes(&self) -> usize {
        let symbols: usize = self.queue.iter().map(|(_, symbol)| symbol.capacity()).sum();
        self.queue.capacity() * size_of::<(SymbolId, Vec<u8>)>() + symbols
    }
}
