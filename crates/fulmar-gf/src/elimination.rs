//! Gauss-Jordan elimination, one row after the other.

use crate::field::inverse;

/// Rows taken together.
const ROWS: usize = 16;

/// See [`crate::Kernel::eliminate`]. Written so that a kernel can have its own products put in place.
#[inline(always)]
pub(crate) fn eliminate(
    rows: &mut [u8],
    pivots: &[usize],
    row: &mut [u8],
    columns: &[usize],
    mul_add: impl Fn(&mut [u8], &[u8], u8),
    scale: impl Fn(&mut [u8], u8),
) -> Option<usize> {
    assert_eq!(rows.len(), pivots.len() * row.len(), "one pivot for each row, and rows of equal length");
    if row.is_empty() {
        return None;
    }
    let width = row.len();
    for (rows, pivots) in rows.chunks(ROWS * width).zip(pivots.chunks(ROWS)) {
        // A pivot's column is 0 in the other rows, so no factor waits for a product.
        let mut factors = [0; ROWS];
        factors.iter_mut().zip(pivots).for_each(|(factor, pivot)| *factor = row[columns[*pivot]]);
        rows.chunks_exact(width).zip(factors).for_each(|(other, factor)| mul_add(row, other, factor));
    }
    let pivot = columns.iter().position(|column| row[*column] != 0)?;
    let column = columns[pivot];
    scale(row, inverse(row[column]));
    for other in rows.chunks_exact_mut(width) {
        let factor = other[column];
        mul_add(other, row, factor);
    }
    Some(pivot)
}
