//! What ACKs and losses teach.

use fulmar_fec::SymbolId;

use super::SlidingSender;
use super::repairs::RepairCover;
use crate::coding::content::Content;
use crate::coding::ledger::{SymbolLoss, TOLD_AT_ONCE_MAX};
use crate::coding::ring::{Ring, SymbolState};
use crate::wire::frame::CodingState;
use crate::{Instant, TransportError};

/// Symbols of which one feedback can find that nothing restored them.
const DOUBTED_AT_ONCE_MAX: u64 = 1024;

impl SlidingSender {
    /// A packet arrived; one declared lost was taken off already. True if it added a degree of freedom at the
    /// receiver.
    pub(super) fn apply_arrived(&mut self, now: Instant, content: Content, was_lost: bool) -> bool {
        if let Content::Source(id) | Content::Combined(id) = content {
            self.restored.on_arrived(id);
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
                let held = self.ledger.ring.held(id);
                let is_news = held.is_some_and(|held| held.state() != SymbolState::Delivered);
                self.deliver(id);
                is_news
            }
            Content::Combined(id) => self.on_combined_arrived(id),
            Content::Repair(number) => match self.repairs.take(number) {
                Some(RepairCover::Set(set)) => {
                    self.fates.on_combination_arrived(&mut self.ledger.ring, set);
                    true
                }
                Some(RepairCover::Window(window)) => window.end() > self.report.decoded_below(),
                None => false,
            },
        }
    }

    /// A packet was lost.
    pub(super) fn apply_lost(&mut self, now: Instant, content: Content) {
        if let Content::Repair(number) = content {
            if let Some(RepairCover::Set(set)) = self.repairs.take(number) {
                self.fates.on_combination_lost(&mut self.ledger.ring, set, now);
            }
            return;
        }
        if let Content::Source(id) | Content::Combined(id) = content
            && self.restored.on_lost(id)
        {
            self.ledger.stats.lost += 1;
            self.ledger.stats.repaired += 1;
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
            self.fates.transition(&mut self.ledger.ring, id, SymbolState::Unheard);
        } else {
            self.on_symbol_gone(now, id, loss);
        }
    }

    /// One packet less that carries `id` is under way.
    fn on_symbol_gone(&mut self, now: Instant, id: SymbolId, loss: SymbolLoss) {
        match loss {
            SymbolLoss::First | SymbolLoss::Again => self.fates.on_gone(&mut self.ledger.ring, id, now),
            SymbolLoss::None => {}
        }
    }

    /// A combination that brought a new symbol arrived: one equation more. What it restores, the receiver
    /// will say.
    fn on_combined_arrived(&mut self, id: SymbolId) -> bool {
        let ring = &mut self.ledger.ring;
        let is_news = ring.held(id).is_some_and(|held| !held.state().is_delivered());
        if is_news && let Some(set) = self.fates.transition(ring, id, SymbolState::Inferred) {
            self.fates.settle(ring, set);
        }
        is_news
    }

    /// The receiver has `id`.
    fn deliver(&mut self, id: SymbolId) {
        let ring = &mut self.ledger.ring;
        if ring.held(id).is_none() {
            return;
        }
        let set = self.fates.transition(ring, id, SymbolState::Delivered);
        self.ledger.parts.forget(id);
        let oldest_covered = ring.next_id().0.saturating_sub(u64::from(self.window_max));
        if id.0 < oldest_covered {
            ring.release_bytes(id);
        }
        if let Some(set) = set {
            self.fates.settle(ring, set);
        }
        ring.pop_delivered();
    }

    pub(super) fn apply_report(&mut self, now: Instant, state: &CodingState) -> Result<u32, TransportError> {
        self.ledger.check_report(state.decoded_below)?;
        self.report.tell_below(state.decoded_below);
        let repaired = self.deliver_told();
        self.doubt(now, state.decoded_below);
        if let Some(end) = self.report.hear(state, self.ledger.ring.next_id().0) {
            self.fates.on_report(end);
        }
        Ok(repaired)
    }

    /// The receiver's own word says that `lowest` is not decoded, although the count of equations may have
    /// said so.
    ///
    /// A combination is dependent once in some 255 times. But if the symbol is one that the receiver no
    /// longer combines, the combination that it counted on arrived in vain, and so did those for others as
    /// old: each by itself would be found out a round trip after the one before.
    fn doubt(&mut self, now: Instant, lowest: SymbolId) {
        let ring = &mut self.ledger.ring;
        let is_inferred =
            |ring: &Ring, id| ring.held(id).is_some_and(|held| held.state() == SymbolState::Inferred);
        if !is_inferred(ring, lowest) {
            return;
        }
        let reached_from = ring.next_id().0.saturating_sub(u64::from(self.reach_symbols));
        let end = reached_from.clamp(lowest.0 + 1, lowest.0 + DOUBTED_AT_ONCE_MAX);
        for id in (lowest.0..end).map(SymbolId) {
            if is_inferred(ring, id) {
                self.fates.transition(ring, id, SymbolState::Missing(now));
            }
        }
    }

    /// Books symbols below those that the receiver says it lacks, as many as go at once. Returns how many of
    /// them had been lost.
    pub(super) fn deliver_told(&mut self) -> u32 {
        let mut repaired = 0;
        for _ in 0..TOLD_AT_ONCE_MAX {
            let id = self.ledger.ring.base();
            if id >= self.report.told_below() {
                break;
            }
            if let Some(held) = self.ledger.ring.held(id) {
                repaired += u32::from(self.restored.on_told(id, held));
            }
            self.deliver(id);
            self.ledger.told += 1;
        }
        self.ledger.stats.repaired += u64::from(repaired);
        repaired
    }
}
