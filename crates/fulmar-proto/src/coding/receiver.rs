//! The receiving half of coding: decodes, delivers each symbol once, and says what is lacking.

use std::collections::BTreeMap;
use std::fmt;

use fulmar_fec::{
    Code, CodeError, CodeId, Cover, Decoder, DecoderLimits, Geometry, Innovation, NoCode, SymbolId, Window,
};

use super::parts::PartsIn;
use crate::TransportError;
use crate::ids::expand_u32;
use crate::wire::frame::{CodingState, OPEN_WINDOWS_MAX, OpenWindow, OpenWindows, Repair, RepairSpan};

/// Symbols a sender may be ahead of the lowest undecoded one: bounds what the receiver must keep track of.
const SYMBOLS_AHEAD_MAX: u64 = 1 << 18;

/// Blocks that are kept in mind for reports: as many as a sender can have under way.
const OPEN_BLOCKS_MAX: usize = 1 << 12;

/// So many decoded blocks are forgotten with one report.
const DECODED_MAX: usize = 256;

/// Counts of what arrived.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Source symbols that arrived and were new.
    pub sources: u64,
    /// Symbols recovered from combinations.
    pub recovered: u64,
    /// Combinations that arrived.
    pub repairs: u64,
    /// Symbols and combinations that told nothing new.
    pub redundant: u64,
    /// Combinations that referred to symbols already forgotten.
    pub out_of_reach: u64,
    /// Combinations for which the decoder had no room: to the sender they are lost.
    pub dropped: u64,
}

/// The receiver's side of the coding layer.
pub struct SymbolReceiver {
    code: CodeId,
    decoder: Box<dyn Decoder>,
    /// One above the largest id heard of.
    heard_below: SymbolId,
    ids: Vec<SymbolId>,
    recovered: Vec<u8>,
    symbol_bytes: usize,
    parts: PartsIn,
    /// The decoder had no room for the newest repair symbol.
    has_dropped: bool,
    /// Blocks that repair symbols told of and that are not decoded, by first symbol; `None` where the code
    /// has no blocks.
    open: Option<BTreeMap<SymbolId, u32>>,
    stats: ReceiverStats,
}

impl fmt::Debug for SymbolReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolReceiver")
            .field("code", &self.code)
            .field("heard_below", &self.heard_below)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl SymbolReceiver {
    /// A receiver for what `code` makes, of symbols of at most `symbol_bytes`.
    pub fn new(code: &dyn Code, symbol_bytes: usize, limits: DecoderLimits) -> Self {
        Self {
            code: code.shape().id,
            decoder: code.decoder(symbol_bytes, limits),
            heard_below: SymbolId(0),
            ids: Vec::new(),
            recovered: Vec::new(),
            symbol_bytes,
            parts: PartsIn::default(),
            has_dropped: false,
            open: matches!(code.shape().geometry, Geometry::Block { .. }).then(BTreeMap::new),
            stats: ReceiverStats::default(),
        }
    }

    /// Nothing arrives any more: lets go of everything but the counts.
    pub fn let_go(&mut self) {
        *self = Self { stats: self.stats, ..Self::new(&NoCode, 0, DecoderLimits::new(0, 0)) };
    }

    /// Counts so far.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Bytes the decoder holds.
    pub fn memory_bytes(&self) -> usize {
        self.decoder.memory_bytes() + self.parts.memory_bytes()
    }

    /// Work that the decoder has done so far ([`fulmar_fec::WORK_MAX`]).
    pub fn work(&self) -> u64 {
        self.decoder.work()
    }

    /// A source symbol arrived. `deliver` gets every symbol that becomes known, exactly once.
    pub fn on_source(
        &mut self,
        id: u32,
        symbol: &[u8],
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        let id = SymbolId(expand_u32(id, self.heard_below.0));
        self.hear(id)?;
        match self.decoder.on_source(id, symbol).map_err(refused)? {
            Innovation::Innovative => {
                self.stats.sources += 1;
                deliver(symbol)?;
            }
            Innovation::Redundant => self.stats.redundant += 1,
            Innovation::OutOfReach | Innovation::Dropped => {
                return Err(TransportError::buffer_exceeded("symbol beyond the decoder's reach"));
            }
        }
        self.deliver_recovered(deliver)
    }

    /// A piece of a source symbol of `len` bytes arrived.
    pub fn on_part(
        &mut self,
        id: u32,
        len: usize,
        start: usize,
        piece: &[u8],
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        if len > self.symbol_bytes {
            return Err(TransportError::coding("part of a symbol that is longer than the symbol size"));
        }
        let full = SymbolId(expand_u32(id, self.heard_below.0));
        self.hear(full)?;
        let decoder = &self.decoder;
        match self.parts.insert(full, len, start, piece, |id| decoder.is_decoded(id))? {
            Some(symbol) => self.on_source(id, &symbol, deliver),
            None => Ok(()),
        }
    }

    /// A repair symbol arrived.
    pub fn on_repair(
        &mut self,
        repair: &Repair<'_>,
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        if repair.code != self.code {
            return Err(TransportError::coding("repair symbol of a code that was not negotiated"));
        }
        self.stats.repairs += 1;
        let first = SymbolId(expand_u32(repair.first, self.heard_below.0));
        let mut ids = std::mem::take(&mut self.ids);
        let (cover, last) = match &repair.span {
            RepairSpan::Window(len) => {
                let window = Window { first, len: *len };
                (Cover::Window(window), SymbolId(window.end().0 - 1))
            }
            RepairSpan::Set(gaps) => {
                gaps.resolve(first, &mut ids);
                (Cover::Set(&ids), ids.last().copied().unwrap_or(first))
            }
        };
        self.hear(last)?;
        match self.decoder.on_repair(cover, repair.key, repair.payload).map_err(refused)? {
            Innovation::Innovative => {}
            Innovation::Redundant => self.stats.redundant += 1,
            Innovation::OutOfReach => self.stats.out_of_reach += 1,
            Innovation::Dropped => {
                self.stats.dropped += 1;
                self.has_dropped = true;
            }
        }
        // What it had no use for is missing all the same, and a block that is not named counts as decoded.
        if let (Cover::Window(window), Some(open)) = (cover, &mut self.open)
            && open.len() < OPEN_BLOCKS_MAX
        {
            open.entry(window.first).or_insert(window.len);
        }
        self.ids = ids;
        self.deliver_recovered(deliver)
    }

    /// True if the packet at hand held a combination for which there was no room.
    pub fn take_dropped(&mut self) -> bool {
        std::mem::take(&mut self.has_dropped)
    }

    /// Bounds how far ahead of the lowest undecoded symbol the sender may be.
    fn hear(&mut self, id: SymbolId) -> Result<(), TransportError> {
        if id.0 >= self.decoder.decoded_below().0 + SYMBOLS_AHEAD_MAX {
            return Err(TransportError::buffer_exceeded("symbol too far ahead of the lowest undecoded one"));
        }
        self.heard_below = self.heard_below.max(SymbolId(id.0 + 1));
        Ok(())
    }

    fn deliver_recovered(
        &mut self,
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        while self.decoder.poll_recovered(&mut self.recovered).is_some() {
            self.stats.recovered += 1;
            deliver(&self.recovered)?;
        }
        if self.decoder.decoded_below() >= self.heard_below && self.recovered.capacity() > 0 {
            self.recovered = Vec::new();
        }
        Ok(())
    }

    /// What has arrived leads to more than was done for it at once: [`Self::go_on`] is to follow.
    pub fn is_busy(&self) -> bool {
        self.decoder.is_busy()
    }

    /// Does more of that.
    pub fn go_on(
        &mut self,
        deliver: &mut dyn FnMut(&[u8]) -> Result<(), TransportError>,
    ) -> Result<(), TransportError> {
        self.decoder.go_on().map_err(refused)?;
        self.deliver_recovered(deliver)
    }

    /// Nothing will refer to what is decoded any more: the connection is idle, and its memory goes.
    pub fn release_all(&mut self) {
        if self.decoder.decoded_below() >= self.heard_below {
            self.decoder.release(self.heard_below);
        }
    }

    /// What an ACK reports.
    pub fn state(&mut self) -> CodingState {
        let decoded_below = self.decoder.decoded_below();
        let windows = match &mut self.open {
            Some(open) => open_blocks(open, &*self.decoder),
            None => self.open_span(decoded_below).into_iter().collect(),
        };
        CodingState { decoded_below, seen_below: self.decoder.seen_below().max(decoded_below), windows }
    }

    /// From the lowest undecoded symbol to the highest heard of.
    fn open_span(&self, decoded_below: SymbolId) -> Option<OpenWindow> {
        let len = u32::try_from(self.heard_below.0.saturating_sub(decoded_below.0)).ok()?;
        let window = Window { first: decoded_below, len };
        (len > 0).then(|| OpenWindow { window, deficit: self.decoder.deficit(window) })
    }
}

/// The lowest blocks that are not decoded, as many as an ACK can name. Those that are, are forgotten. The
/// decoder is asked a bounded number of times, whatever blocks a peer has told of.
fn open_blocks(open: &mut BTreeMap<SymbolId, u32>, decoder: &dyn Decoder) -> OpenWindows {
    let below = decoder.decoded_below();
    let mut windows = OpenWindows::new();
    let (mut decoded, mut undecoded) = (Vec::new(), 0);
    for (&first, &len) in open.iter() {
        if undecoded == OPEN_WINDOWS_MAX * 2
            || windows.len() == OPEN_WINDOWS_MAX
            || decoded.len() == DECODED_MAX
        {
            break;
        }
        let window = Window { first, len };
        let deficit = decoder.deficit(window);
        if deficit == 0 {
            decoded.push(first);
            continue;
        }
        undecoded += 1;
        // What lies before the report, or in a block before this one, is not named again.
        let from = first.max(windows.last().map_or(below, |last| last.window.end()));
        let rest = window.end().0.saturating_sub(from.0) as u32;
        if rest > 0 {
            windows.push(OpenWindow { window: Window { first: from, len: rest }, deficit });
        }
    }
    for first in decoded {
        open.remove(&first);
    }
    windows
}

fn refused(error: CodeError) -> TransportError {
    TransportError::coding(error.to_string())
}
