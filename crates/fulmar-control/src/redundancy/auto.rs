//! The default policy: repair where it buys time, nothing where it buys nothing.
//!
//! Three regimes, seen and not configured:
//! 1. **Bulk** (the window is the limit): only repair that was asked for. Ideal ARQ reaches (1 - p) C as well
//!    as any code; protection of the recovery is bought when it is likely needed, and its waste limited to a
//!    quarter of a per cent of the sources. On paths longer than the receiver's memory it is second copies,
//!    of the oldest first, and several at once of what was lost more than once.
//! 2. **Thin** (the application is the limit): proactive repair at a rate such that a hole is closed within
//!    about one round trip with probability 1 - `THIN_RESIDUAL`, from the decay of the repair process on the
//!    two-state channel ([`Channel::decay`]). It uses only chances to send that new data leave free.
//! 3. **Tails** (new data ran out): what is unacknowledged is protected at once, sized by P(no more lost than
//!    there is repair) under (p, E), because nothing later would reveal the loss before a timeout; and copies
//!    of what was lost are protected together, with several combinations.
//!
//! What the application favours shifts the line ([`Favor`]): for throughput there is no repair ahead of loss
//! but in tails, for latency a hole is to be closed sooner, and where a stream that favours it shares a
//! connection with bulk data, each of its symbols is followed by copies, within a tenth of the symbols.
//!
//! Below 0.2 % loss, and while the loss rate is unknown, there is no repair at all: others pay for waste.
//! Inputs: the opportunity's counts, the loss estimate, whether feedback found the window the limit. State: a
//! few averages. Invariants: never `Source` without data, `Recover` with nothing missing or `Protect` with
//! nothing being recovered; repairs per source bounded.

use core::time::Duration;

use fulmar_units::Instant;

use super::arq::asked_or_source;
use super::{Channel, Choice, Favor, Opportunity, RedundancyPolicy, RepairReason};
use crate::{Feedback, PathView};

/// Loss below which repair costs more than it saves.
const LOSS_MIN: f64 = 0.002;
/// Packets the estimate must rest on before it is believed.
const WEIGHT_MIN: f64 = 20.0;
/// Share of symbols of a thin flow that may still miss their round trip (by Chernoff's bound, several times
/// the truth).
const THIN_RESIDUAL: f64 = 3e-3;
/// The same for a tail and for repair that was asked for.
const TAIL_RESIDUAL: f64 = 5e-3;
/// Share of time that the window is the limit, from which on a flow is bulk.
const BULK_SHARE: f64 = 0.5;
/// Weight of one feedback in that share.
const LIMITED_GAIN: f64 = 1.0 / 32.0;
/// Repair schedules a thin flow may have, sparse to dense: source symbols, then repair symbols. The last is
/// for latency.
const SCHEDULES: &[(u32, u32)] =
    &[(16, 1), (12, 1), (8, 1), (6, 1), (4, 1), (3, 1), (2, 1), (3, 2), (1, 1), (1, 2), (1, 3)];
/// Share of a round trip within which a hole is to be closed.
const CLOSED_BALANCED: f64 = 0.7;
/// The same where latency is favoured.
const CLOSED_LATENCY: f64 = 0.25;
/// A symbol is followed by so many copies that this is the probability that all are lost, if it was; at most.
const COPIES_LOST: f64 = 0.2;
const COPIES_EACH_MAX: u32 = 3;
/// Copies, per source symbol, of symbols that favour latency amid bulk data, and how many may be saved up.
const COPIES_PER_SOURCE: f64 = 0.1;
const COPIES_MAX: f64 = 32.0;
/// Longest window of a proactive repair symbol: cost is one multiply-add per symbol.
const WINDOW_SYMBOLS_MAX: u32 = 64;
/// Proactive repair that may be saved up.
const PROACTIVE_MAX: f64 = 4.0;
/// Probable waste that asked-for repair of bulk data may cause, per source symbol, and how much of it may be
/// saved up: it delivers a little sooner, and is taken off what is delivered.
const WASTE_PER_SOURCE: f64 = 0.0025;
const WASTE_MAX: f64 = 4.0;
/// One combination protects no more symbols: what names them has to fit beside them.
const PROTECTED_TOGETHER_MAX: u32 = 8;
/// Where protection takes nothing from new data copies wait for it until there are so many of them, or none
/// has left for this part of a round trip ..
const TOGETHER_PART: u32 = 32;
/// .. and get combinations until one of them is still missing with no more than this probability ..
const SET_RESIDUAL: f64 = 0.1;
/// .. but no more than so many: where half of all is lost a set of eight takes 13.
const SET_COMBINATIONS_MAX: u32 = 16;
/// Bulk data wait with their protection until it is more likely needed than not: until enough copies are in
/// flight.
const PROTECTED_WASTE_MAX: f64 = 0.5;
/// Copies at once of a symbol that was lost more than once, as long as they are no more than this share of
/// all symbols.
const OFTEN_COPIES_MAX: u32 = 4;
const OFTEN_WASTE_MAX: f64 = 0.015;
/// Tail repair allowed at any time, and beyond it per source symbol sent.
const TAIL_REPAIRS_MIN: u32 = 8;
const TAIL_PER_SOURCE: f64 = 0.1;
const TAIL_CREDIT_MAX: f64 = 64.0;

/// The default policy.
#[derive(Clone, Debug)]
pub struct AutoRedundancy {
    /// What the connection favours.
    favor: Favor,
    /// Share of feedback that found the window the limit.
    limited_share: f64,
    /// Smoothed time between source symbols, pauses longer than a round trip left out.
    source_gap: Option<Duration>,
    schedule: Option<(u32, u32)>,
    planned_at: Option<Instant>,
    credit: Credit,
}

/// What sources have earned and repair has not yet spent.
#[derive(Copy, Clone, Debug)]
struct Credit {
    /// When so many source symbols had been sent.
    sources_sent: u64,
    /// Proactive repair symbols.
    proactive: f64,
    /// Probable waste.
    waste: f64,
    /// Tail repair symbols beyond those always allowed.
    tail: f64,
    /// Copies of symbols that favour latency.
    copies: f64,
}

impl Credit {
    /// The credit now, if `ratio` proactive repair symbols are due for each source symbol.
    fn at(self, opportunity: &Opportunity, ratio: f64) -> Self {
        let new_sources = opportunity.sources_sent.saturating_sub(self.sources_sent) as f64;
        Self {
            sources_sent: opportunity.sources_sent,
            proactive: (self.proactive + new_sources * ratio).min(PROACTIVE_MAX),
            waste: (self.waste + new_sources * WASTE_PER_SOURCE).min(WASTE_MAX),
            tail: (self.tail + new_sources * TAIL_PER_SOURCE).min(TAIL_CREDIT_MAX),
            copies: (self.copies + new_sources * COPIES_PER_SOURCE).min(COPIES_MAX),
        }
    }
}

impl Default for AutoRedundancy {
    fn default() -> Self {
        Self::new()
    }
}

impl AutoRedundancy {
    /// The policy of a connection that favours nothing.
    pub fn new() -> Self {
        Self::favoring(Favor::default())
    }

    /// The policy of a connection that favours this, where its streams say nothing else.
    pub fn favoring(favor: Favor) -> Self {
        Self {
            favor,
            limited_share: 0.0,
            source_gap: None,
            schedule: None,
            planned_at: None,
            credit: Credit {
                sources_sent: 0,
                proactive: 0.0,
                waste: 0.0,
                tail: TAIL_CREDIT_MAX / 2.0,
                copies: COPIES_MAX,
            },
        }
    }

    fn is_bulk(&self) -> bool {
        self.limited_share >= BULK_SHARE
    }

    /// What the newest symbol favours.
    fn favored(&self, opportunity: &Opportunity) -> Favor {
        opportunity.favor.unwrap_or(self.favor)
    }

    fn has_loss(path: &PathView) -> bool {
        path.loss.rate >= LOSS_MIN && path.loss.weight_packets >= WEIGHT_MIN
    }

    fn credit(&self, opportunity: &Opportunity) -> Credit {
        self.credit.at(opportunity, self.ratio())
    }

    /// A source symbol leaves.
    fn measure_gap(&mut self, opportunity: &Opportunity, path: &PathView) {
        let Some(before) = opportunity.newest_source else { return };
        let gap = opportunity.now - before;
        if !gap.is_zero() && gap <= path.rtt_smoothed {
            self.source_gap = Some(self.source_gap.map_or(gap, |average| (average * 7 + gap) / 8));
        }
    }

    /// Once per round trip: the sparsest schedule that closes holes in time.
    fn plan(&mut self, opportunity: &Opportunity, path: &PathView) {
        let now = opportunity.now;
        if self.planned_at.is_some_and(|at| now - at < path.rtt_smoothed) {
            return;
        }
        self.planned_at = Some(now);
        self.schedule = None;
        let Some(gap) = self.source_gap.filter(|gap| !gap.is_zero()) else { return };
        let closed_share = match self.favored(opportunity) {
            Favor::Throughput => return,
            Favor::Balanced => CLOSED_BALANCED,
            Favor::Latency => CLOSED_LATENCY,
        };
        if !Self::has_loss(path) || self.is_bulk() {
            return;
        }
        let channel = Channel::new(&path.loss);
        let symbols_max = closed_share * path.rtt_smoothed.as_secs_f64() / gap.as_secs_f64();
        let is_in_time = |&(sources, repairs): &(u32, u32)| {
            // A hole waits half a period for its first repair on average.
            let periods = channel.periods_to(THIN_RESIDUAL, sources, repairs) + 0.5;
            periods * f64::from(sources) <= symbols_max
        };
        let schedules = match self.favored(opportunity) {
            Favor::Latency => SCHEDULES,
            _ => &SCHEDULES[..SCHEDULES.len() - 1],
        };
        self.schedule = schedules.iter().copied().find(is_in_time).or(schedules.last().copied());
    }

    /// Is a combination over the symbols being recovered worth sending, against the loss of the recovery
    /// itself?
    fn is_protection_worthwhile(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        if opportunity.recovering_symbols == 0 || !Self::has_loss(path) {
            return false;
        }
        if self.favored(opportunity) == Favor::Throughput && self.pays_for_protection(opportunity, path) {
            return false;
        }
        let waste = protection_waste(opportunity, path);
        if waste >= 1.0 - TAIL_RESIDUAL {
            return false;
        }
        if !self.pays_for_protection(opportunity, path) {
            return opportunity.now >= together_until(opportunity, path);
        }
        waste <= PROTECTED_WASTE_MAX && self.credit(opportunity).waste >= waste
    }

    /// Is another combination over the newest set worth sending? Several over many symbols are better
    /// protection than one over each.
    fn is_more_protection_worthwhile(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        let Some(set) = opportunity.protected.filter(|_| Self::has_loss(path)) else { return false };
        let sent = set.symbols.saturating_add(set.combinations);
        set.combinations < SET_COMBINATIONS_MAX
            && !self.pays_for_protection(opportunity, path)
            && Channel::new(&path.loss).suffices(set.symbols, sent) < 1.0 - SET_RESIDUAL
    }

    /// Is a second copy worth sending of a symbol that is too old for a combination? It is wasted if the
    /// first arrives.
    fn is_second_copy_worthwhile(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        if opportunity.out_of_reach_symbols == 0 || !Self::has_loss(path) {
            return false;
        }
        let is_affordable = self.favored(opportunity) != Favor::Throughput
            && self.credit(opportunity).waste >= second_copy_waste(path);
        !self.pays_for_protection(opportunity, path) || is_affordable
    }

    /// A symbol of a stream that favours latency left amid bulk data, which get no repair ahead of loss.
    fn owes_copy(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        opportunity.favor == Some(Favor::Latency)
            && self.is_bulk()
            && opportunity.unacked_symbols > 0
            && opportunity.window_max > 0
            && Self::has_loss(path)
            && self.credit(opportunity).copies >= 1.0
            && opportunity.repairs_since_source
                < Channel::new(&path.loss).probes_for(COPIES_LOST, COPIES_EACH_MAX)
    }

    /// Protection costs credit where its packet could carry something else.
    fn pays_for_protection(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        opportunity.has_new_data || opportunity.now < self.free_at(opportunity, path)
    }

    /// From when on it costs none, while there is nothing new.
    fn free_at(&self, opportunity: &Opportunity, path: &PathView) -> Instant {
        if self.is_bulk() { stalled_at(opportunity, path) } else { opportunity.now }
    }

    /// How long new data must have been missing before this is a tail: twice the usual gap, at most a quarter
    /// of a round trip.
    fn tail_patience(&self, path: &PathView) -> Duration {
        self.source_gap.map_or(Duration::ZERO, |gap| (gap * 2).min(path.rtt_smoothed / 4))
    }

    fn choose_idle(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        match self.choose_ahead(opportunity, path) {
            Choice::Wait(until) => {
                Choice::Wait(until.into_iter().chain(self.protected_at(opportunity, path)).min())
            }
            choice => choice,
        }
    }

    /// When protection will be worth more than it is now, while there is nothing new.
    fn protected_at(&self, opportunity: &Opportunity, path: &PathView) -> Option<Instant> {
        let free_at = self.free_at(opportunity, path);
        let has_more = opportunity.out_of_reach_symbols > 0 || opportunity.protected.is_some();
        let together_until = (opportunity.recovering_symbols > 0).then(|| together_until(opportunity, path));
        let times = [has_more.then_some(free_at), together_until.map(|until| until.max(free_at))];
        times.into_iter().flatten().filter(|at| *at > opportunity.now).min()
    }

    /// Repair ahead of loss, while there is nothing new.
    fn choose_ahead(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        let symbols = opportunity.unacked_symbols.min(opportunity.window_max).min(WINDOW_SYMBOLS_MAX);
        if symbols == 0 || !Self::has_loss(path) {
            return Choice::Wait(None);
        }
        if self.credit(opportunity).proactive >= 1.0 && !self.is_bulk() {
            return Choice::Repair { symbols, reason: RepairReason::Proactive };
        }
        self.choose_tail(opportunity, path)
    }

    fn choose_tail(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        let symbols = opportunity.unacked_symbols.min(opportunity.window_max);
        let allowed = TAIL_REPAIRS_MIN.saturating_add(self.credit(opportunity).tail as u32);
        let needed = Channel::new(&path.loss).repairs_for(symbols, TAIL_RESIDUAL, allowed);
        if needed <= opportunity.repairs_since_source {
            return Choice::Wait(None);
        }
        let Some(newest) = opportunity.newest_source else { return Choice::Wait(None) };
        let at = newest + self.tail_patience(path);
        if opportunity.now < at {
            return Choice::Wait(Some(at));
        }
        Choice::Repair { symbols, reason: RepairReason::Tail }
    }
}

/// How likely the next combination over symbols being recovered is wasted: the copies suffice by themselves
/// if none of them is lost.
fn protection_waste(opportunity: &Opportunity, path: &PathView) -> f64 {
    let protected = opportunity.recovering_symbols.min(PROTECTED_TOGETHER_MAX);
    Channel::new(&path.loss).suffices(protected, protected)
}

/// Until when other copies may join those being recovered.
fn together_until(opportunity: &Opportunity, path: &PathView) -> Instant {
    let is_growing = opportunity.recovering_symbols < PROTECTED_TOGETHER_MAX;
    let newest = opportunity.newest_copy.filter(|_| is_growing);
    newest.map_or(opportunity.now, |newest| newest + path.rtt_smoothed / TOGETHER_PART)
}

/// From when on bulk data are held back by the receiver, which waits for something lost, and not by a pause
/// of the application.
fn stalled_at(opportunity: &Opportunity, path: &PathView) -> Instant {
    opportunity.newest_source.map_or(opportunity.now, |newest| newest + path.rtt_smoothed / 4)
}

/// What was lost again and again holds up the receiver longest, and is rare: p^n of the symbols are lost n
/// times. Several copies at once of these are cheap, and seldom all lost.
fn is_copy_again_worthwhile(opportunity: &Opportunity, path: &PathView) -> bool {
    let Some(often) = opportunity.often_lost.filter(|_| AutoRedundancy::has_loss(path)) else { return false };
    let share = libm::pow(path.loss.rate.clamp(0.0, 1.0), f64::from(often.losses));
    often.copies < OFTEN_COPIES_MAX && share * f64::from(often.copies) <= OFTEN_WASTE_MAX
}

/// How likely a second copy is wasted.
fn second_copy_waste(path: &PathView) -> f64 {
    1.0 - path.loss.rate.clamp(0.0, 1.0)
}

impl RedundancyPolicy for AutoRedundancy {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_feedback(&mut self, feedback: &Feedback, _path: &PathView) {
        let limited = if feedback.is_window_limited { 1.0 } else { 0.0 };
        self.limited_share += LIMITED_GAIN * (limited - self.limited_share);
    }

    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        if is_copy_again_worthwhile(opportunity, path) {
            return Choice::CopyAgain;
        }
        if opportunity.missing > 0 {
            return Choice::Recover;
        }
        if self.owes_copy(opportunity, path) {
            return Choice::Repair { symbols: 1, reason: RepairReason::Proactive };
        }
        if self.is_protection_worthwhile(opportunity, path) {
            return Choice::Protect;
        }
        if self.is_more_protection_worthwhile(opportunity, path) {
            return Choice::ProtectAgain;
        }
        if self.is_second_copy_worthwhile(opportunity, path) {
            return Choice::SecondCopy;
        }
        if opportunity.has_new_data {
            asked_or_source(opportunity)
        } else {
            self.choose_idle(opportunity, path)
        }
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, path: &PathView) {
        let mut credit = self.credit(opportunity);
        match choice {
            Choice::Protect if self.pays_for_protection(opportunity, path) => {
                credit.waste -= protection_waste(opportunity, path);
            }
            Choice::SecondCopy if self.pays_for_protection(opportunity, path) => {
                credit.waste -= second_copy_waste(path);
            }
            Choice::Repair { symbols: 1, .. } if self.owes_copy(opportunity, path) => credit.copies -= 1.0,
            Choice::Repair { reason: RepairReason::Proactive, .. } => credit.proactive -= 1.0,
            Choice::Repair { .. } if opportunity.repairs_since_source >= TAIL_REPAIRS_MIN => {
                credit.tail -= 1.0
            }
            Choice::Source => self.measure_gap(opportunity, path),
            _ => {}
        }
        self.credit = credit;
        self.plan(opportunity, path);
    }

    fn ratio(&self) -> f64 {
        self.schedule.map_or(0.0, |(sources, repairs)| f64::from(repairs) / f64::from(sources))
    }
}

#[cfg(test)]
mod tests;
