//! Random linear codes over GF(256): a sliding window (RFC 8681 in spirit), and blocks (CTCP, NetCod 2012).
//!
//! A repair symbol is a random combination of all the symbols it covers. Any k independent ones restore k
//! symbols; at full density k random ones are dependent with probability about 1/255.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::encode::RowEncoder;
use crate::rows::{Rows, check_cover};
use crate::seed::{Density, coefficients};
use crate::sliding::{COVER_LEN_MAX, PRODUCT_BYTES_MAX, SYSTEM_BYTES_MAX, SlidingDecoder};
use crate::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, RepairKey,
};

/// The most symbols one repair symbol of these codes may cover.
pub const RLC_LEN_MAX: u32 = COVER_LEN_MAX;

/// The longest cover whose symbols a decoder still takes out of a repair symbol, were all but one known.
fn covered_max(symbol_bytes: usize) -> u32 {
    u32::try_from(PRODUCT_BYTES_MAX / symbol_bytes.max(1)).unwrap_or(u32::MAX).max(1)
}

/// The longest block that a decoder can hold as equations, were none of its symbols known.
fn combined_max(symbol_bytes: usize) -> u32 {
    let rows = |len: &u32| *len as usize * (*len as usize + symbol_bytes);
    (1..RLC_LEN_MAX).rfind(|len| rows(len) <= SYSTEM_BYTES_MAX).unwrap_or(1)
}

/// Random linear code over any window of consecutive symbols, and over explicit sets.
///
/// ```
/// # use fulmar_fec::*;
/// let code = RlcWindow::new(64).unwrap();
/// let source = vec![b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
/// let window = Cover::Window(Window { first: SymbolId(0), len: 3 });
/// let mut repair = [0; 8];
/// let len = code.encoder(8).repair(window, RepairKey(1), &source, &mut repair).unwrap();
///
/// let mut decoder = code.decoder(8, DecoderLimits::new(100, 10));
/// decoder.on_source(SymbolId(0), b"one").unwrap();
/// decoder.on_source(SymbolId(2), b"three").unwrap();
/// decoder.on_repair(window, RepairKey(1), &repair[..len]).unwrap();
/// let mut symbol = Vec::new();
/// assert_eq!(decoder.poll_recovered(&mut symbol), Some(SymbolId(1)));
/// assert_eq!(symbol, b"two\0\0"); // padded to the longest symbol covered
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RlcWindow {
    len_max: u32,
    density: Density,
}

impl RlcWindow {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(4);

    /// Windows and sets of at most `len_max` symbols (1..=[`RLC_LEN_MAX`]), at full density.
    pub fn new(len_max: u32) -> Result<Self, CodeError> {
        if len_max == 0 || len_max > RLC_LEN_MAX {
            return Err(CodeError::BadParameters);
        }
        Ok(Self { len_max, density: Density::FULL })
    }

    /// The same code at another density. Both ends must use the same.
    pub fn with_density(self, density: Density) -> Self {
        Self { density, ..self }
    }
}

impl Rows for RlcWindow {
    fn check(&self, cover: Cover<'_>, _key: RepairKey) -> Result<(), CodeError> {
        if check_cover(cover)? > self.len_max as usize { Err(CodeError::BadCover) } else { Ok(()) }
    }

    fn row(&self, cover: Cover<'_>, key: RepairKey, out: &mut [u8]) {
        coefficients(cover, key, self.density, out);
    }
}

impl Code for RlcWindow {
    fn parameters(&self) -> Vec<u32> {
        vec![self.len_max, self.density.share_of_256()]
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Sliding { len_max: self.len_max },
            repairs_max: u32::MAX,
            is_mds: false,
            needs_closed_window: false,
            is_systematic: true,
        }
    }

    fn len_max(&self, symbol_bytes: usize) -> u32 {
        self.len_max.min(covered_max(symbol_bytes))
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RowEncoder::new(*self))
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(SlidingDecoder::new(*self, self.shape().geometry, symbol_bytes, limits))
    }
}

/// Random linear code over blocks, and over explicit sets of symbols of one block.
///
/// The arithmetic is that of [`RlcWindow`]; the cover of a repair symbol is the block, or as much of it as
/// there was yet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RlcBlock {
    rows: RlcWindow,
    is_systematic: bool,
}

impl RlcBlock {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(3);

    /// Blocks of at most `len_max` symbols (1..=[`RLC_LEN_MAX`]), systematic, at full density.
    pub fn new(len_max: u32) -> Result<Self, CodeError> {
        Ok(Self { rows: RlcWindow::new(len_max)?, is_systematic: true })
    }

    /// The same code, but only combinations are sent.
    pub fn not_systematic(self) -> Self {
        Self { is_systematic: false, ..self }
    }

    /// The same code at another density. Both ends must use the same.
    pub fn with_density(self, density: Density) -> Self {
        Self { rows: self.rows.with_density(density), ..self }
    }
}

impl Rows for RlcBlock {
    fn check(&self, cover: Cover<'_>, key: RepairKey) -> Result<(), CodeError> {
        self.rows.check(cover, key)
    }

    fn row(&self, cover: Cover<'_>, key: RepairKey, out: &mut [u8]) {
        self.rows.row(cover, key, out);
    }
}

impl Code for RlcBlock {
    fn parameters(&self) -> Vec<u32> {
        let mut parameters = self.rows.parameters();
        parameters.push(u32::from(self.is_systematic));
        parameters
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Block { len_max: self.rows.len_max },
            is_systematic: self.is_systematic,
            ..self.rows.shape()
        }
    }

    fn len_max(&self, symbol_bytes: usize) -> u32 {
        let combined = if self.is_systematic { u32::MAX } else { combined_max(symbol_bytes) };
        self.rows.len_max(symbol_bytes).min(combined)
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RowEncoder::new(*self))
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(SlidingDecoder::new(*self, self.shape().geometry, symbol_bytes, limits))
    }
}
