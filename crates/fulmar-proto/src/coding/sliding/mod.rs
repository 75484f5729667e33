//! The sender for codes over any window of symbols, and for none: source symbols go out as they are, combinations beside them.
//!
//! What the receiver lacks is known from two sides: the sender's own count (symbols whose packets were all lost, less
//! what combinations restore) and the deficit the receiver reports, which includes what proactive repair has already
//! made good. The smaller of the two is what must still be sent; where they err, the probe timeout sends more.

mod emit;
mod learn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{Choice, Opportunity, RepairReason};
use fulmar_fec::{Code, SymbolId, Window};
use fulmar_units::Instant;

use super::combiner::Combiner;
use super::parts::PartsOut;
use super::ring::Ring;
use super::sender::{Emitted, Fill, SymbolSender};
use super::sets::{RecoverySets, SetNumber};
use super::stats::SenderStats;
use crate::TransportError;
use crate::recovery::Content;
use crate::wire::frame::CodingState;

/// Keys in use: repair over the same cover repeats after so many. They take one byte on the wire.
const KEYS: u32 = 64;
/// Symbols that one feedback can find not to be repairable.
const JUDGED_AT_ONCE_MAX: usize = 64;
/// Symbols copied since the last insurance that are remembered.
const RECOVERING_MAX: usize = 64;

/// A combination under way.
#[derive(Copy, Clone, Debug)]
enum RepairCover {
    Window(Window),
    Set(SetNumber),
}

/// A sender over windows.
#[derive(Debug)]
pub(super) struct SlidingSender {
    combiner: Combiner,
    window_max: u32,
    /// Symbols the receiver retains for combinations to refer to.
    reach_symbols: u32,
    ring: Ring,
    /// Symbols known missing, and since when.
    missing: BTreeMap<SymbolId, Instant>,
    /// Symbols of which a copy is under way, the first packet having been lost.
    copied_in_flight: u32,
    recovering: BTreeSet<SymbolId>,
    sets: RecoverySets,
    parts: PartsOut,
    /// Combinations under way or lately resolved, by number from `repairs_base`.
    repairs: VecDeque<Option<RepairCover>>,
    repairs_base: u64,
    /// Windows of proactive combinations under way, oldest first.
    windows_in_flight: VecDeque<(u64, Window)>,
    peer: CodingState,
    next_key: u32,
    last_source_at: Option<Instant>,
    sources_since_repair: u32,
    first_source_since_repair: Option<Instant>,
    repairs_since_source: u32,
    /// Groups of the last [`Choice::Group`]: the policy closes groups, and what is in the open one waits for that.
    groups: u16,
    /// Symbols in the window of the last [`Choice::Combine`]: every packet to come covers them.
    combined: u32,
    stats: SenderStats,
}

impl SlidingSender {
    /// A sender that uses `code` for symbols of at most `symbol_bytes`, towards a receiver that retains `reach_symbols`.
    pub(super) fn new(code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) -> Self {
        let window_max = code.len_max(symbol_bytes).min(reach_symbols);
        Self {
            combiner: Combiner::new(code, symbol_bytes),
            window_max,
            reach_symbols,
            ring: Ring::default(),
            missing: BTreeMap::new(),
            copied_in_flight: 0,
            recovering: BTreeSet::new(),
            sets: RecoverySets::default(),
            parts: PartsOut::default(),
            repairs: VecDeque::new(),
            repairs_base: 0,
            windows_in_flight: VecDeque::new(),
            peer: CodingState::default(),
            next_key: 0,
            last_source_at: None,
            sources_since_repair: 0,
            first_source_since_repair: None,
            repairs_since_source: 0,
            groups: 0,
            combined: 0,
            stats: SenderStats::default(),
        }
    }

    /// Symbols under way for the first time, as far as a bounded look back tells.
    fn unacked_symbols(&self) -> u32 {
        let span = self.span_symbols();
        u32::try_from(span)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.missing.len() as u32 + self.copied_in_flight)
    }

    /// Degrees of freedom that must still be sent for the symbols known missing.
    ///
    /// The oldest of them decides what the receiver can deliver. If it has been missing for longer than a round trip, what was
    /// under way for it has not restored it, whatever the counts say.
    fn needed(&self, now: Instant, rtt: Duration) -> u32 {
        let missing = self.missing.len() as u32;
        if self.peer.windows.is_empty() {
            return missing;
        }
        let is_overdue = self.overdue_at(rtt).is_some_and(|at| at <= now) && !self.is_repair_coming(now, rtt);
        let reported: u32 = self.peer.windows.iter().map(|open| open.deficit).sum();
        let end = self.peer.windows.last().map_or(self.peer.decoded_below, |open| open.window.end());
        let beyond = self.missing.range(end..).count() as u32;
        let under_way = self.copied_in_flight + self.helping_combinations();
        missing.min((reported + beyond).saturating_sub(under_way).max(u32::from(is_overdue)))
    }

    /// Proactive combinations under way that cover the oldest symbol known missing.
    fn helping_windows(&self) -> u32 {
        let Some((oldest, _)) = self.missing.first_key_value() else { return 0 };
        let helps = |window: &Window| window.contains(*oldest);
        self.windows_in_flight.iter().rev().take(64).filter(|(_, window)| helps(window)).count() as u32
    }

    /// Combinations that will help without being asked for: under way, or about to close the open groups.
    fn helping_combinations(&self) -> u32 {
        if self.combined > 0 {
            return self.helping_windows().max(self.missing_in_coding_window() as u32);
        }
        if self.groups == 0 {
            return self.helping_windows();
        }
        let mut missing = self.missing.keys().peekable();
        let mut helped = 0;
        // Both ascend: each combination goes to the oldest symbol it covers that none before it has taken.
        for (_, window) in &self.windows_in_flight {
            while missing.next_if(|id| **id < window.first).is_some() {}
            helped += u32::from(missing.next_if(|id| window.contains(**id)).is_some());
        }
        helped + (self.missing_in_open_groups().min(usize::from(self.groups)) as u32)
    }

    /// Symbols known missing for which no group has been closed yet.
    fn missing_in_open_groups(&self) -> usize {
        let open = self.ring.next_id().0 - u64::from(self.sources_since_repair);
        if self.groups == 0 { 0 } else { self.missing.range(SymbolId(open)..).count() }
    }

    /// Symbols known missing that every combination to come covers (TCP/NC: nothing is asked for before the coding window has
    /// moved past a symbol).
    fn missing_in_coding_window(&self) -> usize {
        let from = self.ring.next_id().0.saturating_sub(u64::from(self.combined));
        if self.combined == 0 { 0 } else { self.missing.range(SymbolId(from)..).count() }
    }

    /// New symbols leave, and repair for the oldest symbol known missing with them.
    fn is_repair_coming(&self, now: Instant, rtt: Duration) -> bool {
        let hoped = self.missing_in_open_groups().max(self.missing_in_coding_window());
        hoped == self.missing.len() && self.last_source_at.is_some_and(|at| at + rtt > now)
    }
}

impl SymbolSender for SlidingSender {
    fn stats(&self) -> &SenderStats {
        &self.stats
    }

    fn next_id(&self) -> SymbolId {
        self.ring.next_id()
    }

    fn is_all_delivered(&self) -> bool {
        self.ring.base() == self.ring.next_id()
    }

    fn held_bytes(&self) -> u64 {
        self.ring.held_bytes()
    }

    fn span_symbols(&self) -> u64 {
        self.ring.next_id().0 - self.ring.base().0
    }

    fn slot(&mut self, now: Instant, has_new_data: bool, rtt: Duration) -> Opportunity {
        let mut slot = Opportunity::idle(now);
        slot.has_new_data = has_new_data;
        slot.missing_symbols = self.missing.len() as u32;
        slot.missing = self.needed(now, rtt);
        slot.recovering_symbols = self.recovering.len() as u32;
        slot.unacked_symbols = self.unacked_symbols();
        slot.sources_since_repair = self.sources_since_repair;
        slot.first_source_since_repair = self.first_source_since_repair;
        slot.newest_source = self.last_source_at;
        slot.repairs_since_source = self.repairs_since_source;
        slot.window_max = self.window_max;
        slot.sources_sent = self.stats.sources;
        slot.repairs_sent = self.stats.repairs_sent();
        slot
    }

    fn overdue_at(&self, rtt: Duration) -> Option<Instant> {
        self.missing.first_key_value().map(|(_, &since)| since + rtt + rtt / 4)
    }

    fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        fill: &mut Fill<'_>,
    ) -> Option<Emitted> {
        match choice {
            Choice::Source => self.emit_source(now, packet, space_bytes, fill),
            Choice::Combine { symbols } => self.emit_combined(now, symbols, packet, space_bytes, fill),
            Choice::Recover => {
                let (&id, _) = self.missing.first_key_value()?;
                self.emit_copy(id, packet, space_bytes)
            }
            Choice::Insure => self.emit_insurance(packet, space_bytes),
            Choice::Repair { symbols, reason } => self.emit_repair(symbols, reason, packet, space_bytes),
            Choice::Group { symbols, groups, group } => {
                self.emit_group(symbols, groups, group, packet, space_bytes)
            }
            Choice::Wait(_) => None,
        }
    }

    /// A combination over the unacknowledged tail where the code has combinations, else a copy of the oldest symbol that is
    /// not delivered.
    fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
        let oldest = (self.ring.base().0..self.ring.next_id().0)
            .map(SymbolId)
            .find(|id| self.ring.slot(*id).is_some_and(|slot| !slot.state.is_delivered()))?;
        let tail = self.ring.next_id().0 - oldest.0;
        if self.window_max > 0 && tail <= u64::from(self.window_max) && self.missing.is_empty() {
            return self.emit_repair(self.window_max, RepairReason::Probe, packet, space_bytes);
        }
        self.stats.probes += 1;
        let emitted = self.emit_copy(oldest, packet, space_bytes);
        self.stats.copies -= u64::from(emitted.is_some());
        emitted
    }

    fn on_acked(&mut self, content: Content, _was_lost: bool) -> bool {
        self.on_arrived(content)
    }

    fn on_lost(&mut self, now: Instant, content: Content) {
        self.on_packet_lost(now, content);
    }

    fn on_peer_state(&mut self, now: Instant, state: CodingState) -> Result<u32, TransportError> {
        self.on_report(now, state)
    }

    /// The oldest go first, so these are the ones that will be copied.
    fn take_unrepairable(&mut self, now: Instant, rtt: Duration) -> u32 {
        let needed = self.needed(now, rtt) as usize;
        let mut found = 0;
        for id in self.missing.keys().take(needed.min(JUDGED_AT_ONCE_MAX)) {
            if let Some(slot) = self.ring.slot_mut(*id) {
                found += u32::from(!std::mem::replace(&mut slot.is_unrepairable, true));
            }
        }
        self.stats.unrepaired += u64::from(found);
        found
    }
}
