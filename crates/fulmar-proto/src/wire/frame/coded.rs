//! Symbols, whole, in pieces and combined: the frame that carries one is the last of its packet.

use fulmar_fec::{CodeId, RepairKey, SymbolId, Window};

use crate::wire::{Malformed, Reader, put_varint, varint_len};

pub(super) const SOURCE: u8 = 0x10;
pub(super) const REPAIR_WINDOW: u8 = 0x11;
pub(super) const REPAIR_SET: u8 = 0x12;
pub(super) const SOURCE_PART: u8 = 0x13;
/// Most symbols an explicit set may name.
pub const SET_SYMBOLS_MAX: usize = 64;
/// Bytes of a SOURCE frame before its symbol.
pub const SOURCE_HEADER_BYTES: usize = 5;
/// Most bytes of a SOURCE_PART frame before its piece.
pub const PART_HEADER_BYTES_MAX: usize = 1 + 4 + 4 + 4;
/// Most bytes of a repair frame before its payload. A symbol is shorter than a packet by this much, so that a
/// repair symbol, which is as long as the longest symbol it covers, fits a packet too.
pub const REPAIR_HEADER_BYTES_MAX: usize = 15;

/// A repair symbol on the wire.
#[derive(Clone, Debug)]
pub struct Repair<'a> {
    /// The code that made it.
    pub code: CodeId,
    /// Low 32 bits of the first symbol covered.
    pub first: u32,
    /// Which of the repair symbols over this cover.
    pub key: RepairKey,
    /// What it covers from `first` on.
    pub span: RepairSpan<'a>,
    /// The combination.
    pub payload: &'a [u8],
}

/// What a repair symbol covers, relative to its first symbol.
#[derive(Clone, Debug)]
pub enum RepairSpan<'a> {
    /// This many consecutive symbols.
    Window(u32),
    /// The first and, for each gap, the symbol `gap + 1` after the one before.
    Set(SetGaps<'a>),
}

/// The gaps of an explicit set, already checked.
#[derive(Clone, Debug)]
pub struct SetGaps<'a> {
    count: usize,
    reader: Reader<'a>,
}

impl SetGaps<'_> {
    /// The ids named, when the first is `first`; replaces the contents of `ids`.
    pub fn resolve(&self, first: SymbolId, ids: &mut Vec<SymbolId>) {
        ids.clear();
        ids.push(first);
        let mut reader = self.reader.clone();
        let mut last = first.0;
        for _ in 0..self.count {
            // Parsing has read these before, so they are there.
            last = last.saturating_add(reader.varint().unwrap_or(0)).saturating_add(1);
            ids.push(SymbolId(last));
        }
    }
}

/// A number that counts bytes of one datagram.
pub(super) fn short(r: &mut Reader<'_>) -> Result<usize, Malformed> {
    u16::try_from(r.varint()?).map(usize::from).map_err(|_| Malformed)
}

pub(super) fn parse_repair<'a>(r: &mut Reader<'a>, kind: u8) -> Result<Repair<'a>, Malformed> {
    let code = CodeId(r.u8()?);
    let first = r.u32()?;
    let key = RepairKey(u32::try_from(r.varint()?).map_err(|_| Malformed)?);
    let span = if kind == REPAIR_WINDOW {
        let len = u32::try_from(r.varint()?).ok().filter(|&len| len > 0).ok_or(Malformed)?;
        RepairSpan::Window(len)
    } else {
        let count = r.length()?;
        if count >= SET_SYMBOLS_MAX {
            return Err(Malformed);
        }
        let reader = r.clone();
        for _ in 0..count {
            r.varint()?;
        }
        RepairSpan::Set(SetGaps { count, reader })
    };
    Ok(Repair { code, first, key, span, payload: r.take_rest() })
}

/// Appends the header of a SOURCE frame; the symbol follows to the end of the packet.
pub fn put_source_header(out: &mut Vec<u8>, id: SymbolId) {
    out.push(SOURCE);
    out.extend_from_slice(&(id.0 as u32).to_be_bytes());
}

/// Appends the header of a SOURCE_PART frame of at most [`PART_HEADER_BYTES_MAX`] bytes; the piece follows to
/// the end of the packet.
pub fn put_part_header(out: &mut Vec<u8>, id: SymbolId, len: usize, start: usize) {
    out.push(SOURCE_PART);
    out.extend_from_slice(&(id.0 as u32).to_be_bytes());
    put_varint(out, len as u64);
    put_varint(out, start as u64);
}

/// Appends the header of a repair frame over a window; the payload follows to the end of the packet.
pub fn put_repair_window_header(out: &mut Vec<u8>, code: CodeId, window: Window, key: RepairKey) {
    out.push(REPAIR_WINDOW);
    out.push(code.0);
    out.extend_from_slice(&(window.first.0 as u32).to_be_bytes());
    put_varint(out, u64::from(key.0));
    put_varint(out, u64::from(window.len));
}

/// Appends the header of a repair frame over a set, which must not be empty; the payload follows to the end
/// of the packet.
pub fn put_repair_set_header(out: &mut Vec<u8>, code: CodeId, ids: &[SymbolId], key: RepairKey) {
    out.push(REPAIR_SET);
    out.push(code.0);
    out.extend_from_slice(&(ids[0].0 as u32).to_be_bytes());
    put_varint(out, u64::from(key.0));
    put_varint(out, ids.len() as u64 - 1);
    ids.windows(2).for_each(|pair| put_varint(out, pair[1].0 - pair[0].0 - 1));
}

/// How many of the ascending `ids` a set header of at most [`REPAIR_HEADER_BYTES_MAX`] bytes can name with
/// key `key`.
pub fn set_prefix_that_fits(ids: &[SymbolId], key: RepairKey) -> usize {
    let mut bytes = 1 + 1 + 4 + varint_len(u64::from(key.0)) + 1;
    let more = ids.windows(2).take(SET_SYMBOLS_MAX - 1).take_while(|pair| {
        bytes += varint_len(pair[1].0 - pair[0].0 - 1);
        bytes <= REPAIR_HEADER_BYTES_MAX
    });
    ids.len().min(1) + more.count()
}
