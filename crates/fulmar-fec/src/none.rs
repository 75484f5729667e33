//! The trivial code: repair is a copy. Plain retransmission then is one case of the same loop.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::known::Known;
use crate::recovered::Recovered;
use crate::work::Work;
use crate::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, Innovation,
    RepairKey, SymbolId, Symbols, Window,
};

/// Repair over exactly one symbol is that symbol. The key means nothing.
#[derive(Copy, Clone, Debug, Default)]
pub struct NoCode;

impl NoCode {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(0);
}

impl Code for NoCode {
    fn parameters(&self) -> Vec<u32> {
        Vec::new()
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::None,
            repairs_max: u32::MAX,
            is_mds: true,
            needs_closed_window: false,
            is_systematic: true,
        }
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(Copier)
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        Box::new(Collector {
            symbol_bytes,
            recovered_max: (limits.memory_eighths(RECOVERED_EIGHTHS) / symbol_bytes.max(1))
                .clamp(1, limits.symbols_max.max(1) as usize),
            ..Collector::default()
        })
    }
}

/// Eighths of a decoder's memory that symbols nobody has collected yet may take.
const RECOVERED_EIGHTHS: usize = 6;

/// The one symbol of a cover.
fn only(cover: Cover<'_>) -> Result<SymbolId, CodeError> {
    match cover {
        Cover::Window(Window { first, len: 1 }) | Cover::Set(&[first]) if first.0 < u64::MAX => Ok(first),
        _ => Err(CodeError::BadCover),
    }
}

#[derive(Debug)]
struct Copier;

impl Encoder for Copier {
    fn repair(
        &mut self,
        cover: Cover<'_>,
        _key: RepairKey,
        symbols: &dyn Symbols,
        out: &mut [u8],
    ) -> Result<usize, CodeError> {
        let id = only(cover)?;
        let symbol = symbols.get(id).ok_or(CodeError::MissingSource(id))?;
        out.get_mut(..symbol.len()).ok_or(CodeError::TooLong)?.copy_from_slice(symbol);
        Ok(symbol.len())
    }

    fn release(&mut self, _below: SymbolId) {}
}

/// Remembers which symbols came, and no bytes but those not yet collected.
#[derive(Debug, Default)]
struct Collector {
    symbol_bytes: usize,
    recovered_max: usize,
    known: Known,
    recovered: Recovered,
    work: Work,
}

impl Collector {
    fn enter(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        let innovation = self.known.judge(id.0, symbol.len(), self.symbol_bytes)?;
        if innovation != Innovation::Innovative {
            return Ok(innovation);
        }
        self.work.add(symbol.len());
        self.known.insert(id.0);
        Ok(Innovation::Innovative)
    }
}

impl Decoder for Collector {
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        self.enter(id, symbol)
    }

    fn on_repair(
        &mut self,
        cover: Cover<'_>,
        _key: RepairKey,
        repair: &[u8],
    ) -> Result<Innovation, CodeError> {
        let id = only(cover)?;
        if self.recovered.len() >= self.recovered_max && !self.known.contains(id.0) {
            return Ok(Innovation::Dropped);
        }
        let innovation = self.enter(id, repair)?;
        if innovation == Innovation::Innovative {
            self.recovered.push(id.0, repair.to_vec());
        }
        Ok(innovation)
    }

    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        self.recovered.poll(out)
    }

    fn deficit(&self, window: Window) -> u32 {
        self.work.add(self.known.words());
        self.known.missing_in(window)
    }

    fn decoded_below(&self) -> SymbolId {
        SymbolId(self.known.below())
    }

    fn is_decoded(&self, id: SymbolId) -> bool {
        self.known.contains(id.0)
    }

    fn release(&mut self, _below: SymbolId) {
        self.recovered.shrink();
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.known.memory_bytes() + self.recovered.memory_bytes()
    }

    fn work(&self) -> u64 {
        self.work.total()
    }
}
