//! What a linear code is, and what all of them demand of a cover.

use alloc::vec;
use core::fmt::Debug;

use crate::{CodeError, Cover, RepairKey, SymbolId, Window};

/// What defines a linear code: the coefficients of each of its repair symbols.
pub trait Rows: Debug + Send + Sync {
    /// Whether this code has such a cover and, over it, such a key. The cover is not empty and ascending.
    fn check(&self, cover: Cover<'_>, key: RepairKey) -> Result<(), CodeError>;

    /// Writes the coefficients of repair symbol `key` over `cover` to `out`, one for each symbol covered, in
    /// order. They may all be zero only where that cannot be avoided. Called for what [`Rows::check`]
    /// accepts.
    fn row(&self, cover: Cover<'_>, key: RepairKey, out: &mut [u8]);

    /// The coefficients of several repair symbols at once: for every symbol covered in turn, one for each
    /// key.
    fn columns(&self, cover: Cover<'_>, keys: &[RepairKey], out: &mut [u8]) {
        columns_from_rows(self, cover, keys, out);
    }
}

/// Checks what all codes demand of a cover: not empty, ascending, no id beyond the end of the space. Returns
/// its length.
pub fn check_cover(cover: Cover<'_>) -> Result<usize, CodeError> {
    match cover {
        Cover::Window(Window { first, len }) => match first.0.checked_add(u64::from(len)) {
            Some(end) if len > 0 && end < u64::MAX => Ok(len as usize),
            _ => Err(CodeError::BadCover),
        },
        Cover::Set(ids) => match ids {
            [.., last] if last.0 < u64::MAX && ids.is_sorted_by(|a, b| a < b) => Ok(ids.len()),
            _ => Err(CodeError::BadCover),
        },
    }
}

/// The ids of a cover that [`check_cover`] accepts.
pub(crate) fn ids<'a>(cover: Cover<'a>) -> impl Iterator<Item = u64> + Clone + use<'a> {
    let (window, set) = match cover {
        Cover::Window(window) => (window.first.0..window.end().0, &[] as &[SymbolId]),
        Cover::Set(ids) => (0..0, ids),
    };
    window.chain(set.iter().map(|id| id.0))
}

/// First id of a cover and the id after its last.
pub(crate) fn span(cover: Cover<'_>) -> (u64, u64) {
    match cover {
        Cover::Window(window) => (window.first.0, window.end().0),
        Cover::Set(ids) => (ids.first().map_or(0, |id| id.0), ids.last().map_or(0, |id| id.0 + 1)),
    }
}

/// What [`Rows::columns`] does unless a code knows better: turns rows into columns.
pub(crate) fn columns_from_rows<R: Rows + ?Sized>(
    rows: &R,
    cover: Cover<'_>,
    keys: &[RepairKey],
    out: &mut [u8],
) {
    if let [key] = keys {
        return rows.row(cover, *key, out);
    }
    let mut row = vec![0; out.len() / keys.len().max(1)];
    for (i, key) in keys.iter().enumerate() {
        rows.row(cover, *key, &mut row);
        let of_key = out[i..].iter_mut().step_by(keys.len());
        of_key.zip(&row).for_each(|(to, coefficient)| *to = *coefficient);
    }
}
