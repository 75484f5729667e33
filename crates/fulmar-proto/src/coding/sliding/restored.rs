//! Symbols that repair restored, as the sender comes to know of it: by the receiver's report, and if that
//! came first, by the loss of the packet that brought the symbol.

use std::collections::BTreeMap;

use fulmar_fec::SymbolId;

use crate::Instant;
use crate::coding::ring::{Held, SymbolState};

/// Symbols decoded before their packet's fate is known that are remembered.
const EARLY_MAX: usize = 1024;

/// Those that were found since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Restored {
    /// Symbols that the receiver has decoded although the packet that brought them first is not acknowledged,
    /// and when that left: if it turns out lost, repair restored them before anybody knew.
    early: BTreeMap<SymbolId, Instant>,
    /// Those of which it turned out so, and those that reports told of later than they came.
    found_late: u32,
    /// When the newest that was found was first sent.
    newest_sent_at: Option<Instant>,
}

impl Restored {
    /// The receiver says that it has `id`. True if repair restored what is known to be lost.
    pub(super) fn on_told(&mut self, id: SymbolId, held: &Held) -> bool {
        if let SymbolState::InFlight(_) = held.state() {
            self.early.insert(id, held.sent_at);
            if self.early.len() > EARLY_MAX {
                self.early.pop_first();
            }
        }
        let is_restored = held.was_lost() && held.state() != SymbolState::Delivered;
        if is_restored {
            self.newest_sent_at = self.newest_sent_at.max(Some(held.sent_at));
        }
        is_restored
    }

    /// The packet that brought `id` first arrived.
    pub(super) fn on_arrived(&mut self, id: SymbolId) {
        self.early.remove(&id);
    }

    /// It was lost. True if the receiver has the symbol all the same.
    pub(super) fn on_lost(&mut self, id: SymbolId) -> bool {
        let sent_at = self.early.remove(&id);
        self.newest_sent_at = self.newest_sent_at.max(sent_at);
        self.found_late += u32::from(sent_at.is_some());
        sent_at.is_some()
    }

    /// So many are booked only now, of what a report told before.
    pub(super) fn on_booked_late(&mut self, symbols: u32) {
        self.found_late += symbols;
    }

    /// How many were found otherwise than while a report was heard.
    pub(super) fn take_late(&mut self) -> u32 {
        std::mem::take(&mut self.found_late)
    }

    pub(super) fn take_newest_sent_at(&mut self) -> Option<Instant> {
        self.newest_sent_at.take()
    }
}
