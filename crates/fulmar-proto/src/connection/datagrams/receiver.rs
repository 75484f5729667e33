//! Symbols of datagrams in: what is missing of the newest is restored where repair allows, pieces are put
//! together, and those that keep their order wait for what may still come.
//!
//! A missing symbol is given up when repair covers it no more, or when something sent after it has been known
//! for as long as that is waited for. No clock of the other end is needed for that, and nobody waits for
//! ever.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use fulmar_fec::{Recent, RepairKey, SymbolId, Symbols, Window};

use super::head::Symbol;
use super::options::DatagramStats;
use crate::wire::Malformed;
use crate::wire::frame::DatagramRepair;
use crate::{Instant, TransportError, TransportErrorCode};

/// Symbols remembered, counted back from the newest heard of. The pieces of the longest datagram are fewer.
const REMEMBERED: usize = 256;
/// Bytes of them.
const REMEMBERED_BYTES_MAX: usize = 384 << 10;
/// Equations kept, and bytes of them.
const EQUATIONS_MAX: usize = 32;
const EQUATIONS_BYTES_MAX: usize = 128 << 10;
/// Longest datagram: longer ones are of nobody who keeps to what was agreed on.
pub(crate) const CODED_DATAGRAM_BYTES_MAX: u64 = 65_535;

#[derive(Debug)]
enum Slot {
    Missing,
    /// Nobody waits for it any more.
    GivenUp,
    Known(Known),
}

#[derive(Debug)]
struct Known {
    symbol: Symbol,
    at: Instant,
    /// It was delivered, or never will be.
    is_done: bool,
}

/// What a symbol is part of.
enum Whole {
    /// All of a datagram is there.
    Complete(Range<u64>),
    /// This symbol of it is missing.
    Lacks(u64),
    /// More of it is to come.
    Open,
    /// It is no datagram.
    Never,
}

/// The newest symbols, and equations about those that are missing.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Id of the oldest slot.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
    equations: Recent,
    /// Every symbol below is delivered or given up.
    settled: u64,
    /// The other end makes no repair for what is below: it is worth nothing any more.
    worthless_below: u64,
    /// Datagrams for the application.
    ready: VecDeque<Bytes>,
    /// When what waits for its order does so no more.
    release_at: Option<Instant>,
    stats: DatagramStats,
}

struct Slots<'a> {
    first: u64,
    slots: &'a VecDeque<Slot>,
}

impl Symbols for Slots<'_> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        let index = usize::try_from(id.0.checked_sub(self.first)?).ok()?;
        match self.slots.get(index)? {
            Slot::Known(known) => Some(known.symbol.coded()),
            Slot::Missing | Slot::GivenUp => None,
        }
    }
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            bytes: 0,
            equations: Recent::new(EQUATIONS_MAX, EQUATIONS_BYTES_MAX),
            settled: 0,
            worthless_below: 0,
            ready: VecDeque::new(),
            release_at: None,
            stats: DatagramStats::default(),
        }
    }
}

impl Receiver {
    /// The id after the newest heard of.
    fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// The id nearest to the next one whose low bits these are.
    fn expand(&self, low: u16) -> u64 {
        let expected = self.end();
        let near = expected & !0xffff | u64::from(low);
        if near > expected + 0x8000 {
            near.saturating_sub(0x1_0000)
        } else if near + 0x8000 < expected {
            near + 0x1_0000
        } else {
            near
        }
    }

    /// A symbol arrived.
    pub(super) fn on_symbol(&mut self, now: Instant, id: u16, bytes: &[u8]) -> Result<(), TransportError> {
        let symbol = Symbol::arrived(bytes).map_err(malformed)?;
        self.stats.arrived += 1;
        let id = self.expand(id);
        if id < self.first {
            return Ok(());
        }
        self.hear_of(id + 1);
        if self.is_known(id) {
            return Ok(());
        }
        self.equations.on_source(SymbolId(id), symbol.coded()).map_err(contradiction)?;
        self.on_known(now, id, symbol);
        self.collect(now)
    }

    /// A repair symbol arrived.
    pub(super) fn on_repair(
        &mut self,
        now: Instant,
        repair: &DatagramRepair<'_>,
    ) -> Result<(), TransportError> {
        self.stats.repairs_arrived += 1;
        let first = self.expand(repair.first);
        let window = Window { first: SymbolId(first), len: u32::from(repair.len) };
        if window.len == 0 || window.len > Recent::COVER_MAX {
            return Err(TransportError::new(
                TransportErrorCode::Coding,
                "a cover that datagrams do not have",
            ));
        }
        if first < self.first {
            return Ok(());
        }
        self.worthless_below = self.worthless_below.max(first);
        self.hear_of(window.end().0);
        if first < self.first || (first..window.end().0).all(|id| self.is_known(id)) {
            self.settle(now);
            return Ok(());
        }
        let known = Slots { first: self.first, slots: &self.slots };
        let key = RepairKey(u32::from(repair.key));
        self.equations.on_repair(window, key, repair.payload, &known).map_err(contradiction)?;
        self.collect(now)
    }

    /// Takes what the equations have determined, and delivers what can be.
    fn collect(&mut self, now: Instant) -> Result<(), TransportError> {
        while let Some((id, coded)) = self.equations.poll_recovered() {
            let symbol = Symbol::recovered(coded).map_err(malformed)?;
            if id.0 >= self.first && !self.is_known(id.0) {
                self.stats.repaired += 1;
                self.on_known(now, id.0, symbol);
            }
        }
        self.settle(now);
        Ok(())
    }

    fn slot(&self, id: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(id.checked_sub(self.first)?).ok()?)
    }

    fn known(&self, id: u64) -> Option<&Known> {
        match self.slot(id)? {
            Slot::Known(known) => Some(known),
            Slot::Missing | Slot::GivenUp => None,
        }
    }

    fn is_known(&self, id: u64) -> bool {
        self.known(id).is_some()
    }

    fn put(&mut self, id: u64, slot: Slot) {
        if let Some(at) = id.checked_sub(self.first).and_then(|at| self.slots.get_mut(at as usize)) {
            *at = slot;
        }
    }

    fn finish(&mut self, ids: Range<u64>) {
        for id in ids {
            let at = id.checked_sub(self.first).and_then(|at| self.slots.get_mut(at as usize));
            if let Some(Slot::Known(known)) = at {
                known.is_done = true;
            }
        }
    }

    /// There are symbols up to `end`. The oldest are forgotten.
    fn hear_of(&mut self, end: u64) {
        let new = end.saturating_sub(self.end());
        let skipped = new.saturating_sub(REMEMBERED as u64);
        if skipped > 0 {
            // All that was remembered goes, and of these the first are never looked at.
            while !self.slots.is_empty() {
                self.drop_oldest();
            }
            self.first += skipped;
            self.stats.lost += skipped;
        }
        for _ in 0..new - skipped {
            self.slots.push_back(Slot::Missing);
        }
        while self.slots.len() > REMEMBERED {
            self.drop_oldest();
        }
        self.settled = self.settled.max(self.first);
        self.equations.release(SymbolId(self.first));
    }

    fn drop_oldest(&mut self) {
        match self.slots.pop_front() {
            Some(Slot::Missing) => self.stats.lost += 1,
            Some(Slot::Known(known)) => self.bytes -= known.symbol.held_bytes(),
            Some(Slot::GivenUp) => {}
            None => return,
        }
        self.first += 1;
        self.settled = self.settled.max(self.first);
    }

    fn on_known(&mut self, now: Instant, id: u64, symbol: Symbol) {
        let was_given_up = matches!(self.slot(id), Some(Slot::GivenUp));
        self.stats.lost -= u64::from(was_given_up);
        let is_late = (was_given_up || id < self.worthless_below) && symbol.head.may_be_late();
        self.stats.late += u64::from(is_late);
        let is_in_order = symbol.head.is_in_order;
        self.bytes += symbol.held_bytes();
        self.put(id, Slot::Known(Known { symbol, at: now, is_done: is_late }));
        while self.bytes > REMEMBERED_BYTES_MAX {
            self.drop_oldest();
        }
        self.equations.release(SymbolId(self.first));
        if !is_in_order && let Whole::Complete(ids) = self.whole(id) {
            self.deliver(ids);
        }
    }

    /// What the known symbol `id` is part of.
    fn whole(&self, id: u64) -> Whole {
        let mut from = id;
        loop {
            match self.known(from) {
                None if from < self.first => return Whole::Never,
                None => return Whole::Lacks(from),
                Some(known) if known.symbol.head.is_first => break,
                Some(_) if from == 0 => return Whole::Never,
                Some(_) => from -= 1,
            }
        }
        let mut to = from;
        loop {
            match self.known(to) {
                None if to >= self.end() => return Whole::Open,
                None => return Whole::Lacks(to),
                Some(known) if to > from && known.symbol.head.is_first => return Whole::Never,
                Some(known) if known.symbol.head.is_last => return Whole::Complete(from..to + 1),
                Some(_) => to += 1,
            }
        }
    }

    /// All of a datagram is there: it is for the application, unless a part of it was dropped.
    fn deliver(&mut self, ids: Range<u64>) {
        let known = || ids.clone().filter_map(|id| self.known(id));
        let bytes: usize = known().map(|known| known.symbol.data().len()).sum();
        if known().all(|known| !known.is_done) && bytes as u64 <= CODED_DATAGRAM_BYTES_MAX {
            let mut pieces = known().map(|known| known.symbol.data());
            let data = match (pieces.next(), ids.end - ids.start) {
                (Some(whole), 1) => whole,
                (first, _) => {
                    let mut data = Vec::with_capacity(bytes);
                    first.into_iter().chain(pieces).for_each(|piece| data.extend_from_slice(&piece));
                    data.into()
                }
            };
            self.ready.push_back(data);
        }
        self.finish(ids);
    }

    /// Goes on from what was settled before: delivers what keeps its order, and gives up what nobody waits
    /// for any more.
    fn settle(&mut self, now: Instant) {
        self.release_at = None;
        while self.settled < self.end() {
            let id = self.settled;
            let missing = match self.known(id) {
                Some(known) if known.is_done => None,
                Some(_) => match self.whole(id) {
                    Whole::Complete(ids) => {
                        self.deliver(ids);
                        None
                    }
                    Whole::Open => break,
                    Whole::Never => {
                        self.finish(id..id + 1);
                        None
                    }
                    Whole::Lacks(missing) => Some(missing),
                },
                None => Some(id),
            };
            match missing {
                Some(missing) if matches!(self.slot(missing), Some(Slot::Missing)) => {
                    match self.given_up_at(missing) {
                        Some(at) if at <= now => {
                            self.put(missing, Slot::GivenUp);
                            self.stats.lost += 1;
                        }
                        at => {
                            self.release_at = at.filter(|_| self.holds_in_order());
                            break;
                        }
                    }
                }
                // What it was part of will never be whole.
                Some(_) => {
                    self.finish(id..id + 1);
                    self.settled += 1;
                }
                None => self.settled += 1,
            }
        }
    }

    /// When a missing symbol is given up: when the other end has given it up, or if something sent later is
    /// known.
    fn given_up_at(&self, missing: u64) -> Option<Instant> {
        if missing < self.worthless_below {
            return Some(Instant::ZERO);
        }
        let later = (missing + 1..self.end()).find_map(|id| self.known(id))?;
        Some(later.at + later.symbol.head.wait())
    }

    /// Something waits for its order.
    fn holds_in_order(&self) -> bool {
        let known = (self.settled..self.end()).filter_map(|id| self.known(id));
        known.filter(|known| !known.is_done).any(|known| known.symbol.head.is_in_order)
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.release_at
    }

    /// Time has passed.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.release_at.is_some_and(|at| at <= now) {
            self.settle(now);
        }
    }

    /// The next datagram for the application.
    pub(super) fn poll(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    /// Nothing has come for a while: nothing is waited for but what a long deadline asks for.
    pub(super) fn release_memory(&mut self, now: Instant) {
        self.settle(now);
        if self.release_at.is_none() {
            while !self.slots.is_empty() {
                self.drop_oldest();
            }
            self.slots.shrink_to_fit();
            self.equations.release(SymbolId(self.first));
        }
    }

    /// Nothing arrives any more.
    pub(super) fn let_go(&mut self) {
        let stats = self.stats;
        *self = Self { stats, ..Self::default() };
    }

    /// What arrived; what was sent is not known here.
    pub(super) fn stats(&self) -> DatagramStats {
        self.stats
    }

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.slots.capacity() * size_of::<Slot>() + self.equations.memory_bytes()
    }
}

fn malformed(_: Malformed) -> TransportError {
    TransportError::frame_encoding("malformed symbol of datagrams")
}

fn contradiction(error: fulmar_fec::CodeError) -> TransportError {
    TransportError::new(TransportErrorCode::Coding, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::head::Head;
    use super::super::options::{DatagramClass, DatagramOptions};
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn symbol(number: u8, options: &DatagramOptions) -> Symbol {
        Symbol::make(Head::of(options, true, true), &[number])
    }

    fn read(receiver: &mut Receiver) -> Vec<u8> {
        std::iter::from_fn(|| receiver.poll()).map(|data| data[0]).collect()
    }

    #[test]
    fn what_is_given_up_is_not_waited_for() {
        let options =
            DatagramOptions::new(DatagramClass::RepairedInOrder).deadline(Duration::from_millis(30));
        let mut receiver = Receiver::default();
        let put = |receiver: &mut Receiver, ms, number: u8| {
            let symbol = symbol(number, &options);
            receiver.on_symbol(at(ms), u16::from(number), symbol.on_wire()).expect("sound");
        };
        put(&mut receiver, 0, 0);
        put(&mut receiver, 10, 2);
        assert_eq!((read(&mut receiver), receiver.timeout()), (vec![0], Some(at(40))));
        // By time: 2 has been known for as long as its deadline.
        receiver.handle_timeout(at(39));
        assert_eq!(read(&mut receiver), []);
        receiver.handle_timeout(at(40));
        assert_eq!((read(&mut receiver), receiver.timeout()), (vec![2], None));
        put(&mut receiver, 45, 1);
        assert_eq!((read(&mut receiver), receiver.stats().late), (vec![], 1));
        // By the sender: its repair does not cover 3 any more.
        put(&mut receiver, 50, 4);
        assert_eq!(read(&mut receiver), []);
        let (symbol, first) = (symbol(4, &options), 4);
        let repair = DatagramRepair { first, len: 1, key: 0, payload: symbol.coded() };
        receiver.on_repair(at(51), &repair).expect("sound");
        assert_eq!((read(&mut receiver), receiver.stats().lost), (vec![4], 1));
    }

    #[test]
    fn ids_are_the_nearest_and_a_jump_forgets_what_was() {
        let options = DatagramOptions::new(DatagramClass::Repaired);
        let mut receiver = Receiver::default();
        let mut id = 0_u64;
        for step in [1, 200, 30_000, 1, 32_000, 32_000, 300] {
            id += step;
            receiver.on_symbol(at(0), id as u16, symbol(7, &options).on_wire()).expect("sound");
            assert_eq!((receiver.end(), read(&mut receiver)), (id + 1, vec![7]));
            assert!(receiver.slots.len() <= REMEMBERED);
        }
        // What is older than what is remembered is nothing new.
        receiver.on_symbol(at(0), (id - 300) as u16, symbol(7, &options).on_wire()).expect("sound");
        assert_eq!((receiver.end(), read(&mut receiver)), (id + 1, vec![]));
        assert!(receiver.stats().lost > id - 300 && receiver.stats().lost < id);
    }
}
