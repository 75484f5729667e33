//! RaptorQ (RFC 6330) through the `raptorq` crate: a systematic fountain over symbols of packet size.
//!
//! The block of a cover is one source block; the repair symbol with key n has the encoding symbol id k + n
//! (RFC 6330, 5.3.1). Symbols shorter than the longest of the block are padded with zeros, and T is the
//! length of the longest.
//!
//! A block is solved in one piece, so its length is what bounds the time of a call: [`RaptorQ::LEN_MAX`]
//! symbols and [`BLOCK_BYTES_MAX`] bytes. Solving is tried with as many symbols as the block has; if that
//! fails, with one more, then with two, four, eight more, and then after every eighth.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use ::raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder, SourceBlockEncoder,
};

use crate::known::Known;
use crate::recovered::Recovered;
use crate::rows::check_cover;
use crate::work::{STEP, Work};
use crate::{
    Code, CodeError, CodeId, CodeShape, Cover, Decoder, DecoderLimits, Encoder, Geometry, Innovation,
    RepairKey, SymbolId, Symbols, Window,
};

/// Most bytes of a block: the longest block of symbols that fill Ethernet's packets.
const BLOCK_BYTES_MAX: usize = RaptorQ::LEN_MAX as usize * 1472;
/// Symbols beyond those of the block that are given to the solver. With ten or more it would try two ways in
/// turn.
const SURPLUS_MAX: usize = 8;
/// Eighths of a decoder's memory that symbols may take, repair symbols, and recovered ones that nobody has
/// collected.
const STORE_EIGHTHS: usize = 4;
const REPAIRS_EIGHTHS: usize = 2;
const RECOVERED_EIGHTHS: usize = 1;
/// What a symbol takes beside its bytes.
const ENTRY_BYTES: usize = 64;
/// Work of solving a block, for each of its symbols and for each of its bytes: 0.5 ms for 256 of one byte,
/// and 0.9 ms for 256 of 1440.
const SOLVE_PER_SYMBOL: usize = 32 << 10;
const SOLVE_PER_BYTE: usize = 20;
/// An encoding symbol id has 24 bits (RFC 6330, 3.2).
const ESI_MAX: u32 = (1 << 24) - 1;
/// Encoded blocks an encoder keeps.
const BLOCKS_READY_MAX: usize = 8;

/// RaptorQ over blocks of at most `len_max` symbols.
///
/// Encoding and decoding solve a system for the whole block: 0.9 and 0.4 GB/s for 32 to 256 symbols. It is
/// for blocks too long for [`crate::ReedSolomon`] and to lose many symbols of in [`crate::RlcBlock`].
///
/// ```
/// # use fulmar_fec::*;
/// let code = RaptorQ::new(250).unwrap();
/// let source = [b"red  ", b"green", b"blue "];
/// let block = Cover::Window(Window { first: SymbolId(0), len: 3 });
/// let mut decoder = code.decoder(5, DecoderLimits::new(100, 10));
/// decoder.on_source(SymbolId(2), source[2]).unwrap();
/// let mut repair = [0; 5];
/// for key in 0..3 {
///     code.encoder(5).repair(block, RepairKey(key), &source, &mut repair).unwrap();
///     decoder.on_repair(block, RepairKey(key), &repair).unwrap();
/// }
/// assert_eq!(decoder.decoded_below(), SymbolId(3));
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RaptorQ {
    len_max: u32,
}

impl RaptorQ {
    /// Its number on the wire.
    pub const ID: CodeId = CodeId(6);
    /// The longest block. RFC 6330 goes to 56403, but then a peer's one packet can cost its receiver seconds.
    pub const LEN_MAX: u32 = 256;

    /// Blocks of at most `len_max` symbols, 1..=[`RaptorQ::LEN_MAX`].
    pub fn new(len_max: u32) -> Result<Self, CodeError> {
        if len_max == 0 || len_max > Self::LEN_MAX {
            Err(CodeError::BadParameters)
        } else {
            Ok(Self { len_max })
        }
    }

    fn block_of(self, cover: Cover<'_>, key: RepairKey) -> Result<Window, CodeError> {
        check_cover(cover)?;
        match cover {
            Cover::Window(window) if window.len <= self.len_max => {
                if key.0 > ESI_MAX - window.len {
                    return Err(CodeError::BadKey);
                }
                Ok(window)
            }
            _ => Err(CodeError::BadCover),
        }
    }
}

impl Code for RaptorQ {
    fn parameters(&self) -> Vec<u32> {
        vec![self.len_max]
    }

    fn shape(&self) -> CodeShape {
        CodeShape {
            id: Self::ID,
            geometry: Geometry::Block { len_max: self.len_max },
            repairs_max: ESI_MAX - self.len_max,
            is_mds: false,
            needs_closed_window: true,
            is_systematic: true,
        }
    }

    fn len_max(&self, symbol_bytes: usize) -> u32 {
        self.len_max.min((BLOCK_BYTES_MAX / symbol_bytes.max(1)).max(1) as u32)
    }

    fn encoder(&self, _symbol_bytes: usize) -> Box<dyn Encoder> {
        Box::new(RaptorQEncoder { code: *self, ready: VecDeque::new() })
    }

    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        // T has 16 bits (RFC 6330, 3.3.2).
        let symbol_bytes = symbol_bytes.min(usize::from(u16::MAX));
        let room = |eighths: usize| limits.memory_eighths(eighths) / (symbol_bytes + ENTRY_BYTES);
        Box::new(RaptorQDecoder {
            code: *self,
            symbol_bytes,
            symbols_max: room(STORE_EIGHTHS).min(limits.symbols_max.max(1) as usize),
            repairs_max: room(REPAIRS_EIGHTHS).min(limits.equations_max as usize),
            recovered_max: room(RECOVERED_EIGHTHS).min(limits.symbols_max.max(1) as usize),
            known: Known::default(),
            symbols: BTreeMap::new(),
            blocks: BTreeMap::new(),
            repairs: 0,
            recovered: Recovered::default(),
            work: Work::default(),
        })
    }
}

/// Parameters of one source block of `len` symbols of `t` bytes.
fn parameters(len: u32, t: u16) -> ObjectTransmissionInformation {
    ObjectTransmissionInformation::new(u64::from(len) * u64::from(t), t, 1, 1, 1)
}

struct RaptorQEncoder {
    code: RaptorQ,
    /// Solved blocks, the one used last in front.
    ready: VecDeque<(Window, usize, SourceBlockEncoder)>,
}

impl core::fmt::Debug for RaptorQEncoder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("RaptorQEncoder").field("code", &self.code).field("ready", &self.ready.len()).finish()
    }
}

impl RaptorQEncoder {
    fn block(
        &mut self,
        window: Window,
        symbols: &dyn Symbols,
    ) -> Result<&(Window, usize, SourceBlockEncoder), CodeError> {
        let ready =
            self.ready.iter().position(|(ready, ..)| *ready == window).and_then(|at| self.ready.remove(at));
        let entry = match ready {
            Some(entry) => entry,
            None => solve(window, symbols)?,
        };
        self.ready.truncate(BLOCKS_READY_MAX - 1);
        self.ready.push_front(entry);
        Ok(&self.ready[0])
    }
}

fn solve(window: Window, symbols: &dyn Symbols) -> Result<(Window, usize, SourceBlockEncoder), CodeError> {
    let ids = (window.first.0..window.end().0).map(SymbolId);
    let symbol = |id| symbols.get(id).ok_or(CodeError::MissingSource(id));
    let len = ids.clone().try_fold(0, |len, id| symbol(id).map(|symbol| symbol.len().max(len)))?;
    // A block of empty symbols is coded as one of single zeros.
    let t = u16::try_from(len.max(1)).map_err(|_| CodeError::TooLong)?;
    let mut data = vec![0; window.len as usize * usize::from(t)];
    for (chunk, id) in data.chunks_mut(usize::from(t)).zip(ids) {
        let symbol = symbol(id)?;
        chunk[..symbol.len()].copy_from_slice(symbol);
    }
    Ok((window, len, SourceBlockEncoder::new(0, &parameters(window.len, t), &data)))
}

impl Encoder for RaptorQEncoder {
    fn repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        symbols: &dyn Symbols,
        out: &mut [u8],
    ) -> Result<usize, CodeError> {
        let window = self.code.block_of(cover, key)?;
        let (_, len, block) = self.block(window, symbols)?;
        let packets = block.repair_packets(key.0, 1);
        let repair = packets.first().ok_or(CodeError::BadKey)?.data();
        out.get_mut(..*len).ok_or(CodeError::TooLong)?.copy_from_slice(&repair[..*len]);
        Ok(*len)
    }

    fn release(&mut self, below: SymbolId) {
        self.ready.retain(|(window, ..)| window.end() > below);
    }
}

/// Repair symbols of a block that is not decoded yet.
#[derive(Debug)]
struct Incoming {
    len: u32,
    symbol_bytes: usize,
    /// By key.
    repairs: BTreeMap<u32, Vec<u8>>,
    /// Repair symbols beyond those missing with which solving is tried next.
    surplus: usize,
}

#[derive(Debug)]
struct RaptorQDecoder {
    code: RaptorQ,
    symbol_bytes: usize,
    symbols_max: usize,
    repairs_max: usize,
    recovered_max: usize,
    known: Known,
    /// The newest known symbols.
    symbols: BTreeMap<u64, Vec<u8>>,
    /// By first symbol; they do not overlap.
    blocks: BTreeMap<u64, Incoming>,
    /// Repair symbols in all blocks.
    repairs: usize,
    recovered: Recovered,
    work: Work,
}

impl RaptorQDecoder {
    fn retain(&mut self, id: u64, symbol: Vec<u8>) {
        self.work.add(symbol.len() + STEP);
        self.known.insert(id);
        self.symbols.insert(id, symbol);
        while self.symbols.len() > self.symbols_max {
            self.symbols.pop_first();
        }
    }

    /// The last block that begins before `end`.
    fn block_before(&self, end: u64) -> Option<Window> {
        let (first, incoming) = self.blocks.range(..end).next_back()?;
        Some(Window { first: SymbolId(*first), len: incoming.len })
    }

    /// Decodes a block if there are as many symbols as it takes.
    fn try_decode(&mut self, window: Window) -> Result<(), CodeError> {
        let missing = self.known.missing_in(window) as usize;
        let Some(incoming) = self.blocks.get_mut(&window.first.0) else { return Ok(()) };
        if missing == 0 {
            self.forget(window.first.0);
            return Ok(());
        }
        if incoming.repairs.len() < missing + incoming.surplus {
            return Ok(());
        }
        // Only if it fails.
        incoming.surplus = match incoming.surplus {
            0 => 1,
            surplus @ 1..SURPLUS_MAX => 2 * surplus,
            surplus => surplus + SURPLUS_MAX,
        };
        let len = incoming.symbol_bytes;
        self.work.add(window.len as usize * (SOLVE_PER_SYMBOL + SOLVE_PER_BYTE * len));
        let Some(packets) = self.packets(window, missing)? else { return Ok(()) };
        let config = parameters(window.len, len.max(1) as u16);
        let Some(data) = SourceBlockDecoder::new(0, &config, config.transfer_length()).decode(packets) else {
            return Ok(());
        };
        for (id, symbol) in (window.first.0..).zip(data.chunks(len.max(1))) {
            if !self.known.contains(id) {
                self.retain(id, symbol[..len].to_vec());
                self.recovered.push(id, symbol[..len].to_vec());
            }
        }
        self.forget(window.first.0);
        Ok(())
    }

    /// All symbols of a block as the crate takes them; `None` if one that is known has been forgotten.
    fn packets(&self, window: Window, missing: usize) -> Result<Option<Vec<EncodingPacket>>, CodeError> {
        let Some(incoming) = self.blocks.get(&window.first.0) else { return Ok(None) };
        let t = incoming.symbol_bytes.max(1);
        let mut packets = Vec::new();
        let padded = |esi: u32, symbol: &[u8]| {
            let mut data = symbol.to_vec();
            data.resize(t, 0);
            EncodingPacket::new(PayloadId::new(0, esi), data)
        };
        for (esi, id) in (0..window.len).zip(window.first.0..) {
            if !self.known.contains(id) {
                continue;
            }
            let Some(symbol) = self.symbols.get(&id) else { return Ok(None) };
            if symbol[t.min(symbol.len())..].iter().any(|byte| *byte != 0) {
                return Err(CodeError::Inconsistent);
            }
            packets.push(padded(esi, &symbol[..t.min(symbol.len())]));
        }
        let repairs = incoming.repairs.iter().rev().take(missing + SURPLUS_MAX);
        packets.extend(repairs.map(|(key, repair)| padded(window.len + key, repair)));
        Ok(Some(packets))
    }

    fn forget(&mut self, first: u64) {
        if let Some(incoming) = self.blocks.remove(&first) {
            self.repairs -= incoming.repairs.len();
        }
    }

    /// The last repair symbol of the last block goes: what comes first has to be decoded first.
    fn drop_latest(&mut self) {
        let Some(mut last) = self.blocks.last_entry() else { return };
        self.repairs -= usize::from(last.get_mut().repairs.pop_last().is_some());
        if last.get().repairs.is_empty() {
            last.remove();
        }
    }
}

impl Decoder for RaptorQDecoder {
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError> {
        let innovation = self.known.judge(id.0, symbol.len(), self.symbol_bytes)?;
        if innovation != Innovation::Innovative {
            return Ok(innovation);
        }
        self.retain(id.0, symbol.to_vec());
        if let Some(window) = self.block_before(id.0 + 1).filter(|window| window.contains(id)) {
            self.try_decode(window)?;
        }
        Ok(Innovation::Innovative)
    }

    fn on_repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        repair: &[u8],
    ) -> Result<Innovation, CodeError> {
        let window = self.code.block_of(cover, key)?;
        if repair.len() > self.symbol_bytes {
            return Err(CodeError::TooLong);
        }
        if self.known.missing_in(window) == 0 {
            return Ok(Innovation::Redundant);
        }
        if !self.known.is_in_reach(window.end().0 - 1) {
            return Ok(Innovation::OutOfReach);
        }
        let is_other = |begun: &Window| begun.end() > window.first && *begun != window;
        let is_long = window.len as usize * repair.len().max(1) > BLOCK_BYTES_MAX && window.len > 1;
        if is_long || self.block_before(window.end().0).as_ref().is_some_and(is_other) {
            return Err(CodeError::BadCover);
        }
        if self.recovered.len() >= self.recovered_max {
            return Ok(Innovation::Dropped);
        }
        let incoming = self.blocks.entry(window.first.0).or_insert_with(|| Incoming {
            len: window.len,
            symbol_bytes: repair.len(),
            repairs: BTreeMap::new(),
            surplus: 0,
        });
        if incoming.symbol_bytes != repair.len() {
            return Err(CodeError::Inconsistent);
        }
        if incoming.repairs.contains_key(&key.0) {
            return Ok(Innovation::Redundant);
        }
        incoming.repairs.insert(key.0, repair.to_vec());
        self.repairs += 1;
        self.work.add(repair.len());
        let is_full = self.repairs > self.repairs_max;
        if is_full {
            self.drop_latest();
        }
        self.try_decode(window)?;
        Ok(if is_full { Innovation::Dropped } else { Innovation::Innovative })
    }

    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId> {
        self.recovered.poll(out)
    }

    /// For blocks that repair symbols have told of; a block with as many as it misses that did not decode
    /// needs more.
    fn deficit(&self, window: Window) -> u32 {
        self.work.add(self.known.words());
        let missing = self.known.missing_in(window);
        if missing == 0 {
            return 0;
        }
        let useful = |(_, incoming): (&u64, &Incoming)| {
            self.work.add(STEP);
            incoming.repairs.len().saturating_sub(incoming.surplus) as u32
        };
        let repairs: u32 = self.blocks.range(window.first.0..window.end().0).map(useful).sum();
        missing.saturating_sub(repairs).max(1)
    }

    fn decoded_below(&self) -> SymbolId {
        SymbolId(self.known.below())
    }

    fn is_decoded(&self, id: SymbolId) -> bool {
        self.known.contains(id.0)
    }

    fn release(&mut self, below: SymbolId) {
        self.symbols = self.symbols.split_off(&below.0);
        let is_over = |(first, incoming): (&u64, &Incoming)| {
            (first + u64::from(incoming.len) <= below.0).then_some(*first)
        };
        let over: Vec<u64> = self.blocks.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|first| self.forget(first));
        self.recovered.shrink();
    }

    fn memory_bytes(&self) -> usize {
        let of = |symbol: &Vec<u8>| symbol.capacity() + ENTRY_BYTES;
        let symbols: usize = self.symbols.values().map(of).sum();
        let repairs: usize = self.blocks.values().flat_map(|block| block.repairs.values()).map(of).sum();
        size_of::<Self>()
            + self.known.memory_bytes()
            + symbols
            + repairs
            + self.blocks.len() * size_of::<(u64, Incoming)>()
            + self.recovered.memory_bytes()
    }

    fn work(&self) -> u64 {
        self.work.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answer: what the crate makes of a block of ten symbols 0, 1, 2, ... of four bytes, as RFC 6330
    /// demands of all.
    #[test]
    fn repair_symbols_are_those_of_the_crate() {
        let source: Vec<[u8; 4]> = (0..10).map(|i| [i, i + 1, i + 2, i + 3]).collect();
        let data: Vec<u8> = source.iter().flatten().copied().collect();
        let crate_packets = SourceBlockEncoder::new(0, &parameters(10, 4), &data).repair_packets(0, 5);
        let mut encoder = RaptorQ::new(10).unwrap().encoder(4);
        let cover = Cover::Window(Window { first: SymbolId(0), len: 10 });
        for (key, packet) in crate_packets.iter().enumerate() {
            let mut out = [0; 4];
            encoder.repair(cover, RepairKey(key as u32), &source, &mut out).unwrap();
            assert_eq!(
                (packet.payload_id().encoding_symbol_id(), packet.data()),
                (10 + key as u32, &out[..])
            );
        }
    }
}
