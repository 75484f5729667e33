//! What goes into a packet. Books are kept when it is in.

use fulmar_control::RepairReason;
use fulmar_fec::{RepairKey, SymbolId, Window};

use super::{KEYS, OUT_OF_REACH_MAX, RECOVERING_MAX, RepairCover, SlidingSender};
use crate::Instant;
use crate::coding::content::Content;
use crate::coding::ring::SymbolState;
use crate::coding::source::Source;
use crate::wire::frame;

impl SlidingSender {
    pub(super) fn emit_source(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        let id = self.take_in(now, space_bytes.checked_sub(frame::SOURCE_HEADER_BYTES)?, source)?;
        self.ledger.ring.put_source(id, packet)?;
        Some(Content::Source(id))
    }

    /// A new symbol, which is about to leave.
    fn take_in(&mut self, now: Instant, bytes_max: usize, source: &mut dyn Source) -> Option<SymbolId> {
        let id = self.ledger.take_in(now, bytes_max, source)?;
        self.ledger.on_sent(id);
        self.retire_old_bytes();
        self.sources_since_repair += 1;
        self.first_source_since_repair.get_or_insert(now);
        self.repairs_since_source = 0;
        Some(id)
    }

    /// A new symbol within a combination with those before it (TCP/NC: Sundararajan et al. 2009, section IV).
    pub(super) fn emit_combined(
        &mut self,
        now: Instant,
        symbols: u32,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        if symbols < 2 || self.window_max < 2 || self.ledger.is_all_delivered() {
            return self.emit_source(now, packet, space_bytes, source);
        }
        let id = self.take_in(now, space_bytes.checked_sub(frame::REPAIR_HEADER_BYTES_MAX)?, source)?;
        let window = self.newest(symbols);
        self.combined = symbols;
        let key = self.take_key();
        if self.combiner.put_window(&mut self.ledger.ring, window, key, packet, space_bytes).is_some() {
            return Some(Content::Combined(id));
        }
        // Its window has a symbol that no longer fits a packet: it goes alone.
        self.ledger.ring.put_source(id, packet)?;
        Some(Content::Source(id))
    }

    /// The newest `symbols` symbols, as far as they are held and the code allows.
    fn newest(&self, symbols: u32) -> Window {
        let ring = &self.ledger.ring;
        let end = ring.next_id().0;
        let reach = u64::from(symbols.min(self.window_max).max(1));
        let first = end.saturating_sub(reach).max(ring.base().0);
        Window { first: SymbolId(first), len: (end - first) as u32 }
    }

    /// A delivered symbol is kept while a window may still cover it; the one that just left every window
    /// goes.
    fn retire_old_bytes(&mut self) {
        let ring = &mut self.ledger.ring;
        let Some(old) = ring.next_id().0.checked_sub(u64::from(self.window_max) + 1) else { return };
        if ring.held(SymbolId(old)).is_some_and(|held| held.state == SymbolState::Delivered) {
            ring.release_bytes(SymbolId(old));
        }
    }

    /// The symbol to copy next, in a packet with `space_bytes` left: the oldest known missing. If it fits none, and as many
    /// as may be are in parts already, one of those is to be done with first: one that is missing as well, or else one that
    /// is only believed to be restored, which the receiver would not say before it has the oldest.
    pub(super) fn next_to_recover(&self, space_bytes: usize) -> Option<SymbolId> {
        let (oldest, _) = self.missing.oldest()?;
        if self.ledger.can_copy(oldest, space_bytes) {
            return Some(oldest);
        }
        let parts = &self.ledger.parts;
        let is = |id: SymbolId, state| self.ledger.ring.held(id).is_some_and(|held| held.state == state);
        let missing = parts.ids().find(|&id| is(id, SymbolState::Missing));
        missing.or_else(|| parts.ids().find(|&id| is(id, SymbolState::Inferred) && !parts.is_all_sent(id)))
    }

    /// A copy of `id`, or a piece of it where it no longer fits. The symbol stays missing until all its
    /// pieces are under way.
    pub(super) fn emit_copy(
        &mut self,
        id: SymbolId,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let content = self.ledger.put_copy(id, packet, space_bytes)?;
        self.ledger.stats.count_copy(reason);
        if let Some(id) = self.ledger.on_copied(content) {
            self.on_copied(id);
        }
        Some(content)
    }

    /// A copy of `id` is under way.
    fn on_copied(&mut self, id: SymbolId) {
        self.missing.remove(id);
        let Some(held) = self.ledger.ring.held(id) else { return };
        if !held.was_lost() || held.state != SymbolState::InFlight(1) {
            return;
        }
        let (is_often_lost, has_set) = (held.losses > 1, held.set.is_some());
        self.copied_in_flight += 1;
        if is_often_lost {
            self.often_lost.push(self.ledger.stats.sources, id);
        }
        if !has_set && self.combiner.has_combinations() {
            self.recovering.insert(id);
            while self.recovering.len() > RECOVERING_MAX {
                self.recovering.pop_first();
            }
            self.let_go_out_of_reach();
        }
    }

    /// The receiver retains the newest symbols only: what is older can be copied, not combined.
    fn let_go_out_of_reach(&mut self) {
        let floor = self.reach_floor();
        while let Some(id) = self.recovering.first().filter(|id| id.0 < floor).copied() {
            self.recovering.remove(&id);
            self.out_of_reach.insert(id);
        }
        while self.out_of_reach.len() > OUT_OF_REACH_MAX {
            self.out_of_reach.pop_last();
        }
    }

    /// The next copy of a symbol that was lost more than once.
    pub(super) fn emit_again(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        let id =
            self.often_lost.take(&self.ledger.ring, self.often_lost_floor(), self.ledger.stats.sources)?;
        let content = self.emit_copy(id, RepairReason::Asked, packet, space_bytes)?;
        self.often_lost.push(self.ledger.stats.sources, id);
        Some(content)
    }

    /// One combination over exactly the symbols being recovered.
    pub(super) fn emit_insurance(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        self.let_go_out_of_reach();
        let candidates: Vec<SymbolId> = self.recovering.iter().copied().collect();
        let key = self.take_key();
        let members = candidates[..frame::set_prefix_that_fits(&candidates, key)].to_vec();
        if members.is_empty() {
            return None;
        }
        if self.combiner.put_set(&mut self.ledger.ring, &members, key, packet, space_bytes).is_none() {
            // Made for a path that carried more: they cannot be insured any more.
            self.recovering.clear();
            return None;
        }
        let number = self.sets.open(members.clone());
        for id in members {
            self.recovering.remove(&id);
            if let Some(held) = self.ledger.ring.held_mut(id) {
                held.set = Some(number);
            }
        }
        self.ledger.stats.count_repair(RepairReason::Asked);
        Some(self.track(RepairCover::Set(number)))
    }

    /// Another combination over the newest set of those.
    pub(super) fn emit_insurance_again(
        &mut self,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let key = self.take_key();
        let (number, set) = self.sets.newest_mut()?;
        if !set.members.iter().all(|id| self.ledger.ring.symbol_bytes(*id).is_some()) {
            return None;
        }
        self.combiner.put_set(&mut self.ledger.ring, &set.members, key, packet, space_bytes)?;
        set.extend();
        self.ledger.stats.count_repair(RepairReason::Asked);
        Some(self.track(RepairCover::Set(number)))
    }

    /// A combination over the newest `symbols` symbols, without those at the front that are delivered; if all
    /// are, from the newest that is not.
    pub(super) fn emit_repair(
        &mut self,
        symbols: u32,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let ring = &self.ledger.ring;
        let end = ring.next_id();
        let reach = u64::from(symbols.min(self.window_max).max(1));
        let from = end.0.saturating_sub(reach).max(ring.base().0);
        let is_open = |id: &u64| ring.held(SymbolId(*id)).is_some_and(|held| !held.state.is_delivered());
        let oldest = end.0.saturating_sub(u64::from(self.window_max)).max(ring.base().0);
        let first = SymbolId((from..end.0).find(is_open).or_else(|| (oldest..from).rev().find(is_open))?);
        let window = Window { first, len: u32::try_from(end.0 - first.0).ok()? };
        let key = self.take_key();
        self.emit_window(window, 2, key, reason, packet, space_bytes)
    }

    /// The repair symbol of one of `groups` interleaved groups (TCP-FEC, Sato 2019, chapter 5).
    pub(super) fn emit_group(
        &mut self,
        symbols: u32,
        groups: u16,
        group: u16,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let window = self.newest(symbols);
        let groups = groups.max(1);
        // Symbols at the front that arrived are gone. The others stay in the groups they were in.
        let gone = symbols.saturating_sub(window.len) % u32::from(groups);
        let group = (u32::from(group % groups) + u32::from(groups) - gone) % u32::from(groups);
        let key = self.combiner.code().repair_key(group, u32::from(groups));
        // A group of one has its repair too, which restores what it covers as any other does.
        let content = self.emit_window(window, 1, key, RepairReason::Proactive, packet, space_bytes)?;
        self.groups = groups;
        Some(content)
    }

    /// A combination over `window`; over fewer than `symbols_min`, or where it does not fit, a copy.
    fn emit_window(
        &mut self,
        window: Window,
        symbols_min: u32,
        key: RepairKey,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        if window.len == 0 {
            return None;
        }
        let is_combined = window.len >= symbols_min
            && self.combiner.put_window(&mut self.ledger.ring, window, key, packet, space_bytes).is_some();
        let content = if is_combined {
            self.ledger.stats.count_repair(reason);
            self.windows_in_flight.push_back((self.repairs_base + self.repairs.len() as u64, window));
            self.track(RepairCover::Window(window))
        } else {
            self.emit_copy(window.first, reason, packet, space_bytes)?
        };
        self.sources_since_repair = 0;
        self.first_source_since_repair = None;
        self.repairs_since_source += 1;
        Some(content)
    }

    fn take_key(&mut self) -> RepairKey {
        self.next_key = (self.next_key + 1) % KEYS;
        self.combiner.code().repair_key(self.next_key, 1)
    }

    fn track(&mut self, cover: RepairCover) -> Content {
        let number = self.repairs_base + self.repairs.len() as u64;
        self.repairs.push_back(Some(cover));
        Content::Repair(number)
    }

    pub(super) fn take_repair(&mut self, number: u64) -> Option<RepairCover> {
        let at = usize::try_from(number.checked_sub(self.repairs_base)?).ok()?;
        let cover = self.repairs.get_mut(at)?.take();
        while let Some(None) = self.repairs.front() {
            self.repairs.pop_front();
            self.repairs_base += 1;
        }
        // Numbers ascend.
        if let Ok(at) = self.windows_in_flight.binary_search_by_key(&number, |(n, _)| *n) {
            self.windows_in_flight.remove(at);
        }
        cover
    }
}
