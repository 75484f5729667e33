//! Which symbols are decoded: one bit each from the first missing one on, so that 20,000 symbols in flight
//! cost 2.5 kB.

use alloc::collections::VecDeque;

use crate::{CodeError, Innovation, SymbolId, Window};

/// How far above the lowest undecoded symbol an id may lie. A peer that goes further is refused, so it can
/// make a decoder hold at most `REACH / 8` bytes of bookkeeping.
pub const REACH: u64 = 1 << 20;

/// A set of ids that starts full below `below` and grows.
#[derive(Debug, Default)]
pub struct Known {
    /// Every id below this one is in the set, and this one is not.
    below: u64,
    /// Bit i of word w stands for id `64 * (below / 64 + w) + i`. The last word is not zero.
    words: VecDeque<u64>,
}

impl Known {
    /// The lowest id that is not in the set.
    pub fn below(&self) -> u64 {
        self.below
    }

    /// Whether `id` is near enough to be entered.
    pub fn is_in_reach(&self, id: u64) -> bool {
        id.checked_sub(self.below).is_none_or(|ahead| ahead < REACH)
    }

    /// What a source symbol of `len` bytes is to a decoder of symbols of at most `symbol_bytes`: it is to be
    /// entered if it is innovative.
    pub fn judge(&self, id: u64, len: usize, symbol_bytes: usize) -> Result<Innovation, CodeError> {
        if len > symbol_bytes {
            Err(CodeError::TooLong)
        } else if self.contains(id) {
            Ok(Innovation::Redundant)
        } else if !self.is_in_reach(id) || id == u64::MAX {
            Ok(Innovation::OutOfReach)
        } else {
            Ok(Innovation::Innovative)
        }
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u64) -> bool {
        id < self.below || self.word(id / 64) >> (id % 64) & 1 != 0
    }

    /// Enters an id that is in reach. Amortised O(1).
    pub fn insert(&mut self, id: u64) {
        debug_assert!(self.is_in_reach(id));
        if id < self.below {
            return;
        }
        let index = (id / 64 - self.below / 64) as usize;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        self.words[index] |= 1 << (id % 64);
        if id == self.below {
            self.advance();
        }
    }

    /// How many ids of the window are missing.
    pub fn missing_in(&self, window: Window) -> u32 {
        let (first, end) = (window.first.0.max(self.below), window.end().0);
        if first >= end {
            return 0;
        }
        // Beyond the last word nothing is entered.
        let last = ((end - 1) / 64).min(self.below / 64 + self.words.len() as u64);
        let entered: u32 =
            (first / 64..=last).map(|w| (self.word(w) & mask(w, first, end)).count_ones()).sum();
        (end - first) as u32 - entered
    }

    /// Words of 64 ids that a query may have to read.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Bytes of memory held now.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    fn word(&self, word: u64) -> u64 {
        word.checked_sub(self.below / 64)
            .and_then(|index| self.words.get(index as usize))
            .copied()
            .unwrap_or(0)
    }

    fn advance(&mut self) {
        while let Some(word) = self.words.front() {
            let run = (!(word >> (self.below % 64))).trailing_zeros() as u64;
            let to_next_word = 64 - self.below % 64;
            self.below += run.min(to_next_word);
            if run < to_next_word {
                break;
            }
            self.words.pop_front();
        }
        if self.words.is_empty() && self.words.capacity() > 64 {
            self.words.shrink_to_fit();
        }
    }
}

/// The bits of a word that stand for ids in first..end.
fn mask(word: u64, first: u64, end: u64) -> u64 {
    let from = first.saturating_sub(word * 64).min(64);
    let to = (end - word * 64).min(64);
    ones(to) & !ones(from)
}

/// The lowest n <= 64 bits.
fn ones(n: u64) -> u64 {
    if n == 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Known {
    /// The lowest id from `from` on that is not in the set.
    pub fn next_missing(&self, from: SymbolId) -> SymbolId {
        let mut id = from.0.max(self.below);
        loop {
            let run = u64::from((!(self.word(id / 64) >> (id % 64))).trailing_zeros());
            let to_next_word = 64 - id % 64;
            id += run.min(to_next_word);
            if run < to_next_word {
                return SymbolId(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use crate::seed::SplitMix64;

    #[test]
    fn agrees_with_a_set_of_integers() {
        let mut random = SplitMix64::new(7);
        let (mut known, mut model) = (Known::default(), BTreeSet::new());
        for step in 0..20_000u64 {
            let id = known.below() + random.next_u64() % (1 + step % 300);
            known.insert(id);
            model.insert(id);
            assert!(known.contains(id));
            let window = Window { first: SymbolId(id.saturating_sub(40)), len: 1 + (step % 200) as u32 };
            let missing = (window.first.0..window.end().0).filter(|id| !model.contains(id)).count();
            assert_eq!(known.missing_in(window) as usize, missing);
            assert!(
                !model.contains(&known.below())
                    && (known.below() == 0 || model.contains(&(known.below() - 1)))
            );
            let next = known.next_missing(window.first);
            assert_eq!(Some(next.0), (window.first.0..).find(|id| !model.contains(id)));
        }
        assert!(known.below() > 1000, "the test must cross many words");
    }

    #[test]
    fn reach_is_bounded_and_ids_at_the_end_of_the_space_do_no_harm() {
        let known = Known::default();
        assert!(known.is_in_reach(REACH - 1) && !known.is_in_reach(REACH) && !known.is_in_reach(u64::MAX));
        assert!(!known.contains(u64::MAX));
    }
}
