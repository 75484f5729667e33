//! Sets of missing symbols that a combination covers: the sender's count of the receiver's rank.
//!
//! Of a set of m symbols each was copied, and one or more combinations over exactly the set were added.
//! Whatever m of these packets arrive restore the set. So the sender can tell from acknowledged packet
//! numbers alone whether a lost copy must be sent again, and when the set is decoded.

use std::collections::VecDeque;

use fulmar_fec::SymbolId;

/// Number of a set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct SetNumber(u64);

#[derive(Debug)]
pub(super) struct RecoverySet {
    pub(super) members: Vec<SymbolId>,
    /// Members the receiver does not have yet.
    pub(super) undelivered: usize,
    /// Combinations sent.
    pub(super) combinations: u32,
    /// Those that arrived.
    arrived: usize,
    /// Those under way.
    in_flight: usize,
    /// Members in state `Covered`: lost, and counting on a combination.
    pub(super) covered: usize,
}

impl RecoverySet {
    /// Every member is known, or follows from the combinations that arrived.
    pub(super) fn is_decoded(&self) -> bool {
        self.arrived >= self.undelivered
    }

    /// Another combination is about to leave.
    pub(super) fn extend(&mut self) {
        self.combinations += 1;
        self.in_flight += 1;
    }

    /// Whether one more lost member can count on a combination.
    pub(super) fn has_room(&self) -> bool {
        self.covered < self.arrived + self.in_flight
    }

    /// Lost members that count on a combination and no longer can.
    pub(super) fn overdrawn(&self) -> usize {
        self.covered.saturating_sub(self.arrived + self.in_flight)
    }
}

/// The sets that are not done with.
#[derive(Debug, Default)]
pub(super) struct RecoverySets {
    sets: VecDeque<Option<RecoverySet>>,
    base: u64,
}

impl RecoverySets {
    /// A new set, with one combination about to leave.
    pub(super) fn open(&mut self, members: Vec<SymbolId>) -> SetNumber {
        let undelivered = members.len();
        self.sets.push_back(Some(RecoverySet {
            members,
            undelivered,
            combinations: 1,
            arrived: 0,
            in_flight: 1,
            covered: 0,
        }));
        SetNumber(self.base + self.sets.len() as u64 - 1)
    }

    /// The newest set, unless it is done with.
    pub(super) fn newest(&self) -> Option<&RecoverySet> {
        self.sets.back()?.as_ref()
    }

    /// The same and its number, for another combination.
    pub(super) fn newest_mut(&mut self) -> Option<(SetNumber, &mut RecoverySet)> {
        let number = self.base + (self.sets.len() as u64).checked_sub(1)?;
        Some((SetNumber(number), self.sets.back_mut()?.as_mut()?))
    }

    pub(super) fn set_mut(&mut self, number: SetNumber) -> Option<&mut RecoverySet> {
        let at = usize::try_from(number.0.checked_sub(self.base)?).ok()?;
        self.sets.get_mut(at)?.as_mut()
    }

    /// A combination of the set arrived, or was lost.
    pub(super) fn on_combination(&mut self, number: SetNumber, has_arrived: bool, was_lost: bool) {
        let Some(set) = self.set_mut(number) else { return };
        set.in_flight -= usize::from(!was_lost && set.in_flight > 0);
        set.arrived += usize::from(has_arrived);
    }

    /// The set is done with.
    pub(super) fn close(&mut self, number: SetNumber) -> Option<RecoverySet> {
        let at = usize::try_from(number.0.checked_sub(self.base)?).ok()?;
        let closed = self.sets.get_mut(at)?.take();
        while let Some(None) = self.sets.front() {
            self.sets.pop_front();
            self.base += 1;
        }
        closed
    }
}
