//! What goes into a packet. Books are kept when it is in.

use fulmar_control::RepairReason;
use fulmar_fec::{RepairKey, SymbolId, Window};

use super::SlidingSender;
use super::fates::AWAITED_MAX;
use super::repairs::RepairCover;
use crate::Instant;
use crate::coding::content::Content;
use crate::coding::ring::{Held, SymbolState};
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
        self.since_repair.on_source(now);
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
        if ring.held(SymbolId(old)).is_some_and(|held| held.state() == SymbolState::Delivered) {
            ring.release_bytes(SymbolId(old));
        }
    }

    /// The symbol to copy next, in a packet with `space_bytes` left: the oldest known missing. If it fits
    /// none, and as many as may be are in parts already, one of those is to be done with first: one that is
    /// missing as well, or else one that is only believed to be restored, which the receiver would not say
    /// before it has the oldest.
    pub(super) fn next_to_recover(&self, space_bytes: usize) -> Option<SymbolId> {
        let oldest = self.fates.missing().oldest()?;
        if self.ledger.can_copy(oldest, space_bytes) {
            return Some(oldest);
        }
        let parts = &self.ledger.parts;
        let state = |id: SymbolId| self.ledger.ring.held(id).map(Held::state);
        let is_missing = |id| state(id).is_some_and(SymbolState::is_missing);
        let is_half_sent = |id| state(id) == Some(SymbolState::Inferred) && !parts.is_all_sent(id);
        parts.ids().find(|&id| is_missing(id)).or_else(|| parts.ids().find(|&id| is_half_sent(id)))
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
        if let Some(id) = self.ledger.copied_by(content) {
            self.on_copied(id);
        }
        Some(content)
    }

    /// A copy of `id` is under way.
    fn on_copied(&mut self, id: SymbolId) {
        let (has_combinations, floor) = (self.combiner.has_combinations(), self.reach_floor());
        let ring = &mut self.ledger.ring;
        let is_first = self.fates.on_copied(ring, id, has_combinations, floor);
        if is_first && ring.held(id).is_some_and(|held| held.losses > 1) {
            self.often_lost.push(self.ledger.stats.sources, id);
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
    pub(super) fn emit_protection(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        let floor = self.reach_floor();
        let ring = &mut self.ledger.ring;
        self.fates.let_go_out_of_reach(ring, floor);
        let (mut ids, mut len) = ([SymbolId(0); AWAITED_MAX], 0);
        for (place, id) in ids.iter_mut().zip(self.fates.awaited()) {
            *place = id;
            len += 1;
        }
        let key = self.take_key();
        let members = &ids[..frame::set_prefix_that_fits(&ids[..len], key)];
        if members.is_empty() {
            return None;
        }
        let ring = &mut self.ledger.ring;
        if self.combiner.put_set(ring, members, key, packet, space_bytes).is_none() {
            // Made for a path that carried more: they cannot be protected any more.
            self.fates.give_up_awaited(ring);
            return None;
        }
        let number = self.fates.open_set(ring, members);
        self.ledger.stats.count_repair(RepairReason::Asked);
        Some(Content::Repair(self.repairs.push(RepairCover::Set(number))))
    }

    /// Another combination over the newest set of those.
    pub(super) fn emit_protection_again(
        &mut self,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        let key = self.take_key();
        let (number, set) = self.fates.newest_set_mut()?;
        if !set.members.iter().all(|id| self.ledger.ring.symbol_bytes(*id).is_some()) {
            return None;
        }
        self.combiner.put_set(&mut self.ledger.ring, &set.members, key, packet, space_bytes)?;
        set.extend();
        self.ledger.stats.count_repair(RepairReason::Asked);
        Some(Content::Repair(self.repairs.push(RepairCover::Set(number))))
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
        let is_open = |id: &u64| ring.held(SymbolId(*id)).is_some_and(|held| !held.state().is_delivered());
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
        let (groups, is_first) = (groups.max(1), group == 0);
        // Symbols at the front that arrived are gone. The others stay in the groups they were in.
        let gone = symbols.saturating_sub(window.len) % u32::from(groups);
        let group = (u32::from(group % groups) + u32::from(groups) - gone) % u32::from(groups);
        let key = self.combiner.code().repair_key(group, u32::from(groups));
        // A group of one has its repair too, which restores what it covers as any other does.
        let content = self.emit_window(window, 1, key, RepairReason::Proactive, packet, space_bytes)?;
        self.groups = groups;
        if let Content::Repair(number) = content
            && is_first
        {
            let ring = &self.ledger.ring;
            self.repairs.deals.close(ring.next_id(), symbols, groups, number, ring.base());
        }
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
            Content::Repair(self.repairs.push(RepairCover::Window(window)))
        } else {
            self.emit_copy(window.first, reason, packet, space_bytes)?
        };
        self.since_repair.on_repair();
        Some(content)
    }

    fn take_key(&mut self) -> RepairKey {
        let index = self.repairs.take_key();
        self.combiner.code().repair_key(index, 1)
    }
}
