//! What covers lost symbols: the part of the sender that differs from code to code.

use std::fmt::Debug;
use std::time::Duration;

use fulmar_control::{Choice, OftenLost, Opportunity};

use super::content::Content;
use super::ledger::Ledger;
use super::source::Source;
use crate::wire::frame::CodingState;
use crate::{Instant, TransportError};

/// Symbols for which repair had to be asked.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unrepairable {
    pub(super) symbols: u32,
    /// When the newest of them was first sent, where that is known.
    pub(super) sent_at: Option<Instant>,
}

/// What the receiver says it has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reported {
    /// Degrees of freedom: what is decoded, and what the open windows do not lack.
    pub(super) rank: u64,
    /// Symbols below the first that is not seen: what TCP/NC's receiver acknowledges.
    pub(super) seen: u64,
}

impl Reported {
    /// The larger of each: equations may be forgotten, and what is learned twice is no news.
    pub(super) fn max(self, other: Self) -> Self {
        Self { rank: self.rank.max(other.rank), seen: self.seen.max(other.seen) }
    }
}

/// A way of covering symbols with repair: windows or blocks, over one [`Ledger`].
///
/// Decides nothing about time or rate. It is told which packets arrived and which were lost, counts what the
/// receiver lacks, shows that to the redundancy policy as an [`Opportunity`], and carries out its choice.
pub(super) trait Strategy: Debug + Send {
    /// What was sent and what is known of it.
    fn ledger(&self) -> &Ledger;

    /// How the next chance to send looks to a policy, but for [`Self::often_lost`]. `rtt` is the time after
    /// which what was sent has arrived or is lost.
    fn opportunity(&self, now: Instant, has_new_data: bool, rtt: Duration) -> Opportunity;

    /// What [`Opportunity::often_lost`] is to be: it may have to be looked for, and only who sends asks.
    fn often_lost(&self, _has_new_data: bool) -> Option<OftenLost> {
        None
    }

    /// When a symbol known missing is to be sent again, whatever the counts say.
    fn overdue_at(&self, _rtt: Duration) -> Option<Instant> {
        None
    }

    /// A block begins with the next source symbol: its length must be planned before. Never where the code
    /// has no blocks.
    fn needs_plan(&self) -> bool {
        false
    }

    /// The next block is to have so many source symbols, as far as the code allows.
    fn plan_block(&mut self, _symbols: u32) {}

    /// New symbols may have any length, and travel as they are.
    fn can_cut(&self) -> bool {
        true
    }

    /// There is no more data for now.
    fn on_data_exhausted(&mut self) {}

    /// Carries out `choice`: appends a frame of at most `space_bytes` to `packet`. `None`: there was nothing
    /// to carry, or it does not fit; then nothing has changed.
    fn emit(
        &mut self,
        now: Instant,
        choice: Choice,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content>;

    /// What the probe timeout sends, whatever policy and deficit say: what helps most if all that is under
    /// way was lost.
    fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content>;

    /// A packet arrived, which had been declared lost if `was_lost`. True if it added a degree of freedom at
    /// the receiver.
    fn on_arrived(&mut self, now: Instant, content: Content, was_lost: bool) -> bool;

    /// A packet was lost.
    fn on_lost(&mut self, now: Instant, content: Content);

    /// A packet was lost, and nobody hears of it before [`Self::hear`] if it was sent for one lost before.
    fn on_lost_unheard(&mut self, now: Instant, content: Content) {
        self.on_lost(now, content);
    }

    /// A timeout tells of what nobody has heard of.
    fn hear(&mut self, _now: Instant) {}

    /// Something is missing that nobody has heard of.
    fn has_unheard(&self) -> bool {
        false
    }

    /// The receiver reported its state, in the newest ACK so far. Returns the symbols that were lost and are
    /// now known to be repaired.
    fn on_report(&mut self, now: Instant, state: &CodingState) -> Result<u32, TransportError>;

    /// A receiver that keeps duplicate ACKs back while a group may repair what is lost would not have sent
    /// this state, with which packets are acknowledged that carried `news`.
    fn is_kept_back(&self, _state: &CodingState, _news: &mut dyn Iterator<Item = Content>) -> bool {
        false
    }

    /// A report told more than could be booked at once, or memory is to be given back.
    fn is_behind(&self) -> bool;

    /// Nothing was sent for a while.
    fn on_idle(&mut self);

    /// Books more of it.
    fn catch_up(&mut self);

    /// Symbols, since this was last called, whose packet is now known to be lost and that repair had restored
    /// before that.
    fn take_repaired_early(&mut self) -> u32 {
        0
    }

    /// When the newest symbol was first sent that was found repaired since this was last called.
    fn take_repaired_sent_at(&mut self) -> Option<Instant> {
        None
    }

    /// What the receiver has by its own reports; `None` where they do not tell of all.
    fn reported(&self) -> Option<Reported> {
        None
    }

    /// Symbols for which repair has to be asked, since this was last called: what was sent for them unasked
    /// does not suffice.
    fn take_unrepairable(&mut self, now: Instant, rtt: Duration) -> Unrepairable;
}
