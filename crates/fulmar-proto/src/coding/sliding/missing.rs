//! Symbols known missing, oldest first, and how many of them the receiver's last report does not cover.

use std::collections::{BTreeMap, BTreeSet};

use fulmar_fec::SymbolId;

use crate::Instant;

/// Symbols of which no packet is under way, and since when.
#[derive(Debug, Default)]
pub(super) struct Missing {
    since: BTreeMap<SymbolId, Instant>,
    /// The report tells of symbols below.
    reported_below: SymbolId,
    /// Of the symbols missing, those that the report does not tell of.
    unreported: usize,
    /// Missing again, and for a sender that hears of that by a timeout alone not yet missing.
    unheard: BTreeSet<SymbolId>,
}

impl Missing {
    pub(super) fn len(&self) -> usize {
        self.since.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_empty()
    }

    /// The oldest, and since when it has been missing.
    pub(super) fn oldest(&self) -> Option<(SymbolId, Instant)> {
        self.since.first_key_value().map(|(&id, &since)| (id, since))
    }

    /// All of them, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.since.keys().copied()
    }

    /// How many have ids from `first` on. Costs time in proportion to the answer.
    pub(super) fn count_from(&self, first: SymbolId) -> usize {
        self.since.range(first..).count()
    }

    /// How many the receiver's last report does not tell of.
    pub(super) fn unreported(&self) -> usize {
        self.unreported
    }

    pub(super) fn insert(&mut self, id: SymbolId, now: Instant) {
        if self.since.insert(id, now).is_none() && id >= self.reported_below {
            self.unreported += 1;
        }
    }

    pub(super) fn insert_unheard(&mut self, id: SymbolId) {
        self.unheard.insert(id);
    }

    pub(super) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// A timeout: now it is known.
    pub(super) fn hear(&mut self, now: Instant) {
        for id in std::mem::take(&mut self.unheard) {
            self.insert(id, now);
        }
    }

    pub(super) fn remove(&mut self, id: SymbolId) {
        self.unheard.remove(&id);
        if self.since.remove(&id).is_some() && id >= self.reported_below {
            self.unreported -= 1;
        }
    }

    /// A report told of symbols below `end`. Reports move on, so that each symbol is passed once.
    pub(super) fn on_report(&mut self, end: SymbolId) {
        if end < self.reported_below {
            self.unreported += self.since.range(end..self.reported_below).count();
        } else {
            self.unreported -= self.since.range(self.reported_below..end).count();
        }
        self.reported_below = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_does_not_tell_of_is_counted() {
        let mut missing = Missing::default();
        for id in [3, 5, 8, 13] {
            missing.insert(SymbolId(id), Instant::ZERO);
        }
        let check = |missing: &mut Missing, end: u64| {
            missing.on_report(SymbolId(end));
            assert_eq!(missing.unreported(), missing.count_from(SymbolId(end)));
        };
        for end in [4, 9, 6, 20, 0] {
            check(&mut missing, end);
        }
        missing.on_report(SymbolId(6));
        missing.remove(SymbolId(5));
        missing.remove(SymbolId(8));
        missing.remove(SymbolId(8));
        assert_eq!((missing.unreported(), missing.len()), (1, 2));
    }

    #[test]
    fn what_nobody_has_heard_of_is_missing_from_the_timeout_on() {
        let mut missing = Missing::default();
        (1..4).for_each(|id| missing.insert_unheard(SymbolId(id)));
        missing.remove(SymbolId(2));
        assert_eq!((missing.len(), missing.has_unheard()), (0, true));
        missing.hear(Instant::ZERO);
        assert_eq!((missing.len(), missing.has_unheard()), (2, false));
    }
}
