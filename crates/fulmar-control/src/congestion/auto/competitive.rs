//! Competitive mode: beside a flow that fills queues.
//!
//! Where draining does not empty the queue, keeping to the bandwidth-delay product means to starve: every
//! round trip is longer than the shortest, so the rate measured at that window falls from cycle to cycle.
//! Then the window is CUBIC's (RFC 9438), with one difference: loss that the random loss explains is none
//! (`cusum`). It ends when the queue is gone, and is interrupted every few seconds by a probe for the
//! shortest RTT, to see whether the queue would go if we let it; if not, it goes on as it was. Where few
//! packets fill the path that is seen before it begins.
//!
//! Where the others show by troughs or pulses that they take no loss for congestion (`beside_bbr`), window
//! and pace are BBR's for a while.

use alloc::boxed::Box;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::backlog::Backlog;
use super::cusum::Cusum;
use super::drains::{DRAIN_PAUSE, blind_dip_margin};
use super::evidence::HOST_NOISE;
use super::model::link_rate;
use super::phase::{Phase, Slow};
use super::probe_times;
use super::rival::Rival;
use super::{Auto, Cubic, CubicConfig, Mechanism};
use crate::congestion::Bbr;
use crate::{Feedback, LossEvent, PathView};

/// Rounds of cruising in a row that must meet somebody else's queue.
const FOREIGN_ROUNDS: u32 = 4;
/// A queue that stands again within so many rounds after it was drained is not ours.
const TESTED_ROUNDS: u64 = 16;
/// A crowd of which nobody sees the queue loses more than this.
const BLIND_LOSS: f64 = 0.05;

impl Auto {
    /// Rounds of cruising in a row met a queue that is not ours, or one did while we know whose it is.
    pub(super) fn is_in_company(&self, now: Instant) -> bool {
        let is_long =
            matches!(self.phase, Phase::Cruise { foreign_rounds, .. } if foreign_rounds >= FOREIGN_ROUNDS);
        (is_long || (self.is_beside_bbr(now) && self.has_standing_queue)) && self.has(Mechanism::Competitive)
    }

    /// A queue stands on a narrow path, and was not tested lately.
    pub(super) fn may_be_our_queue(&self, now: Instant) -> bool {
        let is_tested = self.tested_round.is_some_and(|round| self.round - round < TESTED_ROUNDS);
        self.is_narrow() && !is_tested && !self.is_beside_bbr(now)
    }

    /// Drains the queue, with the rate that the link carried while it stood: if it was ours it stays away.
    pub(super) fn test_queue(&mut self, now: Instant) {
        let Phase::Cruise { standing, .. } = &self.phase else { return };
        if let Some(rate) = standing.mean(self.compensated(now)) {
            self.model.lower(rate);
        }
        self.tested_round = Some(self.round);
        self.enter(Phase::slow(Slow::Down));
    }

    /// Did our drain empty the queue?
    pub(super) fn watch_drain(&mut self, now: Instant) {
        let Some(opened_at) = self.drains.opened_at() else { return };
        let is_empty = !self.model.is_rtt_min_older_than(now, now - opened_at);
        let free = self.model.rtt_min().unwrap_or_default() + self.shortest_slack();
        self.drains.on_round(now, self.round, is_empty, free);
    }

    /// So much is lost where we see no queue that there may be a crowd, whose queue we never saw empty.
    pub(super) fn may_be_blind(&self, now: Instant) -> bool {
        self.may_be_fooled(now) && self.unmoved.share() > BLIND_LOSS && self.has(Mechanism::Join)
    }

    /// A round of cruising shows how fast round trips fall.
    pub(super) fn watch_moves(&mut self, path: &PathView) {
        if !self.is_even_cruise() {
            return;
        }
        // A queue goes on while a burst of losses leaves nothing to come.
        let burst_bytes = f64::from(self.mtu_bytes) * path.loss.burst_packets.max(1.0);
        let burst = self.model.rate().map_or(Duration::ZERO, |rate| rate.time_for(burst_bytes as u64));
        let noise = (burst / 2).max(HOST_NOISE / 4);
        let empty = self.model.empty_rtt().unwrap_or_default();
        self.jitter.moves.on_round(self.round, &self.tally, empty, noise);
    }

    /// Round trips that stand still whatever arrives are the path's.
    pub(super) fn watch_route(&mut self, now: Instant, path: &PathView) -> bool {
        let is_calm = !self.is_congested(path) && !self.tally.is_blackout && !self.phase.is_startup();
        let elapsed = now - self.round_started_at;
        let rtt = self.jitter.still.on_round(
            &self.tally,
            elapsed,
            is_calm && !matches!(self.phase, Phase::Compete(_)),
        );
        let Some(rtt) = rtt.filter(|rtt| self.has_queue(*rtt)) else { return false };
        self.model.on_longer_route(now, rtt);
        self.backlog = Backlog::default();
        self.bound_bytes = None;
        true
    }

    /// Whether what is lost changes with time.
    pub(super) fn watch_unmoved(&mut self, path: &PathView) {
        // What is sent in a common drain is too little to compare.
        let is_even = self.sent_gain > Slow::Together.gain() && self.sent_gain <= 1.0;
        let is_empty = self.tally.rtt_mean().is_some_and(|rtt| !self.has_queue(rtt));
        if (is_even || self.phase.is_startup()) && is_empty && !self.tally.is_blackout {
            self.unmoved.on_round(self.tally.packets(), self.tally.lost_packets, &path.loss);
        }
    }

    /// Should we, who may be blind, drain the queue with others: because it is time, or because somebody
    /// does?
    pub(super) fn joins_drain(&mut self, now: Instant) -> bool {
        let (rtt, margin) = (self.tally.rtt_min, blind_dip_margin(self.tally.rtt_min, self.spread()));
        let is_dip = self.tally.rtt_samples > 0 && self.drains.is_dip(now, rtt, margin);
        let is_steady = matches!(self.phase, Phase::Cruise { .. } | Phase::Up(_));
        // An application that sends less than the path carries has no queue to drain, and would only be late.
        if !is_steady || self.tally.is_app_limited || !self.may_be_blind(now) {
            return false;
        }
        let period = probe_times::blind_period(self.model.rtt_min().unwrap_or_default());
        let is_ours = self.sent_gain <= Slow::Down.gain();
        let was_drained = self.schedule.was_rtt_probed(now, DRAIN_PAUSE);
        // It may be BBR's trough: until that is known nothing of ours may move the queue.
        let may_follow = !is_ours && !was_drained && !self.troughs.is_open();
        probe_times::has_come(self.round_started_at, now, period) || (is_dip && may_follow)
    }

    /// How deep. A policer saves up what is not sent, and others take it: there who drains deep falls behind.
    pub(super) fn common_drain(&self) -> Slow {
        if self.policer.is_known() { Slow::DeepDown } else { Slow::Together }
    }

    /// The window begins at what the rate needs at the present round trip: less would be a gift, more an
    /// attack.
    pub(super) fn enter_compete(&mut self, now: Instant, path: &PathView) {
        let rtt = self.tally.rtt_mean().unwrap_or(path.rtt_smoothed);
        let needed_bytes = self.model.rate().map_or(0, |rate| rate.bytes_in(rtt));
        let window_bytes = path.in_flight_bytes.max(needed_bytes);
        self.model.unbound_rate();
        self.bound_bytes = None;
        self.excess = Cusum::default();
        let rival = if self.is_beside_bbr(now) { self.bbr(now) } else { self.cubic(window_bytes) };
        self.enter(Phase::Compete(Box::new(rival)));
    }

    /// Looks for the shortest round trip.
    fn pause_compete(&mut self, now: Instant) {
        let competed = core::mem::replace(&mut self.phase, Phase::cruise());
        self.enter_drain(now, Slow::DeepDown);
        if let (Phase::Compete(rival), Phase::Slow { paused, .. }) = (competed, &mut self.phase) {
            *paused = Some(rival);
        }
    }

    /// Competing goes on as it was if the queue stood through that: to come back with the window that a queue
    /// needs which we have half drained, after rounds in which it may be ours, would be a gift. Kin take a
    /// moment to drain theirs.
    pub(super) fn resumed(&mut self, now: Instant) -> Option<Phase> {
        let Phase::Slow { paused, .. } = &mut self.phase else { return None };
        let rival = paused.take()?;
        (self.has_standing_queue && !self.may_be_kin(now)).then_some(Phase::Compete(rival))
    }

    /// Those who fill the queue may be of our own kind.
    pub(super) fn may_be_kin(&self, now: Instant) -> bool {
        self.drains.are_common(now) || self.crowd.has_come(now)
    }

    fn cubic(&self, window_bytes: u64) -> Rival {
        Rival::Cubic(Cubic::at_window(self.mtu_bytes, CubicConfig::default(), window_bytes))
    }

    /// We take our share as one of them that comes would, by start-up.
    fn bbr(&self, now: Instant) -> Rival {
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        let bbr = Bbr::on_known_path(self.mtu_bytes, rate, rtt_min, now, self.round);
        let comes = self.insistent.is_some_and(|insistent| !insistent.has_come);
        Rival::Bbr(if comes { bbr.in_startup() } else { bbr })
    }

    pub(super) fn judge_compete(&mut self, now: Instant) {
        self.model.next_cycle();
        let is_gone = self.tally.rtt_mean().is_some_and(|rtt| !self.is_standing_queue(rtt));
        let Phase::Compete(rival) = &self.phase else { return };
        if rival.obeys() {
            self.judge_obedient(now, is_gone);
        } else {
            let window_bytes = rival.budget().window_bytes;
            self.judge_stubborn(now, is_gone, window_bytes);
        }
    }

    /// Over when the queue is gone, or to see whether it would go if we let it.
    fn judge_obedient(&mut self, now: Instant, is_gone: bool) {
        if self.troughs.is_open() {
            self.enter(Phase::cruise());
        } else if is_gone {
            self.enter_drain(now, Slow::DeepDown);
        } else if self.is_rtt_probe_due(now) {
            self.pause_compete(now);
        } else if self.is_beside_bbr(now) {
            self.phase = Phase::Compete(Box::new(self.bbr(now)));
        }
    }

    /// Beside BBR the queue goes without us, to come back: nothing to look for.
    fn judge_stubborn(&mut self, now: Instant, is_gone: bool, window_bytes: u64) {
        let is_beside = self.is_beside_bbr(now);
        if let (Phase::Compete(rival), Some(insistent)) = (&self.phase, &mut self.insistent) {
            insistent.has_come |= is_beside && rival.has_come();
        }
        if is_gone && is_beside {
            self.enter(Phase::cruise());
        } else if is_gone {
            self.enter_drain(now, Slow::DeepDown);
        } else if self.is_rtt_probe_due(now) {
            self.pause_compete(now);
        } else if !is_beside {
            self.phase = Phase::Compete(Box::new(self.cubic(window_bytes)));
        }
    }

    /// In competitive mode the window is CUBIC's, except that loss up to the random loss is none, or BBR's,
    /// except that the rate is the link's.
    pub(super) fn on_rival_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        let random_loss = self.random_loss.rate();
        let Phase::Compete(rival) = &mut self.phase else { return };
        // A random loss of few packets would shield us for good from the losses that the others obey.
        let explained = if self.random_loss.is_measured() { random_loss } else { 0.0 };
        let is_excess = self.excess.on_feedback(feedback, explained, &path.loss) && !self.tally.is_blackout;
        let mut seen = feedback.clone();
        if !is_excess {
            seen.lost = LossEvent::default();
        }
        if let Some(sample) = &mut seen.rate_sample {
            sample.rate = link_rate(sample, random_loss);
        }
        if seen.lost.packets > 0 || seen.ecn_ce_packets > 0 {
            self.congested_at = Some(feedback.now);
        }
        rival.on_feedback(&seen, path);
    }
}
