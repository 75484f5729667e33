//! What ACKs and losses teach.

use fulmar_fec::SymbolId;

use super::{DECODED_EARLY_MAX, DOUBTED_AT_ONCE_MAX, RepairCover, SlidingSender};
use crate::coding::content::Content;
use crate::coding::ledger::{SymbolLoss, TOLD_AT_ONCE_MAX};
use crate::coding::ring::SymbolState;
use crate::coding::sets::SetNumber;
use crate::coding::strategy::Reported;
use crate::wire::frame::{CodingState, OpenWindow};
use crate::{Instant, TransportError};

impl SlidingSender {
    /// A packet arrived; one declared lost was taken off already. True if it added a degree of freedom at the
    /// receiver.
    pub(super) fn apply_arrived(&mut self, now: Instant, content: Content, was_lost: bool) -> bool {
        if let Content::Source(id) | Content::Combined(id) = content {
            self.decoded_early.remove(&id);
        }
        match content {
            Content::Part(piece) => {
                let is_complete = self.ledger.parts.on_acked(piece);
                if is_complete {
                    self.deliver(piece.id);
                } else if !was_lost {
                    // Others are lacking, and copies of this one may be all that is under way.
                    let loss = self.ledger.lose(piece.id);
                    self.on_symbol_gone(now, piece.id, loss);
                }
                is_complete
            }
            Content::Source(id) | Content::Copy(id) => {
                let is_news =
                    self.ledger.ring.held(id).is_some_and(|held| held.state != SymbolState::Delivered);
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
        }
    }

    /// A packet was lost.
    pub(super) fn apply_lost(&mut self, now: Instant, content: Content) {
        if let Content::Repair(number) = content {
            if let Some(RepairCover::Set(set)) = self.take_repair(number) {
                self.sets.on_combination(set, false, false);
                self.uncover(now, set);
                self.settle(set);
            }
            return;
        }
        if let Content::Source(id) | Content::Combined(id) = content
            && let Some(sent_at) = self.decoded_early.remove(&id)
        {
            self.repaired_sent_at = self.repaired_sent_at.max(Some(sent_at));
            self.ledger.stats.lost += 1;
            self.ledger.stats.repaired += 1;
            self.repaired_early += 1;
        }
        if let Some((id, loss)) = self.ledger.on_symbol_lost(content) {
            self.on_symbol_gone(now, id, loss);
        }
    }

    /// A packet was lost. If it was a copy, nobody hears of that before a timeout.
    pub(super) fn apply_lost_unheard(&mut self, now: Instant, content: Content) {
        let Content::Copy(_) = content else { return self.apply_lost(now, content) };
        let Some((id, loss)) = self.ledger.on_symbol_lost(content) else { return };
        if let SymbolLoss::Again = loss {
            self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
            self.recovering.remove(&id);
            self.out_of_reach.remove(&id);
            self.missing.insert_unheard(id);
        } else {
            self.on_symbol_gone(now, id, loss);
        }
    }

    /// One packet less that carries `id` is under way.
    fn on_symbol_gone(&mut self, now: Instant, id: SymbolId, loss: SymbolLoss) {
        match loss {
            SymbolLoss::Again => {
                self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
                self.on_symbol_missing(now, id);
            }
            SymbolLoss::First => self.on_symbol_missing(now, id),
            SymbolLoss::None => {}
        }
    }

    /// No packet under way carries `id` any more.
    fn on_symbol_missing(&mut self, now: Instant, id: SymbolId) {
        self.recovering.remove(&id);
        self.out_of_reach.remove(&id);
        let Some(held) = self.ledger.ring.held_mut(id) else { return };
        if let Some(set) = held.set.and_then(|number| self.sets.set_mut(number))
            && set.has_room()
        {
            set.covered += 1;
            held.state = SymbolState::Covered;
            return;
        }
        self.missing.insert(id, now);
    }

    /// A combination that brought a new symbol arrived: one equation more. What it restores, the receiver
    /// will say.
    fn on_combined_arrived(&mut self, id: SymbolId) -> bool {
        let Some(held) = self.ledger.ring.held_mut(id) else { return false };
        if held.state.is_delivered() {
            return false;
        }
        if let SymbolState::Missing = held.state {
            self.missing.remove(id);
        }
        held.state = SymbolState::Inferred;
        true
    }

    /// The receiver has `id`.
    fn deliver(&mut self, id: SymbolId) {
        let Some(held) = self.ledger.ring.held_mut(id) else { return };
        let was = held.state;
        held.state = SymbolState::Delivered;
        self.ledger.parts.forget(id);
        let (was_lost, set) = (held.was_lost(), held.set.take());
        match was {
            SymbolState::InFlight(_) if was_lost => {
                self.copied_in_flight = self.copied_in_flight.saturating_sub(1)
            }
            SymbolState::Missing => {
                self.missing.remove(id);
            }
            _ => {}
        }
        self.recovering.remove(&id);
        self.out_of_reach.remove(&id);
        let oldest_covered = self.ledger.ring.next_id().0.saturating_sub(u64::from(self.window_max));
        if id.0 < oldest_covered {
            self.ledger.ring.release_bytes(id);
        }
        if let Some(number) = set {
            if let Some(set) = self.sets.set_mut(number) {
                set.undelivered -=
                    usize::from(!matches!(was, SymbolState::Inferred | SymbolState::Delivered));
                set.covered -= usize::from(was == SymbolState::Covered);
            }
            self.settle(number);
        }
        self.ledger.ring.pop_delivered();
    }

    /// If the set is decoded, its members are.
    fn settle(&mut self, number: SetNumber) {
        if !self.sets.set_mut(number).is_some_and(|set| set.is_decoded()) {
            return;
        }
        let Some(set) = self.sets.close(number) else { return };
        for id in set.members {
            let Some(held) = self.ledger.ring.held_mut(id) else { continue };
            if held.set != Some(number) || held.state.is_delivered() {
                continue;
            }
            match held.state {
                SymbolState::InFlight(_) if held.was_lost() => {
                    self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
                }
                SymbolState::Missing => {
                    self.missing.remove(id);
                }
                _ => {}
            }
            held.set = None;
            held.state = SymbolState::Inferred;
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
            if let Some(held) = self.ledger.ring.held_mut(*id)
                && held.state == SymbolState::Covered
            {
                held.state = SymbolState::Missing;
                self.missing.insert(*id, now);
                surplus -= 1;
            }
        }
    }

    pub(super) fn apply_report(&mut self, now: Instant, state: &CodingState) -> Result<u32, TransportError> {
        self.ledger.check_report(state.decoded_below)?;
        self.told_below = self.told_below.max(state.decoded_below);
        let repaired = self.deliver_told();
        self.doubt(now, state.decoded_below);
        if state.decoded_below >= self.peer.decoded_below {
            self.peer.clone_from(state);
            self.reported_deficit =
                state.windows.iter().map(|open| open.deficit).fold(0, u32::saturating_add);
            let end = state.windows.last().map_or(state.decoded_below, |open| open.window.end());
            self.missing.on_report(end);
            let held = |open: &OpenWindow| u64::from(open.window.len.saturating_sub(open.deficit));
            let rank = state.decoded_below.0.saturating_add(state.windows.iter().map(held).sum());
            // There is no more than was sent.
            let sent = self.ledger.ring.next_id().0;
            let reported = Reported { rank: rank.min(sent), seen: state.seen_below.0.min(sent) };
            self.reported = self.reported.max(reported);
        }
        Ok(repaired)
    }

    /// The receiver's own word says that `lowest` is not decoded, although the count of equations may have said so.
    ///
    /// A combination is dependent once in some 255 times. But if the symbol is one that the receiver no longer
    /// combines, the combination that it counted on arrived in vain, and so did those for others as old: each by
    /// itself would be found out a round trip after the one before.
    fn doubt(&mut self, now: Instant, lowest: SymbolId) {
        let ring = &mut self.ledger.ring;
        if ring.held(lowest).is_none_or(|held| held.state != SymbolState::Inferred) {
            return;
        }
        let reached_from = ring.next_id().0.saturating_sub(u64::from(self.reach_symbols));
        let end = reached_from.clamp(lowest.0 + 1, lowest.0 + DOUBTED_AT_ONCE_MAX);
        for id in (lowest.0..end).map(SymbolId) {
            if let Some(held) = ring.held_mut(id).filter(|held| held.state == SymbolState::Inferred) {
                held.state = SymbolState::Missing;
                self.missing.insert(id, now);
            }
        }
    }

    /// Books symbols below those that the receiver says it lacks, as many as go at once. Returns how many of
    /// them had been lost.
    pub(super) fn deliver_told(&mut self) -> u32 {
        let mut repaired = 0;
        for _ in 0..TOLD_AT_ONCE_MAX {
            let id = self.ledger.ring.base();
            if id >= self.told_below {
                break;
            }
            if let Some(held) = self.ledger.ring.held(id) {
                if held.was_lost() && held.state != SymbolState::Delivered {
                    repaired += 1;
                    self.repaired_sent_at = self.repaired_sent_at.max(Some(held.sent_at));
                }
                if !held.was_lost() && matches!(held.state, SymbolState::InFlight(_)) {
                    self.decoded_early.insert(id, held.sent_at);
                }
            }
            self.deliver(id);
            self.ledger.told += 1;
        }
        while self.decoded_early.len() > DECODED_EARLY_MAX {
            self.decoded_early.pop_first();
        }
        self.ledger.stats.repaired += u64::from(repaired);
        repaired
    }
}
