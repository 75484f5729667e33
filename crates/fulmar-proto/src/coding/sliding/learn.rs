//! What ACKs and losses teach.

use fulmar_fec::SymbolId;
use fulmar_units::Instant;

use super::{RepairCover, SlidingSender};
use crate::TransportError;
use crate::coding::ring::SymbolState;
use crate::coding::sets::SetNumber;
use crate::recovery::Content;
use crate::wire::frame::CodingState;

impl SlidingSender {
    /// A packet arrived. True if it added a degree of freedom at the receiver.
    pub(super) fn on_arrived(&mut self, content: Content) -> bool {
        match content {
            Content::Part(piece) => {
                let is_complete = self.parts.on_acked(piece);
                if is_complete {
                    self.deliver(piece.id);
                }
                is_complete
            }
            Content::Source(id) | Content::Copy(id) => {
                let is_news = self.ring.slot(id).is_some_and(|slot| slot.state != SymbolState::Delivered);
                self.deliver(id);
                is_news
            }
            Content::Combined(id) => self.on_combined_arrived(id),
            Content::Repair(number) => match self.take_repair(number) {
                Some(RepairCover::Set(set)) => {
                    self.sets.on_combination(set, true, false);
                    self.settle(set);
                    true
                }
                Some(RepairCover::Window(window)) => window.end() > self.peer.decoded_below,
                None => false,
            },
            Content::Control | Content::MtuProbe => false,
        }
    }

    /// A packet was lost.
    pub(super) fn on_packet_lost(&mut self, now: Instant, content: Content) {
        match content {
            Content::Source(id) | Content::Copy(id) | Content::Combined(id) => {
                self.on_symbol_lost(now, id);
            }
            Content::Part(piece) => {
                self.parts.on_lost(piece);
                self.on_symbol_lost(now, piece.id);
            }
            Content::Repair(number) => {
                if let Some(RepairCover::Set(set)) = self.take_repair(number) {
                    self.sets.on_combination(set, false, false);
                    self.uncover(now, set);
                    self.settle(set);
                }
            }
            Content::Control | Content::MtuProbe => {}
        }
    }

    fn on_symbol_lost(&mut self, now: Instant, id: SymbolId) {
        let Some(slot) = self.ring.slot_mut(id) else { return };
        let SymbolState::InFlight(count) = slot.state else { return };
        if count > 1 {
            slot.state = SymbolState::InFlight(count - 1);
            return;
        }
        if slot.was_lost {
            self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
        } else {
            self.stats.lost += 1;
        }
        slot.was_lost = true;
        self.recovering.remove(&id);
        if let Some(set) = slot.set.and_then(|number| self.sets.set_mut(number))
            && set.has_room()
        {
            set.covered += 1;
            slot.state = SymbolState::Covered;
            return;
        }
        slot.state = SymbolState::Missing;
        self.missing.insert(id, now);
    }

    /// A combination that brought a new symbol arrived: one equation more. What it restores, the receiver will say.
    fn on_combined_arrived(&mut self, id: SymbolId) -> bool {
        let Some(slot) = self.ring.slot_mut(id) else { return false };
        if slot.state.is_delivered() {
            return false;
        }
        if let SymbolState::Missing = slot.state {
            self.missing.remove(&id);
        }
        slot.state = SymbolState::Inferred;
        true
    }

    /// The receiver has `id`.
    fn deliver(&mut self, id: SymbolId) {
        let Some(slot) = self.ring.slot_mut(id) else { return };
        let was = slot.state;
        slot.state = SymbolState::Delivered;
        self.parts.forget(id);
        let (was_lost, set) = (slot.was_lost, slot.set.take());
        match was {
            SymbolState::InFlight(_) if was_lost => {
                self.copied_in_flight = self.copied_in_flight.saturating_sub(1)
            }
            SymbolState::Missing => {
                self.missing.remove(&id);
            }
            _ => {}
        }
        self.recovering.remove(&id);
        let oldest_covered = self.ring.next_id().0.saturating_sub(u64::from(self.window_max));
        if id.0 < oldest_covered {
            self.ring.release_bytes(id);
        }
        if let Some(number) = set {
            if let Some(set) = self.sets.set_mut(number) {
                set.undelivered -=
                    usize::from(!matches!(was, SymbolState::Inferred | SymbolState::Delivered));
                set.covered -= usize::from(was == SymbolState::Covered);
            }
            self.settle(number);
        }
        self.ring.pop_delivered();
    }

    /// If the set is decoded, its members are.
    fn settle(&mut self, number: SetNumber) {
        if !self.sets.set_mut(number).is_some_and(|set| set.is_decoded()) {
            return;
        }
        let Some(set) = self.sets.close(number) else { return };
        for id in set.members {
            let Some(slot) = self.ring.slot_mut(id) else { continue };
            if slot.set != Some(number) || slot.state.is_delivered() {
                continue;
            }
            match slot.state {
                SymbolState::InFlight(_) if slot.was_lost => {
                    self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
                }
                SymbolState::Missing => {
                    self.missing.remove(&id);
                }
                _ => {}
            }
            slot.set = None;
            slot.state = SymbolState::Inferred;
        }
    }

    /// A combination of the set was lost: members that counted on it are missing after all.
    fn uncover(&mut self, now: Instant, number: SetNumber) {
        let Some(set) = self.sets.set_mut(number) else { return };
        let mut surplus = set.overdrawn();
        set.covered -= surplus;
        for id in set.members.iter().rev() {
            if surplus == 0 {
                break;
            }
            if let Some(slot) = self.ring.slot_mut(*id)
                && slot.state == SymbolState::Covered
            {
                slot.state = SymbolState::Missing;
                self.missing.insert(*id, now);
                surplus -= 1;
            }
        }
    }

    /// The receiver reported its state, in the newest ACK so far. Returns the symbols that were lost and are now known
    /// to be repaired.
    pub(super) fn on_report(&mut self, now: Instant, state: CodingState) -> Result<u32, TransportError> {
        if state.decoded_below > self.ring.next_id() {
            return Err(TransportError::coding("ACK reports symbols decoded that were never sent"));
        }
        let mut repaired = 0;
        while self.ring.base() < state.decoded_below {
            let id = self.ring.base();
            let is_repair =
                self.ring.slot(id).is_some_and(|s| s.was_lost && s.state != SymbolState::Delivered);
            repaired += u32::from(is_repair);
            self.deliver(id);
        }
        self.stats.repaired += u64::from(repaired);
        // A combination is dependent once in some 255 times. The receiver's own word then says that its lowest symbol
        // is not decoded although the count of equations said so.
        let lowest = state.decoded_below;
        if let Some(slot) = self.ring.slot_mut(lowest)
            && slot.state == SymbolState::Inferred
        {
            slot.state = SymbolState::Missing;
            self.missing.insert(lowest, now);
        }
        if state.decoded_below >= self.peer.decoded_below {
            self.peer = state;
        }
        Ok(repaired)
    }
}
