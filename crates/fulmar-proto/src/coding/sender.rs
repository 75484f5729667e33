//! The sending half of coding: what is missing at the receiver, and what the next packet should carry.
//!
//! Decides nothing about time or rate. It is told which packets arrived and which were lost, counts what the receiver
//! lacks, shows that to the redundancy policy as a [`Slot`](fulmar_control::Slot), and carries out its choice.
//!
//! What the receiver lacks is known from two sides: the sender's own count (symbols whose packets were all lost, less
//! what combinations restore) and the deficit the receiver reports, which includes what proactive repair has already
//! made good. The smaller of the two is what must still be sent; where they err, the probe timeout sends more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use fulmar_control::{Choice, Instant, RepairReason, Slot};
use fulmar_fec::{Code, CodeId, Cover, Encoder, Geometry, RepairKey, SymbolId, Symbols, Window};

use super::parts::PartsOut;
use super::ring::{Ring, SymbolState};
use super::sets::{RecoverySets, SetNumber};
use super::stats::SenderStats;
use crate::TransportError;
use crate::recovery::Content;
use crate::wire::frame::{self, CodingState};

/// Keys in use: repair over the same cover repeats after so many. They take one byte on the wire.
const KEYS: u32 = 64;
/// Symbols copied since the last insurance that are remembered.
const RECOVERING_MAX: usize = 64;

/// What a packet was given to carry.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// For the record of the packet.
    pub content: Content,
    /// It repeats or repairs.
    pub is_repair: bool,
}

/// A combination under way.
#[derive(Copy, Clone, Debug)]
enum RepairCover {
    Window(Window),
    Set(SetNumber),
}

/// The sender's side of the coding layer.
#[derive(Debug)]
pub struct SymbolSender {
    code: CodeId,
    encoder: Option<Box<dyn Encoder>>,
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
    stats: SenderStats,
}

impl SymbolSender {
    /// A sender that uses `code` for symbols of at most `symbol_bytes`, towards a receiver that retains `reach_symbols`.
    pub fn new(code: &dyn Code, symbol_bytes: usize, reach_symbols: u32) -> Self {
        let shape = code.shape();
        let window_max = match shape.geometry {
            Geometry::None => 0,
            Geometry::Block { len_max } | Geometry::Sliding { len_max } => len_max.min(reach_symbols),
        };
        Self {
            code: shape.id,
            encoder: (window_max > 0).then(|| code.encoder(symbol_bytes)),
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
            stats: SenderStats::default(),
        }
    }

    /// Counts so far.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// Id of the next source symbol.
    pub fn next_id(&self) -> SymbolId {
        self.ring.next_id()
    }

    /// Everything sent has been decoded by the receiver.
    pub fn is_all_delivered(&self) -> bool {
        self.ring.base() == self.ring.next_id()
    }

    /// Bytes of symbols held for the case that they are needed again.
    pub fn held_bytes(&self) -> u64 {
        self.ring.held_bytes()
    }

    /// Symbols between the oldest that is not delivered and the newest.
    pub fn span_symbols(&self) -> u64 {
        self.ring.next_id().0 - self.ring.base().0
    }

    /// The receiver's last report.
    pub fn peer_state(&self) -> &CodingState {
        &self.peer
    }

    /// How the next chance to send looks to a policy. `rtt` is the time after which what was sent has arrived or is lost.
    pub fn slot(&self, now: Instant, has_new_data: bool, rtt: Duration) -> Slot {
        let mut slot = Slot::idle(now);
        slot.has_new_data = has_new_data;
        slot.missing_symbols = self.missing.len() as u32;
        slot.missing = self.needed(now, rtt);
        slot.repairs_in_flight = self.copied_in_flight + self.helping_windows();
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
        let is_overdue = self.overdue_at(rtt).is_some_and(|at| at <= now);
        let reported: u32 = self.peer.windows.iter().map(|open| open.deficit).sum();
        let end = self.peer.windows.last().map_or(self.peer.decoded_below, |open| open.window.end());
        let beyond = self.missing.range(end..).count() as u32;
        let under_way = self.copied_in_flight + self.helping_windows();
        missing.min((reported + beyond).saturating_sub(under_way).max(u32::from(is_overdue)))
    }

    /// When the oldest symbol known missing is to be copied, whatever the counts say.
    pub fn overdue_at(&self, rtt: Duration) -> Option<Instant> {
        self.missing.first_key_value().map(|(_, &since)| since + rtt + rtt / 4)
    }

    /// Proactive combinations under way that cover the oldest symbol known missing.
    fn helping_windows(&self) -> u32 {
        let Some((oldest, _)) = self.missing.first_key_value() else { return 0 };
        let helps = |window: &Window| window.contains(*oldest);
        self.windows_in_flight.iter().rev().take(64).filter(|(_, window)| helps(window)).count() as u32
    }

    /// Carries out `choice`: appends a frame of at most `space_bytes` to `packet`. `fill` packs a new symbol of at most
    /// the size it is given. `None`: there was nothing to carry.
    pub fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        fill: impl FnOnce(&mut Vec<u8>, usize),
    ) -> Option<Emitted> {
        match choice {
            Choice::Source => self.emit_source(now, packet, space_bytes, fill),
            Choice::Recover => {
                let (&id, _) = self.missing.first_key_value()?;
                self.emit_copy(id, packet, space_bytes)
            }
            Choice::Insure => self.emit_insurance(packet, space_bytes),
            Choice::Repair { symbols, reason } => self.emit_repair(symbols, reason, packet, space_bytes),
            Choice::Group { symbols, .. } => {
                self.emit_repair(symbols, RepairReason::Proactive, packet, space_bytes)
            }
            Choice::Combine { .. } => self.emit_source(now, packet, space_bytes, fill),
            Choice::Wait(_) => None,
        }
    }

    fn emit_source(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        fill: impl FnOnce(&mut Vec<u8>, usize),
    ) -> Option<Emitted> {
        let mut symbol = self.ring.buffer();
        fill(&mut symbol, space_bytes.saturating_sub(frame::SOURCE_HEADER_BYTES));
        if symbol.is_empty() {
            self.ring.recycle(symbol);
            return None;
        }
        frame::put_source_header(packet, self.ring.next_id());
        packet.extend_from_slice(&symbol);
        let id = self.ring.push(symbol);
        if let Some(slot) = self.ring.slot_mut(id) {
            slot.state = SymbolState::InFlight(1);
        }
        self.retire_old_bytes();
        self.stats.sources += 1;
        self.last_source_at = Some(now);
        self.sources_since_repair += 1;
        self.first_source_since_repair.get_or_insert(now);
        self.repairs_since_source = 0;
        Some(Emitted { content: Content::Source(id), is_repair: false })
    }

    /// A delivered symbol is kept while a window may still cover it; the one that just left every window goes.
    fn retire_old_bytes(&mut self) {
        let Some(old) = self.ring.next_id().0.checked_sub(u64::from(self.window_max) + 1) else { return };
        if self.ring.slot(SymbolId(old)).is_some_and(|slot| slot.state == SymbolState::Delivered) {
            self.ring.release_bytes(SymbolId(old));
        }
    }

    fn emit_copy(&mut self, id: SymbolId, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
        let bytes = self.ring.get(id)?;
        if bytes.len() + frame::SOURCE_HEADER_BYTES > space_bytes {
            return self.emit_part(id, packet, space_bytes);
        }
        frame::put_source_header(packet, id);
        packet.extend_from_slice(bytes);
        self.on_copied(id)?;
        Some(Emitted { content: Content::Copy(id), is_repair: true })
    }

    /// A piece of a symbol that no longer fits a packet, because the path carries less than when it was made. The symbol
    /// stays missing until all its pieces are under way.
    fn emit_part(&mut self, id: SymbolId, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
        let bytes = self.ring.get(id)?;
        let room = space_bytes.checked_sub(frame::PART_HEADER_BYTES_MAX).filter(|&room| room > 0)?;
        let piece = self.parts.poll(id, bytes.len(), room)?;
        frame::put_part_header(packet, id, bytes.len(), usize::from(piece.start));
        packet.extend_from_slice(&bytes[usize::from(piece.start)..usize::from(piece.end)]);
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
        slot.state = match slot.state {
            SymbolState::InFlight(count) => SymbolState::InFlight(count.saturating_add(1)),
            _ => SymbolState::InFlight(1),
        };
        if slot.was_lost && slot.state == SymbolState::InFlight(1) {
            self.copied_in_flight += 1;
            if slot.set.is_none() && self.encoder.is_some() {
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
    fn emit_insurance(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
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
        let code = self.code;
        self.put_combination(Cover::Set(&members), key, packet, space_bytes, |packet| {
            frame::put_repair_set_header(packet, code, &members, key);
        })?;
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
    fn emit_repair(
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
        match reason {
            RepairReason::Asked => self.stats.repairs_asked += 1,
            RepairReason::Proactive => self.stats.repairs_proactive += 1,
            RepairReason::Tail => self.stats.repairs_tail += 1,
            RepairReason::Probe => self.stats.probes += 1,
        }
        self.sources_since_repair = 0;
        self.first_source_since_repair = None;
        self.repairs_since_source += 1;
        if window.len == 1 || self.put_window(window, packet, space_bytes).is_none() {
            let emitted = self.emit_copy(first, packet, space_bytes);
            // It was counted under its reason.
            self.stats.copies -= u64::from(emitted.is_some());
            return emitted;
        }
        self.windows_in_flight.push_back((self.repairs_base + self.repairs.len() as u64, window));
        Some(self.track(RepairCover::Window(window)))
    }

    fn put_window(&mut self, window: Window, packet: &mut Vec<u8>, space_bytes: usize) -> Option<()> {
        let (code, key) = (self.code, self.take_key());
        self.put_combination(Cover::Window(window), key, packet, space_bytes, |packet| {
            frame::put_repair_window_header(packet, code, window, key);
        })
    }

    /// What the probe timeout sends, whatever policy and deficit say: a combination over the unacknowledged tail where
    /// the code has combinations, else a copy of the oldest symbol that is not delivered.
    pub fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Emitted> {
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

    fn take_key(&mut self) -> RepairKey {
        self.next_key = (self.next_key + 1) % KEYS;
        RepairKey(self.next_key)
    }

    fn put_combination(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        put_header: impl FnOnce(&mut Vec<u8>),
    ) -> Option<()> {
        let encoder = self.encoder.as_mut()?;
        let before = packet.len();
        put_header(packet);
        let start = packet.len();
        let longest = longest_symbol(cover, &self.ring)?;
        if packet.len() - before + longest > space_bytes {
            // Over symbols made for a path that carried more.
            packet.truncate(before);
            return None;
        }
        packet.resize(start + longest, 0);
        match encoder.repair(cover, key, &self.ring, &mut packet[start..]) {
            Ok(len) => packet.truncate(start + len),
            Err(error) => {
                debug_assert!(false, "encoder refused {cover:?}: {error}");
                packet.truncate(before);
                return None;
            }
        }
        Some(())
    }

    fn track(&mut self, cover: RepairCover) -> Emitted {
        let number = self.repairs_base + self.repairs.len() as u64;
        self.repairs.push_back(Some(cover));
        Emitted { content: Content::Repair(number), is_repair: true }
    }

    fn take_repair(&mut self, number: u64) -> Option<RepairCover> {
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

    /// A packet arrived. True if it added a degree of freedom at the receiver.
    pub fn on_acked(&mut self, content: Content) -> bool {
        match content {
            Content::Part(piece) => {
                let is_complete = self.parts.on_acked(piece);
                if is_complete {
                    self.deliver(piece.id);
                }
                is_complete
            }
            Content::Source(id) | Content::Copy(id) => {
                let is_news = self.ring.slot(id).is_some_and(|slot| slot.state != SymbolState::Delivered);
                self.deliver(id);
                is_news
            }
            Content::Repair(number) => match self.take_repair(number) {
                Some(RepairCover::Set(set)) => {
                    self.sets.on_combination(set, true, false);
                    self.settle(set);
                    true
                }
                Some(RepairCover::Window(window)) => window.end() > self.peer.decoded_below,
                None => false,
            },
            Content::Control | Content::MtuProbe => false,
        }
    }

    /// A packet was lost. True if repair must now be asked for a symbol that had been covered by nothing else.
    pub fn on_lost(&mut self, now: Instant, content: Content) -> bool {
        match content {
            Content::Source(id) | Content::Copy(id) => self.on_symbol_lost(now, id),
            Content::Part(piece) => {
                self.parts.on_lost(piece);
                self.on_symbol_lost(now, piece.id)
            }
            Content::Repair(number) => {
                if let Some(RepairCover::Set(set)) = self.take_repair(number) {
                    self.sets.on_combination(set, false, false);
                    self.uncover(now, set);
                    self.settle(set);
                }
                false
            }
            Content::Control | Content::MtuProbe => false,
        }
    }

    fn on_symbol_lost(&mut self, now: Instant, id: SymbolId) -> bool {
        let Some(slot) = self.ring.slot_mut(id) else { return false };
        let SymbolState::InFlight(count) = slot.state else { return false };
        if count > 1 {
            slot.state = SymbolState::InFlight(count - 1);
            return false;
        }
        if slot.was_lost {
            self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
        } else {
            self.stats.lost += 1;
        }
        slot.was_lost = true;
        self.recovering.remove(&id);
        if let Some(set) = slot.set.and_then(|number| self.sets.set_mut(number))
            && set.has_room()
        {
            set.covered += 1;
            slot.state = SymbolState::Covered;
            return false;
        }
        slot.state = SymbolState::Missing;
        self.missing.insert(id, now);
        self.stats.unrepaired += 1;
        true
    }

    /// The receiver has `id`.
    fn deliver(&mut self, id: SymbolId) {
        let Some(slot) = self.ring.slot_mut(id) else { return };
        let was = slot.state;
        slot.state = SymbolState::Delivered;
        self.parts.forget(id);
        let (was_lost, set) = (slot.was_lost, slot.set.take());
        match was {
            SymbolState::InFlight(_) if was_lost => {
                self.copied_in_flight = self.copied_in_flight.saturating_sub(1)
            }
            SymbolState::Missing => {
                self.missing.remove(&id);
            }
            _ => {}
        }
        self.recovering.remove(&id);
        let oldest_covered = self.ring.next_id().0.saturating_sub(u64::from(self.window_max));
        if id.0 < oldest_covered {
            self.ring.release_bytes(id);
        }
        if let Some(number) = set {
            if let Some(set) = self.sets.set_mut(number) {
                set.undelivered -=
                    usize::from(!matches!(was, SymbolState::Inferred | SymbolState::Delivered));
                set.covered -= usize::from(was == SymbolState::Covered);
            }
            self.settle(number);
        }
        self.ring.pop_delivered();
    }

    /// If the set is decoded, its members are.
    fn settle(&mut self, number: SetNumber) {
        if !self.sets.set_mut(number).is_some_and(|set| set.is_decoded()) {
            return;
        }
        let Some(set) = self.sets.close(number) else { return };
        for id in set.members {
            let Some(slot) = self.ring.slot_mut(id) else { continue };
            if slot.set != Some(number) || slot.state.is_delivered() {
                continue;
            }
            match slot.state {
                SymbolState::InFlight(_) if slot.was_lost => {
                    self.copied_in_flight = self.copied_in_flight.saturating_sub(1);
                }
                SymbolState::Missing => {
                    self.missing.remove(&id);
                }
                _ => {}
            }
            slot.set = None;
            slot.state = SymbolState::Inferred;
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
            if let Some(slot) = self.ring.slot_mut(*id)
                && slot.state == SymbolState::Covered
            {
                slot.state = SymbolState::Missing;
                self.missing.insert(*id, now);
                surplus -= 1;
            }
        }
    }

    /// The receiver reported its state, in the newest ACK so far. Returns the symbols that were lost and are now known
    /// to be repaired.
    pub fn on_peer_state(&mut self, now: Instant, state: CodingState) -> Result<u32, TransportError> {
        if state.decoded_below > self.ring.next_id() {
            return Err(TransportError::coding("ACK reports symbols decoded that were never sent"));
        }
        let mut repaired = 0;
        while self.ring.base() < state.decoded_below {
            let id = self.ring.base();
            let is_repair =
                self.ring.slot(id).is_some_and(|s| s.was_lost && s.state != SymbolState::Delivered);
            repaired += u32::from(is_repair);
            self.deliver(id);
        }
        self.stats.repaired += u64::from(repaired);
        // A combination is dependent once in some 255 times. The receiver's own word then says that its lowest symbol
        // is not decoded although the count of equations said so.
        let lowest = state.decoded_below;
        if let Some(slot) = self.ring.slot_mut(lowest)
            && slot.state == SymbolState::Inferred
        {
            slot.state = SymbolState::Missing;
            self.missing.insert(lowest, now);
        }
        if state.decoded_below >= self.peer.decoded_below {
            self.peer = state;
        }
        Ok(repaired)
    }
}

fn longest_symbol(cover: Cover<'_>, symbols: &dyn Symbols) -> Option<usize> {
    match cover {
        Cover::Window(window) => (window.first.0..window.end().0)
            .map(|id| symbols.get(SymbolId(id)).map(<[u8]>::len))
            .max()
            .flatten(),
        Cover::Set(ids) => ids.iter().map(|&id| symbols.get(id).map(<[u8]>::len)).max().flatten(),
    }
}
