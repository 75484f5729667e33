//! The equations, in systems that have nothing to do with each other: one for each block that is on its way,
//! or a single one where covers are free.
//!
//! So a block costs what its own length costs, and what it lacks is a subtraction.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::elimination::{Determined, Elimination, Equation, Fate, SYSTEM_BYTES_MAX};
use super::store::Buffers;
use crate::rows::span;
use crate::work::{STEP, Work};
use crate::{CodeError, Cover, DecoderLimits, Window};

/// Rows that make room for one new one, at most.
const EVICTIONS_MAX: usize = 2;
/// Eighths of a decoder's memory that rows may take.
const MEMORY_EIGHTHS: usize = 2;

/// The equations of one block.
#[derive(Debug)]
struct System {
    end: u64,
    equations: Box<Elimination>,
}

/// The equation of a repair symbol before it has columns.
pub(super) struct Terms<'a> {
    pub(super) value: Vec<u8>,
    /// Missing symbols, ascending, and the factor of each.
    pub(super) ids: &'a [u64],
    pub(super) factors: &'a [u8],
}

/// All systems.
#[derive(Debug)]
pub(super) struct Systems {
    is_block: bool,
    rows_max: usize,
    columns_max: usize,
    memory_max: usize,
    /// By first symbol. None is empty; they do not overlap.
    open: BTreeMap<u64, System>,
    /// In all systems.
    rows: usize,
    bytes: usize,
    columns: Vec<u32>,
    pub(super) work: Work,
}

impl Systems {
    pub(super) fn new(is_block: bool, limits: DecoderLimits) -> Self {
        Self {
            is_block,
            rows_max: limits.equations_max as usize,
            columns_max: limits.symbols_max.max(1) as usize,
            memory_max: limits.memory_eighths(MEMORY_EIGHTHS),
            open: BTreeMap::new(),
            rows: 0,
            bytes: 0,
            columns: Vec::new(),
            work: Work::default(),
        }
    }

    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.rows
    }

    /// A repair symbol of a block must name the block as it began. A set lies within one, or is one.
    pub(super) fn check(&self, cover: Cover<'_>) -> Result<(), CodeError> {
        let (first, end) = span(cover);
        let Some((&begun, system)) = self.open.range(..end).next_back().filter(|_| self.is_block) else {
            return Ok(());
        };
        let fits = match cover {
            _ if system.end <= first => true,
            Cover::Window(_) => (begun, system.end) == (first, end),
            Cover::Set(_) => begun <= first && end <= system.end,
        };
        if fits { Ok(()) } else { Err(CodeError::BadCover) }
    }

    /// First and end of the system that an equation over `cover` belongs to.
    fn place(&self, cover: Cover<'_>) -> (u64, u64) {
        if !self.is_block {
            return (0, u64::MAX);
        }
        let (first, end) = span(cover);
        match self.open.range(..=first).next_back() {
            Some((&begun, system)) if first < system.end => (begun, system.end),
            _ => (first, end),
        }
    }

    /// Has a system changed, and keeps the totals. One that is empty then is forgotten.
    fn change<T>(
        &mut self,
        first: u64,
        end: u64,
        change: impl FnOnce(&mut Elimination, &mut Vec<u32>) -> T,
    ) -> T {
        let system = self.open.entry(first).or_insert_with(|| System { end, equations: Box::default() });
        let equations = &mut *system.equations;
        (self.rows, self.bytes) = (self.rows - equations.len(), self.bytes - equations.bytes());
        let result = change(equations, &mut self.columns);
        (self.rows, self.bytes) = (self.rows + equations.len(), self.bytes + equations.bytes());
        self.work.add(equations.work.take() as usize);
        if equations.len() == 0 {
            self.open.remove(&first);
        }
        result
    }

    /// Takes an equation over `cover` in.
    pub(super) fn insert(
        &mut self,
        cover: Cover<'_>,
        terms: Terms<'_>,
        determined: &mut Vec<Determined>,
        buffers: &mut Buffers,
    ) -> Result<Fate, CodeError> {
        let (first, end) = self.place(cover);
        let (columns_max, memory_max) = (self.columns_max, self.memory_max);
        let memory_of_others = self.make_room(first, &terms, buffers);
        let (value_bytes, buffer_bytes) = (terms.value.len(), buffers.symbol_bytes());
        let fate = self.change(first, end, |equations, columns| {
            let is_full = |equations: &Elimination| {
                let bytes = equations.bytes_with(value_bytes);
                let values = (equations.len() + 1) * buffer_bytes;
                bytes > SYSTEM_BYTES_MAX || memory_of_others + bytes + values > memory_max
            };
            let has_columns = equations.columns_of(terms.ids, columns_max, columns);
            let is_later = |pivot: u64| terms.ids.first().is_some_and(|lowest| pivot > *lowest);
            let mut has_dropped = false;
            for _ in 0..EVICTIONS_MAX {
                if has_columns && is_full(equations) && equations.highest_pivot().is_some_and(is_later) {
                    equations.drop_highest(buffers);
                    has_dropped = true;
                }
            }
            let fate = if has_columns && !is_full(equations) {
                let equation = Equation::new(terms.value, columns, terms.factors);
                let fate = equations.insert(equation, buffers);
                determined.append(&mut equations.take_determined());
                fate?
            } else {
                buffers.give(terms.value);
                has_dropped = true;
                Fate::Dropped
            };
            if has_dropped {
                equations.free_unused_columns();
            }
            Ok(if has_dropped { Fate::Dropped } else { fate })
        })?;
        if self.rows <= self.rows_max {
            return Ok(fate);
        }
        self.drop_latest_row(buffers);
        Ok(Fate::Dropped)
    }

    /// Rows of later blocks go before rows of the one that begins at `first`. Returns the memory that the
    /// others hold.
    fn make_room(&mut self, first: u64, terms: &Terms<'_>, buffers: &mut Buffers) -> usize {
        let own = self.open.get(&first).map(|system| &*system.equations);
        let buffer_bytes = buffers.symbol_bytes();
        let (own_rows, own_bytes) = own.map_or((0, 0), |own| (own.len(), own.bytes()));
        let needed = own.map_or(0, |own| own.bytes_with(terms.value.len()))
            + (own_rows + 1) * (terms.ids.len() + buffer_bytes);
        let of_others = |all: &Self| all.bytes - own_bytes + (all.rows - own_rows) * buffer_bytes;
        if of_others(self) + needed > self.memory_max {
            self.drop_latest(first, buffers);
        }
        of_others(self)
    }

    /// Drops the row with the highest pivot of all.
    fn drop_latest_row(&mut self, buffers: &mut Buffers) {
        let Some((&first, system)) = self.open.last_key_value() else { return };
        self.change(first, system.end, |equations, _| {
            equations.drop_highest(buffers);
            equations.free_unused_columns();
        });
    }

    /// Drops the equations of the latest block, if that is later than `first`.
    fn drop_latest(&mut self, first: u64, buffers: &mut Buffers) {
        let Some(entry) = self.open.last_entry().filter(|entry| *entry.key() > first) else { return };
        let mut equations = entry.remove().equations;
        (self.rows, self.bytes) = (self.rows - equations.len(), self.bytes - equations.bytes());
        equations.release(u64::MAX, buffers);
        self.work.add(equations.work.take() as usize);
    }

    /// A missing symbol arrived.
    pub(super) fn substitute(
        &mut self,
        id: u64,
        symbol: &[u8],
        determined: &mut Vec<Determined>,
        buffers: &mut Buffers,
    ) -> Result<(), CodeError> {
        let Some((&first, system)) = self.open.range(..=id).next_back() else { return Ok(()) };
        if id >= system.end {
            return Ok(());
        }
        self.change(first, system.end, |equations, _| {
            let result = equations.substitute(id, symbol, buffers);
            determined.append(&mut equations.take_determined());
            result
        })
    }

    /// Drops every row in which a symbol below `below` is missing.
    pub(super) fn release(&mut self, below: u64, buffers: &mut Buffers) {
        let systems: Vec<(u64, u64)> = self.open.range(..below).map(|(first, s)| (*first, s.end)).collect();
        for (first, end) in systems {
            self.change(first, end, |equations, _| equations.release(below, buffers));
        }
    }

    /// Whether `id` is the lowest missing symbol of an equation.
    pub(super) fn is_pivot(&self, id: u64) -> bool {
        self.work.add(STEP);
        let system = self.open.range(..=id).next_back();
        system.is_some_and(|(_, system)| id < system.end && system.equations.is_pivot(id))
    }

    /// Degrees of freedom about the window alone; see [`crate::Decoder::deficit`].
    pub(super) fn rows_within(&self, window: Window) -> u32 {
        let (first, end) = (window.first.0, window.end().0);
        let from = self.open.range(..=first).next_back().map_or(first, |(begun, _)| *begun);
        let rows = |(begun, system): (&u64, &System)| {
            self.work.add(STEP);
            if first <= *begun && system.end <= end {
                return system.equations.len() as u32;
            }
            let rows = system.equations.rows_within(first, end);
            self.work.add(system.equations.work.take() as usize);
            rows
        };
        self.open.range(from..end).map(rows).sum()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let systems: usize = self.open.values().map(|system| system.equations.memory_bytes()).sum();
        systems + self.open.len() * 32 + self.columns.capacity() * 4
    }
}
