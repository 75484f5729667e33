//! What goes into a packet.

use fulmar_control::RepairReason;
use fulmar_fec::SymbolId;

use super::{Block, BlockSender};
use crate::Instant;
use crate::coding::content::Content;
use crate::coding::ring::{Held, SymbolState};
use crate::coding::source::Source;
use crate::wire::frame;

/// After so many failures copies follow, where there are any.
const FAILURES_MAX: u32 = 2;

impl BlockSender {
    /// A new symbol into the open block, or the first one of a new block.
    pub(super) fn emit_source(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        let id = self.take_in(now, space_bytes.checked_sub(frame::SOURCE_HEADER_BYTES)?, source)?;
        self.ledger.ring.put_source(id, packet)?;
        self.blocks.back_mut()?.in_flight += 1;
        self.ledger.on_sent(id);
        self.close_if_full();
        Some(Content::Source(id))
    }

    /// A whole block is taken in, of as much data as there is, and its first coded packet leaves.
    pub(super) fn emit_whole(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        if self.symbol_bytes + frame::REPAIR_HEADER_BYTES_MAX > space_bytes {
            return None;
        }
        self.close_newest();
        let bytes_max = self.symbol_bytes;
        let first = self.take_in(now, bytes_max, source)?;
        while self.blocks.back().is_some_and(|block| block.window.len < block.planned)
            && self.take_in(now, bytes_max, source).is_some()
        {}
        self.close_newest();
        let number = self.number_of(first)?;
        self.emit_coded(number, RepairReason::Asked, packet, space_bytes)
    }

    fn take_in(&mut self, now: Instant, bytes_max: usize, source: &mut dyn Source) -> Option<SymbolId> {
        let id = self.ledger.take_in(now, bytes_max, source)?;
        if !self.blocks.back().is_some_and(|block| block.is_open) {
            let planned = self.planned.take().unwrap_or(self.len_max);
            self.blocks.push_back(Block::new(id, planned));
            self.undecoded += 1;
        }
        self.blocks.back_mut()?.window.len += 1;
        Some(id)
    }

    fn close_if_full(&mut self) {
        if self.blocks.back().is_some_and(|block| block.window.len >= block.planned) {
            self.close_newest();
        }
    }

    /// The next repair symbol of the newest block, which closes it.
    pub(super) fn emit_for_newest(
        &mut self,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let number =
            self.newest().filter(|&number| self.block(number).is_some_and(|block| !block.is_decoded))?;
        self.close_newest();
        self.emit_coded(number, reason, packet, space_bytes)
    }

    /// The next block in turn of those not known to be decoded (DFCP's round robin; Solymos 2014, section
    /// 3.8).
    pub(super) fn next_in_turn(&mut self) -> Option<u64> {
        let end = self.base + self.blocks.len() as u64;
        let from = self.turn.clamp(self.base, end);
        let number = (from + 1..end)
            .chain(self.base..end)
            .find(|number| self.block(*number).is_some_and(Block::is_pending))?;
        self.turn = number;
        Some(number)
    }

    /// The next coded packet of a closed block; a copy if there can be none.
    pub(super) fn emit_coded(
        &mut self,
        number: u64,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let repairs_max = self.shape.repairs_max;
        let block = self.block(number)?;
        let (window, index, needed) = (block.window, block.coded, block.needed);
        // A receiver may have forgotten symbols of the block that it had: copies need nothing but themselves.
        let is_in_reach = self.is_in_reach(window, 0) && block.failures < FAILURES_MAX;
        let is_possible = index < repairs_max && (is_in_reach || !self.shape.is_systematic);
        let key = self.combiner.code().repair_key(index, repairs_max);
        if !is_possible
            || self.combiner.put_window(&mut self.ledger.ring, window, key, packet, space_bytes).is_none()
        {
            return self.emit_copy(number, packet, space_bytes);
        }
        if self.shape.is_systematic || index >= needed {
            self.ledger.stats.count_repair(reason);
        }
        let block = self.block_mut(number)?;
        block.coded += 1;
        block.in_flight += 1;
        self.recount(number);
        Some(Content::Repair(number))
    }

    /// A copy of a symbol of the block that has not arrived: one known lost, or else one under way; of those
    /// in parts, where as many as may be are.
    fn emit_copy(&mut self, number: u64, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        let window = self.block(number)?.window;
        let ring = &self.ledger.ring;
        let state = |id: &u64| ring.held(SymbolId(*id)).map(Held::state);
        let can_copy = |id: &u64| self.ledger.can_copy(SymbolId(*id), space_bytes);
        let mut ids = window.first.0..window.end().0;
        let id = ids
            .clone()
            .find(|id| state(id).is_some_and(SymbolState::is_missing) && can_copy(id))
            .or_else(|| ids.find(|id| state(id).and_then(SymbolState::in_flight).is_some() && can_copy(id)))
            .map(SymbolId)?;
        let content = self.ledger.put_copy(id, packet, space_bytes)?;
        self.ledger.stats.count_copy(RepairReason::Asked);
        self.ledger.copied_by(content).into_iter().for_each(|id| self.ledger.on_sent(id));
        self.block_mut(number)?.in_flight += 1;
        self.recount(number);
        Some(content)
    }
}
