//! The cut between a code and its users: ids, covers, and the four traits.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

/// Number of a source symbol, counted from 0 over the life of a connection. Not a packet number, not an
/// offset.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SymbolId(pub u64);

impl Debug for SymbolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// `len` consecutive source symbols from `first` on (RFC 8406: encoding window, or block).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// First symbol covered.
    pub first: SymbolId,
    /// How many, at least 1.
    pub len: u32,
}

impl Window {
    /// The symbol after the last one covered.
    pub fn end(self) -> SymbolId {
        SymbolId(self.first.0.saturating_add(u64::from(self.len)))
    }

    /// Whether `id` is covered.
    pub fn contains(self, id: SymbolId) -> bool {
        self.first <= id && id < self.end()
    }
}

/// The source symbols a repair symbol combines.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cover<'a> {
    /// Consecutive symbols.
    Window(Window),
    /// Exactly these, strictly ascending: the symbols known missing.
    Set(&'a [SymbolId]),
}

/// Chooses one repair symbol among those a code can make over one cover: a seed (RLC) or an index
/// (Reed-Solomon, XOR). Two repair symbols over the same cover with the same key are equal.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepairKey(pub u32);

/// Number of a code on the wire and in the fixed test vectors.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct CodeId(pub u8);

/// How a code arranges its source symbols.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// No combinations: repair is a copy.
    None,
    /// Blocks that do not overlap, of at most `len_max` symbols.
    Block {
        /// Most symbols in one block.
        len_max: u32,
    },
    /// Any window of at most `len_max` consecutive symbols, and explicit sets of as many.
    Sliding {
        /// Most symbols in one window.
        len_max: u32,
    },
}

/// What a user of a code must know to plan with it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CodeShape {
    /// Its number.
    pub id: CodeId,
    /// Its arrangement.
    pub geometry: Geometry,
    /// Distinct repair symbols it can make over one cover.
    pub repairs_max: u32,
    /// Any k of the symbols of a block restore it, with certainty.
    pub is_mds: bool,
    /// Repair can be made only over a block that is complete (Raptor, RaptorQ).
    pub needs_closed_window: bool,
    /// Source symbols are sent as they are. Otherwise (DFCP) only repair symbols are sent.
    pub is_systematic: bool,
}

/// What a decoder may hold.
///
/// All limits hold at once, for every code, every parameter and every symbol size: with long symbols fewer
/// are retained.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DecoderLimits {
    /// Most source symbols retained, known ones and recovered ones together. Older ones are forgotten.
    pub symbols_max: u32,
    /// Most equations (repair symbols not yet used up) retained.
    pub equations_max: u32,
    /// Most that [`Decoder::memory_bytes`] says. Below [`DecoderLimits::MEMORY_BYTES_MIN`] that holds
    /// instead.
    pub memory_bytes_max: usize,
}

impl DecoderLimits {
    /// With less no code works: DFCP needs this for a single block.
    pub const MEMORY_BYTES_MIN: usize = 8 << 20;
    /// What [`DecoderLimits::new`] allows.
    pub const MEMORY_BYTES_DEFAULT: usize = 16 << 20;

    /// So many symbols and equations, within [`DecoderLimits::MEMORY_BYTES_DEFAULT`].
    pub const fn new(symbols_max: u32, equations_max: u32) -> Self {
        Self { symbols_max, equations_max, memory_bytes_max: Self::MEMORY_BYTES_DEFAULT }
    }

    /// A share of the memory, in eighths.
    pub fn memory_eighths(self, eighths: usize) -> usize {
        self.memory_bytes_max.max(Self::MEMORY_BYTES_MIN) / 8 * eighths
    }
}

/// 4096 symbols and 1024 equations.
impl Default for DecoderLimits {
    fn default() -> Self {
        Self::new(4096, 1024)
    }
}

/// Access to source symbols by id: the sender's ring is read in place, without a second copy.
pub trait Symbols {
    /// The bytes of a symbol, without padding, or `None` if it is not there.
    fn get(&self, id: SymbolId) -> Option<&[u8]>;
}

/// Symbol i is element i: for tests, and for blocks that begin at symbol 0.
impl<T: AsRef<[u8]>> Symbols for [T] {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        <[T]>::get(self, usize::try_from(id.0).ok()?).map(AsRef::as_ref)
    }
}

/// As a slice.
impl<T: AsRef<[u8]>, const N: usize> Symbols for [T; N] {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        Symbols::get(self.as_slice(), id)
    }
}

/// As a slice.
impl<T: AsRef<[u8]>> Symbols for Vec<T> {
    fn get(&self, id: SymbolId) -> Option<&[u8]> {
        Symbols::get(self.as_slice(), id)
    }
}

/// What a symbol taught the decoder.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Innovation {
    /// It added a degree of freedom.
    Innovative,
    /// Everything in it was known.
    Redundant,
    /// It covers symbols that the decoder has forgotten, or that are too far ahead; it was dropped.
    OutOfReach,
    /// There was no room for it, or it took the place of an equation about later symbols: the decoder has no
    /// more degrees of freedom than before. To the sender it should count as lost.
    Dropped,
}

/// Why a code refuses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeError {
    /// The cover is empty, too long, not ascending, or of a kind this code does not have; or it overlaps a
    /// block that is on its way and is another.
    BadCover,
    /// The key names no repair symbol of this code.
    BadKey,
    /// A symbol of the cover is not in the encoder's source.
    MissingSource(SymbolId),
    /// A symbol is longer than the symbol size agreed on.
    TooLong,
    /// A repair symbol contradicts what is known: equal left sides, different right sides.
    Inconsistent,
    /// The parameters of the code make no sense.
    BadParameters,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadCover => f.write_str(
                "cover is empty, too long, unsorted, overlaps a block or is of a kind the code lacks",
            ),
            Self::BadKey => f.write_str("key names no repair symbol of this code"),
            Self::MissingSource(id) => write!(f, "source symbol {} is not available", id.0),
            Self::TooLong => f.write_str("symbol is longer than the symbol size"),
            Self::Inconsistent => f.write_str("repair symbol contradicts the symbols known"),
            Self::BadParameters => f.write_str("code parameters out of range"),
        }
    }
}

impl core::error::Error for CodeError {}

/// An erasure code with its parameters: a factory for both ends.
pub trait Code: Debug + Send + Sync {
    /// What it is.
    fn shape(&self) -> CodeShape;
    /// Its parameters, from which [`from_parameters`](crate::from_parameters) makes it again at the other
    /// end.
    fn parameters(&self) -> Vec<u32>;
    /// The same code with parameters of its own for one connection, from what `draw` gives; `None` where all
    /// connections have the same.
    fn for_connection(&self, _draw: &mut dyn FnMut() -> u32) -> Option<Arc<dyn Code>> {
        None
    }
    /// The key of repair symbol `index` among `of` that are made over one cover: 0 to `of` - 1. Where the
    /// number matters (XOR groups) they belong together; elsewhere the keys of any two indices below
    /// [`CodeShape::repairs_max`] differ.
    fn repair_key(&self, index: u32, _of: u32) -> RepairKey {
        RepairKey(index)
    }
    /// Most symbols of `symbol_bytes` that one repair symbol covers; 0 without combinations.
    fn len_max(&self, _symbol_bytes: usize) -> u32 {
        match self.shape().geometry {
            Geometry::None => 0,
            Geometry::Block { len_max } | Geometry::Sliding { len_max } => len_max,
        }
    }
    /// Packets of `symbol_bytes` with which a block of `len` symbols is expected to decode. More than `len`
    /// only where the code is not systematic.
    fn symbols_expected(&self, len: u32, _symbol_bytes: usize) -> u32 {
        len
    }
    /// An encoder for symbols of at most `symbol_bytes`.
    fn encoder(&self, symbol_bytes: usize) -> Box<dyn Encoder>;
    /// A decoder for symbols of at most `symbol_bytes`, starting at symbol 0.
    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder>;
}

/// Makes repair symbols.
pub trait Encoder: Debug + Send {
    /// Writes the repair symbol `key` over `cover` to the front of `out` and returns its length, which is
    /// that of the longest symbol covered. `out` must be at least that long; what it held is overwritten.
    fn repair(
        &mut self,
        cover: Cover<'_>,
        key: RepairKey,
        symbols: &dyn Symbols,
        out: &mut [u8],
    ) -> Result<usize, CodeError>;

    /// Writes one repair symbol for each key to the front of each of `outs`, and returns their length.
    /// Several at once cost less than one after the other, because every source symbol is read once for
    /// several repair symbols.
    fn repair_many(
        &mut self,
        cover: Cover<'_>,
        keys: &[RepairKey],
        symbols: &dyn Symbols,
        outs: &mut [&mut [u8]],
    ) -> Result<usize, CodeError> {
        keys.iter().zip(outs).try_fold(0, |_, (key, out)| self.repair(cover, *key, symbols, out))
    }

    /// Symbols below `below` will not be covered again: state kept for them may go.
    fn release(&mut self, below: SymbolId);
}

/// Restores source symbols from whatever arrives, in any order, with duplicates.
///
/// A symbol is *decoded* when its bytes are known and *seen* when it is the leading term of a retained
/// equation or decoded (Sundararajan et al., TCP/NC).
///
/// Whatever arrives, taking it in and collecting what is recovered does not take more than
/// [`WORK_MAX`](crate::WORK_MAX) of work, and no other call does.
pub trait Decoder: Debug + Send {
    /// A source symbol arrived.
    fn on_source(&mut self, id: SymbolId, symbol: &[u8]) -> Result<Innovation, CodeError>;

    /// A repair symbol arrived.
    fn on_repair(&mut self, cover: Cover<'_>, key: RepairKey, repair: &[u8])
    -> Result<Innovation, CodeError>;

    /// The next symbol that was *recovered*, which means decoded without having arrived; its bytes replace
    /// the contents of `out`. Symbols come out in the order in which they were determined.
    fn poll_recovered(&mut self, out: &mut Vec<u8>) -> Option<SymbolId>;

    /// What has arrived leads to more than was done for it at once: [`Decoder::go_on`] is to follow.
    fn is_busy(&self) -> bool {
        false
    }

    /// Does more of that.
    fn go_on(&mut self) -> Result<(), CodeError> {
        Ok(())
    }

    /// Degrees of freedom still missing to decode all of `window`: exactly for a block, and for a window that
    /// ends with what was heard of. Elsewhere equations that reach beyond the window do not count, so it may
    /// say more than the truth, never less.
    fn deficit(&self, window: Window) -> u32;

    /// Every symbol below this one is decoded.
    fn decoded_below(&self) -> SymbolId;

    /// Every symbol below this one is seen. By default nothing is seen before it is decoded.
    fn seen_below(&self) -> SymbolId {
        self.decoded_below()
    }

    /// Whether the bytes of `id` are known or were known before they were forgotten.
    fn is_decoded(&self, id: SymbolId) -> bool;

    /// The sender will not refer to symbols below `below` again: state kept for them may go.
    fn release(&mut self, below: SymbolId);

    /// Bytes of memory held now.
    fn memory_bytes(&self) -> usize;

    /// Work done so far, queries included, in the units of [`WORK_MAX`](crate::WORK_MAX).
    fn work(&self) -> u64;
}
