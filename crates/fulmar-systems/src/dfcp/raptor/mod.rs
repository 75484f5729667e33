//! The Raptor code of DFCP (Solymos, BME 2014, sections 3.7 and 3.10), over bytes.
//!
//! A block is 63536 user bytes, padded with zeros, and 2000 LDPC check bytes over them; every byte sent is
//! the XOR of some of these 65536 (LT). [`DfcpBlock`] and [`DfcpReceiver`] are that code alone, with the
//! generator states that DFCP's headers carry. [`DfcpRaptor`] is the same as a [`Code`]: the symbols of a
//! block, each padded to the symbol size, are the user bytes, and a repair symbol is one segment of coded
//! bytes whose key seeds the generator. Source symbols are never sent.
//!
//! Three differences, all at the receiver, none on the wire. Where the thesis acknowledges a block it could
//! not decode and reports an error (section 3.10.1), here the receiver keeps collecting until it can. The
//! padding is known to be zero, so a short block needs no more than a full one. Belief propagation runs on
//! arrival, not once at a threshold.

mod block;
mod decoder;
mod incoming;
mod layout;
mod ldpc;
mod lt;
mod peel;
mod taus88;

use std::collections::VecDeque;
use std::sync::Arc;

pub use block::{DfcpBlock, DfcpReceiver};
pub use layout::ldpc_state;
pub use ldpc::{CHECK_BYTES, MESSAGE_BYTES};
pub use taus88::Taus88;

use layout::{CODED_BYTES_EXPECTED, block_of, segment_state};

use fulmar_fec::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, RepairKey,
    SymbolId, Symbols, Window,
};

/// Blocks an encoder keeps ready, 82 kB each. DFCP sends its window of blocks round robin.
const BLOCKS_READY_MAX: usize = 32;

/// DFCP's Raptor as a [`Code`]. A block holds as many symbols as fit into 63536 bytes.
///
/// ```
/// # use fulmar_fec::*;
/// # use fulmar_systems::dfcp::{DfcpRaptor, Taus88};
/// let code = DfcpRaptor::new(Taus88::seeded(1));
/// let source: Vec<Vec<u8>> = (0..44).map(|i| vec![i; 1420]).collect();
/// let cover = Cover::Window(Window { first: SymbolId(0), len: 44 });
/// let (mut encoder, mut segment) = (code.encoder(1420), [0; 1420]);
/// let mut decoder = code.decoder(1420, DecoderLimits::new(100, 200));
/// let mut key = 0;
/// while decoder.decoded_below() < SymbolId(44) {
///     key += 1; // about 49 segments
///     encoder.repair(cover, RepairKey(key), &source, &mut segment).unwrap();
///     decoder.on_repair(cover, RepairKey(key), &segment).unwrap();
///     while decoder.is_busy() {
///         decoder.go_on().unwrap();
///     }
/// }
/// let mut symbol = Vec::new();
/// while let Some(id) = decoder.poll_recovered(&mut symbol) {
///     assert_eq!(symbol, source[id.0 as usize]);
/// }
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DfcpRaptor {
    initial: Taus88,
}

impl DfcpRaptor {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(5);
    /// Coded bytes in a segment of DFCP.
    pub const SEGMENT_BYTES: usize = 1420;

    /// The code of a connection on which `initial` was exchanged.
    pub fn new(initial: Taus88) -> Self {
        Self { initial }
    }

    /// The same from [`Code::parameters`].
    pub fn from_parameters(parameters: &[u32]) -> Result<Self, CodeError> {
        match *parameters {
            [s1, s2, s3] => Ok(Self::new(Taus88::from_parts(s1, s2, s3))),
            _ => Err(CodeError::BadParameters),
        }
    }

    /// Most symbols in a block: at most 1024, and none where symbols are longer than 2048 bytes.
    pub fn len_max(symbol_bytes: usize) -> u32 {
        layout::len_max(symbol_bytes)
    }
}

impl Code for DfcpRaptor {
    /// The state exchanged when connecting.
    fn parameters(&self) -> Vec<u32> {
        let (s1, s2, s3) = self.initial.parts();
        vec![s1, s2, s3]
    }

    /// Each connection begins with a state of its own, exchanged in SYN and SYNACK (thesis, section 3.8.3).
    fn for_connection(&self, draw: &mut dyn FnMut() -> u32) -> Option<Arc<dyn Code>> {
        Some(Arc::new(Self::new(Taus88::from_parts(draw(), draw(), draw()))))
    }

    fn len_max(&self, symbol_bytes: usize) -> u32 {
        Self::len_max(symbol_bytes)
    }

    fn symbols_expected(&self, _len: u32, symbol_bytes: usize) -> u32 {
        CODED_BYTES_EXPECTED.div_ceil(symbol_bytes.max(1)) as u32
    }

    /// For segments of DFCP's size; symbols of another size make [`DfcpRaptor::len_max`] of it.
    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Block { len_max: Self::len_max(Self::SEGMENT_BYTES) },
            repairs_max: u32::MAX,
            is_mds: false,
            needs_closed_window: true,
            is_systematic: false,
        }
    }

    fn encoder(&self, symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(DfcpEncoder {
            initial: self.initial,
            symbol_bytes: symbol_bytes.max(1),
            blocks: VecDeque::new(),
        })
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(decoder::DfcpDecoder::new(self.initial, symbol_bytes.max(1), limits))
    }
}

#[derive(Debug)]
struct DfcpEncoder {
    initial: Taus88,
    symbol_bytes: usize,
    /// Ready blocks, the one used last in front.
    blocks: VecDeque<(Window, DfcpBlock)>,
}

impl DfcpEncoder {
    fn block(&mut self, window: Window, symbols: &dyn Symbols) -> Result<&mut DfcpBlock, CodeError> {
        let entry = match self
            .blocks
            .iter()
            .position(|(ready, _)| *ready == window)
            .and_then(|at| self.blocks.remove(at))
        {
            Some(entry) => entry,
            None => {
                let mut message = vec![0; window.len as usize * self.symbol_bytes];
                for (chunk, id) in message.chunks_mut(self.symbol_bytes).zip(window.first.0..) {
                    let symbol = symbols.get(SymbolId(id)).ok_or(CodeError::MissingSource(SymbolId(id)))?;
                    chunk.get_mut(..symbol.len()).ok_or(CodeError::TooLong)?.copy_from_slice(symbol);
                }
                (window, DfcpBlock::new(&message, ldpc_state(self.initial, window.first.0 as u32))?)
            }
        };
        self.blocks.truncate(BLOCKS_READY_MAX - 1);
        self.blocks.push_front(entry);
        Ok(&mut self.blocks[0].1)
    }
}

impl Encoder for DfcpEncoder {
    /// A repair symbol is always as long as the symbol size.
    fn repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        symbols: &dyn Symbols,
        out: &mut [u8],
    ) -> Result<usize, CodeError> {
        let window = block_of(cover, self.symbol_bytes)?;
        let len = self.symbol_bytes;
        let out = out.get_mut(..len).ok_or(CodeError::TooLong)?;
        self.block(window, symbols)?.segment(segment_state(key), out);
        Ok(len)
    }

    fn release(&mut self, below: SymbolId) {
        self.blocks.retain(|(window, _)| window.end() > below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thesis, section 3.8.3: the states are exchanged, so that no two connections need have the same.
    #[test]
    fn each_connection_has_a_state_of_its_own() {
        let code = DfcpRaptor::new(Taus88::seeded(1));
        let mut drawn = 7u32;
        let mut draw = || {
            drawn = drawn.wrapping_mul(69069).wrapping_add(1);
            drawn
        };
        let [one, other] = [(); 2].map(|()| code.for_connection(&mut draw).expect("a fountain draws"));
        assert_ne!(one.parameters(), other.parameters());
        let again = crate::codes::from_parameters(one.shape().id, &one.parameters()).expect("what was told");
        assert_eq!(again.parameters(), one.parameters());
        // Zeros would stay zeros for ever.
        let worst = code.for_connection(&mut || 0).expect("a fountain draws");
        assert_eq!(worst.parameters(), [2, 8, 16]);
    }
}
