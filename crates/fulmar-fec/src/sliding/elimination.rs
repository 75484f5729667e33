//! Incremental Gauss-Jordan elimination over the symbols that are missing, and over nothing else.
//!
//! Known symbols are taken out of an equation before it comes here, so a row has one coefficient per *missing* symbol: ten
//! losses among 256 symbols are a system of ten columns. Columns have no order; the lowest id in a row is its pivot.
//!
//! Invariants (reduced row echelon form): every row has at least two terms; its pivot has coefficient 1 and occurs in no
//! other row; a column is in use if and only if its symbol occurs in some row.

use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use super::store::Buffers;
use crate::CodeError;

/// Equations reduced at once by one pass of the fused kernel.
const BATCH: usize = 32;

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
    /// An equation without terms yet.
    pub(super) fn new(value: Vec<u8>) -> Self {
        Self { pivot: 0, coefficients: Vec::new(), value }
    }

    /// Adds a term over a column that has none yet.
    pub(super) fn set(&mut self, column: u32, coefficient: u8) {
        let column = column as usize;
        if self.coefficients.len() <= column {
            self.coefficients.resize(column + 1, 0);
        }
        self.coefficients[column] = coefficient;
    }

    fn coefficient(&self, column: u32) -> u8 {
        self.coefficients.get(column as usize).copied().unwrap_or(0)
    }

    fn terms(&self) -> impl Iterator<Item = u32> {
        self.coefficients.iter().enumerate().filter(|(_, c)| **c != 0).map(|(column, _)| column as u32)
    }

    fn is_single(&self) -> bool {
        self.terms().nth(1).is_none()
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
        bytes.resize(len, 0);
    }
}

/// What became of an equation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is a row now, or has determined a symbol.
    Kept,
    /// It followed from the rows there are.
    Redundant,
    /// There was no room for it.
    Dropped,
}

/// A symbol that the equations have determined.
pub(super) type Determined = (u64, Vec<u8>);

/// The system of equations.
#[derive(Debug)]
pub(super) struct Elimination {
    rows: Vec<Equation>,
    rows_max: usize,
    /// Id and column of every missing symbol that occurs in a row, ascending by id.
    columns: Vec<(u64, u32)>,
    columns_max: usize,
    /// Id by column.
    ids: Vec<u64>,
    /// Whether the column is the pivot of a row.
    pivots: Vec<bool>,
    /// Columns not in use.
    free: Vec<u32>,
    /// Symbols determined since they were last taken.
    determined: Vec<Determined>,
}

impl Elimination {
    pub(super) fn new(rows_max: u32, columns_max: u32) -> Self {
        Self {
            rows: Vec::new(),
            rows_max: rows_max as usize,
            columns: Vec::new(),
            columns_max: columns_max as usize,
            ids: Vec::new(),
            pivots: Vec::new(),
            free: Vec::new(),
            determined: Vec::new(),
        }
    }

    /// Symbols determined since the last call, in the order in which they were.
    pub(super) fn take_determined(&mut self) -> impl Iterator<Item = Determined> {
        self.determined.drain(..)
    }

    /// The column of a missing symbol, which gets one if it has none; `None` if there is no room for it.
    pub(super) fn column(&mut self, id: u64) -> Option<u32> {
        let at = match self.position(id) {
            Ok(at) => return Some(self.columns[at].1),
            Err(at) => at,
        };
        if self.columns.len() >= self.columns_max {
            return None;
        }
        let column = self.free.pop().unwrap_or_else(|| {
            self.ids.push(0);
            self.pivots.push(false);
            self.ids.len() as u32 - 1
        });
        self.ids[column as usize] = id;
        self.columns.insert(at, (id, column));
        Some(column)
    }

    /// Frees the columns that no row uses: to be called when a row was dropped, or never became one.
    pub(super) fn free_unused_columns(&mut self) {
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
        self.rows.push(new);
        self.collect_singles();
        Ok(if self.rows.len() > self.rows_max { self.make_room(pivot, buffers) } else { Fate::Kept })
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
        let mut without_pivot = None;
        for (index, row) in self.rows.iter_mut().enumerate() {
            let factor = row.coefficient(column);
            if factor == 0 {
                continue;
            }
            row.coefficients[column as usize] = 0;
            extend(&mut row.value, symbol.len());
            gf::mul_add(&mut row.value, symbol, factor);
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
        result
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
        self.position(id).is_ok_and(|at| self.pivots[self.columns[at].1 as usize])
    }

    /// Degrees of freedom that the rows have over the symbols first..end alone.
    ///
    /// Only rows with their pivot there can contribute; a combination of them is confined to the window if its terms
    /// outside cancel. So it is their number less the rank of what they have outside.
    pub(super) fn rank_within(&self, first: u64, end: u64) -> u32 {
        let is_inside = |column: u32| (first..end).contains(&self.ids[column as usize]);
        let mut rank = 0;
        let mut outside: Vec<Vec<u8>> = Vec::new();
        for row in self.rows.iter().filter(|row| is_inside(row.pivot)) {
            rank += 1;
            if row.terms().any(|column| !is_inside(column)) {
                let part = |(column, c): (usize, &u8)| if is_inside(column as u32) { 0 } else { *c };
                outside.push(row.coefficients.iter().enumerate().map(part).collect());
            }
        }
        rank - rank_of(outside)
    }

    /// Rows held.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let row = |row: &Equation| row.coefficients.capacity() + row.value.capacity();
        self.rows.iter().map(row).sum::<usize>()
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
        equation.terms().min_by_key(|column| self.ids[*column as usize])
    }

    /// Takes all pivots out of an equation. Pivots occur in their own rows only, so one pass does it, in any order.
    fn reduce(&self, new: &mut Equation) {
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
        for row in &mut self.rows {
            let factor = row.coefficient(new.pivot);
            if factor != 0 {
                row.add(new, factor);
            }
        }
    }

    /// The row with the highest pivot goes: what is lost first has to be decoded first, and a decoder full of equations
    /// about later symbols must not refuse the ones that would help. `new` is the pivot of the row that came last.
    fn make_room(&mut self, new: u32, buffers: &mut Buffers) -> Fate {
        let id = |index: &usize| self.ids[self.rows[*index].pivot as usize];
        let Some(highest) = (0..self.rows.len()).max_by_key(id) else { return Fate::Kept };
        let row = self.take_row(highest);
        buffers.give(row.value);
        self.free_unused_columns();
        if row.pivot == new { Fate::Dropped } else { Fate::Kept }
    }

    /// Takes out rows with one term left: their symbols are determined, and occur in no other row.
    fn collect_singles(&mut self) {
        let mut index = 0;
        while index < self.rows.len() {
            if !self.rows[index].is_single() {
                index += 1;
                continue;
            }
            let row = self.take_row(index);
            let id = self.ids[row.pivot as usize];
            if let Ok(at) = self.position(id) {
                self.columns.remove(at);
                self.free.push(row.pivot);
            }
            self.determined.push((id, row.value));
        }
        self.reset_if_empty();
    }

    /// Without rows there are no columns: gives the memory back.
    fn reset_if_empty(&mut self) {
        if self.rows.is_empty() && self.columns.is_empty() && !self.ids.is_empty() {
            self.ids = Vec::new();
            self.pivots = Vec::new();
            self.free = Vec::new();
            self.columns = Vec::new();
            self.rows = Vec::new();
        }
    }
}

/// Rank of a few rows, by plain elimination.
fn rank_of(mut rows: Vec<Vec<u8>>) -> u32 {
    let mut rank = 0;
    while let Some(mut row) = rows.pop() {
        let Some(column) = row.iter().position(|c| *c != 0) else { continue };
        rank += 1;
        let inverse = gf::inverse(row[column]);
        gf::scale(&mut row, inverse);
        for other in &mut rows {
            if let Some(factor) = other.get(column).copied().filter(|c| *c != 0) {
                extend(other, row.len());
                gf::mul_add(other, &row, factor);
            }
        }
    }
    rank
}
