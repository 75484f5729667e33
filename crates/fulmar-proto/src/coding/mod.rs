//! The coding layer: makes source symbols arrive.
//!
//! Above it, frames are packed into symbols and taken out of them; below it, packets are lost. [`Coding`]
//! owns the sending half: the code, the policy that says how much repair there is, the rule for the length of
//! blocks, and the books of what was sent (`ledger`). At each chance to send it turns the policy's choice
//! into a packet: a new symbol, a copy, a combination. What covers lost symbols is one of two strategies:
//! `sliding` for windows of symbols, `blocks` for blocks. [`SymbolReceiver`] decodes, delivers each symbol
//! once, the moment it is known, and reports what it lacks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulmar_control::{Choice, CodingNews, Favor, Feedback, Opportunity, PathView, RedundancyPolicy, Sizing};
use fulmar_fec::{Code, Geometry, NoCode, SymbolId};

mod blocks;
mod combiner;
mod content;
mod ledger;
mod parts;
mod receiver;
mod ring;
mod sets;
mod sliding;
mod source;
mod stats;
mod stored;
mod strategy;

#[cfg(test)]
mod tests;

pub use content::Content;
pub use parts::Piece;
pub use receiver::{ReceiverStats, SymbolReceiver};
pub use source::Source;
pub use stats::SenderStats;

use crate::recovery::{Fate, News};
use crate::wire::frame::CodingState;
use crate::{Instant, TransportError};
use blocks::BlockSender;
pub use ledger::TOLD_AT_ONCE_MAX;
use sliding::SlidingSender;
use strategy::{Reported, Strategy};

/// So many choices of the policy are tried for one packet: one may be impossible, as a combination of symbols
/// that no longer fit a packet.
const CHOICES_MAX: usize = 4;

/// Symbols that wait to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// A packet would leave now if it might.
    pub is_urgent: bool,
    /// One may be wanted later: something is under way that may have to be repaired.
    pub may_come: bool,
}

/// What the policy wants of the next packet.
#[derive(Copy, Clone, Debug)]
pub enum Next {
    /// To carry this: [`Coding::emit`] takes it.
    Packet(Turn),
    /// Nothing before [`Coding::timeout`].
    Nothing,
}

/// A packet's worth of work, decided and not yet booked.
#[derive(Copy, Clone, Debug)]
pub struct Turn {
    choice: Choice,
    opportunity: Opportunity,
    is_cuttable: bool,
}

impl Turn {
    /// It carries what the receiver lacks, as far as is known.
    pub fn is_wanted(&self) -> bool {
        matches!(self.choice, Choice::Source | Choice::Recover)
    }

    /// It can be cut to fit beside an ACK: a new symbol, where symbols may have any length. Everything else
    /// wants a packet of its own.
    pub fn is_cuttable(&self) -> bool {
        self.is_cuttable
    }
}

/// The sending half of the coding layer.
#[derive(Debug)]
pub struct Coding {
    strategy: Box<dyn Strategy>,
    policy: Box<dyn RedundancyPolicy>,
    sizing: Box<dyn Sizing>,
    /// Bytes of symbols held, at most.
    held_bytes_max: u64,
    /// When the policy wants to be asked again.
    wait_until: Option<Instant>,
    /// What the newest source symbol's streams favour.
    favor: Option<Favor>,
    /// Degrees of freedom, and symbols seen, told of as delivered so far.
    told: Reported,
    /// The oldest symbol not delivered, and since when it is that one: TCP's timer starts with each ACK that
    /// moves it, and with no other (RFC 6298, 5.3).
    oldest: (SymbolId, Instant),
}

impl Coding {
    /// A sender that holds at most `held_bytes_max` of symbols, without a code until [`Self::set_code`].
    pub fn new(policy: Box<dyn RedundancyPolicy>, sizing: Box<dyn Sizing>, held_bytes_max: u64) -> Self {
        let strategy = strategy(Arc::new(NoCode), 0, 0);
        Self {
            strategy,
            policy,
            sizing,
            held_bytes_max,
            wait_until: None,
            favor: None,
            told: Reported::default(),
            oldest: (SymbolId(0), Instant::ZERO),
        }
    }

    /// The code that was agreed on, for symbols of at most `symbol_bytes`, towards a receiver that retains
    /// `reach_symbols`. Before the first symbol.
    pub fn set_code(&mut self, code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) {
        self.strategy = strategy(code, symbol_bytes, reach_symbols);
    }

    /// Another policy and another rule for blocks. Before the first symbol.
    pub fn adopt(&mut self, policy: Box<dyn RedundancyPolicy>, sizing: Box<dyn Sizing>) {
        (self.policy, self.sizing) = (policy, sizing);
    }

    /// Nothing is sent any more: lets go of everything but the counts.
    pub fn let_go(&mut self) {
        self.strategy = Box::new(SlidingSender::ended(self.strategy.ledger()));
    }

    /// Counts so far.
    pub fn stats(&self) -> &SenderStats {
        &self.strategy.ledger().stats
    }

    /// Everything sent has been decoded by the receiver.
    pub fn is_all_delivered(&self) -> bool {
        self.strategy.ledger().is_all_delivered()
    }

    /// Bytes of symbols held for the case that they are needed again.
    pub fn held_bytes(&self) -> u64 {
        self.strategy.ledger().ring.held_bytes()
    }

    /// Bytes held in all, with those whose chunk is still in use and buffers that are kept for symbols to
    /// come.
    pub fn memory_bytes(&self) -> u64 {
        let ring = &self.strategy.ledger().ring;
        ring.held_bytes() + ring.pinned_bytes() + ring.spare_bytes()
    }

    /// Repair symbols per source symbol that the policy aims at now.
    pub fn redundancy(&self) -> f64 {
        self.policy.ratio()
    }

    /// The bounds on symbols that are not known to be decoded leave room for another.
    fn has_room(&self) -> bool {
        self.strategy.ledger().has_room(self.held_bytes_max)
    }

    /// What waits to be sent, whether or not it may leave.
    pub fn demand(&self, now: Instant, rtt: Duration, has_pending: bool) -> Demand {
        let opportunity = self.strategy.opportunity(now, has_pending && self.has_room(), rtt);
        let is_urgent = opportunity.has_new_data || opportunity.missing > 0;
        let may_come = opportunity.unacked_symbols > 0
            || opportunity.recovering_symbols > 0
            || opportunity.protected.is_some()
            || opportunity.out_of_reach_symbols > 0
            || opportunity.missing_symbols > 0;
        Demand { is_urgent, may_come: is_urgent || may_come }
    }

    /// Asks the policy what the next packet is to carry. Nothing is booked by asking.
    pub fn next(&mut self, now: Instant, view: &PathView, has_pending: bool) -> Next {
        let rtt = view.rtt_smoothed;
        let has_new_data = has_pending && self.has_room();
        if !has_new_data {
            self.strategy.on_data_exhausted();
        } else if self.strategy.needs_plan() {
            let symbols = self.sizing.block_symbols(view);
            self.strategy.plan_block(symbols);
        }
        let mut opportunity = self.strategy.opportunity(now, has_new_data, rtt);
        opportunity.often_lost = self.strategy.often_lost(has_new_data);
        opportunity.favor = self.favor;
        match self.policy.choose(&opportunity, view) {
            Choice::Wait(at) => {
                self.wait(now, rtt, at);
                Next::Nothing
            }
            choice => {
                let is_cuttable = choice == Choice::Source && self.strategy.can_cut();
                Next::Packet(Turn { choice, opportunity, is_cuttable })
            }
        }
    }

    /// Appends what `turn` says to `packet`, in at most `space_bytes`, and books it. `None`: it could not be
    /// carried out, nor could anything that the policy would have in its place.
    pub fn emit(
        &mut self,
        turn: Turn,
        view: &PathView,
        packet: &mut Vec<u8>,
        space_bytes: usize,
        source: &mut dyn Source,
    ) -> Option<Content> {
        let Turn { mut choice, mut opportunity, .. } = turn;
        let (now, mut until) = (opportunity.now, None);
        for _ in 0..CHOICES_MAX {
            let left_bytes = self.held_bytes_max.saturating_sub(self.held_bytes());
            let mut source = Bounded { source: &mut *source, left_bytes };
            if let Some(content) = self.strategy.emit(now, choice, packet, space_bytes, &mut source) {
                if matches!(content, Content::Source(_)) {
                    self.favor = source.favor();
                    opportunity.favor = self.favor;
                }
                self.policy.on_emitted(choice, &opportunity, view);
                return Some(content);
            }
            if !matches!(choice, Choice::Source | Choice::Combine { .. }) {
                // There is nothing for it to carry: it is done with, lest it be wanted for ever.
                self.policy.on_emitted(choice, &opportunity, view);
            }
            without(&mut opportunity, choice);
            choice = self.policy.choose(&opportunity, view);
            if let Choice::Wait(at) = choice {
                until = at;
                break;
            }
        }
        self.wait(now, view.rtt_smoothed, until);
        None
    }

    /// Appends what helps most if all that is under way was lost.
    pub fn emit_probe(&mut self, packet: &mut Vec<u8>, space_bytes: usize) -> Option<Content> {
        self.strategy.emit_probe(packet, space_bytes)
    }

    /// Books what became of packets, those that arrived first, and what the receiver said in the newest ACK.
    /// Returns what that means for the feedback record.
    pub fn settle(
        &mut self,
        now: Instant,
        rtt: Duration,
        fates: impl Iterator<Item = Fate<Content>>,
        state: Option<&CodingState>,
    ) -> Result<News, TransportError> {
        let mut news = CodingNews::default();
        let mut fates = fates.peekable();
        while let Some(fate) = fates.next_if(|fate| !matches!(fate, Fate::Lost(_))) {
            self.apply(now, fate, &mut news);
        }
        if let Some(state) = state {
            news.repaired_packets = self.strategy.on_report(now, state)?;
        }
        fates.for_each(|fate| self.apply(now, fate, &mut news));
        self.count_dof(&mut news, state.is_some());
        news.repaired_packets += self.strategy.take_repaired_early();
        news.repaired_sent_at = self.strategy.take_repaired_sent_at();
        let unrepairable = self.strategy.take_unrepairable(now, rtt);
        (news.unrepairable_packets, news.unrepairable_sent_at) = (unrepairable.symbols, unrepairable.sent_at);
        let oldest = self.strategy.ledger().ring.base();
        if oldest > self.oldest.0 {
            self.oldest = (oldest, now);
        }
        let unheard_since = self.strategy.has_unheard().then_some(self.oldest.1);
        let impatient_since = self.policy.impatient_since().into_iter().chain(unheard_since).min();
        Ok(News { coding: news, impatient_since })
    }

    /// The sender cannot tell which of the combinations that arrived were redundant, so the receiver's report
    /// decides. Its own count stands in where an ACK brings no report, until the next one sets it right.
    fn count_dof(&mut self, news: &mut CodingNews, has_report: bool) {
        news.duplicate_acks = news.dof_redundant;
        if let Some(reported) = self.strategy.reported().filter(|_| has_report) {
            let arrived = news.dof_delivered + news.dof_redundant;
            let grown = |now: u64, told: u64| u32::try_from(now.saturating_sub(told)).unwrap_or(u32::MAX);
            news.dof_delivered = grown(reported.rank, self.told.rank).min(arrived);
            news.dof_redundant = arrived - news.dof_delivered;
            news.duplicate_acks = arrived.saturating_sub(grown(reported.seen, self.told.seen));
            self.told.seen = self.told.seen.max(reported.seen);
        }
        self.told.rank += u64::from(news.dof_delivered);
    }

    /// TCP-FEC's receiver would not have sent an ACK that says this of symbols, and acknowledges packets that
    /// carried `news` (Sato 2019, 4.3).
    pub fn is_kept_back(&self, state: &CodingState, mut news: impl Iterator<Item = Content>) -> bool {
        self.strategy.is_kept_back(state, &mut news)
    }

    /// What the receiver said in an ACK that tells no fate.
    pub fn on_report(&mut self, now: Instant, state: &CodingState) -> Result<(), TransportError> {
        self.strategy.on_report(now, state).map(|_repaired| ())
    }

    /// Symbols booked on the word of reports so far: what those have cost.
    pub fn told_symbols(&self) -> u64 {
        self.strategy.ledger().told
    }

    /// A report told of more symbols than are booked at once, or memory is to be given back:
    /// [`Self::catch_up`] is to follow.
    pub fn is_behind(&self) -> bool {
        self.strategy.is_behind()
    }

    /// Nothing was sent for a while: what was kept for speed goes, as [`Self::catch_up`] is called.
    pub fn on_idle(&mut self) {
        self.strategy.on_idle();
    }

    /// Books more of what the last report told.
    pub fn catch_up(&mut self) {
        self.strategy.catch_up();
    }

    /// A timeout: everything under way counts as lost, or nothing if ACKs keep coming. No record follows.
    pub fn on_silence(&mut self, now: Instant, fates: impl Iterator<Item = Fate<Content>>) {
        let mut unheard = CodingNews::default();
        fates.for_each(|fate| self.apply(now, fate, &mut unheard));
        self.strategy.hear(now);
        self.oldest.1 = now;
        self.policy.on_timeout();
    }

    fn apply(&mut self, now: Instant, fate: Fate<Content>, news: &mut CodingNews) {
        let is_news = match fate {
            Fate::Lost(content) if self.policy.finds_lost_copies() => {
                return self.strategy.on_lost(now, content);
            }
            Fate::Lost(content) => return self.strategy.on_lost_unheard(now, content),
            Fate::Arrived(content) => self.strategy.on_arrived(now, content, false),
            Fate::Returned(content) => self.strategy.on_arrived(now, content, true),
        };
        news.dof_delivered += u32::from(is_news);
        news.dof_redundant += u32::from(!is_news);
    }

    /// The record is complete.
    pub fn on_feedback(&mut self, feedback: &Feedback, view: &PathView) {
        self.policy.on_feedback(feedback, view);
    }

    /// When the policy wants to be asked again, or a missing symbol is overdue.
    pub fn timeout(&self) -> Option<Instant> {
        self.wait_until
    }

    /// Time has come to [`Self::timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.wait_until.take_if(|at| *at <= now);
    }

    fn wait(&mut self, now: Instant, rtt: Duration, at: Option<Instant>) {
        let overdue_at = self.strategy.overdue_at(rtt);
        self.wait_until = [at, overdue_at].into_iter().flatten().filter(|&at| at > now).min();
    }
}

/// The strategy that suits `code`, for symbols of at most `symbol_bytes`, towards a receiver that retains
/// `reach_symbols`.
fn strategy(code: Arc<dyn Code>, symbol_bytes: usize, reach_symbols: u32) -> Box<dyn Strategy> {
    match code.shape().geometry {
        Geometry::Block { .. } => Box::new(BlockSender::new(code, symbol_bytes, reach_symbols)),
        Geometry::None | Geometry::Sliding { .. } => {
            Box::new(SlidingSender::new(code, symbol_bytes, reach_symbols))
        }
    }
}

/// The opportunity as it is when `choice` turned out to be impossible.
fn without(opportunity: &mut Opportunity, choice: Choice) {
    match choice {
        Choice::Source | Choice::Combine { .. } => opportunity.has_new_data = false,
        Choice::Recover => {
            (opportunity.missing, opportunity.missing_symbols, opportunity.block.undecoded) = (0, 0, 0);
        }
        Choice::Protect => opportunity.recovering_symbols = 0,
        Choice::ProtectAgain => opportunity.protected = None,
        Choice::SecondCopy => opportunity.out_of_reach_symbols = 0,
        Choice::CopyAgain => opportunity.often_lost = None,
        Choice::Repair { .. } | Choice::Group { .. } => {
            (opportunity.unacked_symbols, opportunity.sources_since_repair) = (0, 0);
            opportunity.first_source_since_repair = None;
        }
        Choice::Wait(_) => {}
    }
}

/// A source that ends where the bound on bytes held does: a block may be taken in whole.
struct Bounded<'a> {
    source: &'a mut dyn Source,
    left_bytes: u64,
}

impl Source for Bounded<'_> {
    fn has_pending(&self) -> bool {
        self.left_bytes > 0 && self.source.has_pending()
    }

    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) -> Bytes {
        if self.left_bytes == 0 {
            return Bytes::new();
        }
        let data = self.source.fill(symbol, bytes_max);
        self.left_bytes = self.left_bytes.saturating_sub((symbol.len() + data.len()) as u64);
        data
    }

    fn give_back(&mut self, data: Bytes) {
        self.source.give_back(data);
    }

    fn favor(&self) -> Option<Favor> {
        self.source.favor()
    }
}
