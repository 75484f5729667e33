//! Combinations under way.

use std::collections::VecDeque;

use fulmar_fec::{SymbolId, Window};

use super::kept_back::Deals;
use crate::coding::sets::SetNumber;

/// Keys in use: repair over the same cover repeats after so many. They take one byte on the wire.
const KEYS: u32 = 64;
/// Combinations under way that are looked at for one symbol.
const HELPERS_MAX: usize = 64;

/// What a combination covers.
#[derive(Copy, Clone, Debug)]
pub(super) enum RepairCover {
    Window(Window),
    Set(SetNumber),
}

/// Those under way or lately resolved, by number.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// From number `base`.
    covers: VecDeque<Option<RepairCover>>,
    base: u64,
    /// Those over windows that are under way, oldest first.
    windows: VecDeque<(u64, Window)>,
    next_key: u32,
    /// Which symbols the groups had that they closed.
    pub(super) deals: Deals,
}

impl Repairs {
    /// A combination leaves. Returns its number.
    pub(super) fn push(&mut self, cover: RepairCover) -> u64 {
        let number = self.base + self.covers.len() as u64;
        if let RepairCover::Window(window) = cover {
            self.windows.push_back((number, window));
        }
        self.covers.push_back(Some(cover));
        number
    }

    /// It arrived, or was lost: what it covers, if that was not known before.
    pub(super) fn take(&mut self, number: u64) -> Option<RepairCover> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let cover = self.covers.get_mut(at)?.take();
        while let Some(None) = self.covers.front() {
            self.covers.pop_front();
            self.base += 1;
        }
        // Numbers ascend.
        if let Ok(at) = self.windows.binary_search_by_key(&number, |(n, _)| *n) {
            self.windows.remove(at);
        }
        cover
    }

    /// The key of the next combination, counted round.
    pub(super) fn take_key(&mut self) -> u32 {
        self.next_key = (self.next_key + 1) % KEYS;
        self.next_key
    }

    /// How many of the newest windows cover `id`.
    pub(super) fn covering(&self, id: SymbolId) -> u32 {
        let newest = self.windows.iter().rev().take(HELPERS_MAX);
        newest.filter(|(_, window)| window.contains(id)).count() as u32
    }

    /// How many windows restore one of `missing`, ascending: each the oldest it covers that none before it
    /// has taken.
    pub(super) fn restoring(&self, missing: impl Iterator<Item = SymbolId>) -> u32 {
        let mut missing = missing.peekable();
        let Some(&oldest) = missing.peek() else { return 0 };
        let mut helped = 0;
        // Both ascend.
        let first = self.windows.partition_point(|(_, window)| window.end() <= oldest);
        for (_, window) in self.windows.range(first..) {
            while missing.next_if(|id| *id < window.first).is_some() {}
            if missing.peek().is_none() {
                break;
            }
            helped += u32::from(missing.next_if(|id| window.contains(*id)).is_some());
        }
        helped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(windows: &[(u64, u32)]) -> Repairs {
        let mut repairs = Repairs::default();
        for &(first, len) in windows {
            repairs.push(RepairCover::Window(Window { first: SymbolId(first), len }));
        }
        repairs
    }

    #[test]
    fn each_is_taken_once_and_windows_help_while_they_are_under_way() {
        let mut repairs = with(&[(0, 4), (2, 4), (4, 4)]);
        assert_eq!([0, 3, 5, 8].map(|id| repairs.covering(SymbolId(id))), [1, 2, 2, 0]);
        assert!(repairs.take(1).is_some() && repairs.take(1).is_none() && repairs.take(7).is_none());
        assert_eq!(repairs.covering(SymbolId(3)), 1);
        assert!(repairs.take(0).is_some());
        let next = repairs.push(RepairCover::Window(Window { first: SymbolId(6), len: 2 }));
        assert_eq!((next, repairs.base), (3, 2));
    }

    #[test]
    fn a_window_restores_one_symbol_and_the_oldest_it_can() {
        let repairs = with(&[(0, 4), (0, 4), (4, 4), (20, 4)]);
        let restoring = |ids: &[u64]| repairs.restoring(ids.iter().copied().map(SymbolId));
        assert_eq!(restoring(&[]), 0);
        assert_eq!(restoring(&[1, 2, 3]), 2, "the third has no window of its own");
        assert_eq!(restoring(&[3, 5, 6, 21]), 3);
        assert_eq!(restoring(&[9, 10]), 0);
    }
}
