//! A whole block at once, from slices to slices: for those who have all its symbols at hand and want the full
//! speed.
//!
//! The equations of the repair symbols are solved for the missing symbols, coefficients only, and one fused
//! product then makes all missing symbols from all known ones: every byte is read once for several outputs.

use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::rows::{Rows, check_cover, ids};
use crate::{CodeError, Cover, RepairKey, SymbolId, Symbols};

/// Symbols of a block that begins at symbol 0, some of them missing.
#[derive(Copy, Clone, Debug)]
pub struct Present<'a, T>(pub &'a [Option<T>]);

impl<T: AsRef<[u8]>> Symbols for Present<'_, T> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        self.0.get(usize::try_from(id.0).ok()?)?.as_ref().map(AsRef::as_ref)
    }
}

/// Restores the symbols of `cover` that `symbols` does not have, ascending, one to the front of each of
/// `outs`; returns their length, which is that of the repair symbols. There must be as many `outs` as missing
/// symbols.
///
/// Uses the first independent ones of `repairs`, which are of equal length and all over `cover`; `Ok(None)`
/// if they are too few. Cost: the product of missing and known symbols, and for m missing ones m^2 operations
/// on rows of coefficients.
pub fn restore<R: Rows + ?Sized>(
    rows: &R,
    cover: Cover<'_>,
    symbols: &dyn Symbols,
    repairs: &[(RepairKey, &[u8])],
    outs: &mut [&mut [u8]],
) -> Result<Option<usize>, CodeError> {
    let covered = check_cover(cover)?;
    let mut inputs = Vec::with_capacity(covered);
    let (mut known, mut missing) = (Vec::with_capacity(covered), Vec::with_capacity(outs.len()));
    for (position, id) in ids(cover).enumerate() {
        match symbols.get(SymbolId(id)) {
            Some(symbol) => {
                inputs.push(symbol);
                known.push(position);
            }
            None => missing.push(position),
        }
    }
    let len = repairs.first().map_or(0, |(_, repair)| repair.len());
    if missing.len() != outs.len() || repairs.iter().any(|(_, repair)| repair.len() != len) {
        return Err(CodeError::BadParameters);
    }
    if missing.is_empty() || repairs.len() < missing.len() {
        return Ok(missing.is_empty().then_some(len));
    }
    if outs.iter().any(|out| out.len() < len) {
        return Err(CodeError::TooLong);
    }
    if inputs.iter().any(|symbol| symbol.len() > len) {
        return Err(CodeError::Inconsistent);
    }
    let mut system = System::new(covered, &missing);
    for (key, repair) in repairs {
        rows.check(cover, *key)?;
        if system.add(|row| rows.row(cover, *key, row)) {
            inputs.push(repair);
        }
        if system.is_solved() {
            let mut outs: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..len]).collect();
            gf::dot(&mut outs, &inputs, &system.coefficients(&known));
            return Ok(Some(len));
        }
    }
    Ok(None)
}

/// Rows are padded to whole vectors.
const PAD: usize = 64;

/// The rows of independent repair symbols, in reduced row echelon form over the missing positions. Beside its
/// row, each has one more column for every such repair symbol: what it takes of it.
struct System<'a> {
    covered: usize,
    missing: &'a [usize],
    width: usize,
    /// The rows from `start` on, one after the other: there a vector is not cut by a line of the cache.
    rows: Vec<u8>,
    start: usize,
    /// By row: which of the missing positions it gives.
    pivots: Vec<usize>,
}

impl<'a> System<'a> {
    fn new(covered: usize, missing: &'a [usize]) -> Self {
        let width = (covered + missing.len()).next_multiple_of(PAD);
        let rows = vec![0; width * missing.len() + PAD];
        let start = rows.as_ptr().align_offset(PAD).min(PAD);
        Self { covered, missing, width, rows, start, pivots: Vec::with_capacity(missing.len()) }
    }

    fn is_solved(&self) -> bool {
        self.pivots.len() == self.missing.len()
    }

    /// Adds a repair symbol, whose coefficients `write` gives, if it is independent of those there are.
    fn add(&mut self, write: impl FnOnce(&mut [u8])) -> bool {
        let count = self.pivots.len();
        let (rows, rest) = self.rows[self.start..].split_at_mut(count * self.width);
        let row = &mut rest[..self.width];
        let (coefficients, of_repairs) = row.split_at_mut(self.covered);
        write(coefficients);
        of_repairs.fill(0);
        of_repairs[count] = 1;
        let pivot = gf::eliminate(rows, &self.pivots, row, self.missing);
        self.pivots.extend(pivot);
        pivot.is_some()
    }

    /// For every known symbol and every repair symbol added, in turn, one coefficient for each missing
    /// symbol.
    fn coefficients(&self, known: &[usize]) -> Vec<u8> {
        let count = self.missing.len();
        let mut coefficients = vec![0; self.covered * count];
        let (of_known, of_repairs) = coefficients.split_at_mut(known.len() * count);
        for (row, pivot) in self.rows[self.start..].chunks_exact(self.width).zip(&self.pivots) {
            for (to, position) in of_known.chunks_exact_mut(count).zip(known) {
                to[*pivot] = row[*position];
            }
            for (to, c) in of_repairs.chunks_exact_mut(count).zip(&row[self.covered..]) {
                to[*pivot] = *c;
            }
        }
        coefficients
    }
}
