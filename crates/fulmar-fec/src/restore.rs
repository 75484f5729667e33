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
    let mut space = vec![0; Space::bytes(covered, missing.len())];
    let mut space = Space::split(&mut space, covered, missing.len());
    if !space.solve(rows, cover, &missing, repairs, &mut inputs)? {
        return Ok(None);
    }
    let coefficients = space.coefficients(&known);
    let mut outs: Vec<&mut [u8]> = outs.iter_mut().map(|out| &mut out[..len]).collect();
    gf::dot(&mut outs, &inputs, coefficients);
    Ok(Some(len))
}

/// Short rows are padded to whole vectors of the kernels that have no masks for parts of one.
const PAD: usize = 32;

/// Matrices over the `count` missing and the `covered` positions, in one allocation.
struct Space<'a> {
    covered: usize,
    count: usize,
    /// The rows of the repair symbols used, one after the other.
    rows: &'a mut [u8],
    /// Their coefficients over the missing positions, and the identity beside them; padded.
    system: &'a mut [u8],
    /// The inverse: for every repair symbol in turn, one coefficient for each missing symbol; padded.
    inverse: &'a mut [u8],
    /// The inverse times the rows: for every position in turn, one coefficient for each missing symbol; padded.
    products: &'a mut [u8],
    /// For every known symbol and every repair symbol used, in turn, one coefficient for each missing symbol.
    coefficients: &'a mut [u8],
}

impl<'a> Space<'a> {
    fn sizes(covered: usize, count: usize) -> [usize; 5] {
        let (system, padded) = ((2 * count).next_multiple_of(PAD), count.next_multiple_of(PAD));
        [count * covered, count * system, count * padded, covered * padded, covered * count]
    }

    fn bytes(covered: usize, count: usize) -> usize {
        Self::sizes(covered, count).iter().sum()
    }

    fn split(space: &'a mut [u8], covered: usize, count: usize) -> Self {
        let sizes = Self::sizes(covered, count);
        let (rows, space) = space.split_at_mut(sizes[0]);
        let (system, space) = space.split_at_mut(sizes[1]);
        let (inverse, space) = space.split_at_mut(sizes[2]);
        let (products, coefficients) = space.split_at_mut(sizes[3]);
        Self { covered, count, rows, system, inverse, products, coefficients }
    }

    /// Gauss-Jordan over the missing positions, until there are enough independent rows; adds the repair symbols they belong
    /// to to `inputs`. Returns whether there are enough.
    fn solve<'r, R: Rows + ?Sized>(
        &mut self,
        rows: &R,
        cover: Cover<'_>,
        missing: &[usize],
        repairs: &[(RepairKey, &'r [u8])],
        inputs: &mut Vec<&'r [u8]>,
    ) -> Result<bool, CodeError> {
        let count = self.count;
        let stride = self.system.len() / count;
        let mut pivots: Vec<usize> = Vec::with_capacity(count);
        for (key, repair) in repairs {
            rows.check(cover, *key)?;
            let found = pivots.len();
            let row = &mut self.rows[found * self.covered..][..self.covered];
            rows.row(cover, *key, row);
            let (done, rest) = self.system.split_at_mut(found * stride);
            let new = &mut rest[..stride];
            new.fill(0);
            new.iter_mut().zip(missing).for_each(|(c, position)| *c = row[*position]);
            new[count + found] = 1;
            let Some(pivot) = eliminate(done, &pivots, new, count) else { continue };
            pivots.push(pivot);
            inputs.push(repair);
            if pivots.len() == count {
                self.invert(&pivots);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The inverse is the right half of the system, its rows ordered by pivot and turned into columns.
    fn invert(&mut self, pivots: &[usize]) {
        let (stride, padded) = (self.system.len() / self.count, self.inverse.len() / self.count);
        for (row, pivot) in self.system.chunks_exact(stride).zip(pivots) {
            let right = &row[self.count..2 * self.count];
            for (column, c) in self.inverse.chunks_exact_mut(padded).zip(right) {
                column[*pivot] = *c;
            }
        }
    }

    fn coefficients(&mut self, known: &[usize]) -> &[u8] {
        let (count, padded) = (self.count, self.inverse.len() / self.count);
        let mut outputs: Vec<&mut [u8]> = self.products.chunks_exact_mut(padded).collect();
        let inputs: Vec<&[u8]> = self.inverse.chunks_exact(padded).collect();
        gf::dot(&mut outputs, &inputs, self.rows);
        let of_known = known.iter().map(|position| &self.products[position * padded..][..count]);
        let of_repairs = inputs.iter().map(|of_repair| &of_repair[..count]);
        for (to, from) in self.coefficients.chunks_exact_mut(count).zip(of_known.chain(of_repairs)) {
            to.copy_from_slice(from);
        }
        self.coefficients
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
