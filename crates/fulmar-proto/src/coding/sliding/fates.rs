//! What became of each symbol, and the indices over that.
//!
//! A symbol is in one [`SymbolState`], which lies with it in the ring. [`Fates::transition`] alone changes
//! it, and with it every index that goes by it: the symbols missing, those copied that a combination is to
//! cover, those too old for one, how many were copied, and of each set how many members the receiver lacks.
//! So no count can drift.

use std::collections::BTreeSet;

use fulmar_fec::SymbolId;

use super::missing::Missing;
use crate::Instant;
use crate::coding::ring::{CopyCover, Ring, SymbolState};
use crate::coding::sets::{RecoverySet, RecoverySets, SetNumber};

/// Symbols copied since the last combination over such that are remembered.
pub(super) const AWAITED_MAX: usize = 64;
/// Of those too old for combinations the oldest so many are remembered.
const OUT_OF_REACH_MAX: usize = 4096;

/// The indices. Each holds the symbols in one state, and no other.
#[derive(Debug, Default)]
pub(super) struct Fates {
    missing: Missing,
    unheard: BTreeSet<SymbolId>,
    /// Copied, and waiting for a combination.
    awaited: BTreeSet<SymbolId>,
    out_of_reach: BTreeSet<SymbolId>,
    /// All that are copied.
    copied: u32,
    sets: RecoverySets,
}

impl Fates {
    /// Symbols that are known to be missing.
    pub(super) fn missing(&self) -> &Missing {
        &self.missing
    }

    /// The receiver's report tells of symbols below `end`.
    pub(super) fn on_report(&mut self, end: SymbolId) {
        self.missing.on_report(end);
    }

    /// Since when the oldest of those that are missing is.
    pub(super) fn missing_since(&self, ring: &Ring) -> Option<Instant> {
        match ring.held(self.missing.oldest()?)?.state() {
            SymbolState::Missing(since) => Some(since),
            _ => None,
        }
    }

    /// Something is missing of which nobody has heard.
    pub(super) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// Symbols of which a copy is under way, the first packet having been lost.
    pub(super) fn copied(&self) -> u32 {
        self.copied
    }

    /// Those of them that the next combination is to cover, ascending.
    pub(super) fn awaited(&self) -> impl ExactSizeIterator<Item = SymbolId> + '_ {
        self.awaited.iter().copied()
    }

    /// How many are too old for that.
    pub(super) fn out_of_reach(&self) -> usize {
        self.out_of_reach.len()
    }

    /// The newest set of those that a combination covers, unless it is done with.
    pub(super) fn newest_set(&self) -> Option<&RecoverySet> {
        self.sets.newest()
    }

    /// The same and its number, for another combination.
    pub(super) fn newest_set_mut(&mut self) -> Option<(SetNumber, &mut RecoverySet)> {
        self.sets.newest_mut()
    }

    /// Symbol `id` is in the state `to` from now on. Returns the set that it is in no more, because the
    /// receiver has it: that may have decoded the set, see [`Self::settle`].
    pub(super) fn transition(&mut self, ring: &mut Ring, id: SymbolId, to: SymbolState) -> Option<SetNumber> {
        let from = ring.set_state(id, to)?;
        match from {
            SymbolState::Copied(_, cover) => {
                self.copied -= 1;
                self.under(cover).map(|index| index.remove(&id));
            }
            SymbolState::Missing(_) => self.missing.remove(id),
            SymbolState::Unheard => drop(self.unheard.remove(&id)),
            _ => {}
        }
        match to {
            SymbolState::Copied(_, cover) => {
                self.copied += 1;
                self.under(cover).map(|index| index.insert(id));
            }
            SymbolState::Missing(_) => self.missing.insert(id),
            SymbolState::Unheard => drop(self.unheard.insert(id)),
            _ => {}
        }
        let held = ring.held_mut(id)?;
        if let Some(set) = self.sets.set_mut(held.set?) {
            set.undelivered += usize::from(from.is_delivered());
            set.undelivered -= usize::from(to.is_delivered());
            set.covered += usize::from(to == SymbolState::Covered);
            set.covered -= usize::from(from == SymbolState::Covered);
        }
        if to.is_delivered() { held.set.take() } else { None }
    }

    fn under(&mut self, cover: CopyCover) -> Option<&mut BTreeSet<SymbolId>> {
        match cover {
            CopyCover::Settled => None,
            CopyCover::Awaited => Some(&mut self.awaited),
            CopyCover::OutOfReach => Some(&mut self.out_of_reach),
        }
    }

    /// No packet under way carries `id` any more.
    pub(super) fn on_gone(&mut self, ring: &mut Ring, id: SymbolId, now: Instant) {
        let number = ring.held(id).and_then(|held| held.set);
        let set = number.and_then(|number| self.sets.set_mut(number));
        let is_covered = set.is_some_and(|set| set.has_room());
        let to = if is_covered { SymbolState::Covered } else { SymbolState::Missing(now) };
        self.transition(ring, id, to);
    }

    /// A timeout: what is missing is known from now on.
    pub(super) fn hear(&mut self, ring: &mut Ring, now: Instant) {
        while let Some(id) = self.unheard.first().copied() {
            self.transition(ring, id, SymbolState::Missing(now));
            // It is held as long as it is not delivered; if it were not, it would stay for ever.
            self.unheard.remove(&id);
        }
    }

    /// A copy of `id` left. True if no packet with it was under way, as far as was known. `has_combinations`:
    /// one may cover it, if it is not older than `reach_floor`.
    pub(super) fn on_copied(
        &mut self,
        ring: &mut Ring,
        id: SymbolId,
        has_combinations: bool,
        reach_floor: u64,
    ) -> bool {
        let Some(held) = ring.held(id) else { return false };
        let is_awaited = has_combinations && held.set.is_none();
        let is_first = held.was_lost() && held.state().in_flight().is_none();
        let to = held.sent_again(if is_awaited { CopyCover::Awaited } else { CopyCover::Settled });
        self.transition(ring, id, to);
        if is_first && is_awaited {
            if self.awaited.len() > AWAITED_MAX {
                self.recover_first(ring, CopyCover::Awaited, CopyCover::Settled);
            }
            self.let_go_out_of_reach(ring, reach_floor);
        }
        is_first
    }

    /// The receiver retains the newest symbols only: what is older can be copied, not combined.
    pub(super) fn let_go_out_of_reach(&mut self, ring: &mut Ring, reach_floor: u64) {
        while self.awaited.first().is_some_and(|id| id.0 < reach_floor) {
            self.recover_first(ring, CopyCover::Awaited, CopyCover::OutOfReach);
        }
        while self.out_of_reach.len() > OUT_OF_REACH_MAX {
            let Some(id) = self.out_of_reach.last().copied() else { break };
            self.cover(ring, id, CopyCover::Settled);
        }
    }

    /// The oldest of those too old for a combination is about to have another copy.
    pub(super) fn take_out_of_reach(&mut self, ring: &mut Ring) -> Option<SymbolId> {
        self.recover_first(ring, CopyCover::OutOfReach, CopyCover::Settled)
    }

    /// No combination can cover those that waited for one.
    pub(super) fn give_up_awaited(&mut self, ring: &mut Ring) {
        while self.recover_first(ring, CopyCover::Awaited, CopyCover::Settled).is_some() {}
    }

    /// The oldest of those under one cover has another.
    fn recover_first(&mut self, ring: &mut Ring, from: CopyCover, to: CopyCover) -> Option<SymbolId> {
        let id = self.under(from)?.first().copied()?;
        self.cover(ring, id, to);
        Some(id)
    }

    fn cover(&mut self, ring: &mut Ring, id: SymbolId, cover: CopyCover) {
        if let Some(SymbolState::Copied(packets, _)) = ring.held(id).map(|held| held.state()) {
            self.transition(ring, id, SymbolState::Copied(packets, cover));
        }
    }

    /// A combination over `members` leaves, which waited for it.
    pub(super) fn open_set(&mut self, ring: &mut Ring, members: &[SymbolId]) -> SetNumber {
        let number = self.sets.open(members.to_vec());
        for &id in members {
            self.cover(ring, id, CopyCover::Settled);
            if let Some(held) = ring.held_mut(id) {
                held.set = Some(number);
            }
        }
        number
    }

    /// A combination over the set arrived.
    pub(super) fn on_combination_arrived(&mut self, ring: &mut Ring, number: SetNumber) {
        self.sets.on_combination(number, true, false);
        self.settle(ring, number);
    }

    /// A combination over the set was lost: members that counted on it are missing after all, the newest
    /// first.
    pub(super) fn on_combination_lost(&mut self, ring: &mut Ring, number: SetNumber, now: Instant) {
        self.sets.on_combination(number, false, false);
        let mut left = self.sets.set_mut(number).map_or(0, |set| set.members.len());
        while let Some(set) = self.sets.set_mut(number).filter(|set| left > 0 && set.overdrawn() > 0) {
            left -= 1;
            let id = set.members[left];
            if ring.held(id).is_some_and(|held| held.state() == SymbolState::Covered) {
                self.transition(ring, id, SymbolState::Missing(now));
            }
        }
        self.settle(ring, number);
    }

    /// If the set is decoded, its members are.
    pub(super) fn settle(&mut self, ring: &mut Ring, number: SetNumber) {
        if !self.sets.set_mut(number).is_some_and(|set| set.is_decoded()) {
            return;
        }
        let Some(set) = self.sets.close(number) else { return };
        for id in set.members {
            if ring.held(id).is_some_and(|held| held.set == Some(number)) {
                self.transition(ring, id, SymbolState::Inferred);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::coding::tests::Made;

    impl Fates {
        /// Panics unless every index holds what a look at each symbol finds.
        pub(in crate::coding::sliding) fn audit(&mut self, ring: &Ring) {
            let all = (ring.base().0..ring.next_id().0).map(SymbolId);
            let states: Vec<_> = all.map(|id| (id, ring.held(id).expect("it is held"))).collect();
            let those = |is: &dyn Fn(SymbolState) -> bool| -> Vec<SymbolId> {
                states.iter().filter(|(_, held)| is(held.state())).map(|(id, _)| *id).collect()
            };
            let under =
                |wanted| those(&|state| matches!(state, SymbolState::Copied(_, cover) if cover == wanted));
            assert_eq!(
                self.missing.ids().collect::<Vec<_>>(),
                those(&|state| matches!(state, SymbolState::Missing(_)))
            );
            assert_eq!(
                self.unheard.iter().copied().collect::<Vec<_>>(),
                those(&|state| state == SymbolState::Unheard)
            );
            assert_eq!(self.awaited().collect::<Vec<_>>(), under(CopyCover::Awaited));
            assert_eq!(self.out_of_reach.iter().copied().collect::<Vec<_>>(), under(CopyCover::OutOfReach));
            let copied = those(&|state| matches!(state, SymbolState::Copied(..)));
            assert_eq!(self.copied as usize, copied.len());
            for number in states.iter().filter_map(|(_, held)| held.set) {
                let members = || states.iter().filter(|(_, held)| held.set == Some(number));
                let covered = members().filter(|(_, held)| held.state() == SymbolState::Covered).count();
                let set = self.sets.set_mut(number).expect("it is open");
                assert_eq!((set.undelivered, set.covered), (members().count(), covered), "{set:?}");
            }
        }
    }

    const SYMBOLS: u64 = 200;

    fn ring() -> Ring {
        let (mut ring, mut source) = (Ring::default(), Made(|symbol: &mut Vec<u8>, _| symbol.resize(9, 1)));
        for _ in 0..SYMBOLS {
            let id = ring.take_in(Instant::ZERO, 9, &mut source).expect("new data");
            ring.set_state(id, SymbolState::InFlight(1));
        }
        ring
    }

    /// Anything may become anything: the indices are what a naive count of the states is, after each step.
    #[test]
    fn whatever_becomes_of_symbols_every_index_is_what_a_count_finds() {
        for seed in 0..8 {
            let (mut fates, mut ring) = (Fates::default(), ring());
            let mut rng = Pcg64Mcg::seed_from_u64(seed);
            let mut sets = Vec::new();
            for step in 0..2000_u64 {
                let mut draw = |below: u64| rng.next_u64() % below;
                let (id, now) = (SymbolId(draw(SYMBOLS)), Instant::from_nanos(step));
                let packets = 1 + draw(3) as u16;
                let is_in_set = ring.held(id).is_some_and(|held| held.set.is_some());
                let left = match draw(16) {
                    0 | 1 if is_in_set => None,
                    0 | 1 => {
                        fates.transition(&mut ring, id, SymbolState::Copied(packets, CopyCover::Awaited))
                    }
                    2 => fates.transition(&mut ring, id, SymbolState::Copied(packets, CopyCover::OutOfReach)),
                    3 => fates.transition(&mut ring, id, SymbolState::InFlight(packets)),
                    4 => fates.transition(&mut ring, id, SymbolState::Missing(now)),
                    5 => fates.transition(&mut ring, id, SymbolState::Unheard),
                    6 => fates.transition(&mut ring, id, SymbolState::Inferred),
                    7 => fates.transition(&mut ring, id, SymbolState::Delivered),
                    8..=10 => {
                        fates.on_gone(&mut ring, id, now);
                        None
                    }
                    11 => {
                        fates.on_copied(&mut ring, id, true, draw(60));
                        None
                    }
                    12 => {
                        let members: Vec<_> = fates.awaited().take(packets.into()).collect();
                        sets.extend((!members.is_empty()).then(|| fates.open_set(&mut ring, &members)));
                        None
                    }
                    13 => {
                        sets.pop().into_iter().for_each(|set| fates.on_combination_arrived(&mut ring, set));
                        None
                    }
                    14 => {
                        sets.pop().into_iter().for_each(|set| fates.on_combination_lost(&mut ring, set, now));
                        None
                    }
                    _ => {
                        fates.take_out_of_reach(&mut ring);
                        fates.hear(&mut ring, now);
                        None
                    }
                };
                left.into_iter().for_each(|set| fates.settle(&mut ring, set));
                fates.audit(&ring);
            }
        }
    }

    #[test]
    fn a_lost_member_counts_on_a_combination_as_long_as_there_is_one() {
        let (mut fates, mut ring) = (Fates::default(), ring());
        let members = [SymbolId(3), SymbolId(5)];
        for id in members {
            fates.transition(&mut ring, id, SymbolState::Copied(1, CopyCover::Awaited));
        }
        let set = fates.open_set(&mut ring, &members);
        assert_eq!(fates.awaited().len(), 0);
        members.into_iter().for_each(|id| fates.on_gone(&mut ring, id, Instant::ZERO));
        let states = |ring: &Ring| members.map(|id| ring.held(id).expect("it is held").state());
        assert_eq!(states(&ring), [SymbolState::Covered, SymbolState::Missing(Instant::ZERO)]);
        // A probe carries the first: the combination is there for the other.
        fates.on_copied(&mut ring, members[0], true, 0);
        fates.on_gone(&mut ring, members[0], Instant::ZERO);
        assert_eq!(states(&ring)[0], SymbolState::Covered);
        let later = Instant::from_nanos(7);
        fates.on_combination_lost(&mut ring, set, later);
        assert_eq!(states(&ring)[0], SymbolState::Missing(later));
        fates.audit(&ring);
    }
}
