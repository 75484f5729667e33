//! How fast holes are filled: what the sender learns of them decides.
//!
//! Source: RFC 6675 (a scoreboard of selective acknowledgements: every hole is known, and filled as the
//! window allows), RFC 6582 (NewReno: a partial ACK tells of one hole, so that a round trip goes by for
//! each). Our ACKs are selective always; a sender that is to stand for a TCP without SACK paces itself by
//! this. After a retransmission timeout TCP goes back and fills all holes in slow start, whatever it was
//! told. To a sender that fills one hole in a round trip that happens although ACKs keep coming: the first
//! partial ACK starts its timer, and no other starts it again (RFC 6582, section 4, the Impatient variant,
//! which ns-3 has), so that hundreds of holes do not take hundreds of round trips.
//!
//! A retransmission that was lost as well our ACKs tell of like any other packet. TCP hears of it since RACK
//! (RFC 8985); by RFC 6675 and RFC 6582 it waits for the timeout, however many ACKs come meanwhile, and the
//! receiver's window, which begins at the hole, is soon full. `await_timeout` is that.
//!
//! What is not imitated of TCP without SACK: sending again, after a timeout, what arrived.

use fulmar_units::Instant;

use super::{BlockView, Choice, Opportunity};
use crate::PathView;

/// How TCP fills holes where that is less than our ACKs would allow.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Retransmissions {
    /// One in a round trip (RFC 6582), not all that are known (RFC 6675).
    pub one_each_round: bool,
    /// A retransmission that was lost is missed by the timeout alone, and nothing new leaves that is so many
    /// bytes or more ahead of the oldest hole: TCP's receive window, 0 for none.
    pub await_timeout: Option<u64>,
}

/// When the next hole may be filled.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    rule: Retransmissions,
    last: Option<Instant>,
    is_after_timeout: bool,
    /// The first hole was filled, and when the next was: then a partial ACK had come.
    has_begun: bool,
    partial_at: Option<Instant>,
}

impl Pace {
    /// By this rule.
    pub fn new(rule: Retransmissions) -> Self {
        Self { rule, ..Self::default() }
    }

    /// When it was too early now. A block that lacks symbols has no holes that TCP would know of.
    pub fn held_until(&self, opportunity: &Opportunity, path: &PathView) -> Option<Instant> {
        let has_blocks = opportunity.block != BlockView::default();
        if !self.rule.one_each_round || self.is_after_timeout || has_blocks {
            return None;
        }
        self.last.map(|last| last + path.rtt_smoothed).filter(|next| *next > opportunity.now)
    }

    /// A packet has left that carries `choice`.
    pub fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity) {
        if choice == Choice::Recover {
            self.last = Some(opportunity.now);
            if core::mem::replace(&mut self.has_begun, true) {
                self.partial_at.get_or_insert(opportunity.now);
            }
        } else if opportunity.missing_symbols == 0 {
            (self.is_after_timeout, self.has_begun, self.partial_at) = (false, false, None);
        }
    }

    /// A lost retransmission is found as any packet is.
    pub fn finds_lost_copies(&self) -> bool {
        self.rule.await_timeout.is_none()
    }

    /// New data fits TCP's receive window, which begins at the oldest hole.
    pub fn has_room(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        let ahead = u64::from(opportunity.unacked_symbols) + u64::from(opportunity.missing_symbols);
        match self.rule.await_timeout {
            None | Some(0) => true,
            Some(bytes) => ahead.saturating_mul(u64::from(path.mtu_bytes)) < bytes,
        }
    }

    /// A timeout expired.
    pub fn on_timeout(&mut self) {
        (self.is_after_timeout, self.partial_at) = (true, None);
    }

    /// Since when a timer runs that the ACKs that come do not start again.
    pub fn impatient_since(&self) -> Option<Instant> {
        let is_one_by_one = self.rule.one_each_round && !self.is_after_timeout;
        self.partial_at.filter(|_| is_one_by_one)
    }
}
