//! The sender for codes over blocks: LT-TCP's, CTCP's and DFCP's way.
//!
//! Source symbols fill a block; then repair symbols of it follow, as many as the policy wants at once, and as
//! many as turn out to be lacking later. What a block lacks is counted from acknowledged packet numbers:
//! needed, less arrived, less under way. Where the code promises less than that (Raptor codes, one RLC block
//! in 255), the receiver names the blocks it cannot decode, and they are sent more until it can: no block is
//! ever given up.
//!
//! A code that is not systematic (DFCP) sends no source symbols at all: a block is taken in at once and sent
//! in coded packets. Copies are the last resort, where a code has no more repair symbols, or the receiver no
//! longer retains the block.

mod block;
mod emit;
mod learn;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use block::Block;
use fulmar_control::{BlockView, Choice, Opportunity, RepairReason};
use fulmar_fec::{Code, CodeShape, SymbolId, Window};

use super::combiner::Combiner;
use super::content::Content;
use super::ledger::{Ledger, TOLD_AT_ONCE_MAX};
use super::source::Source;
use super::strategy::{Strategy, Unrepairable};
use crate::wire::frame::CodingState;
use crate::{Instant, TransportError};

/// A sender over blocks.
#[derive(Debug)]
pub(super) struct BlockSender {
    combiner: Combiner,
    shape: CodeShape,
    len_max: u32,
    symbol_bytes: usize,
    /// Symbols the receiver retains for repair symbols to refer to.
    reach_symbols: u32,
    ledger: Ledger,
    /// Blocks from the oldest that is not decoded, numbered from `base`.
    blocks: VecDeque<Block>,
    base: u64,
    /// Numbers of the blocks that lack packets, and how many in all.
    lacking: BTreeSet<u64>,
    lacking_packets: u32,
    /// Numbers of the closed blocks of which enough arrived, or nothing is under way: the next report tells
    /// whether they decoded.
    awaited: BTreeSet<u64>,
    undecoded: u32,
    /// Block that was last given a packet in turn.
    turn: u64,
    /// The receiver has said that it has everything below.
    told_below: SymbolId,
    repaired_late: u32,
    planned: Option<u32>,
    unrepairable: u32,
}

impl BlockSender {
    pub(super) fn new(code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) -> Self {
        let (shape, len_max) = (code.shape(), code.len_max(symbol_bytes).max(1));
        Self {
            combiner: Combiner::new(code, symbol_bytes),
            shape,
            len_max,
            symbol_bytes,
            reach_symbols,
            ledger: Ledger::default(),
            blocks: VecDeque::new(),
            base: 0,
            lacking: BTreeSet::new(),
            lacking_packets: 0,
            awaited: BTreeSet::new(),
            undecoded: 0,
            turn: 0,
            told_below: SymbolId(0),
            repaired_late: 0,
            planned: None,
            unrepairable: 0,
        }
    }

    fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn block_mut(&mut self, number: u64) -> Option<&mut Block> {
        self.blocks.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Number of the newest block.
    fn newest(&self) -> Option<u64> {
        (self.base + self.blocks.len() as u64).checked_sub(1).filter(|_| !self.blocks.is_empty())
    }

    /// Number of the block that `id` belongs to.
    fn number_of(&self, id: SymbolId) -> Option<u64> {
        let at = self.blocks.partition_point(|block| block.window.end() <= id);
        self.blocks.get(at).filter(|block| block.window.contains(id)).map(|_| self.base + at as u64)
    }

    /// No more symbols join the newest block.
    fn close_newest(&mut self) {
        let Some(number) = self.newest() else { return };
        let (combiner, symbol_bytes) = (&self.combiner, self.symbol_bytes);
        let at = (number - self.base) as usize;
        let block = &mut self.blocks[at];
        if block.is_open {
            block.is_open = false;
            block.needed = combiner.code().symbols_expected(block.window.len, symbol_bytes);
            self.recount(number);
        }
    }

    /// What `number` lacks has changed.
    fn recount(&mut self, number: u64) {
        let Some(block) = self.block_mut(number) else { return };
        let lacks = block.count_lacking();
        let before = std::mem::replace(&mut block.lacks, lacks);
        let is_awaited = block.is_awaited();
        self.lacking_packets = self.lacking_packets + lacks - before;
        note(&mut self.lacking, number, lacks > 0);
        note(&mut self.awaited, number, is_awaited);
    }

    /// A receiver that decodes with source symbols keeps the newest: with another block the oldest that is
    /// not decoded would no longer be among them.
    fn is_last_in_reach(&self) -> bool {
        let oldest = self.blocks.iter().find(|block| !block.is_decoded);
        let others = self.planned.unwrap_or(self.len_max) - 1;
        self.shape.is_systematic && oldest.is_some_and(|block| !self.is_in_reach(block.window, others))
    }

    /// The receiver retains the symbols of `window` when another has been sent, and so many more.
    fn is_in_reach(&self, window: Window, others: u32) -> bool {
        window.first.0 + u64::from(self.reach_symbols) > self.ledger.ring.next_id().0 + u64::from(others)
    }

    fn view(&self) -> BlockView {
        let newest = self.newest().and_then(|number| self.block(number));
        newest.map_or_else(BlockView::default, |block| BlockView {
            symbols: block.window.len,
            repairs: if self.shape.is_systematic {
                block.coded
            } else {
                block.coded.saturating_sub(block.needed)
            },
            is_open: block.is_open,
            undecoded: self.undecoded,
            is_last_in_reach: self.is_last_in_reach(),
        })
    }
}

/// `number` is in `set` from now on, or is not.
fn note(set: &mut BTreeSet<u64>, number: u64, is_in: bool) {
    if is_in {
        set.insert(number);
    } else {
        set.remove(&number);
    }
}

impl Strategy for BlockSender {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn opportunity(&self, now: Instant, has_new_data: bool, _rtt: Duration) -> Opportunity {
        let stats = &self.ledger.stats;
        let mut opportunity = Opportunity::idle(now);
        opportunity.has_new_data = has_new_data;
        opportunity.missing = self.lacking_packets;
        opportunity.missing_symbols = self.lacking_packets;
        opportunity.unacked_symbols = u32::try_from(self.ledger.span_symbols()).unwrap_or(u32::MAX);
        opportunity.newest_source = self.ledger.last_source_at;
        opportunity.window_max = self.len_max;
        opportunity.sources_sent = stats.sources;
        opportunity.repairs_sent = stats.repairs_sent();
        opportunity.block = self.view();
        let block = opportunity.block;
        opportunity.sources_since_repair = if block.repairs == 0 { block.symbols } else { 0 };
        opportunity.first_source_since_repair =
            self.ledger.last_source_at.filter(|_| opportunity.sources_since_repair > 0);
        opportunity.repairs_since_source = block.repairs;
        opportunity
    }

    fn needs_plan(&self) -> bool {
        self.planned.is_none() && !self.blocks.back().is_some_and(|block| block.is_open)
    }

    fn plan_block(&mut self, symbols: u32) {
        self.planned = Some(symbols.clamp(1, self.len_max));
    }

    fn can_cut(&self) -> bool {
        self.shape.is_systematic
    }

    /// A block that waits for data which does not come is closed when something of it is lost.
    fn on_data_exhausted(&mut self) {
        let has_open_losses =
            |block: &Block| block.is_open && block.arrived + block.in_flight < block.window.len;
        if self.blocks.back().is_some_and(has_open_losses) {
            self.close_newest();
        }
    }

    fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        match choice {
            Choice::Source | Choice::Combine { .. } if self.shape.is_systematic => {
                self.emit_source(now, packet, space_bytes, source)
            }
            Choice::Source | Choice::Combine { .. } => self.emit_whole(now, packet, space_bytes, source),
            Choice::Repair { reason, .. } => self.emit_for_newest(reason, packet, space_bytes),
            Choice::Group { .. } => self.emit_for_newest(RepairReason::Proactive, packet, space_bytes),
            Choice::Recover
            | Choice::Protect
            | Choice::ProtectAgain
            | Choice::SecondCopy
            | Choice::CopyAgain => {
                let number = self.lacking.first().copied().or_else(|| self.next_in_turn())?;
                self.emit_coded(number, RepairReason::Asked, packet, space_bytes)
            }
            Choice::Wait(_) => None,
        }
    }

    /// For the oldest block, which holds up all others.
    fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        let at = self.blocks.iter().position(|block| !block.is_decoded)?;
        let number = self.base + at as u64;
        if Some(number) == self.newest() {
            self.close_newest();
        }
        self.emit_coded(number, RepairReason::Probe, packet, space_bytes)
    }

    fn on_arrived(&mut self, _now: Instant, content: Content, was_lost: bool) -> bool {
        self.apply_arrived(content, was_lost)
    }

    fn on_lost(&mut self, now: Instant, content: Content) {
        self.apply_lost(now, content);
    }

    fn on_report(&mut self, _now: Instant, state: &CodingState) -> Result<u32, TransportError> {
        self.apply_report(state)
    }

    fn is_behind(&self) -> bool {
        let oldest = self.blocks.front();
        oldest.is_some_and(|block| block.window.end() <= self.told_below)
            || self.ledger.ring.has_idle_buffers()
    }

    fn on_idle(&mut self) {
        self.ledger.ring.on_idle();
    }

    fn catch_up(&mut self) {
        self.repaired_late += self.deliver_told(&mut { TOLD_AT_ONCE_MAX });
        self.retire();
        self.ledger.ring.release_buffers();
    }

    /// Those of which it was known late, for want of time.
    fn take_repaired_early(&mut self) -> u32 {
        std::mem::take(&mut self.repaired_late)
    }

    fn take_unrepairable(&mut self, _now: Instant, _rtt: Duration) -> Unrepairable {
        Unrepairable { symbols: std::mem::take(&mut self.unrepairable), sent_at: None }
    }
}

#[cfg(test)]
mod tests;
