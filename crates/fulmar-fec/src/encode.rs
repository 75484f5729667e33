//! The encoder of every code that is a matrix of coefficients: symbols are read in place, each once for
//! several repair symbols.

use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::rows::{Rows, check_cover, ids};
use crate::{CodeError, Cover, Encoder, RepairKey, SymbolId, Symbols};

/// Symbols combined in one pass of the fused kernel.
const INPUTS: usize = 64;
/// Repair symbols made in one pass of the fused kernel.
const OUTPUTS: usize = 16;

/// Encodes by the rows of `R`. Holds the coefficients of its last repair symbols, and no symbols.
#[derive(Debug)]
pub(crate) struct RowEncoder<R> {
    rows: R,
    coefficients: Vec<u8>,
}

impl<R: Rows> RowEncoder<R> {
    pub(crate) fn new(rows: R) -> Self {
        Self { rows, coefficients: Vec::new() }
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
        self.repair_many(cover, &[key], symbols, &mut [out])
    }

    fn repair_many(
        &mut self,
        cover: Cover<'_>,
        keys: &[RepairKey],
        symbols: &dyn Symbols,
        outs: &mut [&mut [u8]],
    ) -> Result<usize, CodeError> {
        let covered = check_cover(cover)?;
        keys.iter().try_for_each(|key| self.rows.check(cover, *key))?;
        let mut first = [&[] as &[u8]; INPUTS];
        let len = gather(cover, symbols, &mut first)?;
        if outs.iter().any(|out| out.len() < len) {
            return Err(CodeError::TooLong);
        }
        for (keys, outs) in keys.chunks(OUTPUTS).zip(outs.chunks_mut(OUTPUTS)) {
            let mut outputs: [&mut [u8]; OUTPUTS] = Default::default();
            for (output, out) in outputs.iter_mut().zip(outs.iter_mut()) {
                *output = &mut out[..len];
            }
            let outputs = &mut outputs[..keys.len()];
            self.coefficients.resize(covered * keys.len(), 0);
            self.rows.columns(cover, keys, &mut self.coefficients);
            let (of_first, of_rest) = self.coefficients.split_at(covered.min(INPUTS) * keys.len());
            gf::dot(outputs, &first[..covered.min(INPUTS)], of_first);
            add_rest(cover, symbols, of_rest, outputs);
        }
        Ok(len)
    }

    fn release(&mut self, _below: SymbolId) {}
}

/// The first symbols of a cover, and the length of the longest of all, which must be there.
fn gather<'a>(
    cover: Cover<'_>,
    symbols: &'a dyn Symbols,
    first: &mut [&'a [u8]; INPUTS],
) -> Result<usize, CodeError> {
    let mut len = 0;
    for (position, id) in ids(cover).map(SymbolId).enumerate() {
        let symbol = symbols.get(id).ok_or(CodeError::MissingSource(id))?;
        len = symbol.len().max(len);
        if let Some(slot) = first.get_mut(position) {
            *slot = symbol;
        }
    }
    Ok(len)
}

/// Adds the products of the symbols after the first ones; for every symbol in turn there is one coefficient
/// for each output.
fn add_rest(cover: Cover<'_>, symbols: &dyn Symbols, coefficients: &[u8], outputs: &mut [&mut [u8]]) {
    let mut ids = ids(cover).skip(INPUTS);
    for coefficients in coefficients.chunks(INPUTS * outputs.len()) {
        let mut inputs = [&[] as &[u8]; INPUTS];
        let inputs = &mut inputs[..coefficients.len() / outputs.len()];
        for (input, id) in inputs.iter_mut().zip(&mut ids) {
            *input = symbols.get(SymbolId(id)).unwrap_or(&[]);
        }
        gf::dot_add(outputs, inputs, coefficients);
    }
}
