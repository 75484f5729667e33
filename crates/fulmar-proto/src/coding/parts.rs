//! Symbols in parts: for a path that has come to carry less than a symbol was made for
//! (docs/internals/wire.md 5.4.5).
//!
//! A symbol is never cut for coding, and its id and bytes never change. Only its copy may travel in several
//! packets, when it fits none: pieces of any length, which the receiver puts together. Needed only after the
//! path's MTU has shrunk, so both sides hold at most [`PARTIAL_MAX`] such symbols, and nothing here is tuned
//! for speed.

use std::collections::BTreeMap;

use fulmar_fec::SymbolId;

use crate::TransportError;
use crate::recovery::RangeSet;
use crate::wire::frame;

/// Symbols that may be in parts at once.
pub(super) const PARTIAL_MAX: usize = 16;

/// Piece of a symbol in one packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Of which symbol.
    pub id: SymbolId,
    /// Offset of its first byte.
    pub start: u16,
    /// Offset after its last byte.
    pub end: u16,
}

/// One symbol being sent in parts.
#[derive(Debug)]
struct Sending {
    len: u64,
    acked: RangeSet,
    /// Acknowledged, or under way.
    sent: RangeSet,
}

/// The sender's symbols in parts.
#[derive(Debug, Default)]
pub(super) struct PartsOut {
    symbols: BTreeMap<SymbolId, Sending>,
}

impl PartsOut {
    /// The next piece of `id`, a symbol of `len` bytes, at most `bytes_max` long: the first that is not under
    /// way, or else the first that has not arrived. `None` if too many symbols are in parts already.
    pub(super) fn poll(&mut self, id: SymbolId, len: usize, bytes_max: usize) -> Option<Piece> {
        if self.is_full() && !self.contains(id) {
            return None;
        }
        let new = || Sending { len: len as u64, acked: RangeSet::default(), sent: RangeSet::default() };
        let symbol = self.symbols.entry(id).or_insert_with(new);
        let gap = symbol.sent.first_gap(0, symbol.len).or_else(|| symbol.acked.first_gap(0, symbol.len))?;
        let end = gap.end.min(gap.start + bytes_max as u64);
        symbol.sent.insert_range(gap.start..end);
        Some(Piece { id, start: u16::try_from(gap.start).ok()?, end: u16::try_from(end).ok()? })
    }

    /// No other symbol could be in parts than those that are.
    pub(super) fn is_full(&self) -> bool {
        self.symbols.len() >= PARTIAL_MAX
    }

    /// The symbols in parts, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = SymbolId> + '_ {
        self.symbols.keys().copied()
    }

    pub(super) fn contains(&self, id: SymbolId) -> bool {
        self.symbols.contains_key(&id)
    }

    /// Every piece of `id` has arrived or is under way.
    pub(super) fn is_all_sent(&self, id: SymbolId) -> bool {
        self.symbols.get(&id).is_some_and(|symbol| symbol.sent.first_gap(0, symbol.len).is_none())
    }

    /// A piece arrived. True if that was the last.
    pub(super) fn on_acked(&mut self, piece: Piece) -> bool {
        let Some(symbol) = self.symbols.get_mut(&piece.id) else { return false };
        symbol.acked.insert_range(u64::from(piece.start)..u64::from(piece.end));
        symbol.sent.insert_range(u64::from(piece.start)..u64::from(piece.end));
        symbol.acked.first_gap(0, symbol.len).is_none()
    }

    /// A piece was lost: what has not arrived is to be sent again, the pieces under way included, which may
    /// be too long now.
    pub(super) fn on_lost(&mut self, piece: Piece) {
        if let Some(symbol) = self.symbols.get_mut(&piece.id) {
            symbol.sent = symbol.acked.clone();
        }
    }

    /// The receiver has the symbol.
    pub(super) fn forget(&mut self, id: SymbolId) {
        self.symbols.remove(&id);
    }
}

/// Appends the next piece of symbol `id`, of which `bytes` are the bytes, to a packet with `space_bytes`
/// left.
pub(super) fn put_piece(
    parts: &mut PartsOut,
    id: SymbolId,
    bytes: &[u8],
    packet: &mut Vec<u8>,
    space_bytes: usize,
) -> Option<Piece> {
    let room = space_bytes.checked_sub(frame::PART_HEADER_BYTES_MAX).filter(|&room| room > 0)?;
    let piece = parts.poll(id, bytes.len(), room)?;
    frame::put_part_header(packet, id, bytes.len(), usize::from(piece.start));
    packet.extend_from_slice(&bytes[usize::from(piece.start)..usize::from(piece.end)]);
    Some(piece)
}

/// One symbol that is arriving in parts.
#[derive(Debug)]
struct Receiving {
    bytes: Vec<u8>,
    received: RangeSet,
}

/// The receiver's symbols in parts.
#[derive(Debug, Default)]
pub(super) struct PartsIn {
    symbols: BTreeMap<SymbolId, Receiving>,
}

impl PartsIn {
    /// A piece of `id`, a symbol of `len` bytes, arrived. Returns the symbol if it is complete. `is_known`
    /// says which symbols have become known in other ways.
    pub(super) fn insert(
        &mut self,
        id: SymbolId,
        len: usize,
        start: usize,
        piece: &[u8],
        is_known: impl Fn(SymbolId) -> bool,
    ) -> Result<Option<Vec<u8>>, TransportError> {
        let end = start.checked_add(piece.len()).filter(|&end| end <= len && !piece.is_empty());
        let end = end.ok_or_else(|| TransportError::coding("part of a symbol beyond its end"))?;
        if is_known(id) {
            self.symbols.remove(&id);
            return Ok(None);
        }
        if self.symbols.len() >= PARTIAL_MAX && !self.symbols.contains_key(&id) {
            self.symbols.retain(|&id, _| !is_known(id));
            if self.symbols.len() >= PARTIAL_MAX {
                return Err(TransportError::buffer_exceeded("too many symbols in parts"));
            }
        }
        let new = || Receiving { bytes: vec![0; len], received: RangeSet::default() };
        let symbol = self.symbols.entry(id).or_insert_with(new);
        if symbol.bytes.len() != len {
            return Err(TransportError::coding("parts of a symbol disagree on its length"));
        }
        symbol.bytes[start..end].copy_from_slice(piece);
        symbol.received.insert_range(start as u64..end as u64);
        if symbol.received.first_gap(0, len as u64).is_some() {
            return Ok(None);
        }
        Ok(self.symbols.remove(&id).map(|symbol| symbol.bytes))
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.symbols.values().map(|symbol| symbol.bytes.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportErrorCode;

    const ID: SymbolId = SymbolId(7);

    #[test]
    fn pieces_cover_the_symbol_and_lost_ones_are_sent_again() {
        let mut out = PartsOut::default();
        let pieces: Vec<Piece> = (0..3).map(|_| out.poll(ID, 2500, 1000).unwrap()).collect();
        assert_eq!(
            pieces.iter().map(|p| (p.start, p.end)).collect::<Vec<_>>(),
            [(0, 1000), (1000, 2000), (2000, 2500)]
        );
        assert!(out.is_all_sent(ID));
        assert!(!out.on_acked(pieces[0]) && !out.on_acked(pieces[2]));
        out.on_lost(pieces[1]);
        // The path has become narrower still.
        let again: Vec<Piece> = (0..2).map(|_| out.poll(ID, 2500, 600).unwrap()).collect();
        assert_eq!(again.iter().map(|p| (p.start, p.end)).collect::<Vec<_>>(), [(1000, 1600), (1600, 2000)]);
        assert!(!out.on_acked(again[1]));
        // Everything is under way: what has not arrived goes once more.
        assert_eq!(out.poll(ID, 2500, 600), Some(again[0]));
        assert!(out.on_acked(again[0]));
    }

    #[test]
    fn only_so_many_symbols_are_in_parts() {
        let mut out = PartsOut::default();
        for id in 0..PARTIAL_MAX as u64 {
            assert!(out.poll(SymbolId(id), 2000, 1000).is_some());
        }
        assert_eq!(out.poll(SymbolId(99), 2000, 1000), None);
        out.forget(SymbolId(3));
        assert!(out.poll(SymbolId(99), 2000, 1000).is_some());
    }

    #[test]
    fn a_symbol_comes_out_whole_whatever_the_pieces() {
        let whole: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8).collect();
        let mut parts = PartsIn::default();
        for (start, end, is_complete) in
            [(1500, 2000, false), (0, 900, false), (800, 1200, false), (1200, 1500, true)]
        {
            let complete = parts.insert(ID, 2000, start, &whole[start..end], |_| false).unwrap();
            assert_eq!(complete.as_deref(), is_complete.then_some(&whole[..]));
        }
        assert_eq!(parts.memory_bytes(), 0);
    }

    #[test]
    fn wire_5_4_5_pieces_that_make_no_sense_or_are_too_many_are_refused() {
        let mut parts = PartsIn::default();
        let code = |result: Result<Option<Vec<u8>>, TransportError>| result.unwrap_err().code;
        assert_eq!(code(parts.insert(ID, 100, 90, &[0; 11], |_| false)), TransportErrorCode::Coding);
        assert_eq!(code(parts.insert(ID, 100, usize::MAX, &[0; 11], |_| false)), TransportErrorCode::Coding);
        parts.insert(ID, 100, 0, &[0; 50], |_| false).unwrap();
        assert_eq!(code(parts.insert(ID, 101, 50, &[0; 50], |_| false)), TransportErrorCode::Coding);
        for id in 100..99 + PARTIAL_MAX as u64 {
            parts.insert(SymbolId(id), 100, 0, &[0; 50], |_| false).unwrap();
        }
        assert_eq!(
            code(parts.insert(SymbolId(999), 100, 0, &[0; 50], |_| false)),
            TransportErrorCode::BufferExceeded
        );
        // Unless some have become known meanwhile.
        assert_eq!(parts.insert(SymbolId(999), 100, 0, &[0; 50], |id| id == ID), Ok(None));
    }
}
