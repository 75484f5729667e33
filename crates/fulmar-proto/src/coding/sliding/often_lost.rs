//! Symbols that were lost more than once, in the order in which they are to be looked at.
//!
//! Each is due a burst after its last copy, so that one burst does not take both; there the policy decides
//! whether it gets another. Where no new data leave, and nothing is due, it is the turn of what was lost most
//! often. Entries are not taken out when a symbol is delivered, but passed over. Invariant: at most
//! [`ENTRIES_MAX`].

use std::cmp::Reverse;
use std::collections::VecDeque;

use fulmar_control::OftenLost;
use fulmar_fec::SymbolId;

use crate::coding::ring::Ring;

/// Copies of one symbol leave so many new symbols apart.
const APART_SYMBOLS: u64 = 32;
/// More of them are not rare.
const ENTRIES_MAX: usize = 4096;

/// Place, symbol, and what the policy is told.
type Entry = (usize, SymbolId, OftenLost);

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

    /// The next that is below `floor` and under way.
    pub(super) fn next(
        &self,
        ring: &Ring,
        floor: u64,
        sources_sent: u64,
        has_new_data: bool,
    ) -> Option<OftenLost> {
        if self.entries.is_empty() {
            return None;
        }
        let due = self.first_due(ring, floor, sources_sent);
        let (.., often_lost) =
            due.or_else(|| if has_new_data { None } else { self.most_often_lost(ring, floor) })?;
        Some(often_lost)
    }

    /// Takes it out.
    pub(super) fn take(&mut self, ring: &Ring, floor: u64, sources_sent: u64) -> Option<SymbolId> {
        let due = self.first_due(ring, floor, sources_sent);
        let (index, id, _) = due.or_else(|| self.most_often_lost(ring, floor))?;
        self.entries.remove(index);
        Some(id)
    }

    /// Another choice was made: those that are due get no more copies.
    pub(super) fn decline(&mut self, sources_sent: u64) {
        while self.entries.front().is_some_and(|(due, _)| *due <= sources_sent) {
            self.entries.pop_front();
        }
    }

    fn first_due(&self, ring: &Ring, floor: u64, sources_sent: u64) -> Option<Entry> {
        let due = self.entries.partition_point(|(due, _)| *due <= sources_sent);
        self.under_way(due, ring, floor).next()
    }

    fn most_often_lost(&self, ring: &Ring, floor: u64) -> Option<Entry> {
        self.under_way(self.entries.len(), ring, floor)
            .min_by_key(|(.., often)| (Reverse(often.losses), often.copies))
    }

    /// Those of the first `count` that may get another copy.
    fn under_way<'a>(&'a self, count: usize, ring: &'a Ring, floor: u64) -> impl Iterator<Item = Entry> + 'a {
        self.entries.iter().take(count).enumerate().filter_map(move |(index, &(_, id))| {
            let held = ring.held(id).filter(|_| id.0 < floor)?;
            let copies = held.state().in_flight()?;
            Some((index, id, OftenLost { losses: u32::from(held.losses), copies: u32::from(copies) }))
        })
    }
}
