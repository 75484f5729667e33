//! The encoder of every code that is a matrix of coefficients: one fused product per repair symbol, read in place.

use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::sliding::{Rows, check_cover, ids};
use crate::{CodeError, Cover, Encoder, RepairKey, SymbolId, Symbols};

/// Symbols combined in one pass of the fused kernel.
const BATCH: usize = 64;

/// Encodes by the rows of `R`. Holds one row of coefficients and no symbols.
#[derive(Debug)]
pub(crate) struct RowEncoder<R> {
    rows: R,
    row: Vec<u8>,
}

impl<R: Rows> RowEncoder<R> {
    pub(crate) fn new(rows: R) -> Self {
        Self { rows, row: Vec::new() }
    }
}

impl<R: Rows> Encoder for RowEncoder<R> {
    fn repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        symbols: &dyn Symbols,
        out: &mut [u8],
    ) -> Result<usize, CodeError> {
        let covered = check_cover(cover)?;
        self.rows.check(cover, key)?;
        self.row.resize(covered, 0);
        self.rows.row(cover, key, &mut self.row);
        let mut len = 0;
        let (mut batch, mut factors, mut count) = ([&[] as &[u8]; BATCH], [0; BATCH], 0);
        for (id, factor) in ids(cover).zip(&self.row) {
            let symbol = symbols.get(SymbolId(id)).ok_or(CodeError::MissingSource(SymbolId(id)))?;
            if symbol.len() > len {
                out.get_mut(len..symbol.len()).ok_or(CodeError::TooLong)?.fill(0);
                len = symbol.len();
            }
            if *factor == 0 {
                continue;
            }
            (batch[count], factors[count]) = (symbol, *factor);
            count += 1;
            if count == BATCH {
                gf::dot_add(&mut [&mut out[..len]], &batch, &factors);
                count = 0;
            }
        }
        gf::dot_add(&mut [&mut out[..len]], &batch[..count], &factors[..count]);
        Ok(len)
    }

    fn release(&mut self, _below: SymbolId) {}
}
