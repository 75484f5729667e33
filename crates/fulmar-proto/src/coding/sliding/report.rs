//! What the receiver says it has, and lacks.

use fulmar_fec::SymbolId;

use crate::coding::strategy::Reported;
use crate::wire::frame::{CodingState, OpenWindow};

/// Its newest report.
#[derive(Debug, Default)]
pub(super) struct Report {
    newest: CodingState,
    /// The receiver has said that it has everything below.
    told_below: SymbolId,
    /// Degrees of freedom that it says are lacking.
    deficit: u32,
    /// What it says it has.
    reported: Reported,
}

impl Report {
    /// A report came, of at most `sent` symbols. Returns below which symbol it tells of all, if it is the
    /// newest word.
    pub(super) fn hear(&mut self, state: &CodingState, sent: u64) -> Option<SymbolId> {
        if state.decoded_below < self.newest.decoded_below {
            return None;
        }
        self.newest.clone_from(state);
        self.deficit = state.windows.iter().map(|open| open.deficit).fold(0, u32::saturating_add);
        let held = |open: &OpenWindow| u64::from(open.window.len.saturating_sub(open.deficit));
        let rank = state.decoded_below.0.saturating_add(state.windows.iter().map(held).sum());
        // There is no more than was sent.
        let reported = Reported { rank: rank.min(sent), seen: state.seen_below.0.min(sent) };
        self.reported = self.reported.max(reported);
        Some(state.windows.last().map_or(state.decoded_below, |open| open.window.end()))
    }

    /// A report says that everything below `end` is decoded.
    pub(super) fn tell_below(&mut self, end: SymbolId) {
        self.told_below = self.told_below.max(end);
    }

    /// Everything below is decoded, by the furthest such word.
    pub(super) fn told_below(&self) -> SymbolId {
        self.told_below
    }

    /// The same by the newest report.
    pub(super) fn decoded_below(&self) -> SymbolId {
        self.newest.decoded_below
    }

    /// The receiver holds equations of symbols that it could not decode.
    pub(super) fn has_windows(&self) -> bool {
        !self.newest.windows.is_empty()
    }

    pub(super) fn deficit(&self) -> u32 {
        self.deficit
    }

    pub(super) fn reported(&self) -> Reported {
        self.reported
    }
}
