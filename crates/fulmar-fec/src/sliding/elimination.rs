//! Incremental Gauss-Jordan elimination over the symbols that are missing, and over nothing else.
//!
//! Known symbols are taken out of an equation before it comes here, so a row has one coefficient per
//! *missing* symbol: ten losses among 256 symbols are a system of ten columns. Columns have no order; the
//! lowest id in a row is its pivot.
//!
//! Invariants (reduced row echelon form): every row has at least two terms; its pivot has coefficient 1 and
//! occurs in no other row; a symbol that occurs in some row has a column.
//!
//! A call reads or writes every byte of the system a few times at most, and [`SYSTEM_BYTES_MAX`] bounds these
//! bytes.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use super::store::Buffers;
use crate::CodeError;
use crate::work::{STEP, Work};

/// Equations reduced at once by one pass of the fused kernel.
const BATCH: usize = 32;
/// Coefficients looked at together.
const CHUNK: usize = 64;
/// Most bytes of rows in one system: coefficients and values.
pub(crate) const SYSTEM_BYTES_MAX: usize = 2 << 20;

/// A combination of missing symbols and its value.
#[derive(Debug, Default)]
pub(super) struct Equation {
    /// Column of the lowest id with a coefficient other than zero.
    pivot: u32,
    /// By column; what is beyond the end is zero.
    coefficients: Vec<u8>,
    value: Vec<u8>,
}

impl Equation {
    /// An equation of terms over distinct columns.
    pub(super) fn new(value: Vec<u8>, columns: &[u32], factors: &[u8]) -> Self {
        let width = columns.iter().max().map_or(0, |column| *column as usize + 1);
        let mut coefficients = vec![0; width];
        columns.iter().zip(factors).for_each(|(column, factor)| coefficients[*column as usize] = *factor);
        Self { pivot: 0, coefficients, value }
    }

    fn coefficient(&self, column: u32) -> u8 {
        self.coefficients.get(column as usize).copied().unwrap_or(0)
    }

    fn terms(&self) -> impl Iterator<Item = u32> {
        self.coefficients.iter().enumerate().filter(|(_, c)| **c != 0).map(|(column, _)| column as u32)
    }

    fn is_single(&self) -> bool {
        let mut terms = 0;
        self.coefficients.chunks(CHUNK).all(|chunk| {
            terms += chunk.iter().map(|c| u8::from(*c != 0)).sum::<u8>();
            terms < 2
        })
    }

    /// Whether there are terms only where `mask` is zero.
    fn is_outside(&self, mask: &[u8]) -> bool {
        let mut chunks = self.coefficients.chunks(CHUNK).zip(mask.chunks(CHUNK));
        chunks.all(|(chunk, mask)| chunk.iter().zip(mask).fold(0, |any, (c, mask)| any | (c & mask)) == 0)
    }

    fn scale(&mut self, factor: u8) {
        if factor != 1 {
            gf::scale(&mut self.coefficients, factor);
            gf::scale(&mut self.value, factor);
        }
    }

    /// self += factor * other.
    fn add(&mut self, other: &Self, factor: u8) {
        extend(&mut self.coefficients, other.coefficients.len());
        gf::mul_add(&mut self.coefficients, &other.coefficients, factor);
        extend(&mut self.value, other.value.len());
        gf::mul_add(&mut self.value, &other.value, factor);
    }
}

/// Pads with zeros to at least `len`.
fn extend(bytes: &mut Vec<u8>, len: usize) {
    if bytes.len() < len {
        bytes.reserve_exact(len - bytes.len());
        bytes.resize(len, 0);
    }
}

/// What became of an equation.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a row now, or has determined a symbol.
    Kept,
    /// It followed from the rows there are.
    Redundant,
    /// There was no room for it, or another had to make room.
    Dropped,
}

/// A symbol that the equations have determined.
pub(super) type Determined = (u64, Vec<u8>);

/// A system of equations.
#[derive(Debug, Default)]
pub(super) struct Elimination {
    rows: Vec<Equation>,
    /// Length of the longest value.
    value_bytes: usize,
    /// Id and column of every missing symbol that occurs in a row, ascending by id.
    columns: Vec<(u64, u32)>,
    /// Id by column.
    ids: Vec<u64>,
    /// Whether the column is the pivot of a row.
    pivots: Vec<bool>,
    /// Columns not in use.
    free: Vec<u32>,
    /// Symbols determined since they were last taken.
    determined: Vec<Determined>,
    /// Since it was last taken.
    pub(super) work: Work,
}

impl Elimination {
    /// Symbols determined since the last call, in the order in which they were.
    pub(super) fn take_determined(&mut self) -> Vec<Determined> {
        core::mem::take(&mut self.determined)
    }

    /// The columns of missing symbols, ascending by id, into `out`. Those that have none get one. Whether
    /// there is room for all: at most `columns_max`.
    pub(super) fn columns_of(&mut self, ids: &[u64], columns_max: usize, out: &mut Vec<u32>) -> bool {
        out.clear();
        let Some(first) = ids.first() else { return true };
        let from = self.columns.partition_point(|(id, _)| id < first);
        let mut at = from;
        for id in ids {
            while self.columns.get(at).is_some_and(|(known, _)| known < id) {
                at += 1;
            }
            out.push(self.columns.get(at).filter(|(known, _)| known == id).map_or(u32::MAX, |(_, c)| *c));
        }
        self.work.add((at - from + ids.len()) * STEP);
        let new = out.iter().filter(|column| **column == u32::MAX).count();
        if self.columns.len() + new > columns_max {
            return false;
        }
        if new > 0 {
            self.merge(from, ids, new, out);
        }
        true
    }

    /// Makes columns for the `new` ones of `ids` that have none, and puts them into their places from `from`
    /// on.
    fn merge(&mut self, from: usize, ids: &[u64], new: usize, out: &mut [u32]) {
        for (id, column) in ids.iter().zip(out.iter_mut()).filter(|(_, column)| **column == u32::MAX) {
            *column = self.free.pop().unwrap_or_else(|| {
                self.ids.push(0);
                self.pivots.push(false);
                self.ids.len() as u32 - 1
            });
            self.ids[*column as usize] = *id;
        }
        // From the back: each place is free by the time it is taken.
        let mut old = self.columns.len();
        self.columns.resize(old + new, (0, 0));
        self.work.add((self.columns.len() - from) * STEP);
        let mut added = ids.iter().zip(out.iter()).rev().peekable();
        for place in (from..self.columns.len()).rev() {
            let before = (old > from).then(|| self.columns[old - 1]);
            match (added.peek(), before) {
                (Some((id, column)), before) if before.is_none_or(|(known, _)| known <= **id) => {
                    if before.is_some_and(|(known, _)| known == **id) {
                        old -= 1;
                    }
                    self.columns[place] = (**id, **column);
                    added.next();
                }
                (_, Some(entry)) => {
                    self.columns[place] = entry;
                    old -= 1;
                }
                _ => break,
            }
        }
    }

    /// Frees the columns that no row uses: to be called when a row was dropped, or never became one.
    pub(super) fn free_unused_columns(&mut self) {
        self.work.add(self.bytes() + self.columns.len() * STEP);
        let mut used = vec![0; self.ids.len()];
        for row in &self.rows {
            used.iter_mut().zip(&row.coefficients).for_each(|(used, c)| *used |= c);
        }
        let free = &mut self.free;
        self.columns.retain(|(_, column)| {
            let is_used = used[*column as usize] != 0;
            if !is_used {
                free.push(*column);
            }
            is_used
        });
        self.reset_if_empty();
    }

    /// Takes an equation in, whose known symbols have been taken out.
    pub(super) fn insert(&mut self, mut new: Equation, buffers: &mut Buffers) -> Result<Fate, CodeError> {
        self.reduce(&mut new);
        let Some(pivot) = self.lowest(&new) else {
            let is_consistent = new.value.iter().all(|byte| *byte == 0);
            buffers.give(new.value);
            return if is_consistent { Ok(Fate::Redundant) } else { Err(CodeError::Inconsistent) };
        };
        new.pivot = pivot;
        new.scale(gf::inverse(new.coefficient(pivot)));
        self.eliminate(&new);
        self.pivots[pivot as usize] = true;
        self.value_bytes = self.value_bytes.max(new.value.len());
        self.rows.push(new);
        self.collect_singles();
        Ok(Fate::Kept)
    }

    /// Takes a row out; its pivot is none any more.
    fn take_row(&mut self, index: usize) -> Equation {
        let row = self.rows.swap_remove(index);
        self.pivots[row.pivot as usize] = false;
        row
    }

    /// A missing symbol arrived: takes it out of every row.
    pub(super) fn substitute(
        &mut self,
        id: u64,
        symbol: &[u8],
        buffers: &mut Buffers,
    ) -> Result<(), CodeError> {
        let Ok(at) = self.position(id) else { return Ok(()) };
        let (_, column) = self.columns.remove(at);
        self.free.push(column);
        self.work.add(self.columns.len() * STEP + self.rows.len() * symbol.len());
        let (mut without_pivot, mut is_consistent) = (None, true);
        for (index, row) in self.rows.iter_mut().enumerate() {
            let factor = row.coefficient(column);
            if factor == 0 {
                continue;
            }
            row.coefficients[column as usize] = 0;
            // A repair symbol is as long as the longest symbol it covers; only padding may be longer.
            let (common, rest) = symbol.split_at(symbol.len().min(row.value.len()));
            is_consistent &= rest.iter().all(|byte| *byte == 0);
            gf::mul_add(&mut row.value, common, factor);
            if row.pivot == column {
                without_pivot = Some(index);
            }
        }
        let result = match without_pivot {
            Some(index) => {
                let row = self.take_row(index);
                self.insert(row, buffers).map(|_| ())
            }
            None => Ok(()),
        };
        self.collect_singles();
        self.reset_if_empty();
        if is_consistent { result } else { Err(CodeError::Inconsistent) }
    }

    /// Drops every row in which a symbol below `below` is missing.
    pub(super) fn release(&mut self, below: u64, buffers: &mut Buffers) {
        if self.columns.first().is_none_or(|(id, _)| *id >= below) {
            return;
        }
        // A pivot is the lowest id of its row.
        let mut index = 0;
        while index < self.rows.len() {
            if self.ids[self.rows[index].pivot as usize] < below {
                buffers.give(self.take_row(index).value);
            } else {
                index += 1;
            }
        }
        self.free_unused_columns();
    }

    /// Whether `id` is the pivot of a row: *seen* in the words of TCP/NC.
    pub(super) fn is_pivot(&self, id: u64) -> bool {
        self.work.add(STEP);
        self.position(id).is_ok_and(|at| self.pivots[self.columns[at].1 as usize])
    }

    /// Rows over the symbols first..end alone: the degrees of freedom they have about these, if none reaches
    /// beyond `end`.
    pub(super) fn rows_within(&self, first: u64, end: u64) -> u32 {
        self.work.add(self.rows.len() * STEP);
        let pivot = |row: &&Equation| self.ids[row.pivot as usize];
        let inside = self.rows.iter().filter(|row| (first..end).contains(&pivot(row)));
        if self.columns.last().is_none_or(|(id, _)| *id < end) {
            return inside.count() as u32;
        }
        self.work.add(self.bytes());
        let beyond: Vec<u8> = self.ids.iter().map(|id| if *id >= end { 0xFF } else { 0 }).collect();
        inside.filter(|row| row.is_outside(&beyond)).count() as u32
    }

    /// The highest of the pivots.
    pub(super) fn highest_pivot(&self) -> Option<u64> {
        self.rows.iter().map(|row| self.ids[row.pivot as usize]).max()
    }

    /// Drops the row with the highest pivot: what is lost first has to be decoded first, and a decoder full
    /// of equations about later symbols must not refuse the ones that would help. Its columns are still
    /// there.
    pub(super) fn drop_highest(&mut self, buffers: &mut Buffers) {
        self.work.add(self.rows.len() * STEP);
        let pivot = |index: &usize| self.ids[self.rows[*index].pivot as usize];
        let Some(highest) = (0..self.rows.len()).max_by_key(pivot) else { return };
        let row = self.take_row(highest);
        buffers.give(row.value);
    }

    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of the rows, as if all were as long as the longest.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len() * (self.ids.len() + self.value_bytes)
    }

    /// The same with one more row, of so long a value.
    pub(super) fn bytes_with(&self, value_bytes: usize) -> usize {
        (self.rows.len() + 1) * (self.ids.len() + self.value_bytes.max(value_bytes))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let row = |row: &Equation| row.coefficients.capacity() + row.value.capacity();
        size_of::<Self>()
            + self.rows.iter().map(row).sum::<usize>()
            + self.rows.capacity() * size_of::<Equation>()
            + self.columns.capacity() * size_of::<(u64, u32)>()
            + self.ids.capacity() * 8
            + self.pivots.capacity()
            + self.free.capacity() * 4
            + self.determined.capacity() * size_of::<Determined>()
    }

    fn position(&self, id: u64) -> Result<usize, usize> {
        match (self.columns.first(), self.columns.last()) {
            (Some(first), Some(last)) if first.0 <= id && id <= last.0 => {
                self.columns.binary_search_by_key(&id, |entry| entry.0)
            }
            (Some(first), _) if id < first.0 => Err(0),
            _ => Err(self.columns.len()),
        }
    }

    /// The column of the lowest id with a term.
    fn lowest(&self, equation: &Equation) -> Option<u32> {
        self.work.add(equation.coefficients.len() * STEP);
        equation.terms().min_by_key(|column| self.ids[*column as usize])
    }

    /// Takes all pivots out of an equation. Pivots occur in their own rows only, so one pass does it, in any
    /// order.
    fn reduce(&self, new: &mut Equation) {
        self.work.add(self.bytes());
        for rows in self.rows.chunks(BATCH) {
            let (mut values, mut factors, mut count) = ([&[] as &[u8]; BATCH], [0u8; BATCH], 0);
            for row in rows {
                let factor = new.coefficient(row.pivot);
                if factor == 0 {
                    continue;
                }
                extend(&mut new.coefficients, row.coefficients.len());
                gf::mul_add(&mut new.coefficients, &row.coefficients, factor);
                extend(&mut new.value, row.value.len());
                (values[count], factors[count]) = (&row.value, factor);
                count += 1;
            }
            gf::dot_add(&mut [&mut new.value], &values[..count], &factors[..count]);
        }
    }

    /// Takes the pivot of a new row out of all others.
    fn eliminate(&mut self, new: &Equation) {
        self.work.add(self.bytes_with(new.value.len()));
        for row in &mut self.rows {
            let factor = row.coefficient(new.pivot);
            if factor != 0 {
                row.add(new, factor);
            }
        }
    }

    /// Takes out rows with one term left: their symbols are determined, and occur in no other row.
    fn collect_singles(&mut self) {
        self.work.add(self.rows.len() * self.ids.len());
        let mut index = 0;
        let count = self.determined.len();
        while index < self.rows.len() {
            if !self.rows[index].is_single() {
                index += 1;
                continue;
            }
            let row = self.take_row(index);
            self.determined.push((self.ids[row.pivot as usize], row.value));
            self.free.push(row.pivot);
        }
        if self.determined.len() > count {
            self.forget_columns(count);
        }
        self.reset_if_empty();
    }

    /// The symbols determined from `count` on have no columns any more.
    fn forget_columns(&mut self, count: usize) {
        self.work.add(self.columns.len() * STEP + (self.determined.len() - count) * STEP);
        let mut gone: Box<[u64]> = self.determined[count..].iter().map(|(id, _)| *id).collect();
        gone.sort_unstable();
        let mut gone = gone.iter().peekable();
        self.columns.retain(|(id, _)| gone.next_if(|next| *next == id).is_none());
    }

    /// Without rows there are no columns: gives the memory back.
    fn reset_if_empty(&mut self) {
        if self.rows.is_empty() && self.columns.is_empty() && !self.ids.is_empty() {
            self.ids = Vec::new();
            self.pivots = Vec::new();
            self.free = Vec::new();
            self.columns = Vec::new();
            self.rows = Vec::new();
            self.value_bytes = 0;
        }
    }
}
