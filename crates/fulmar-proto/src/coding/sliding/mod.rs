//! The sender for codes over any window of symbols, and for none: source symbols go out as they are,
//! combinations beside them.
//!
//! What the receiver lacks is known from two sides: the sender's own count (symbols whose packets were all
//! lost, less what combinations restore) and the deficit the receiver reports, which includes what proactive
//! repair has already made good. The smaller of the two is what must still be sent; where they err, the probe
//! timeout sends more.

mod emit;
mod fates;
mod kept_back;
mod learn;
mod missing;
mod often_lost;
mod repairs;
mod report;
mod restored;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{Choice, OftenLost, Opportunity, ProtectedSet, RepairReason};
use fulmar_fec::{Code, LATE_SHARE, NoCode, SymbolId};

use super::combiner::Combiner;
use super::content::Content;
use super::ledger::Ledger;
use super::source::Source;
use super::strategy::{Reported, Strategy, Unrepairable};
use crate::wire::frame::CodingState;
use crate::{Instant, TransportError};
use fates::Fates;
use kept_back::Arrived;
use often_lost::OftenLostQueue;
use repairs::Repairs;
use report::Report;
use restored::Restored;

/// Symbols that one feedback can find not to be repairable.
const JUDGED_AT_ONCE_MAX: usize = 64;

/// A sender over windows.
#[derive(Debug)]
pub(super) struct SlidingSender {
    combiner: Combiner,
    window_max: u32,
    /// Combinations that were asked for refer to the newest so many symbols. Of what the receiver retains a
    /// part (`LATE_SHARE`) is left for what came late, of which it keeps the newest: a copy of an older
    /// symbol may be forgotten again before the combination over it arrives.
    reach_symbols: u32,
    ledger: Ledger,
    /// What became of the symbols in the ledger's ring.
    fates: Fates,
    /// Those that were lost more than once.
    often_lost: OftenLostQueue,
    /// When a copy last left.
    newest_copy: Option<Instant>,
    restored: Restored,
    repairs: Repairs,
    report: Report,
    since_repair: SinceRepair,
    /// Groups of the last [`Choice::Group`]: the policy closes groups, and what is in the open one waits for
    /// that.
    groups: u16,
    /// Symbols in the window of the last [`Choice::Combine`]: every packet to come covers them.
    combined: u32,
}

/// What left since the last combination over new symbols.
#[derive(Debug, Default)]
struct SinceRepair {
    sources: u32,
    /// When the first of them left.
    first_source: Option<Instant>,
    /// Such combinations since the newest symbol.
    repairs: u32,
}

impl SinceRepair {
    fn on_source(&mut self, now: Instant) {
        self.sources += 1;
        self.first_source.get_or_insert(now);
        self.repairs = 0;
    }

    fn on_repair(&mut self) {
        *self = Self { sources: 0, first_source: None, repairs: self.repairs + 1 };
    }
}

impl SlidingSender {
    /// A sender that will send nothing: of another's books it keeps the counts.
    pub(super) fn ended(books: &Ledger) -> Self {
        let ledger = Ledger { stats: books.stats, told: books.told, ..Ledger::default() };
        Self { ledger, ..Self::new(Arc::new(NoCode), 0, 0) }
    }

    /// A sender that uses `code` for symbols of at most `symbol_bytes`, towards a receiver that retains
    /// `reach_symbols`.
    pub(super) fn new(code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) -> Self {
        let window_max = code.len_max(symbol_bytes).min(reach_symbols);
        Self {
            combiner: Combiner::new(code, symbol_bytes),
            window_max,
            reach_symbols: reach_symbols - reach_symbols / LATE_SHARE,
            ledger: Ledger::default(),
            fates: Fates::default(),
            often_lost: OftenLostQueue::default(),
            newest_copy: None,
            restored: Restored::default(),
            repairs: Repairs::default(),
            report: Report::default(),
            since_repair: SinceRepair::default(),
            groups: 0,
            combined: 0,
        }
    }

    /// Symbols under way for the first time, as far as a bounded look back tells.
    fn unacked_symbols(&self) -> u32 {
        let span = self.ledger.span_symbols();
        u32::try_from(span)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.fates.missing().len() as u32 + self.fates.copied())
    }

    /// Degrees of freedom that must still be sent for the symbols known missing.
    ///
    /// The oldest of them decides what the receiver can deliver. If it has been missing for longer than a
    /// round trip, what was under way for it has not restored it, whatever the counts say.
    fn needed(&self, now: Instant, rtt: Duration) -> u32 {
        let missing = self.fates.missing().len() as u32;
        if missing == 0 || !self.report.has_windows() {
            return missing;
        }
        let is_overdue = self.overdue_at(rtt).is_some_and(|at| at <= now) && !self.is_repair_coming(now, rtt);
        let known_lacking = self.report.deficit() + self.fates.missing().unreported() as u32;
        let under_way = self.fates.copied() + self.helping_combinations();
        missing.min(known_lacking.saturating_sub(under_way).max(u32::from(is_overdue)))
    }

    /// Proactive combinations under way that cover the oldest symbol known missing.
    fn helping_windows(&self) -> u32 {
        self.fates.missing().oldest().map_or(0, |oldest| self.repairs.covering(oldest))
    }

    /// Combinations that will help without being asked for: under way, or about to close the open groups.
    fn helping_combinations(&self) -> u32 {
        if self.combined > 0 {
            return self.helping_windows().max(self.missing_in_coding_window() as u32);
        }
        if self.groups == 0 {
            return self.helping_windows();
        }
        let helped = self.repairs.restoring(self.fates.missing().ids());
        helped + (self.missing_in_open_groups().min(usize::from(self.groups)) as u32)
    }

    /// Symbols known missing for which no group has been closed yet.
    fn missing_in_open_groups(&self) -> usize {
        let open = self.ledger.ring.next_id().0 - u64::from(self.since_repair.sources);
        if self.groups == 0 { 0 } else { self.fates.missing().count_from(SymbolId(open)) }
    }

    /// Symbols known missing that every combination to come covers (TCP/NC: nothing is asked for before the
    /// coding window has moved past a symbol).
    fn missing_in_coding_window(&self) -> usize {
        let from = self.ledger.ring.next_id().0.saturating_sub(u64::from(self.combined));
        if self.combined == 0 { 0 } else { self.fates.missing().count_from(SymbolId(from)) }
    }

    /// The receiver retains no older symbols for combinations to refer to.
    fn reach_floor(&self) -> u64 {
        self.ledger.ring.next_id().0.saturating_sub(u64::from(self.reach_symbols))
    }

    /// What was lost twice is two round trips old: only where a round trip brings more than the receiver
    /// retains may it hold up the sender, and be worth several copies.
    fn often_lost_floor(&self) -> u64 {
        self.ledger.ring.next_id().0.saturating_sub(2 * u64::from(self.reach_symbols))
    }

    /// New symbols leave, and repair for the oldest symbol known missing with them.
    fn is_repair_coming(&self, now: Instant, rtt: Duration) -> bool {
        let hoped = self.missing_in_open_groups().max(self.missing_in_coding_window());
        hoped == self.fates.missing().len() && self.ledger.last_source_at.is_some_and(|at| at + rtt > now)
    }
}

impl Strategy for SlidingSender {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn opportunity(&self, now: Instant, has_new_data: bool, rtt: Duration) -> Opportunity {
        let mut opportunity = Opportunity::idle(now);
        opportunity.has_new_data = has_new_data;
        opportunity.missing_symbols = self.fates.missing().len() as u32;
        opportunity.missing = self.needed(now, rtt);
        opportunity.recovering_symbols = self.fates.awaited().len() as u32;
        opportunity.newest_copy = self.newest_copy;
        opportunity.protected = self
            .fates
            .newest_set()
            .map(|set| ProtectedSet { symbols: set.members.len() as u32, combinations: set.combinations });
        opportunity.out_of_reach_symbols = self.fates.out_of_reach() as u32;
        opportunity.unacked_symbols = self.unacked_symbols();
        opportunity.sources_since_repair = self.since_repair.sources;
        opportunity.first_source_since_repair = self.since_repair.first_source;
        opportunity.newest_source = self.ledger.last_source_at;
        opportunity.repairs_since_source = self.since_repair.repairs;
        opportunity.window_max = self.window_max;
        opportunity.sources_sent = self.ledger.stats.sources;
        opportunity.repairs_sent = self.ledger.stats.repairs_sent();
        opportunity
    }

    fn often_lost(&self, has_new_data: bool) -> Option<OftenLost> {
        let sent = self.ledger.stats.sources;
        self.often_lost.next(&self.ledger.ring, self.often_lost_floor(), sent, has_new_data)
    }

    fn overdue_at(&self, rtt: Duration) -> Option<Instant> {
        self.fates.missing_since(&self.ledger.ring).map(|since| since + rtt + rtt / 4)
    }

    fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        if choice != Choice::CopyAgain {
            self.often_lost.decline(self.ledger.stats.sources);
        }
        match choice {
            Choice::CopyAgain => self.emit_again(packet, space_bytes),
            Choice::Source => self.emit_source(now, packet, space_bytes, source),
            Choice::Combine { symbols } => self.emit_combined(now, symbols, packet, space_bytes, source),
            Choice::Recover => {
                let id = self.next_to_recover(space_bytes)?;
                self.newest_copy = Some(now);
                self.emit_copy(id, RepairReason::Asked, packet, space_bytes)
            }
            Choice::Protect => self.emit_protection(packet, space_bytes),
            Choice::ProtectAgain => self.emit_protection_again(packet, space_bytes),
            Choice::SecondCopy => {
                let id = self.fates.take_out_of_reach(&mut self.ledger.ring)?;
                self.emit_copy(id, RepairReason::Asked, packet, space_bytes)
            }
            Choice::Repair { symbols, reason } => self.emit_repair(symbols, reason, packet, space_bytes),
            Choice::Group { symbols, groups, group } => {
                self.emit_group(symbols, groups, group, packet, space_bytes)
            }
            Choice::Wait(_) => None,
        }
    }

    /// A combination over the unacknowledged tail where the code has combinations, else a copy of the oldest
    /// symbol that is not delivered.
    fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        let ring = &self.ledger.ring;
        let oldest = (ring.base().0..ring.next_id().0)
            .map(SymbolId)
            .find(|id| ring.held(*id).is_some_and(|held| !held.state().is_delivered()))?;
        let tail = ring.next_id().0 - oldest.0;
        if self.window_max > 0 && tail <= u64::from(self.window_max) && self.fates.missing().is_empty() {
            return self.emit_repair(self.window_max, RepairReason::Probe, packet, space_bytes);
        }
        self.emit_copy(oldest, RepairReason::Probe, packet, space_bytes)
    }

    fn on_arrived(&mut self, now: Instant, content: Content, was_lost: bool) -> bool {
        self.apply_arrived(now, content, was_lost)
    }

    fn on_lost(&mut self, now: Instant, content: Content) {
        self.apply_lost(now, content);
    }

    fn on_lost_unheard(&mut self, now: Instant, content: Content) {
        self.apply_lost_unheard(now, content);
    }

    fn hear(&mut self, now: Instant) {
        self.fates.hear(&mut self.ledger.ring, now);
    }

    fn has_unheard(&self) -> bool {
        self.fates.has_unheard()
    }

    fn on_report(&mut self, now: Instant, state: &CodingState) -> Result<u32, TransportError> {
        self.apply_report(now, state)
    }

    fn is_kept_back(&self, state: &CodingState, news: &mut dyn Iterator<Item = Content>) -> bool {
        let (hole, ring) = (state.decoded_below, &self.ledger.ring);
        let is_known = ring.held(hole).is_none_or(|held| held.was_lost());
        if is_known || hole > self.report.decoded_below() {
            return false;
        }
        let mut arrived = Arrived::default();
        for content in news {
            match content {
                Content::Source(id) | Content::Copy(id) => arrived.symbols.push(id.0),
                Content::Repair(number) => arrived.repairs.push(number),
                Content::Combined(_) | Content::Part(_) => {}
            }
        }
        arrived.symbols.sort_unstable();
        arrived.repairs.sort_unstable();
        let has = |id| ring.held(SymbolId(id)).is_none_or(|held| held.state().is_delivered());
        self.repairs.deals.is_kept_back(hole.0, &arrived, has)
    }

    fn is_behind(&self) -> bool {
        self.ledger.ring.base() < self.report.told_below() || self.ledger.ring.has_idle_buffers()
    }

    fn on_idle(&mut self) {
        self.often_lost = OftenLostQueue::default();
        self.ledger.ring.on_idle();
    }

    fn catch_up(&mut self) {
        let late = self.deliver_told();
        self.restored.on_booked_late(late);
        self.ledger.ring.release_buffers();
    }

    fn reported(&self) -> Option<Reported> {
        Some(self.report.reported())
    }

    fn take_repaired_early(&mut self) -> u32 {
        self.restored.take_late()
    }

    fn take_repaired_sent_at(&mut self) -> Option<Instant> {
        self.restored.take_newest_sent_at()
    }

    /// The oldest go first, so these are the ones that will be copied.
    fn take_unrepairable(&mut self, now: Instant, rtt: Duration) -> Unrepairable {
        let needed = self.needed(now, rtt) as usize;
        let mut found = Unrepairable::default();
        for id in self.fates.missing().ids().take(needed.min(JUDGED_AT_ONCE_MAX)) {
            if let Some(held) = self.ledger.ring.held_mut(id)
                && !std::mem::replace(&mut held.is_unrepairable, true)
            {
                found.symbols += 1;
                found.sent_at = found.sent_at.max(Some(held.sent_at));
            }
        }
        self.ledger.stats.unrepaired += u64::from(found.symbols);
        found
    }
}
