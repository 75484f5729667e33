//! Symbols known missing, oldest first, and how many of them the receiver's last report does not cover.

use std::collections::BTreeSet;

use fulmar_fec::SymbolId;

/// Symbols of which no packet is under way.
#[derive(Debug, Default)]
pub(super) struct Missing {
    ids: BTreeSet<SymbolId>,
    /// The report tells of symbols below.
    reported_below: SymbolId,
    /// Of the symbols missing, those that the report does not tell of.
    unreported: usize,
}

impl Missing {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn oldest(&self) -> Option<SymbolId> {
        self.ids.first().copied()
    }

    /// All of them, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.ids.iter().copied()
    }

    /// How many have ids from `first` on. Costs time in proportion to the answer.
    pub(super) fn count_from(&self, first: SymbolId) -> usize {
        self.ids.range(first..).count()
    }

    /// How many the receiver's last report does not tell of.
    pub(super) fn unreported(&self) -> usize {
        self.unreported
    }

    pub(super) fn insert(&mut self, id: SymbolId) {
        if self.ids.insert(id) && id >= self.reported_below {
            self.unreported += 1;
        }
    }

    pub(super) fn remove(&mut self, id: SymbolId) {
        if self.ids.remove(&id) && id >= self.reported_below {
            self.unreported -= 1;
        }
    }

    /// A report told of symbols below `end`. Reports move on, so that each symbol is passed once.
    pub(super) fn on_report(&mut self, end: SymbolId) {
        if end < self.reported_below {
            self.unreported += self.ids.range(end..self.reported_below).count();
        } else {
            self.unreported -= self.ids.range(self.reported_below..end).count();
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
            missing.insert(SymbolId(id));
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
}
