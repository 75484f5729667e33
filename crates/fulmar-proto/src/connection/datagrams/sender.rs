//! Symbols of datagrams out: the newest are kept as long as repair can bring them in time, and repair leaves
//! at distances that outlive bursts.
//!
//! A flow that goes on gets its repair between its datagrams, within what the deadline leaves beyond whole
//! spacings: then as many repair symbols as possible follow each datagram in time. Where a flow pauses, what
//! the newest still need follows until they are worth nothing.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_control::LossView;
use fulmar_fec::{Recent, RepairKey, SymbolId, Symbols, Window};

use super::head::Symbol;
use super::plan::{Plan, Tokens};
use crate::Instant;
use crate::wire::frame;

/// How much of the time that is left for repair is used: packets wait for their turn, and so do others
/// before them.
const TIME_USED: f64 = 0.5;
/// Weight of a new distance between two datagrams in their mean.
const SPACING_GAIN: u32 = 8;
/// A flow pauses when nothing came for one and a half spacings, and for this.
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Most repair symbols that wait for their time: those of two full windows.
const DUE_MAX: usize = 2 * Recent::COVER_MAX as usize;
/// Most bytes of symbols kept.
const KEPT_BYTES_MAX: usize = 384 << 10;

#[derive(Debug)]
struct Sent {
    symbol: Symbol,
    /// From then on it is worth nothing.
    expires_at: Instant,
    /// Repair symbols sent before it.
    repairs_before: u64,
}

/// What was sent lately, and the repair that is to follow.
#[derive(Debug)]
pub(super) struct Sender {
    next: u64,
    kept: VecDeque<Sent>,
    kept_bytes: usize,
    last_at: Option<Instant>,
    /// Mean distance of datagrams.
    spacing: Duration,
    plan: Plan,
    tokens: Tokens,
    /// Repair symbols that are owed, whole and in parts.
    credit: f64,
    /// When repair symbols are due, in order.
    due: VecDeque<Instant>,
    /// Those whose time has come.
    ready: u32,
    /// When the flow is found to pause.
    pause_at: Option<Instant>,
    repairs_sent: u64,
}

/// Kept symbols by their ids.
struct Kept<'a>(&'a Sender);

impl Symbols for Kept<'_> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        let index = id.0.checked_sub(self.0.first())?;
        self.0.kept.get(usize::try_from(index).ok()?).map(|sent| sent.symbol.coded())
    }
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            next: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            last_at: None,
            spacing: Duration::ZERO,
            plan: Plan::default(),
            tokens: Tokens::default(),
            credit: 0.0,
            due: VecDeque::new(),
            ready: 0,
            pause_at: None,
            repairs_sent: 0,
        }
    }
}

impl Sender {
    /// The id of the oldest symbol kept.
    fn first(&self) -> u64 {
        self.next - self.kept.len() as u64
    }

    /// Puts a symbol into a packet. It is worth nothing any more at `expires_at`, and pays for repair of so
    /// many percent.
    pub(super) fn put(
        &mut self,
        now: Instant,
        symbol: Symbol,
        expires_at: Instant,
        cost_percent: Option<u16>,
        loss: &LossView,
        packet: &mut Vec<u8>,
    ) {
        frame::put_coded_datagram(packet, self.next as u16, symbol.on_wire());
        let bytes = symbol.data().len();
        let worth = expires_at - now;
        self.forget(now);
        self.kept_bytes += symbol.held_bytes();
        self.kept.push_back(Sent { symbol, expires_at, repairs_before: self.repairs_sent });
        self.next += 1;
        while self.kept.len() > Recent::COVER_MAX as usize || self.kept_bytes > KEPT_BYTES_MAX {
            self.drop_oldest();
        }
        if let Some(percent) = cost_percent {
            self.note_spacing(now, worth);
            self.tokens.earn(bytes, percent);
            self.plan(now, worth, loss);
        }
    }

    fn note_spacing(&mut self, now: Instant, worth: Duration) {
        if let Some(last) = self.last_at.replace(now) {
            let gap = (now - last).min(worth);
            self.spacing = (self.spacing * (SPACING_GAIN - 1) + gap) / SPACING_GAIN;
        } else {
            self.spacing = worth;
        }
    }

    /// The newest symbol adds its share of what its block needs.
    fn plan(&mut self, now: Instant, worth: Duration, loss: &LossView) {
        let block = self.kept.len() as u32;
        self.credit += f64::from(self.plan.repairs_for(block, loss)) / f64::from(block);
        let wanted = self.credit as u32;
        let repairs = self.tokens.take(wanted);
        // What cannot be paid is not owed either: losses of the past need no repair.
        self.credit -= f64::from(wanted);
        self.schedule(now, repairs, self.slack(worth));
        self.pause_at = (self.spacing * 3 < worth * 2).then(|| now + (self.spacing * 3 / 2).max(PAUSE_MIN));
    }

    /// How much later than a datagram its repair may be, so that the repair of as many datagrams after it as
    /// possible is in time for it too.
    fn slack(&self, worth: Duration) -> Duration {
        if self.spacing >= worth || self.spacing.is_zero() {
            return worth.mul_f64(TIME_USED);
        }
        let spacings = worth.as_nanos() / self.spacing.as_nanos();
        let rest = worth - self.spacing * u32::try_from(spacings).unwrap_or(u32::MAX);
        rest.mul_f64(TIME_USED).min(self.spacing / 2)
    }

    /// So many repair symbols at equal distances over `within`.
    fn schedule(&mut self, now: Instant, repairs: u32, within: Duration) {
        for k in 1..=repairs {
            if self.due.len() < DUE_MAX {
                let at = now + within * k / repairs;
                let index = self.due.partition_point(|other| *other <= at);
                self.due.insert(index, at);
            }
        }
    }

    /// Nothing has followed the newest symbol: what is left to come for it has to suffice, and what was sent
    /// over all that are kept.
    fn on_pause(&mut self, now: Instant, loss: &LossView) {
        self.forget(now);
        let (Some(oldest), Some(newest)) = (self.kept.front(), self.kept.back()) else { return };
        let planned = self.due.len() as u64 + u64::from(self.ready) + self.repairs_sent;
        let (of_all, of_newest) = (planned - oldest.repairs_before, planned - newest.repairs_before);
        let left = newest.expires_at - now;
        let block = self.kept.len() as u32;
        let short_of_all = u64::from(self.plan.repairs_for(block, loss)).saturating_sub(of_all);
        let short_of_newest = u64::from(self.plan.repairs_for(1, loss)).saturating_sub(of_newest);
        let wanted = u32::try_from(short_of_all.max(short_of_newest)).unwrap_or(u32::MAX);
        let repairs = self.tokens.take(wanted);
        self.schedule(now, repairs, left.mul_f64(TIME_USED));
    }

    /// When something is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.due.front().copied().into_iter().chain(self.pause_at).min()
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant, loss: &LossView) {
        if self.pause_at.take_if(|at| *at <= now).is_some() {
            self.on_pause(now, loss);
        }
        while self.due.front().is_some_and(|at| *at <= now) {
            self.due.pop_front();
            self.ready += 1;
        }
    }

    /// A repair symbol is to leave now. One that does not fit a packet with `packet_room` never will.
    pub(super) fn has_repair(&mut self, now: Instant, packet_room: usize) -> bool {
        if self.ready > 0 {
            self.forget(now);
            if self.longest() + frame::DATAGRAM_REPAIR_HEADER_BYTES_MAX > packet_room {
                self.ready = 0;
            }
        }
        self.ready > 0
    }

    /// Bytes of the longest symbol that repair is made over.
    fn longest(&self) -> usize {
        self.kept.iter().map(|sent| sent.symbol.coded().len()).max().unwrap_or(0)
    }

    /// Puts a repair symbol over all that is worth it into a packet, if it fits in `room`.
    pub(super) fn put_repair(&mut self, packet: &mut Vec<u8>, room: usize) {
        let longest = self.longest();
        if self.ready == 0 || longest + frame::DATAGRAM_REPAIR_HEADER_BYTES_MAX > room {
            return;
        }
        let (first, len) = (self.first(), self.kept.len());
        let (window, key) = (Window { first: SymbolId(first), len: len as u32 }, self.repairs_sent as u8);
        let mut payload = Vec::with_capacity(longest);
        if Recent::repair(window, RepairKey(u32::from(key)), &Kept(self), &mut payload).is_ok() {
            frame::put_datagram_repair(packet, first as u16, len as u8, key, &payload);
        }
        self.ready -= 1;
        self.repairs_sent += 1;
    }

    /// What has become worthless is not repaired any more.
    fn forget(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|sent| sent.expires_at <= now) {
            self.drop_oldest();
        }
        if self.kept.is_empty() {
            self.ready = 0;
            self.due.clear();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(sent) = self.kept.pop_front() {
            self.kept_bytes -= sent.symbol.held_bytes();
        }
    }

    /// A repair symbol leaves half of a packet of `packet_bytes` free.
    pub(super) fn is_repair_small(&self, packet_bytes: usize) -> bool {
        self.longest() <= packet_bytes / 2
    }

    /// Nothing was sent for a while: what is worth nothing goes.
    pub(super) fn release_memory(&mut self, now: Instant) {
        self.forget(now);
        self.kept.shrink_to_fit();
        self.due.shrink_to_fit();
    }

    /// Nothing is sent any more.
    pub(super) fn let_go(&mut self) {
        (self.kept, self.due, self.kept_bytes) = Default::default();
        (self.ready, self.pause_at) = (0, None);
    }

    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    pub(super) fn repairs_sent(&self) -> u64 {
        self.repairs_sent
    }

    /// Bytes of symbols kept.
    pub(super) fn memory_bytes(&self) -> usize {
        self.kept_bytes + self.due.capacity() * size_of::<Instant>()
    }
}
