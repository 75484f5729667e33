//! A whole block at once, from slices to slices: for those who have all its symbols at hand and want the full speed.
//!
//! The coefficients of the missing symbols are inverted, the inverse is multiplied into those of the known symbols, and one
//! fused product then makes all missing symbols from all known ones: every byte is read once for several outputs.

use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::sliding::{Rows, check_cover, ids};
use crate::{CodeError, Cover, RepairKey, SymbolId, Symbols};

/// Symbols of a block that begins at symbol 0, some of them missing.
#[derive(Copy, Clone, Debug)]
pub struct Present<'a, T>(pub &'a [Option<T>]);

impl<T: AsRef<[u8]>> Symbols for Present<'_, T> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        self.0.get(usize::try_from(id.0).ok()?)?.as_ref().map(AsRef::as_ref)
    }
}

/// Restores the symbols of `cover` that `symbols` does not have, ascending, one to the front of each of `outs`; returns
/// their length, which is that of the repair symbols. There must be as many `outs` as missing symbols.
///
/// Uses the first independent ones of `repairs`, which are of equal length and all over `cover`; `Ok(None)` if they are too
/// few. Cost: the product of missing and known symbols, and m^3 for m missing ones.
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
    let Some(solution) = Solution::find(rows, cover, &missing, repairs)? else { return Ok(None) };
    inputs.extend(solution.used.iter().map(|index| repairs[*index].1));
    let coefficients = solution.coefficients(&known);
    let mut outs: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..len]).collect();
    gf::dot(&mut outs, &inputs, &coefficients);
    Ok(Some(len))
}

/// Short rows are padded to whole vectors of the kernels that have no masks for parts of one.
const PAD: usize = 32;

/// Independent repair symbols, and the inverse of their coefficients over the missing symbols.
struct Solution {
    /// Indices of the repair symbols.
    used: Vec<usize>,
    /// Their rows, one after the other.
    rows: Vec<u8>,
    /// The inverse: for every repair symbol in turn, one coefficient for each missing symbol, padded.
    inverse: Vec<u8>,
}

impl Solution {
    /// Gauss-Jordan over the missing positions, with the identity beside it, until there are enough independent rows.
    fn find<R: Rows + ?Sized>(
        rows: &R,
        cover: Cover<'_>,
        missing: &[usize],
        repairs: &[(RepairKey, &[u8])],
    ) -> Result<Option<Self>, CodeError> {
        let covered = check_cover(cover)?;
        let count = missing.len();
        let stride = (2 * count).next_multiple_of(PAD);
        let mut used = Vec::with_capacity(count);
        let mut used_rows = vec![0; count * covered];
        let mut system = vec![0; count * stride];
        let mut pivots: Vec<usize> = Vec::with_capacity(count);
        for (index, (key, _)) in repairs.iter().enumerate() {
            rows.check(cover, *key)?;
            let found = pivots.len();
            let row = &mut used_rows[found * covered..][..covered];
            rows.row(cover, *key, row);
            let (done, rest) = system.split_at_mut(found * stride);
            let new = &mut rest[..stride];
            new.fill(0);
            new.iter_mut().zip(missing).for_each(|(c, position)| *c = row[*position]);
            new[count + found] = 1;
            let Some(pivot) = eliminate(done, &pivots, new, count) else { continue };
            pivots.push(pivot);
            used.push(index);
            if pivots.len() == count {
                return Ok(Some(Self { used, rows: used_rows, inverse: inverse(&system, stride, &pivots) }));
            }
        }
        Ok(None)
    }

    /// For every known symbol and every repair symbol used, in turn, one coefficient for each missing symbol.
    fn coefficients(&self, known: &[usize]) -> Vec<u8> {
        let count = self.used.len();
        let (covered, stride) = (self.rows.len() / count, count.next_multiple_of(PAD));
        // The inverse times the rows: one output for each position, one input for each repair symbol.
        let mut of_positions = vec![0; covered * stride];
        let mut outputs: Vec<&mut [u8]> = of_positions.chunks_exact_mut(stride).collect();
        let inputs: Vec<&[u8]> = self.inverse.chunks_exact(stride).collect();
        gf::dot(&mut outputs, &inputs, &self.rows);
        let mut coefficients = Vec::with_capacity((known.len() + count) * count);
        for position in known {
            coefficients.extend_from_slice(&of_positions[position * stride..][..count]);
        }
        inputs.iter().for_each(|of_repair| coefficients.extend_from_slice(&of_repair[..count]));
        coefficients
    }
}

/// Rows taken together.
const ROWS: usize = 16;

/// Brings a row into reduced row echelon form with those there are; returns its pivot, or `None` if it depends on them.
fn eliminate(done: &mut [u8], pivots: &[usize], new: &mut [u8], columns: usize) -> Option<usize> {
    let stride = new.len();
    // A pivot occurs in its own row only, so all factors are known beforehand.
    for (rows, pivots) in done.chunks(ROWS * stride).zip(pivots.chunks(ROWS)) {
        let (mut inputs, mut factors) = ([&[] as &[u8]; ROWS], [0; ROWS]);
        for (i, (row, pivot)) in rows.chunks_exact(stride).zip(pivots).enumerate() {
            (inputs[i], factors[i]) = (row, new[*pivot]);
        }
        gf::dot_add(&mut [&mut *new], &inputs[..pivots.len()], &factors[..pivots.len()]);
    }
    let pivot = new[..columns].iter().position(|c| *c != 0)?;
    gf::scale(new, gf::inverse(new[pivot]));
    for rows in done.chunks_mut(ROWS * stride) {
        let (mut outputs, mut factors, mut count): ([&mut [u8]; ROWS], _, _) =
            (Default::default(), [0; ROWS], 0);
        for row in rows.chunks_exact_mut(stride) {
            factors[count] = row[pivot];
            outputs[count] = row;
            count += 1;
        }
        gf::dot_add(&mut outputs[..count], &[new], &factors[..count]);
    }
    Some(pivot)
}

/// The right halves of the rows, ordered by pivot and turned into padded columns.
fn inverse(system: &[u8], stride: usize, pivots: &[usize]) -> Vec<u8> {
    let count = pivots.len();
    let padded = count.next_multiple_of(PAD);
    let mut inverse = vec![0; count * padded];
    for (row, pivot) in system.chunks_exact(stride).zip(pivots) {
        for (repair, c) in row[count..2 * count].iter().enumerate() {
            inverse[repair * padded + pivot] = *c;
        }
    }
    inverse
}
