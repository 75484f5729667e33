//! Symbols that were lost more than once, in the order in which they are to be looked at.
//!
//! Each comes to the front a burst after its last copy, so that one burst does not take both, or at once where no
//! new data leave; there the policy decides whether it gets another. Entries are not taken out when a symbol is
//! delivered, but passed over. Invariant: at most [`ENTRIES_MAX`].

use std::collections::VecDeque;

use fulmar_control::OftenLost;
use fulmar_fec::SymbolId;

use crate::coding::ring::{Ring, SymbolState};

/// Copies of one symbol leave so many new symbols apart.
const APART_SYMBOLS: u64 = 32;
/// More of them are not rare.
const ENTRIES_MAX: usize = 4096;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct OftenLostQueue {
    /// Until how many symbols have been sent each is to wait.
    entries: VecDeque<(u64, SymbolId)>,
}

impl OftenLostQueue {
    /// A copy of `id` left after so many new symbols.
    pub(super) fn push(&mut self, sources_sent: u64, id: SymbolId) {
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push_back((sources_sent + APART_SYMBOLS, id));
        }
    }

    /// The next that is due, below `floor` and under way.
    pub(super) fn next(
        &self,
        ring: &Ring,
        floor: u64,
        sources_sent: u64,
        has_new_data: bool,
    ) -> Option<OftenLost> {
        let is_due = |due: u64| due <= sources_sent || !has_new_data;
        let (_, _, often_lost) = self.find(ring, floor, is_due)?;
        Some(often_lost)
    }

    /// Takes it out, with all before it, which need no copy any more.
    pub(super) fn take(&mut self, ring: &Ring, floor: u64) -> Option<SymbolId> {
        let (index, id, _) = self.find(ring, floor, |_| true)?;
        self.entries.drain(..=index);
        Some(id)
    }

    /// Another choice was made: those that are due get no more copies.
    pub(super) fn decline(&mut self, sources_sent: u64) {
        while self.entries.front().is_some_and(|(due, _)| *due <= sources_sent) {
            self.entries.pop_front();
        }
    }

    fn find(
        &self,
        ring: &Ring,
        floor: u64,
        is_due: impl Fn(u64) -> bool,
    ) -> Option<(usize, SymbolId, OftenLost)> {
        let due = self.entries.iter().take_while(|(due, _)| is_due(*due));
        due.enumerate().find_map(|(index, &(_, id))| {
            let held = ring.held(id).filter(|_| id.0 < floor)?;
            let SymbolState::InFlight(copies) = held.state else { return None };
            Some((index, id, OftenLost { losses: u32::from(held.losses), copies: u32::from(copies) }))
        })
    }
}
