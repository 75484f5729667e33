//! What goes into a packet.

use fulmar_control::RepairReason;
use fulmar_fec::{RepairKey, SymbolId, Symbols, Window};
use fulmar_units::Instant;

use super::{KEYS, RECOVERING_MAX, RepairCover, SlidingSender};
use crate::coding::parts::put_piece;
use crate::coding::ring::SymbolState;
use crate::coding::sender::{Emitted, Fill, SymbolSender};
use crate::recovery::Content;
use crate::wire::frame;

impl SlidingSender {
    pub(super) fn emit_source(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        fill: &mut Fill<'_>,
    ) -> Option<Emitted> {
        let id = self.take_in(now, space_bytes.checked_sub(frame::SOURCE_HEADER_BYTES)?, fill)?;
        self.ring.put_source(id, packet)?;
        Some(Emitted { content: Content::Source(id), is_repair: false })
    }

    /// A new symbol, which is about to leave.
    fn take_in(&mut self, now: Instant, bytes_max: usize, fill: &mut Fill<'_>) -> Option<SymbolId> {
        let id = self.ring.take_in(bytes_max, fill)?;
        if let Some(slot) = self.ring.slot_mut(id) {
            slot.state = SymbolState::InFlight(1);
        }
        self.retire_old_bytes();
        self.stats.sources += 1;
        self.last_source_at = Some(now);
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
        fill: &mut Fill<'_>,
    ) -> Option<Emitted> {
        if symbols < 2 || self.window_max < 2 || self.is_all_delivered() {
            return self.emit_source(now, packet, space_bytes, fill);
        }
        let id = self.take_in(now, space_bytes.checked_sub(frame::REPAIR_HEADER_BYTES_MAX)?, fill)?;
        let window = self.newest(symbols);
        self.combined = symbols;
        let key = self.take_key();
        if self.combiner.put_window(&self.ring, window, key, packet, space_bytes).is_some() {
            return Some(Emitted { content: Content::Combined(id), is_repair: false });
        }
        // Its window has a symbol that no longer fits a packet: it goes alone.
        self.ring.put_source(id, packet)?;
        Some(Emitted { content: Content::Source(id), is_repair: false })
    }

    /// The newest `symbols` symbols, as far as they are held and the code allows.
    fn newest(&self, symbols: u32) -> Window {
        let end = self.ring.next_id().0;
        let reach = u64::from(symbols.min(self.window_max).max(1));
        let first = end.saturating_sub(reach).max(self.ring.base().0);
        Window { first: SymbolId(first), len: (end - first) as u32 }
    }

    /// A delivered symbol is kept while a window may still cover it; the one that just left every window goes.
    fn retire_old_bytes(&mut self) {
        let Some(old) = self.ring.next_id().0.checked_sub(u64::from(self.window_max) + 1) else { return };
        if self.ring.slot(SymbolId(old)).is_some_and(|slot| slot.state == SymbolState::Delivered) {
            self.ring.release_bytes(SymbolId(old));
        }
    }

    pub(super) fn emit_copy(
        &mut self,
        id: SymbolId,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Emitted> {
        let bytes = self.ring.get(id)?;
        if bytes.len() + frame::SOURCE_HEADER_BYTES > space_bytes {
            return self.emit_part(id, packet, space_bytes);
        }
        self.ring.put_source(id, packet)?;
        self.on_copied(id)?;
        Some(Emitted { content: Content::Copy(id), is_repair: true })
    }

    /// A piece of a symbol that no longer fits a packet, because the path carries less than when it was made. The symbol
    /// stays missing until all its pieces are under way.
    fn emit_part(&mut self, id: SymbolId, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
        let bytes = self.ring.get(id)?;
        let piece = put_piece(&mut self.parts, id, bytes, packet, space_bytes)?;
        if self.parts.is_all_sent(id) {
            self.on_copied(id)?;
        } else {
            self.stats.copies += 1;
        }
        Some(Emitted { content: Content::Part(piece), is_repair: true })
    }

    /// A copy of `id` is under way.
    fn on_copied(&mut self, id: SymbolId) -> Option<()> {
        self.missing.remove(&id);
        let slot = self.ring.slot_mut(id)?;
        slot.state = slot.state.sent_again();
        if slot.was_lost && slot.state == SymbolState::InFlight(1) {
            self.copied_in_flight += 1;
            if slot.set.is_none() && self.combiner.has_combinations() {
                self.recovering.insert(id);
                while self.recovering.len() > RECOVERING_MAX {
                    self.recovering.pop_first();
                }
            }
        }
        self.stats.copies += 1;
        Some(())
    }

    /// One combination over exactly the symbols being recovered.
    pub(super) fn emit_insurance(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
        let floor = self.ring.next_id().0.saturating_sub(u64::from(self.reach_symbols));
        self.recovering.retain(|id| id.0 >= floor);
        let candidates: Vec<SymbolId> = self.recovering.iter().copied().collect();
        let key = self.take_key();
        let members = candidates[..frame::set_prefix_that_fits(&candidates, key)].to_vec();
        if members.is_empty() {
            return None;
        }
        members.iter().for_each(|id| {
            self.recovering.remove(id);
        });
        self.combiner.put_set(&self.ring, &members, key, packet, space_bytes)?;
        let number = self.sets.open(members.clone());
        for id in members {
            if let Some(slot) = self.ring.slot_mut(id) {
                slot.set = Some(number);
            }
        }
        self.stats.repairs_asked += 1;
        Some(self.track(RepairCover::Set(number)))
    }

    /// A combination over the newest `symbols` symbols, without those at the front that are delivered; if all are, from the
    /// newest that is not.
    pub(super) fn emit_repair(
        &mut self,
        symbols: u32,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Emitted> {
        let end = self.ring.next_id();
        let reach = u64::from(symbols.min(self.window_max).max(1));
        let from = end.0.saturating_sub(reach).max(self.ring.base().0);
        let is_open = |id: &u64| self.ring.slot(SymbolId(*id)).is_some_and(|slot| !slot.state.is_delivered());
        let oldest = end.0.saturating_sub(u64::from(self.window_max)).max(self.ring.base().0);
        let first = SymbolId((from..end.0).find(is_open).or_else(|| (oldest..from).rev().find(is_open))?);
        let window = Window { first, len: u32::try_from(end.0 - first.0).ok()? };
        let key = self.take_key();
        self.send_window(window, key, reason, packet, space_bytes)
    }

    /// The repair symbol of one of `groups` interleaved groups (TCP-FEC, Sato 2019, chapter 5).
    pub(super) fn emit_group(
        &mut self,
        symbols: u32,
        groups: u16,
        group: u16,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Emitted> {
        let window = self.newest(symbols);
        let groups = groups.max(1);
        // Symbols at the front that arrived are gone. The others stay in the groups they were in.
        let gone = symbols.saturating_sub(window.len) % u32::from(groups);
        let group = (u32::from(group % groups) + u32::from(groups) - gone) % u32::from(groups);
        let key = self.combiner.code().repair_key(group, u32::from(groups));
        self.groups = groups;
        self.send_window(window, key, RepairReason::Proactive, packet, space_bytes)
    }

    fn send_window(
        &mut self,
        window: Window,
        key: RepairKey,
        reason: RepairReason,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Emitted> {
        if window.len == 0 {
            return None;
        }
        self.stats.count_repair(reason);
        self.sources_since_repair = 0;
        self.first_source_since_repair = None;
        self.repairs_since_source += 1;
        if window.len == 1 || self.combiner.put_window(&self.ring, window, key, packet, space_bytes).is_none()
        {
            let emitted = self.emit_copy(window.first, packet, space_bytes);
            // It was counted under its reason.
            self.stats.copies -= u64::from(emitted.is_some());
            return emitted;
        }
        self.windows_in_flight.push_back((self.repairs_base + self.repairs.len() as u64, window));
        Some(self.track(RepairCover::Window(window)))
    }

    fn take_key(&mut self) -> RepairKey {
        self.next_key = (self.next_key + 1) % KEYS;
        self.combiner.code().repair_key(self.next_key, 1)
    }

    fn track(&mut self, cover: RepairCover) -> Emitted {
        let number = self.repairs_base + self.repairs.len() as u64;
        self.repairs.push_back(Some(cover));
        Emitted { content: Content::Repair(number), is_repair: true }
    }

    pub(super) fn take_repair(&mut self, number: u64) -> Option<RepairCover> {
        let at = usize::try_from(number.checked_sub(self.repairs_base)?).ok()?;
        let cover = self.repairs.get_mut(at)?.take();
        while let Some(None) = self.repairs.front() {
            self.repairs.pop_front();
            self.repairs_base += 1;
        }
        let settled = |&(n, _): &(u64, Window)| n == number;
        if let Some(at) = self.windows_in_flight.iter().position(settled) {
            self.windows_in_flight.remove(at);
        }
        cover
    }
}
