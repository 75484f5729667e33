//! One decoder for every linear code over a stream of symbols: sources are copied into a ring, repair symbols
//! become equations over what is missing.
//!
//! Cost of a source symbol when nothing is missing: one copy, one bit, no allocation. Of a repair symbol:
//! nothing if all it covers is known, otherwise one fused product over the known symbols it covers, and one
//! row operation per pending equation. Whatever a peer sends, the product is over [`PRODUCT_BYTES_MAX`] at
//! most and the equations are [`SYSTEM_BYTES_MAX`] at most. Memory: `symbols_max` symbols, `equations_max`
//! equations of at most one symbol and `symbols_max` coefficients each, and one bit per id between the lowest
//! undecoded one and the newest ([`crate::REACH`]); little of it before it is needed.

mod elimination;
mod store;
mod systems;

use alloc::vec::Vec;
use core::fmt::Debug;

use fulmar_gf as gf;

use crate::known::Known;
use crate::recovered::Recovered;
use crate::rows::{Rows, check_cover, ids, span};
use crate::work::{STEP, Work};
use crate::{CodeError, Cover, Decoder, DecoderLimits, Geometry, Innovation, RepairKey, SymbolId, Window};
pub(crate) use elimination::SYSTEM_BYTES_MAX;
use elimination::{Determined, Fate};
pub use store::LATE_SHARE;
use store::Store;
use systems::{Systems, Terms};

/// Known symbols taken out of an equation in one pass of the fused kernel.
const BATCH: usize = 64;
/// Most bytes of known symbols taken out of one repair symbol.
pub(crate) const PRODUCT_BYTES_MAX: usize = 6 << 20;
/// The most symbols one repair symbol of any of these codes may cover.
pub(crate) const COVER_LEN_MAX: u32 = 4096;
/// Eighths of a decoder's memory that symbols may take, and those recovered that nobody has collected.
const STORE_EIGHTHS: usize = 4;
const RECOVERED_EIGHTHS: usize = 1;

/// The decoder.
#[derive(Debug)]
pub(crate) struct SlidingDecoder<R> {
    rows: R,
    symbol_bytes: usize,
    equations_max: usize,
    recovered_max: usize,
    known: Known,
    store: Store,
    systems: Systems,
    recovered: Recovered,
    /// Every symbol below this one is decoded or the pivot of an equation.
    seen_below: u64,
    /// Nothing below this one is retained.
    released: u64,
    scratch: Scratch,
    work: Work,
}

/// Of the repair symbol at hand.
#[derive(Debug, Default)]
struct Scratch {
    /// Its coefficients.
    row: Vec<u8>,
    /// What is missing, ascending, and the coefficient of each.
    missing: Vec<u64>,
    factors: Vec<u8>,
    determined: Vec<Determined>,
}

impl<R: Rows> SlidingDecoder<R> {
    pub(crate) fn new(rows: R, geometry: Geometry, symbol_bytes: usize, limits: DecoderLimits) -> Self {
        let symbols = |eighths: usize| limits.memory_eighths(eighths) / symbol_bytes.max(1);
        let symbols_max = limits.symbols_max.min(u32::try_from(symbols(STORE_EIGHTHS)).unwrap_or(u32::MAX));
        Self {
            rows,
            symbol_bytes,
            equations_max: limits.equations_max as usize,
            recovered_max: symbols(RECOVERED_EIGHTHS).min(limits.symbols_max.max(1) as usize),
            known: Known::default(),
            store: Store::new(symbol_bytes, symbols_max),
            systems: Systems::new(matches!(geometry, Geometry::Block { .. }), limits),
            recovered: Recovered::default(),
            seen_below: 0,
            released: 0,
            scratch: Scratch::default(),
            work: Work::default(),
        }
    }

    /// Whether every symbol of the cover is either unknown or retained, and some are unknown.
    fn usable(&self, cover: Cover<'_>) -> Innovation {
        let missing = match cover {
            Cover::Window(window) => self.known.missing_in(window) as usize,
            Cover::Set(_) => ids(cover).filter(|id| !self.known.contains(*id)).count(),
        };
        let (first, end) = span(cover);
        if missing == 0 {
            Innovation::Redundant
        } else if first < self.released || !self.known.is_in_reach(end - 1) {
            Innovation::OutOfReach
        } else if self.recovered.len() >= self.recovered_max {
            Innovation::Dropped
        } else {
            Innovation::Innovative
        }
    }

    /// Takes the known symbols out of the value and writes down what is missing. The value, unless a known
    /// symbol has been forgotten or they are too many.
    fn value(&mut self, cover: Cover<'_>, repair: &[u8]) -> Result<Result<Vec<u8>, Innovation>, CodeError> {
        let Scratch { row, missing, factors: missing_factors, .. } = &mut self.scratch;
        missing.clear();
        missing_factors.clear();
        let mut value = self.store.buffers.take();
        value.extend_from_slice(repair);
        let (mut symbols, mut factors, mut count) = ([&[] as &[u8]; BATCH], [0; BATCH], 0);
        let (mut refused, mut product_bytes) = (None, 0);
        for (id, factor) in ids(cover).zip(&*row).filter(|(_, factor)| **factor != 0) {
            if !self.known.contains(id) {
                missing.push(id);
                missing_factors.push(*factor);
                continue;
            }
            let Some(symbol) = self.store.get(id) else {
                refused = Some(Innovation::OutOfReach);
                break;
            };
            let (common, rest) = symbol.split_at(symbol.len().min(value.len()));
            // A repair symbol is as long as the longest symbol it covers; only padding may be longer.
            if rest.iter().any(|byte| *byte != 0) {
                return Err(CodeError::Inconsistent);
            }
            product_bytes += symbol.len();
            if product_bytes > PRODUCT_BYTES_MAX {
                refused = Some(Innovation::Dropped);
                break;
            }
            (symbols[count], factors[count]) = (common, *factor);
            count += 1;
            if count == BATCH {
                gf::dot_add(&mut [&mut value], &symbols, &factors);
                count = 0;
            }
        }
        gf::dot_add(&mut [&mut value], &symbols[..count], &factors[..count]);
        self.work.add(product_bytes);
        Ok(match refused {
            None => Ok(value),
            Some(innovation) => {
                self.store.buffers.give(value);
                Err(innovation)
            }
        })
    }

    /// Enters what the equations have determined.
    fn collect(&mut self) {
        for (id, symbol) in self.scratch.determined.drain(..) {
            self.work.add(symbol.len() + STEP);
            self.known.insert(id);
            self.store.insert(id, &symbol);
            self.recovered.push(id, symbol);
        }
        self.advance_seen();
    }

    fn advance_seen(&mut self) {
        self.work.add(self.known.words());
        self.seen_below = self.known.next_missing(SymbolId(self.seen_below)).0;
        while self.systems.is_pivot(self.seen_below) {
            self.seen_below = self.known.next_missing(SymbolId(self.seen_below + 1)).0;
        }
    }
}

impl<R: Rows> Decoder for SlidingDecoder<R> {
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        let innovation = self.known.judge(id.0, symbol.len(), self.symbol_bytes)?;
        if innovation != Innovation::Innovative {
            return Ok(innovation);
        }
        self.work.add(symbol.len());
        self.known.insert(id.0);
        if id.0 >= self.released {
            self.store.insert(id.0, symbol);
        }
        if self.systems.len() == 0 {
            self.seen_below = self.known.below();
            return Ok(Innovation::Innovative);
        }
        let determined = &mut self.scratch.determined;
        let result = self.systems.substitute(id.0, symbol, determined, &mut self.store.buffers);
        self.collect();
        result.map(|()| Innovation::Innovative)
    }

    fn on_repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        repair: &[u8],
    ) -> Result<Innovation, CodeError> {
        let len = check_cover(cover)?;
        self.rows.check(cover, key)?;
        if repair.len() > self.symbol_bytes {
            return Err(CodeError::TooLong);
        }
        let usable = self.usable(cover);
        if usable != Innovation::Innovative {
            return Ok(usable);
        }
        self.systems.check(cover)?;
        self.work.add(repair.len() + len * STEP);
        self.scratch.row.resize(len, 0);
        self.rows.row(cover, key, &mut self.scratch.row);
        let value = match self.value(cover, repair)? {
            Ok(value) => value,
            Err(innovation) => return Ok(innovation),
        };
        let Scratch { missing, factors, determined, .. } = &mut self.scratch;
        let terms = Terms { value, ids: missing, factors };
        let fate = self.systems.insert(cover, terms, determined, &mut self.store.buffers)?;
        if fate == Fate::Dropped || self.systems.len() >= self.equations_max {
            self.seen_below = self.known.below(); // A row may have made room, and its pivot is no longer seen.
        }
        self.collect();
        Ok(match fate {
            Fate::Kept => Innovation::Innovative,
            Fate::Redundant => Innovation::Redundant,
            Fate::Dropped => Innovation::Dropped,
        })
    }

    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        let (id, symbol) = self.recovered.pop()?;
        out.clear();
        out.extend_from_slice(&symbol);
        self.store.buffers.give(symbol);
        Some(id)
    }

    fn deficit(&self, window: Window) -> u32 {
        self.work.add(self.known.words());
        let missing = self.known.missing_in(window);
        if missing == 0 || self.systems.len() == 0 {
            return missing;
        }
        missing - self.systems.rows_within(window)
    }

    fn decoded_below(&self) -> SymbolId {
        SymbolId(self.known.below())
    }

    fn seen_below(&self) -> SymbolId {
        SymbolId(self.seen_below)
    }

    fn is_decoded(&self, id: SymbolId) -> bool {
        self.known.contains(id.0)
    }

    fn release(&mut self, below: SymbolId) {
        if below.0 <= self.released {
            return;
        }
        self.released = below.0;
        self.systems.release(below.0, &mut self.store.buffers);
        self.store.release(below.0);
        self.seen_below = self.known.below();
        self.advance_seen();
        self.recovered.shrink();
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.known.memory_bytes()
            + self.store.memory_bytes()
            + self.systems.memory_bytes()
            + self.recovered.memory_bytes()
            + self.scratch.memory_bytes()
    }

    fn work(&self) -> u64 {
        self.work.total() + self.systems.work.total()
    }
}

impl Scratch {
    fn memory_bytes(&self) -> usize {
        self.row.capacity()
            + self.missing.capacity() * 8
            + self.factors.capacity()
            + self.determined.capacity() * size_of::<Determined>()
    }
}
