//! How fast holes are filled: what the sender learns of them decides.
//!
//! Source: RFC 6675 (a scoreboard of selective acknowledgements: every hole is known, and filled as the
//! window allows), RFC 6582 (NewReno: a partial ACK tells of one hole, so that a round trip goes by for
//! each). Our ACKs are selective always; a sender that is to stand for a TCP without SACK paces itself by
//! this. After a retransmission timeout TCP goes back and fills all holes in slow start, whatever it was
//! told.
//!
//! What is not imitated of TCP without SACK: sending again, after a timeout, what arrived.

use fulmar_units::Instant;

use super::{BlockView, Choice, Opportunity};
use crate::PathView;

/// How many holes are filled at once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Retransmissions {
    /// All that are known (RFC 6675).
    #[default]
    AllAtOnce,
    /// One in a round trip (RFC 6582).
    OneEachRound,
}

/// When the next hole may be filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    rule: Retransmissions,
    last: Option<Instant>,
    is_after_timeout: bool,
}

impl Pace {
    pub(super) fn new(rule: Retransmissions) -> Self {
        Self { rule, ..Self::default() }
    }

    /// When it was too early now. A block that lacks symbols has no holes that TCP would know of.
    pub(super) fn held_until(&self, opportunity: &Opportunity, path: &PathView) -> Option<Instant> {
        let has_blocks = opportunity.block != BlockView::default();
        if self.rule == Retransmissions::AllAtOnce || self.is_after_timeout || has_blocks {
            return None;
        }
        self.last.map(|last| last + path.rtt_smoothed).filter(|next| *next > opportunity.now)
    }

    pub(super) fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity) {
        if choice == Choice::Recover {
            self.last = Some(opportunity.now);
        } else if opportunity.missing_symbols == 0 {
            self.is_after_timeout = false;
        }
    }

    pub(super) fn on_timeout(&mut self) {
        self.is_after_timeout = true;
    }
}
