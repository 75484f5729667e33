//! One block, and what is known of it at the other end.

use fulmar_fec::{SymbolId, Window};

/// Consecutive source symbols that repair symbols cover together. All counts are packets.
#[derive(Debug)]
pub(super) struct Block {
    /// The source symbols it has so far.
    pub(super) window: Window,
    /// The source symbols it is to have.
    pub(super) planned: u32,
    /// More symbols can join it.
    pub(super) is_open: bool,
    /// The receiver has decoded it.
    pub(super) is_decoded: bool,
    /// Distinct packets with which it is expected to decode, once closed.
    pub(super) needed: u32,
    /// Distinct packets with which it decodes by the receiver's word, if it did not with those expected.
    pub(super) asked: u32,
    /// Distinct packets of it that arrived.
    pub(super) arrived: u32,
    /// Of these, source symbols.
    pub(super) sources_arrived: u32,
    /// Packets of it that are neither acknowledged nor lost.
    pub(super) in_flight: u32,
    /// Coded packets sent: the index of the next key.
    pub(super) coded: u32,
    /// Coded packets that arrived: if any, the receiver knows of the block.
    pub(super) coded_arrived: u32,
    /// Packets that must be sent for it, with what is under way not enough.
    pub(super) lacks: u32,
    /// How often enough had arrived and it did not decode.
    pub(super) failures: u32,
}

impl Block {
    pub(super) fn new(first: SymbolId, planned: u32) -> Self {
        Self {
            window: Window { first, len: 0 },
            planned,
            is_open: true,
            is_decoded: false,
            needed: u32::MAX,
            asked: 0,
            arrived: 0,
            sources_arrived: 0,
            in_flight: 0,
            coded: 0,
            coded_arrived: 0,
            lacks: 0,
            failures: 0,
        }
    }

    /// Closed, and not known to be decoded.
    pub(super) fn is_pending(&self) -> bool {
        !self.is_decoded && !self.is_open
    }

    /// Packets that must still be sent: needed or asked for, less arrived, less under way (LT-TCP, Hourt
    /// 2014, sections 3.4 and 3.5).
    pub(super) fn count_lacking(&self) -> u32 {
        if !self.is_pending() {
            return 0;
        }
        self.needed.max(self.asked).saturating_sub(self.arrived.saturating_add(self.in_flight))
    }

    /// So much of it has arrived that it should have decoded long ago: twice what is needed, and a few beside
    /// it for the shortest blocks.
    pub(super) fn is_hopeless(&self) -> bool {
        self.is_pending() && self.arrived >= self.needed.saturating_mul(2).saturating_add(8)
    }

    /// Everything sent for it has arrived or is lost, it should have decoded, and has not.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_pending() && self.in_flight == 0 && self.lacks == 0
    }

    /// Enough of it arrived, or nothing is under way: the next report tells whether it decoded.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_pending() && (self.in_flight == 0 || self.arrived >= self.window.len)
    }
}
