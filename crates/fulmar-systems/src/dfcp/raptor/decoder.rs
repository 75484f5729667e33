//! DFCP's Raptor as a [`Decoder`]: blocks side by side, in bounded memory and in bounded steps.
//!
//! A receiver holds 2.6 MB for its block, whose segments are 70 kB. So a few blocks have receivers, those
//! that were there first; the others keep their segments until one is free. Every call gives receivers a
//! bounded amount of work, the segment that came and a few of those that wait. A block gets a receiver when
//! it has as many coded bytes as it takes at least, so that it does not keep one for a round trip for want of
//! the last segments; all that they lead to then takes some twenty calls, of which most are
//! [`Decoder::go_on`].

use std::collections::BTreeMap;

use super::incoming::Incoming;
use super::layout::{CODED_BYTES_EXPECTED, block_of, ldpc_state};
use super::taus88::Taus88;
use fulmar_fec::parts::{Known, Recovered, STEP, Work};
use fulmar_fec::{CodeError, Cover, Decoder, DecoderLimits, Innovation, RepairKey, SymbolId, Window};

/// What a receiver holds when its block is about to be decoded.
const RECEIVER_BYTES: usize = 11 << 18;
/// Eighths of the memory for receivers, and for symbols that nobody has collected yet.
const RECEIVERS_EIGHTHS: usize = 5;
const RECOVERED_EIGHTHS: usize = 1;
/// What a segment that waits may add.
const WAITING_BYTES: usize = 16 << 10;
/// Blocks on their way in, at most.
const BLOCKS_MAX: usize = 4096;
/// Work for receivers when a segment came, about, and when the recovered symbols are collected afterwards.
const SLICE: u64 = 3 << 20;
const POLL_SLICE: u64 = 3 << 20;
/// Work for receivers when nothing came.
const GO_ON_SLICE: u64 = 8 << 20;
/// Work of a receiver that begins: memory is cleared.
const BEGIN: usize = 3 << 20;

#[derive(Debug)]
pub(super) struct DfcpDecoder {
    initial: Taus88,
    symbol_bytes: usize,
    memory_max: usize,
    waiting_max: usize,
    recovered_max: usize,
    receivers_max: usize,
    known: Known,
    /// By first symbol; they do not overlap.
    blocks: BTreeMap<u64, Incoming>,
    /// First symbols of the blocks that have a receiver, ascending.
    receiving: Vec<u64>,
    /// Memory of what waits, and of receivers.
    waiting_bytes: usize,
    receiver_bytes: usize,
    recovered: Recovered,
    segment: Vec<u8>,
    /// A segment came since receivers last worked while symbols were collected.
    is_news: bool,
    /// What they found then.
    failure: Option<CodeError>,
    work: Work,
}

impl DfcpDecoder {
    pub(super) fn new(initial: Taus88, symbol_bytes: usize, limits: DecoderLimits) -> Self {
        let recovered_max = limits.memory_eighths(RECOVERED_EIGHTHS) / symbol_bytes;
        let memory_max = limits.memory_eighths(8 - RECOVERED_EIGHTHS);
        let receivers_max = (limits.memory_eighths(RECEIVERS_EIGHTHS) / RECEIVER_BYTES).max(1);
        Self {
            initial,
            symbol_bytes,
            memory_max,
            waiting_max: memory_max - receivers_max * RECEIVER_BYTES,
            recovered_max: recovered_max.min(limits.symbols_max.max(1) as usize),
            receivers_max,
            known: Known::default(),
            blocks: BTreeMap::new(),
            receiving: Vec::new(),
            waiting_bytes: 0,
            receiver_bytes: 0,
            recovered: Recovered::default(),
            segment: Vec::new(),
            is_news: false,
            failure: None,
            work: Work::default(),
        }
    }

    /// Has a block changed, and keeps the total of memory.
    fn change<T>(&mut self, first: u64, change: impl FnOnce(&mut Incoming, &mut Vec<u8>) -> T) -> Option<T> {
        let block = self.blocks.get_mut(&first)?;
        self.waiting_bytes -= block.waiting_bytes();
        self.receiver_bytes -= block.receiver_bytes();
        let result = change(block, &mut self.segment);
        self.waiting_bytes += block.waiting_bytes();
        self.receiver_bytes += block.receiver_bytes();
        Some(result)
    }

    fn forget(&mut self, first: u64) {
        if let Some(block) = self.blocks.remove(&first) {
            self.waiting_bytes -= block.waiting_bytes();
            self.receiver_bytes -= block.receiver_bytes();
            self.receiving.retain(|receiving| *receiving != first);
        }
    }

    /// A repair symbol must name a block as it began.
    fn check(&self, window: Window) -> Result<(), CodeError> {
        let Some((first, block)) = self.blocks.range(..window.end().0).next_back() else { return Ok(()) };
        let begun = Window { first: SymbolId(*first), len: block.len };
        if begun.end() <= window.first || begun == window { Ok(()) } else { Err(CodeError::BadCover) }
    }

    /// The lowest block that is waiting for a receiver gets one, if there is one.
    fn begin_next(&mut self) {
        if self.receiving.len() >= self.receivers_max {
            return;
        }
        self.work.add(self.blocks.len() * STEP);
        let Some(first) =
            self.blocks.iter().find(|(_, block)| block.needs_receiver()).map(|(first, _)| *first)
        else {
            return;
        };
        self.work.add(BEGIN);
        let state = ldpc_state(self.initial, first as u32);
        self.change(first, |block, _| block.begin(state));
        let at = self.receiving.partition_point(|receiving| *receiving < first);
        self.receiving.insert(at, first);
    }

    /// Lets receivers do about `work_max`, that of `first` before others.
    fn advance(&mut self, first: Option<u64>, work_max: u64) -> Result<(), CodeError> {
        let end = self.work.total() + work_max;
        let mut is_first = true;
        let others = self.receiving.iter().copied().filter(|receiving| Some(*receiving) != first);
        let turn: Vec<u64> = first.into_iter().chain(others).collect();
        for first in turn {
            while self.blocks.get(&first).is_some_and(|block| !block.is_idle()) && self.work.total() < end {
                let rest = end - self.work.total();
                let (work, result) = self
                    .change(first, |block, segment| block.advance(segment, rest, is_first))
                    .unwrap_or((0, Ok(true)));
                self.work.add(work as usize);
                is_first &= work == 0;
                if !result? {
                    self.forget(first); // It begins again.
                }
                if work == 0 && self.blocks.get(&first).is_some_and(|block| !block.is_concluded()) {
                    break; // What comes next is too much for the rest of this call.
                }
            }
            self.deliver(first);
        }
        Ok(())
    }

    /// Hands on the symbols whose bytes are all known, and forgets the block after the last one.
    fn deliver(&mut self, first: u64) {
        let Some((len, receiver)) =
            self.blocks.get(&first).and_then(|block| Some((block.len, block.receiver()?)))
        else {
            return;
        };
        let window = Window { first: SymbolId(first), len };
        let mut symbol = vec![0; self.symbol_bytes];
        for (position, id) in (first..window.end().0).enumerate() {
            if !self.known.contains(id) && receiver.read(position * self.symbol_bytes, &mut symbol) {
                self.work.add(symbol.len() * STEP);
                self.known.insert(id);
                self.recovered.push(id, symbol.clone());
            }
        }
        self.work.add(len as usize * STEP);
        if self.known.missing_in(window) == 0 {
            self.forget(first);
        }
    }

    /// Whether a segment of the block from `first` on can be kept. Later blocks make room for it.
    fn has_room(&mut self, first: u64) -> bool {
        let is_new = !self.blocks.contains_key(&first);
        while self.waiting_bytes + WAITING_BYTES > self.waiting_max
            || self.blocks.len() + usize::from(is_new) > BLOCKS_MAX
        {
            match self.blocks.last_key_value() {
                Some((&last, _)) if last > first => self.forget(last),
                _ => return false,
            }
        }
        true
    }

    /// Receivers may have grown out of all bounds: the latest blocks go.
    fn shed(&mut self) {
        while self.waiting_bytes + self.receiver_bytes > self.memory_max {
            let Some((&last, _)) = self.blocks.last_key_value() else { break };
            self.forget(last);
        }
    }
}

impl Decoder for DfcpDecoder {
    /// DFCP sends none. One that comes all the same counts as decoded; it does not help to decode others.
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        let innovation = self.known.judge(id.0, symbol.len(), self.symbol_bytes)?;
        if innovation != Innovation::Innovative {
            return Ok(innovation);
        }
        self.work.add(STEP);
        self.known.insert(id.0);
        let block = self.blocks.range(..=id.0).next_back();
        if let Some(window) = block.map(|(first, block)| Window { first: SymbolId(*first), len: block.len })
            && self.known.missing_in(window) == 0
        {
            self.forget(window.first.0);
        }
        Ok(Innovation::Innovative)
    }

    fn on_repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        repair: &[u8],
    ) -> Result<Innovation, CodeError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        let window = block_of(cover, self.symbol_bytes)?;
        let first = window.first.0;
        if repair.len() > self.symbol_bytes {
            return Err(CodeError::TooLong);
        }
        if self.known.missing_in(window) == 0 {
            return Ok(Innovation::Redundant);
        }
        if !self.known.is_in_reach(window.end().0 - 1) {
            return Ok(Innovation::OutOfReach);
        }
        self.check(window)?;
        if repair.len() < self.symbol_bytes {
            return Err(CodeError::Inconsistent); // A segment has no padding.
        }
        if self.recovered.len() >= self.recovered_max {
            return Ok(Innovation::Dropped);
        }
        if self.blocks.get(&first).is_some_and(Incoming::is_full) {
            self.forget(first); // It begins again.
        }
        if !self.has_room(first) {
            return Ok(Innovation::Dropped);
        }
        let Self { symbol_bytes, waiting_bytes, .. } = self;
        let block = self.blocks.entry(first).or_insert_with(|| {
            let block = Incoming::new(window.len, *symbol_bytes);
            *waiting_bytes += block.waiting_bytes();
            block
        });
        self.work.add(repair.len() + block.coded_bytes() / *symbol_bytes * size_of::<u32>());
        if self.change(first, |block, _| block.take(key, repair)) != Some(true) {
            return Ok(Innovation::Redundant);
        }
        self.begin_next();
        let result = self.advance(Some(first), SLICE);
        self.shed();
        self.is_news = true;
        result.map(|()| Innovation::Innovative)
    }

    fn is_busy(&self) -> bool {
        let is_busy = |first| self.blocks.get(first).is_some_and(|block| !block.is_idle());
        self.receiving.iter().any(is_busy)
            || (self.receiving.len() < self.receivers_max
                && self.blocks.values().any(Incoming::needs_receiver))
    }

    fn go_on(&mut self) -> Result<(), CodeError> {
        self.begin_next();
        let result = self.advance(None, GO_ON_SLICE);
        self.shed();
        result
    }

    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        if self.recovered.is_empty() && std::mem::take(&mut self.is_news) {
            self.failure = self.advance(None, POLL_SLICE).err();
        }
        self.recovered.poll(out)
    }

    /// An expectation: belief propagation succeeds at no fixed number of segments.
    fn deficit(&self, window: Window) -> u32 {
        self.work.add(self.known.words());
        if self.known.missing_in(window) == 0 {
            return 0;
        }
        let collected = self.blocks.get(&window.first.0).map_or(0, Incoming::coded_bytes);
        CODED_BYTES_EXPECTED.saturating_sub(collected).div_ceil(self.symbol_bytes).max(1) as u32
    }

    fn decoded_below(&self) -> SymbolId {
        SymbolId(self.known.below())
    }

    fn is_decoded(&self, id: SymbolId) -> bool {
        self.known.contains(id.0)
    }

    fn release(&mut self, below: SymbolId) {
        let is_over =
            |(first, block): (&u64, &Incoming)| (first + u64::from(block.len) <= below.0).then_some(*first);
        let over: Vec<u64> = self.blocks.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|first| self.forget(first));
        self.recovered.shrink();
        self.segment = Vec::new();
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.known.memory_bytes()
            + self.recovered.memory_bytes()
            + self.receiving.capacity() * size_of::<u64>()
            + self.segment.capacity()
            + self.waiting_bytes
            + self.receiver_bytes
    }

    fn work(&self) -> u64 {
        self.work.total()
    }
}
