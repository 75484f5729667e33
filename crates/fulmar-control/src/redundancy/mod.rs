//! Redundancy policies: at each chance to send, choose among repair that was asked for, repair that is due,
//! and a new source symbol.
//!
//! A policy sees counts and time, never symbols: the coding layer turns its choice into a packet.

use core::fmt::Debug;

use fulmar_units::Instant;

use crate::{Feedback, PathView};

mod arq;
mod auto;
mod channel;
mod favor;
mod fixed;
mod retransmit;

pub use arq::{Arq, asked_or_source};
pub use auto::AutoRedundancy;
pub use channel::Channel;
pub use favor::Favor;
pub use fixed::FixedRate;
pub use retransmit::{Pace, Retransmissions};

/// Why a repair symbol is sent; statistics are kept per reason.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RepairReason {
    /// Symbols are known missing.
    Asked,
    /// Due by the policy before any loss is known.
    Proactive,
    /// Protects the last symbols of a flight, after which nothing would reveal a loss.
    Tail,
    /// The probe timeout fired (RFC 9002 6.2.4): a probe that is useful whatever was lost.
    Probe,
}

/// The newest block, where the code has blocks; all zero where it has none, or before the first.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockView {
    /// Source symbols it has so far.
    pub symbols: u32,
    /// Repair symbols sent for it.
    pub repairs: u32,
    /// More source symbols can join it. The first repair symbol closes it, and so does the last symbol
    /// planned.
    pub is_open: bool,
    /// Blocks that the receiver is not known to have decoded, this one included.
    pub undecoded: u32,
    /// With another block the oldest that is not decoded would be beyond what the receiver keeps, and what it
    /// has of that lost on it.
    pub is_last_in_reach: bool,
}

/// A symbol that was lost more than once.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OftenLost {
    /// How often all that carried it was lost.
    pub losses: u32,
    /// Copies of it in flight.
    pub copies: u32,
}

/// The newest set of symbols that a [`Choice::Protect`] covers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ProtectedSet {
    /// Its symbols, a copy of each of which was in flight.
    pub symbols: u32,
    /// Combinations over them that were sent, at least 1.
    pub combinations: u32,
}

/// One chance to send one packet, as the coding layer sees it. Symbols are counted, not named.
#[derive(Copy, Clone, Debug)]
#[non_exhaustive]
pub struct Opportunity {
    /// Now.
    pub now: Instant,
    /// There is new data for a source symbol, and flow control allows it.
    pub has_new_data: bool,
    /// Degrees of freedom known missing at the receiver, less the repair in flight for them
    /// discounted by nothing: what repair must still be sent if none of what is in flight is lost.
    pub missing: u32,
    /// Symbols known missing, in total.
    pub missing_symbols: u32,
    /// Symbols that were missing, of which a copy is in flight, and that no [`Choice::Protect`] covers yet.
    pub recovering_symbols: u32,
    /// When the newest copy of such a symbol left.
    pub newest_copy: Option<Instant>,
    /// The newest set of those that were covered, unless it is known to be decoded.
    pub protected: Option<ProtectedSet>,
    /// Symbols that were missing, of which one copy is in flight, and which are so old that the receiver no
    /// longer retains what a combination of them would refer to.
    pub out_of_reach_symbols: u32,
    /// The next symbol of those that were lost more than once, are older still than those, and of which
    /// copies are in flight. It is shown until a packet leaves.
    pub often_lost: Option<OftenLost>,
    /// The newest source symbols that are neither acknowledged, known lost, nor known decoded.
    pub unacked_symbols: u32,
    /// Source symbols sent since the last proactive or tail repair symbol.
    pub sources_since_repair: u32,
    /// When the first of those left; `None` if there are none.
    pub first_source_since_repair: Option<Instant>,
    /// When the newest source symbol left.
    pub newest_source: Option<Instant>,
    /// Proactive and tail repair symbols sent since the newest source symbol.
    pub repairs_since_source: u32,
    /// The longest window that code and receiver allow a repair symbol to cover.
    pub window_max: u32,
    /// Source symbols sent so far.
    pub sources_sent: u64,
    /// Repair symbols and copies sent so far, for whatever reason.
    pub repairs_sent: u64,
    /// The newest block.
    pub block: BlockView,
    /// What the streams favour whose data the newest source symbol carries; `None` where they leave it to the
    /// connection.
    pub favor: Option<Favor>,
}

impl Opportunity {
    /// One with nothing to do, for tests and drivers to fill.
    pub fn idle(now: Instant) -> Self {
        Self {
            now,
            has_new_data: false,
            missing: 0,
            missing_symbols: 0,
            recovering_symbols: 0,
            newest_copy: None,
            protected: None,
            out_of_reach_symbols: 0,
            often_lost: None,
            unacked_symbols: 0,
            sources_since_repair: 0,
            first_source_since_repair: None,
            newest_source: None,
            repairs_since_source: 0,
            window_max: 0,
            sources_sent: 0,
            repairs_sent: 0,
            block: BlockView::default(),
            favor: None,
        }
    }
}

/// What to put into the next packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A new source symbol.
    Source,
    /// Repair that was asked for, of exactly the symbols known missing: copies of them first (the systematic
    /// part of a random linear code over the missing set), combinations where the receiver already holds
    /// equations over them. With a code that has blocks: the next repair symbol of the oldest block that
    /// lacks one, or else, in turn, of any block that is not known to be decoded.
    Recover,
    /// One combination more over the symbols being recovered, against the loss of the recovery itself: with
    /// it any m of the packets sent for m missing symbols restore them, and a lost retransmission costs no
    /// round trip.
    Protect,
    /// Another combination over the symbols in `opportunity.protected`, to the same end.
    ProtectAgain,
    /// A second copy of the oldest symbol that is out of reach of combinations, to the same end. The oldest
    /// is what holds up the receiver.
    SecondCopy,
    /// Another copy of the symbol in `opportunity.often_lost`, again to that end. With any other choice it
    /// gets none.
    CopyAgain,
    /// A repair symbol over the newest `symbols` source symbols. With a code that has blocks: the next repair
    /// symbol of the newest block, whatever `symbols` says.
    Repair {
        /// How many of the newest source symbols it covers, at least 1.
        symbols: u32,
        /// Why.
        reason: RepairReason,
    },
    /// The repair symbol of one of several interleaved groups over the newest `symbols` source symbols:
    /// symbol i belongs to group i mod `groups`. A code that has no groups makes a repair symbol over all of
    /// them.
    Group {
        /// How many of the newest source symbols the groups share, at least `groups`.
        symbols: u32,
        /// How many groups, at least 1.
        groups: u16,
        /// Which of them, below `groups`.
        group: u16,
    },
    /// A new source symbol that is not sent itself: in its place goes a combination of it with the `symbols`
    /// - 1 before it. Without a code that can, the symbol itself.
    Combine {
        /// How many of the newest source symbols it covers, the new one included, at least 1.
        symbols: u32,
    },
    /// Nothing, until the given time or until something happens.
    Wait(Option<Instant>),
}

/// A redundancy policy.
pub trait RedundancyPolicy: Debug + Send {
    /// The name of the policy, for statistics.
    fn name(&self) -> &'static str;

    /// An ACK arrived or losses were detected.
    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView);

    /// Nothing was heard for so long that a timeout expired.
    fn on_timeout(&mut self) {}

    /// Since when a retransmission timer runs that the ACKs that come do not start again: holes are filled
    /// one by one (RFC 6582, section 4, the Impatient variant).
    fn impatient_since(&self) -> Option<Instant> {
        None
    }

    /// A copy that was lost is missing once ACKs tell of it; otherwise only a timeout tells.
    fn finds_lost_copies(&self) -> bool {
        true
    }

    /// What the next packet should carry. A question: whoever asks may ask again, and need not do what is
    /// answered. Asked only when congestion control and the pacer let a packet leave.
    ///
    /// Must not answer [`Choice::Source`] or [`Choice::Combine`] without `opportunity.has_new_data`, nor
    /// [`Choice::Recover`] without `opportunity.missing_symbols` or `opportunity.block.undecoded`, nor
    /// [`Choice::Protect`] without `opportunity.recovering_symbols`, nor [`Choice::ProtectAgain`] without
    /// `opportunity.protected`, nor [`Choice::SecondCopy`] without `opportunity.out_of_reach_symbols`, nor
    /// [`Choice::CopyAgain`] without `opportunity.often_lost`.
    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice;

    /// The packet has left for which [`choose`](Self::choose) answered `choice` to just these arguments: only
    /// here is credit spent. Also called if there was nothing for the choice to carry, lest it be made for
    /// ever; never for [`Choice::Wait`].
    fn on_emitted(&mut self, _choice: Choice, _opportunity: &Opportunity, _path: &PathView) {}

    /// The share of repair the policy aims at now, repair symbols per source symbol, for statistics.
    fn ratio(&self) -> f64 {
        0.0
    }
}
