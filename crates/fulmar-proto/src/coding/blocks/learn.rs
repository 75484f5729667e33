//! What ACKs and losses teach.

use fulmar_fec::SymbolId;

use super::BlockSender;
use crate::coding::content::Content;
use crate::coding::ledger::{SymbolLoss, TOLD_AT_ONCE_MAX};
use crate::coding::ring::{Held, SymbolState};
use crate::wire::frame::{CodingState, OPEN_WINDOWS_MAX};
use crate::{Instant, TransportError};

impl BlockSender {
    pub(super) fn apply_arrived(&mut self, content: Content, was_lost: bool) -> bool {
        match content {
            Content::Source(id) | Content::Copy(id) | Content::Combined(id) => {
                self.left(self.number_of(id), was_lost);
                self.on_symbol_arrived(id)
            }
            Content::Part(piece) => {
                self.left(self.number_of(piece.id), was_lost);
                self.ledger.parts.on_acked(piece) && self.on_symbol_arrived(piece.id)
            }
            Content::Repair(number) => {
                self.left(Some(number), was_lost);
                self.on_coded_arrived(number)
            }
        }
    }

    /// A packet of the block is no longer under way. One declared lost was taken off already (LT-TCP, Hourt
    /// 2014, section 3.5: a late ACK counts for the block and not for flight).
    fn left(&mut self, number: Option<u64>, was_lost: bool) {
        let Some(number) = number.filter(|_| !was_lost) else { return };
        if let Some(block) = self.block_mut(number) {
            block.in_flight = block.in_flight.saturating_sub(1);
            self.recount(number);
        }
    }

    fn on_symbol_arrived(&mut self, id: SymbolId) -> bool {
        let Some(number) = self.number_of(id) else { return false };
        if self.ledger.ring.held(id).is_none_or(|held| held.state().is_delivered()) {
            return false;
        }
        self.ledger.ring.set_state(id, SymbolState::Inferred);
        self.ledger.parts.forget(id);
        let Some(block) = self.block_mut(number) else { return false };
        let is_news = !block.is_decoded;
        block.arrived += 1;
        block.sources_arrived += 1;
        self.recount(number);
        is_news
    }

    fn on_coded_arrived(&mut self, number: u64) -> bool {
        let Some(block) = self.block_mut(number) else { return false };
        let is_news = !block.is_decoded && block.arrived < block.needed;
        block.arrived += 1;
        block.coded_arrived += 1;
        self.recount(number);
        is_news
    }

    pub(super) fn apply_lost(&mut self, now: Instant, content: Content) {
        let number = match (content, self.ledger.on_symbol_lost(content)) {
            (Content::Repair(number), _) => Some(number),
            (_, Some((id, loss))) => {
                if loss != SymbolLoss::None {
                    self.ledger.ring.set_state(id, SymbolState::Missing(now));
                }
                self.number_of(id)
            }
            _ => None,
        };
        let Some(number) = number else { return };
        let is_newest = self.newest() == Some(number);
        let Some(block) = self.block_mut(number) else { return };
        let before = block.lacks;
        block.in_flight = block.in_flight.saturating_sub(1);
        self.recount(number);
        let Some(block) = self.block(number) else { return };
        let is_stuck = block.is_stuck();
        // Of the newest block the first repair symbols may be yet to come.
        let grown = if is_newest { 0 } else { block.lacks.saturating_sub(before) };
        self.unrepairable += grown;
        self.ledger.stats.unrepaired += u64::from(grown);
        if is_stuck {
            // The report of what arrived before says how many more.
            self.ask_more(number, 1);
        }
    }

    /// The receiver's report: what is decoded, and which of the blocks it knows of are not.
    pub(super) fn apply_report(&mut self, state: &CodingState) -> Result<u32, TransportError> {
        self.ledger.check_report(state.decoded_below)?;
        self.told_below = self.told_below.max(state.decoded_below);
        let mut left = TOLD_AT_ONCE_MAX;
        let mut repaired = self.deliver_told(&mut left);
        // Those that are left have another report to wait for.
        let mut next = self.base;
        while left > 0
            && let Some(&number) = self.awaited.range(next..).next()
        {
            next = number + 1;
            let Some(block) = self.block(number) else { continue };
            left = left.saturating_sub(block.window.len as usize);
            match deficit_of(block.window.first, block.window.end(), state) {
                Some(deficit) => self.on_undecoded(number, deficit),
                None if block.is_surely_decoded(state) => repaired += self.on_decoded(number),
                None => self.on_undecoded(number, 1),
            }
        }
        self.retire();
        Ok(repaired)
    }

    /// Books blocks below the first symbol that the receiver says it lacks, until that are `left` symbols,
    /// which are counted off. Returns how many of them had been lost.
    pub(super) fn deliver_told(&mut self, left: &mut usize) -> u32 {
        let mut repaired = 0;
        let mut number = self.base;
        while *left > 0
            && let Some(block) = self.block(number).filter(|block| block.window.end() <= self.told_below)
        {
            *left = left.saturating_sub(block.window.len as usize);
            repaired += self.on_decoded(number);
            number += 1;
        }
        repaired
    }

    /// The receiver cannot decode it with what arrived.
    fn on_undecoded(&mut self, number: u64, deficit: u32) {
        let Some(block) = self.block_mut(number) else { return };
        if block.is_hopeless() {
            // More of the same does not help: the receiver has forgotten symbols that it would need beside
            // them.
            block.failures += 1;
        }
        if block.is_stuck() {
            block.failures += 1;
            // No true report lacks more than a whole block.
            let lacks = deficit.min(block.needed).max(1);
            self.unrepairable += lacks;
            self.ask_more(number, lacks);
        }
    }

    /// Beside what arrived it is sent `packets`: of a block that the receiver begins again, nearly all of it.
    fn ask_more(&mut self, number: u64, packets: u32) {
        let Some(block) = self.block_mut(number) else { return };
        block.asked = block.arrived + packets;
        self.recount(number);
    }

    /// The receiver has it. Returns how many of its symbols had been lost and were restored.
    fn on_decoded(&mut self, number: u64) -> u32 {
        let Some(block) = self.block_mut(number) else { return 0 };
        if std::mem::replace(&mut block.is_decoded, true) {
            return 0;
        }
        block.is_open = false;
        let window = block.window;
        self.ledger.told += u64::from(window.len);
        self.undecoded -= 1;
        self.recount(number);
        let mut repaired = 0;
        for id in (window.first.0..window.end().0).map(SymbolId) {
            self.ledger.parts.forget(id);
            let Some(was) = self.ledger.ring.set_state(id, SymbolState::Delivered) else { continue };
            let was_lost = self.ledger.ring.held(id).is_some_and(Held::was_lost);
            repaired += u32::from(was_lost && was != SymbolState::Inferred);
        }
        self.ledger.stats.repaired += u64::from(repaired);
        repaired
    }

    /// Forgets what is decoded, from the front.
    pub(super) fn retire(&mut self) {
        while self.blocks.front().is_some_and(|block| block.is_decoded) {
            self.blocks.pop_front();
            self.base += 1;
        }
        self.ledger.ring.pop_delivered();
        let below = self.ledger.ring.base();
        self.combiner.release(below);
        if self.blocks.is_empty() {
            self.blocks = Default::default();
        }
    }
}

impl super::Block {
    /// Not among the blocks reported: all its source symbols arrived, or the receiver knows of it and would
    /// have named it.
    fn is_surely_decoded(&self, state: &CodingState) -> bool {
        let named_below = match state.windows.last() {
            Some(last) if state.windows.len() >= OPEN_WINDOWS_MAX => last.window.end(),
            _ => SymbolId(u64::MAX),
        };
        self.sources_arrived >= self.window.len
            || (self.coded_arrived > 0 && self.window.end() <= named_below)
    }
}

/// What the receiver says that the block from `first` to `end` lacks.
fn deficit_of(first: SymbolId, end: SymbolId, state: &CodingState) -> Option<u32> {
    state
        .windows
        .iter()
        .find(|open| open.window.first < end && first < open.window.end())
        .map(|open| open.deficit)
}
