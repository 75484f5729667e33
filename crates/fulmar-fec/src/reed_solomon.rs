//! Reed-Solomon as a systematic block code over GF(256): any k of the k + r symbols of a block restore it.
//!
//! The generator is a Cauchy matrix: source j has the point j, repair symbol i the point k_max + i, and the
//! coefficient is 1 / (point_i + point_j) (Bloemer et al., "An XOR-based erasure-resilient coding scheme",
//! 1995). Every square submatrix of it is invertible. Its columns are scaled so that repair symbol 0 is the
//! plain XOR of the block, which costs half.
//!
//! A block may be protected before it is full: symbol j of the cover has the column j, however long the cover
//! is. It is certain that any k symbols restore k only among repair symbols over the same cover.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use fulmar_gf as gf;

use crate::encode::RowEncoder;
use crate::rows::columns_from_rows;
use crate::rows::{Rows, check_cover};
use crate::sliding::SlidingDecoder;
use crate::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, RepairKey,
};

/// Reed-Solomon over blocks, or explicit sets, of at most `sources_max` symbols; keys are 0..`repairs_max`.
///
/// ```
/// # use fulmar_fec::*;
/// let code = ReedSolomon::new(4, 2).unwrap();
/// let source = [b"north", b"east ", b"south", b"west "];
/// let block = Cover::Window(Window { first: SymbolId(0), len: 4 });
/// let (mut a, mut b) = ([0; 5], [0; 5]);
/// code.encoder(5).repair_many(block, &[RepairKey(0), RepairKey(1)], &source, &mut [&mut a, &mut b]).unwrap();
///
/// let received = [Some(source[0]), None, None, Some(source[3])];
/// let (mut east, mut south) = ([0; 5], [0; 5]);
/// let repairs = [(RepairKey(0), &a[..]), (RepairKey(1), &b[..])];
/// restore(&code, block, &Present(&received), &repairs, &mut [&mut east, &mut south]).unwrap();
/// assert_eq!((&east, &south), (source[1], source[2]));
/// ```
#[derive(Clone, Debug)]
pub struct ReedSolomon {
    sources_max: usize,
    repairs_max: usize,
    /// The generator, by key and then by position.
    by_key: Arc<[u8]>,
    /// The same by position and then by key.
    by_position: Arc<[u8]>,
}

impl ReedSolomon {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(2);
    /// Source and repair symbols together.
    pub const SYMBOLS_MAX: usize = 255;

    /// Blocks of at most `sources_max` symbols with at most `repairs_max` repair symbols, both at least 1 and
    /// together at most [`ReedSolomon::SYMBOLS_MAX`]. Both ends must use the same.
    pub fn new(sources_max: usize, repairs_max: usize) -> Result<Self, CodeError> {
        let symbols = sources_max.checked_add(repairs_max).ok_or(CodeError::BadParameters)?;
        if sources_max == 0 || repairs_max == 0 || symbols > Self::SYMBOLS_MAX {
            return Err(CodeError::BadParameters);
        }
        // A Cauchy matrix whose columns are divided by their first elements.
        let coefficient = |key: usize, position: usize| {
            let [first, this] = [0, key].map(|key| (sources_max + key) as u8 ^ position as u8);
            gf::mul(first, gf::inverse(this))
        };
        let rows =
            (0..repairs_max).flat_map(|key| (0..sources_max).map(move |position| coefficient(key, position)));
        let by_key: Arc<[u8]> = rows.collect();
        let columns = (0..sources_max).flat_map(|position| by_key[position..].iter().step_by(sources_max));
        let by_position = columns.copied().collect();
        Ok(Self { sources_max, repairs_max, by_key, by_position })
    }
}

impl Rows for ReedSolomon {
    fn check(&self, cover: Cover<'_>, key: RepairKey) -> Result<(), CodeError> {
        if check_cover(cover)? > self.sources_max {
            return Err(CodeError::BadCover);
        }
        if key.0 as usize >= self.repairs_max { Err(CodeError::BadKey) } else { Ok(()) }
    }

    fn row(&self, _cover: Cover<'_>, key: RepairKey, out: &mut [u8]) {
        let row = &self.by_key[key.0 as usize * self.sources_max..];
        out.copy_from_slice(&row[..out.len()]);
    }

    fn columns(&self, cover: Cover<'_>, keys: &[RepairKey], out: &mut [u8]) {
        if !keys.iter().enumerate().all(|(i, key)| key.0 as usize == i) {
            return columns_from_rows(self, cover, keys, out);
        }
        for (to, from) in out.chunks_mut(keys.len()).zip(self.by_position.chunks(self.repairs_max)) {
            to.copy_from_slice(&from[..keys.len()]);
        }
    }
}

impl Code for ReedSolomon {
    fn parameters(&self) -> Vec<u32> {
        vec![self.sources_max as u32, self.repairs_max as u32]
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Block { len_max: self.sources_max as u32 },
            repairs_max: self.repairs_max as u32,
            is_mds: true,
            needs_closed_window: false,
            is_systematic: true,
        }
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RowEncoder::new(self.clone()))
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(SlidingDecoder::new(self.clone(), self.shape().geometry, symbol_bytes, limits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_0_is_xor_and_no_coefficient_is_zero() {
        for (sources, repairs) in [(1, 1), (4, 2), (32, 8), (223, 32), (1, 254), (254, 1)] {
            let code = ReedSolomon::new(sources, repairs).unwrap();
            assert!(code.by_key[..sources].iter().all(|c| *c == 1));
            assert!(code.by_key.iter().all(|c| *c != 0));
        }
    }

    #[test]
    fn parameters_are_checked() {
        for (sources, repairs) in [(0, 1), (1, 0), (200, 56), (usize::MAX, 2)] {
            assert_eq!(ReedSolomon::new(sources, repairs).unwrap_err(), CodeError::BadParameters);
        }
    }
}
