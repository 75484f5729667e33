//! What was sent and what is known of it: the books under every way of covering symbols.
//!
//! The ring of source symbols with the state of each, the symbols that travel in pieces, and the counts. A
//! strategy decides what covers a lost symbol; that it was sent, lost, sent again and delivered is booked
//! here, once.

use fulmar_fec::{SymbolId, Symbols};

use super::content::Content;
use super::parts::{self, PartsOut};
use super::ring::{CopyCover, Ring};
use super::source::Source;
use super::stats::SenderStats;
use crate::wire::frame;
use crate::{Instant, TransportError};

/// Symbols between the oldest that is not delivered and the newest: as many as packets are remembered, lest a
/// peer that withholds one symbol makes the books long ..
const SPAN_SYMBOLS_MIN: u64 = 1 << 16;
/// .. or as many as fill the bytes that may be held if each is so long: what is lost again and again waits
/// for five round trips, and the books of a symbol are shorter than a tenth of it.
const SPAN_SYMBOL_BYTES: u64 = 1024;
/// Symbols that are booked as decoded in one pass, on the word of one report.
pub const TOLD_AT_ONCE_MAX: usize = 1024;

/// What the loss of a packet means for the symbol it carried.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum SymbolLoss {
    /// Nothing: it is delivered, or another packet carries it.
    None,
    /// No packet under way carries it: its first was lost.
    First,
    /// No packet under way carries it: a copy was lost.
    Again,
}

/// The sender's books.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) ring: Ring,
    pub(super) parts: PartsOut,
    pub(super) last_source_at: Option<Instant>,
    pub(super) stats: SenderStats,
    /// Symbols that reports told of and that were booked one by one.
    pub(super) told: u64,
}

impl Ledger {
    /// Everything sent has been decoded by the receiver.
    pub(super) fn is_all_delivered(&self) -> bool {
        self.ring.base() == self.ring.next_id()
    }

    /// Symbols between the oldest that is not delivered and the newest.
    pub(super) fn span_symbols(&self) -> u64 {
        self.ring.next_id().0 - self.ring.base().0
    }

    /// There is room for another symbol, where `held_bytes_max` may be held.
    pub(super) fn has_room(&self, held_bytes_max: u64) -> bool {
        let span_max = (held_bytes_max / SPAN_SYMBOL_BYTES).max(SPAN_SYMBOLS_MIN);
        let ring = &self.ring;
        ring.held_bytes() < held_bytes_max
            && ring.pinned_bytes() < held_bytes_max
            && self.span_symbols() < span_max
    }

    /// Takes in the next symbol, of at most `bytes_max`; `None` if there is nothing to send.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        bytes_max: usize,
        source: &mut dyn Source,
    ) -> Option<SymbolId> {
        let id = self.ring.take_in(now, bytes_max, source)?;
        self.stats.sources += 1;
        self.last_source_at = Some(now);
        Some(id)
    }

    /// A packet that carries `id` is under way.
    pub(super) fn on_sent(&mut self, id: SymbolId) {
        if let Some(held) = self.ring.held(id) {
            let state = held.sent_again(CopyCover::Settled);
            self.ring.set_state(id, state);
        }
    }

    /// [`Self::put_copy`] has something to append, in a packet with `space_bytes` left.
    pub(super) fn can_copy(&self, id: SymbolId, space_bytes: usize) -> bool {
        let Some(bytes) = self.ring.symbol_bytes(id) else { return false };
        self.fits(bytes, space_bytes) || !self.parts.is_full() || self.parts.contains(id)
    }

    fn fits(&self, symbol_bytes: usize, space_bytes: usize) -> bool {
        symbol_bytes + frame::SOURCE_HEADER_BYTES <= space_bytes
    }

    /// Appends a copy of `id` to `packet`, or a piece of it where it no longer fits: the path has come to
    /// carry less than when it was made. Not booked yet: see [`Self::copied_by`].
    pub(super) fn put_copy(
        &mut self,
        id: SymbolId,
        packet: &mut Vec<u8>,
        space_bytes: usize,
    ) -> Option<Content> {
        if self.fits(self.ring.symbol_bytes(id)?, space_bytes) {
            self.ring.put_source(id, packet)?;
            return Some(Content::Copy(id));
        }
        self.ring.join(id);
        let bytes = self.ring.get(id)?;
        parts::put_piece(&mut self.parts, id, bytes, packet, space_bytes).map(Content::Part)
    }

    /// The symbol that is under way again with a copy or a piece: as a whole, or with its last piece.
    pub(super) fn copied_by(&self, content: Content) -> Option<SymbolId> {
        match content {
            Content::Copy(id) => Some(id),
            Content::Part(piece) if self.parts.is_all_sent(piece.id) => Some(piece.id),
            _ => None,
        }
    }

    /// A packet that carried `id`, or a piece of it, was lost. See [`Self::lose`].
    pub(super) fn on_symbol_lost(&mut self, content: Content) -> Option<(SymbolId, SymbolLoss)> {
        let id = match content {
            Content::Source(id) | Content::Copy(id) | Content::Combined(id) => id,
            Content::Part(piece) => {
                self.parts.on_lost(piece);
                piece.id
            }
            Content::Repair(_) => return None,
        };
        Some((id, self.lose(id)))
    }

    /// A packet that carried `id` brings it no more. If no other does, its state is the caller's to set.
    pub(super) fn lose(&mut self, id: SymbolId) -> SymbolLoss {
        if !self.ring.lose_packet(id) {
            return SymbolLoss::None;
        }
        let Some(held) = self.ring.held_mut(id) else { return SymbolLoss::None };
        held.losses = held.losses.saturating_add(1);
        if held.losses > 1 {
            return SymbolLoss::Again;
        }
        self.stats.lost += 1;
        SymbolLoss::First
    }

    /// A report must be of what was sent.
    pub(super) fn check_report(&self, decoded_below: SymbolId) -> Result<(), TransportError> {
        if decoded_below > self.ring.next_id() {
            return Err(TransportError::coding("ACK reports symbols decoded that were never sent"));
        }
        Ok(())
    }
}
