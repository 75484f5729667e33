//! The probing cycle: what the round that just ended means for the phase.
//!
//! Source: BBRv3 (draft-ietf-ccwg-bbr 4.3), with phases that begin and end with rounds. Start-up doubles (see
//! `startup`), Drain empties what it queued; then Cruise, Up (at least two rounds: the first round's ACKs are
//! of packets sent before it), Down (at least one whole round, so that loss at three quarters of the rate can
//! be compared; or, where there is none to compare and nobody else to wait for, until the probe's queue is
//! gone) in turn.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::carried::Carried;
use super::early::Early;
use super::phase::{Phase, Slow, UP_GAIN, Up};
use super::probe_times;
use super::random_loss::RandomLoss;
use super::schedule::{KIN_RTT_PROBE_AGE, RTT_PROBE_AGE, STUBBORN_RTT_PROBE_AGE};
use super::startup::{LONG_QUEUE, Queue, Verdict};
use super::tally::Tally;
use super::{Auto, Mechanism};
use crate::{Feedback, PathView};

/// Round trips longer than the empty path's by this factor have waited for a whole path's worth: no jitter's,
/// and no probe's (1.25).
const BACKLOG: f64 = 2.0;
/// A link that carries less than this part of its rate is another: others who come do not take so much within
/// a cycle.
const FALLEN: f64 = 0.25;
/// Rounds of cruising between probes, before variation: with two up and one or two down, a cycle of about
/// ten.
const CRUISE_ROUNDS: u64 = 6;
/// After congestion the next probe waits as long as Reno would take to win back what it gave up: a packet per
/// round, so as many rounds as the window has packets (BBRv3: at most 63, and 2 to 3 seconds). What the path
/// loses by itself keeps Reno's window below sqrt(3 / 2p) (Mathis et al. 1997, eq. 3): then fewer will do, if
/// anybody else is there.
const LONG_CRUISE_ROUNDS_MAX: u64 = 63;
const LONG_CRUISE_LOSSY_ROUNDS: u64 = 16;
const LONG_CRUISE_MAX: Duration = Duration::from_millis(2500);
/// After so many rounds in a row in which nobody filled the path a probe is due all the same.
const FREE_ROUNDS: u64 = 5;
/// A random loss above this is compared with a slow round at least every so many rounds.
const RANDOM_LOSS_CHECKED: f64 = 0.02;
const RANDOM_LOSS_CHECK_ROUNDS: u64 = 40;
/// Most of them while each finds a shorter round trip than was known.
const FINDING_ROUNDS_MAX: u32 = 10;
/// In a queue that others keep as well a probe asks for the less the more we have: for a quarter more up to
/// so many packets per round trip, and for four times the packets half of that. So shares become equal.
const SMALL_SHARE_PACKETS: f64 = 8.0;
/// More lost than this may be the drops of a queue that is always full, and therefore not seen.
const HIDDEN_LOSS: f64 = 0.05;
/// After so many rounds of growth without a queue doubling is quicker.
const UP_ROUNDS_MAX: u32 = 4;
/// A probe that takes from others ends after so many.
const TAKING_ROUNDS_MAX: u32 = 10;
/// A jump is followed by a probe after so many rounds: a train may have been slower than the bottleneck.
const JUMP_CHECK_ROUNDS: u64 = 2;
/// Where rounds are shorter than this a few steps take little time, and whoever comes down in one leaves all
/// to somebody who still doubles.
const OVERLOAD_ROUND_MIN: Duration = Duration::from_millis(200);
/// More in flight than so many bandwidth-delay products after a jump is a queue.
const JUMP_QUEUED: f64 = 1.15;

impl Auto {
    pub(super) fn enter(&mut self, phase: Phase) {
        self.round_gain = self.round_gain.max(phase.gain());
        self.phase = phase;
    }

    pub(super) fn end_round(&mut self, now: Instant, path: &PathView) {
        let finished_gain = self.round_gain;
        self.watch_jitter();
        self.watch_restlessness();
        self.watch_unmoved(path);
        let was_wrong = self.learn_random_loss(now, path);
        self.watch_queue(now);
        self.watch_moves(path);
        self.watch_policer();
        self.loosen_bound(path);
        self.watch_drain(now);
        self.watch_troughs(now, path);
        self.watch_pulses(now, path);
        self.watch_flat();
        self.watch_probe_loss(now, path);
        let is_joining = self.joins_drain(now);
        let is_longer = self.watch_route(now, path);
        match self.phase {
            Phase::Startup(_) => self.judge_startup(now, path),
            _ if is_longer => self.restart(path),
            _ if is_joining => self.enter_drain(now, self.common_drain()),
            _ if self.may_fill(now) => self.enter_fill(now),
            _ if was_wrong => self.enter(Phase::slow(Slow::Down)),
            Phase::Slow { .. } => self.judge_slow(now, path),
            Phase::Cruise { .. } => self.judge_cruise(now, path),
            Phase::Up(up) => self.judge_up(now, up, path),
            Phase::Compete(_) => self.judge_compete(now),
            Phase::Fill(fill) => self.judge_fill(now, fill, path),
        }
        self.sent_gain = finished_gain;
        self.round_gain = self.phase.gain();
        self.tally = Tally::above(self.model.rtt_min());
        self.round_started_at = now;
        self.aggregation.end_round();
    }

    fn judge_startup(&mut self, now: Instant, path: &PathView) {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        let queue = self.startup_queue(rtt_min.max(self.usual_rtt()));
        let excess = self.startup_excess(path);
        let (rate, may_jump) = (self.model.rate(), self.may_meet_trains());
        let Phase::Startup(startup) = &mut self.phase else { return };
        if !may_jump {
            // What made the round trip long was a queue, and no ACK of a jump is looked at any more.
            startup.drop_jump();
        }
        match startup.judge(&self.tally, queue, excess) {
            Verdict::Undecided => {
                let filled = rate.filter(|rate| self.tally.has_filled(rate.bytes_in(rtt_min)));
                if filled.is_some_and(|rate| startup.is_full_at(rate)) {
                    self.enter(Phase::slow(Slow::Drain));
                }
            }
            Verdict::Grew => self.learn_startup_loss(now, path),
            Verdict::Shared => {
                // No round has measured yet what part of the link that is.
                if let Some(rate) = startup.arrived_rate() {
                    self.model.on_share(rate);
                }
                self.model.next_cycle();
                self.enter(Phase::slow(Slow::Drain));
            }
            Verdict::Full if startup.jump_rate().is_some() => {
                // The train was a queue that we made, or one that others had made before.
                if !self.is_overloaded(path) {
                    self.on_alone(now);
                }
                self.learn_jump_loss(now, path);
                self.model.next_cycle();
                self.schedule.probe_round = self.round + JUMP_CHECK_ROUNDS;
                self.schedule.probe_at = now + LONG_CRUISE_MAX;
                // What stands in the queue now is told by what is under way, not by the round that ended.
                let bdp_bytes = self.model.bdp_bytes().unwrap_or(0) as f64;
                let has_queued = path.in_flight_bytes as f64 > bdp_bytes * JUMP_QUEUED;
                self.enter(if has_queued { Phase::slow(Slow::Drain) } else { Phase::cruise() });
            }
            Verdict::Full => {
                if queue.is_empty() {
                    self.model.rescale(1.0 - self.random_loss.rate());
                    self.random_loss = RandomLoss::new();
                } else {
                    self.on_alone(now);
                }
                self.enter(Phase::slow(Slow::Drain));
            }
        }
    }

    /// What a round of start-up met, where round trips of `usual` meet none.
    fn startup_queue(&self, usual: Duration) -> Queue {
        let empty = self.model.empty_rtt().map_or(usual, |empty| empty.max(usual));
        match self.tally.rtt_min {
            _ if self.is_round_flat() => Queue::Flat,
            rtt if self.tally.rtt_samples == 0 || rtt <= empty + self.queue_slack() => Queue::None,
            rtt if rtt > usual.mul_f64(LONG_QUEUE) + self.queue_slack() => Queue::Long,
            _ => Queue::Some,
        }
    }

    fn judge_slow(&mut self, now: Instant, path: &PathView) {
        let is_finding = self.tally.found_shorter_rtt() && self.may_be_blind(now);
        let Phase::Slow { kind, rounds, .. } = &mut self.phase else { return };
        if self.round_gain > kind.gain() {
            // Entered in the middle of a round: one whole slow round is needed to compare loss.
            return;
        }
        *rounds += 1;
        self.schedule.slow_round = self.round;
        if is_finding && *rounds < FINDING_ROUNDS_MAX {
            return;
        }
        let (kind, is_long) = (*kind, *rounds >= kind.rounds_max());
        if is_long || self.is_drained_for(kind, path) {
            self.end_slow(now, path);
        }
    }

    /// What is in flight is as little as sending slower was for.
    fn is_drained_for(&self, kind: Slow, path: &PathView) -> bool {
        let bdp_bytes = self.model.bdp_bytes().unwrap_or(0) as f64;
        kind.drain_target().is_some_and(|share| path.in_flight_bytes as f64 <= bdp_bytes * share)
    }

    fn end_slow(&mut self, now: Instant, path: &PathView) {
        if self.schedule.probe_round < self.round {
            self.model.next_cycle();
            self.schedule_probe(now, path);
        }
        let next = self.resumed(now).unwrap_or_else(Phase::cruise);
        self.enter(next);
    }

    /// The link carries less than it did: rounds are too long to wait for their end.
    pub(super) fn watch_backlog(&mut self, feedback: &Feedback, rtt: Duration, path: &PathView) {
        let (Some(empty), Some(rate)) = (self.model.empty_rtt(), self.model.rate()) else { return };
        let is_drained = path.in_flight_bytes <= self.model.bdp_bytes().unwrap_or(0);
        if let Some(before) = self.backlog.on_drain(feedback, is_drained, empty) {
            self.model.on_share(before);
        }
        let is_long = rtt > empty.mul_f64(BACKLOG) + self.queue_slack();
        let Some((arrived, lost_share)) = self.backlog.on_ack(feedback, is_long, empty, &path.loss) else {
            return;
        };
        let most = arrived.scaled(1.0 / (1.0 - lost_share.min(self.compensated(feedback.now))));
        match &self.phase {
            Phase::Compete(_) | Phase::Fill(_) | Phase::Startup(_) => return,
            // That queue was there before, and is somebody else's.
            Phase::Cruise { foreign_rounds, .. } if *foreign_rounds > 1 => return,
            _ if most >= rate.scaled(FALLEN) => return,
            Phase::Slow { .. } => {}
            Phase::Cruise { .. } | Phase::Up(_) => self.enter(Phase::slow(Slow::Brief)),
        }
        self.backlog.on_lowered(feedback.now, rate, arrived);
        self.model.lower(most);
    }

    /// The queue of a probe that had the path alone is gone within a round.
    pub(super) fn watch_brief(&mut self, now: Instant, path: &PathView) {
        let is_brief = matches!(self.phase, Phase::Slow { kind: Slow::Brief, .. });
        if is_brief && self.is_drained_for(Slow::Brief, path) {
            self.end_slow(now, path);
        }
    }

    /// A probe ends. Loss at three quarters of the rate is compared now and then where there is some; what
    /// others queue as well takes a whole round.
    fn end_probe(&mut self, up: Up) {
        let needs_round = self.was_unchecked_for(RANDOM_LOSS_CHECK_ROUNDS / 2);
        let is_brief = up.gain >= UP_GAIN && !needs_round && self.has(Mechanism::Brief);
        self.enter(Phase::slow(if is_brief { Slow::Brief } else { Slow::Down }));
    }

    /// There is a random loss, and more than so many rounds ago it was last compared with a slow one.
    fn was_unchecked_for(&self, rounds: u64) -> bool {
        self.random_loss.rate() > RANDOM_LOSS_CHECKED
            && self.round.saturating_sub(self.schedule.slow_round) > rounds
    }

    /// Sets when the next probe is due.
    pub(super) fn schedule_probe(&mut self, now: Instant, path: &PathView) {
        // Neighbours that started together must not probe together: a number that differs between flows.
        let variation = (self.round ^ path.rtt_latest.as_nanos() as u64) % 4;
        let window_packets = self.window_bytes / u64::from(self.mtu_bytes.max(1));
        let is_at_limit = self.is_at_limit && !self.schedule.has_found_more;
        let rounds = if self.was_congested_lately(now) && is_at_limit {
            window_packets.clamp(CRUISE_ROUNDS, self.long_cruise_rounds())
        } else {
            CRUISE_ROUNDS
        };
        self.schedule.probe_round = self.round + rounds + variation;
        self.schedule.probe_at = now + LONG_CRUISE_MAX;
    }

    pub(super) fn judge_cruise(&mut self, now: Instant, path: &PathView) {
        // With jitter a few round trips may make the mean long: what all of them met is a queue.
        let may_wait = self.has_standing_queue || !self.model.is_jittered();
        let mean = self.tally.rtt_mean().filter(|_| may_wait);
        let has_queue = mean.is_some_and(|rtt| self.is_standing_queue(rtt));
        // Loss in excess without a queue and without sending faster is no congestion: the path changed, or it
        // was chance. A short queue may stand and not be full.
        let may_overflow = mean.is_some_and(|rtt| self.has_queue(rtt));
        if self.sent_gain <= 1.0 && self.is_congested(path) && (may_overflow || self.tally.marked_packets > 0)
        {
            self.on_congestion(now, path);
            if self.is_overloaded(path) {
                // Nobody who fills this queue obeys.
                self.alone = None;
                self.watch_carried(now, path, has_queue);
                self.obey_overload(now);
            }
        } else {
            self.was_overloaded = false;
            self.watch_carried(now, path, has_queue && !self.is_drained());
        }
        if !self.tally.is_window_limited {
            return;
        }
        // Whoever had the path alone, all that time and in the last probe, need not wait for long.
        let is_free = self.schedule.free_rounds >= FREE_ROUNDS && !self.schedule.has_probe_lost;
        let is_probe_due =
            self.round >= self.schedule.probe_round || now >= self.schedule.probe_at || is_free;
        // Compensation is earned anew: from time to time a slow round shows whether the loss is still random.
        let is_check_due = self.has(Mechanism::Check) && self.was_unchecked_for(RANDOM_LOSS_CHECK_ROUNDS);
        if self.is_in_company(now) {
            if self.may_be_our_queue(now) {
                self.test_queue(now);
            } else {
                self.enter_compete(now, path);
            }
        } else if self.is_rtt_probe_due(now) {
            self.enter_drain(now, Slow::DeepDown);
        } else if self.troughs.is_open() {
            // Nothing that would move the queue, until it is known whose it is.
        } else if is_probe_due {
            self.enter_probe(now);
        } else if is_check_due {
            self.enter(Phase::slow(Slow::Down));
        }
    }

    /// Sends faster, to see whether there is more.
    fn enter_probe(&mut self, now: Instant) {
        self.model.unbound_rate();
        // Within the bound nothing faster would leave.
        let room_bytes = self.path_bytes() as f64 * UP_GAIN;
        self.bound_bytes = self.bound_bytes.map(|bound| bound.max(room_bytes as u64));
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        let gain = self.probe_gain(now);
        self.schedule.on_probe(self.round);
        self.enter(Phase::Up(Up { rounds: 0, rate, rtt: self.tally.rtt_min, gain }));
    }

    /// Most rounds of cruising after congestion.
    fn long_cruise_rounds(&self) -> u64 {
        if self.is_flat {
            return LONG_CRUISE_ROUNDS_MAX;
        }
        let renos_packets = libm::sqrt(1.5 / self.random_loss.rate()) as u64;
        renos_packets.clamp(LONG_CRUISE_LOSSY_ROUNDS, LONG_CRUISE_ROUNDS_MAX)
    }

    /// Pace of a probe as a multiple of the rate.
    fn probe_gain(&self, now: Instant) -> f64 {
        if !self.schedule.has_waited && !self.is_queue_hidden(now) {
            return UP_GAIN;
        }
        let packets = self.model.bdp_bytes().unwrap_or(0) as f64 / f64::from(self.mtu_bytes.max(1));
        1.0 + (UP_GAIN - 1.0) * libm::sqrt(SMALL_SHARE_PACKETS / packets.max(SMALL_SHARE_PACKETS))
    }

    /// What was lost may be the drops of a queue that we do not see.
    fn is_queue_hidden(&self, now: Instant) -> bool {
        self.may_be_fooled(now) && self.tally.lost_share() > HIDDEN_LOSS
    }

    /// What does the link carry of ours, where it is not ours alone?
    fn watch_carried(&mut self, now: Instant, path: &PathView, has_queue: bool) {
        let may_hide = self.may_hide_queue(now);
        let is_telling = self.sent_gain <= 1.0 && !self.tally.is_blackout && self.has(Mechanism::Carried);
        if !is_telling || !(has_queue || may_hide) {
            self.carried = Carried::new();
            return;
        }
        self.carried.on_round(&self.tally, now - self.round_started_at);
        let compensated = self.compensated(now);
        let carried = if has_queue {
            // The fastest sample of few packets is luck, and would keep a queue that is our own.
            let is_luck = self.is_narrow() && self.is_alone(now);
            let mean = self.carried.mean(compensated).filter(|_| is_luck);
            // What stands may be no queue: then what the path loses by itself is no sign of a full one.
            let most = self.tolerated_packets(self.carried.packets, path);
            let tolerated = if self.jitter.moves.are_known(self.round) { most } else { 0.0 };
            self.carried.with_queue(tolerated).map(|fastest| mean.unwrap_or(fastest))
        } else {
            let carried = self.carried.without_queue(compensated);
            if let Some(rate) = carried.filter(|_| self.carried.has_heavy_loss()) {
                // Until the next probe: each round has its lucky sample.
                self.model.bound_rate(rate);
            }
            carried
        };
        if let Some(rate) = carried {
            self.model.lower(rate);
            self.carried = Carried::new();
        }
    }

    /// What a long round lost it lost in a queue that stood all through it. Then what the link carried of
    /// ours is all that is ours, and to come down step by step would keep the queue full until everybody is
    /// there. One such round may be the moment in which CUBIC finds it full, unless the loss is heavy.
    fn obey_overload(&mut self, now: Instant) {
        let elapsed = now - self.round_started_at;
        if !self.has_standing_queue || elapsed < OVERLOAD_ROUND_MIN || !self.has(Mechanism::Carried) {
            return;
        }
        let mut round = Carried::new();
        round.on_round(&self.tally, elapsed);
        let is_certain = core::mem::replace(&mut self.was_overloaded, true) || round.has_heavy_loss();
        if let Some(rate) = round.mean(self.compensated(now)).filter(|_| is_certain) {
            self.model.lower(rate);
        }
    }

    /// The first round's ACKs are of packets sent before the probe; the second tells.
    fn judge_up(&mut self, now: Instant, up: Up, path: &PathView) {
        if self.troughs.is_open() {
            self.enter(Phase::cruise());
            return;
        }
        let rounds = up.rounds + 1;
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        if rounds < 2 {
            self.phase = Phase::Up(Up { rounds, ..up });
            return;
        }
        // What was sent faster arrived without a queue: congestion's bound was too low.
        self.bound_bytes = None;
        let has_grown = up.has_grown_to(rate) && self.tally.is_window_limited;
        // A link with more to give has no queue; what grows in spite of one is taken from others. At a
        // policer it is, or was saved up.
        let is_taken =
            self.has_queue(self.tally.rtt_min) || self.is_queue_hidden(now) || self.policer.is_known();
        self.schedule.has_found_more |= has_grown && !is_taken;
        // Nor has it anything that waits, though what looks like the shortest round trip hold a queue.
        let is_free = !is_taken && (self.is_round_free() || self.unmoved.is_known());
        if !has_grown || rounds >= TAKING_ROUNDS_MAX {
            self.is_at_limit = true;
            // The round sees the queue that the probe's first round made grow from nothing: half of it in the
            // mean.
            let base = up.rtt.max(self.model.empty_rtt().unwrap_or_default());
            if self.tally.rtt_mean().is_some_and(|rtt| rtt > base.saturating_add(self.queue_slack() / 2)) {
                self.on_alone(now);
            }
            self.end_probe(up);
        } else if rounds >= UP_ROUNDS_MAX && is_free {
            // Far below the rate still: start-up ended too early, or the path became faster.
            self.restart(path);
        } else {
            self.phase = Phase::Up(Up { rounds, rate, ..up });
        }
    }

    /// Doubling again, from the rate at hand.
    fn restart(&mut self, path: &PathView) {
        self.model.next_cycle();
        self.enter(Phase::startup(self.tally.delivery_rate, Early::again(path)));
    }

    /// A probe ends at once when it meets a queue or loss.
    pub(super) fn watch_probe(&mut self, now: Instant, path: &PathView) {
        let Phase::Up(up) = self.phase else { return };
        if up.rounds == 0 {
            return;
        }
        // A queue that was there before is not ours; one that grows is.
        let base = up.rtt.max(self.model.empty_rtt().unwrap_or_default());
        let slack = if up.gain < UP_GAIN { self.standing_slack() } else { self.queue_slack() };
        let has_queue = self.tells_of_queue() && self.tally.rtt_min > base.saturating_add(slack);
        let is_congested = self.is_congested(path);
        if is_congested {
            self.bound(now, path);
        }
        if has_queue || is_congested {
            let rate = self.model.rate().unwrap_or(Rate::ZERO);
            self.is_at_limit |= !up.has_grown_to(rate);
            if has_queue {
                self.on_alone(now);
            }
            self.end_probe(up);
        }
    }

    /// Flows that share a queue look for the shortest RTT in the same moments, and so drain it together.
    pub(super) fn is_rtt_probe_due(&self, now: Instant) -> bool {
        let age = if self.is_beside_bbr(now) {
            STUBBORN_RTT_PROBE_AGE
        } else if self.drains.are_common(now) {
            KIN_RTT_PROBE_AGE
        } else {
            RTT_PROBE_AGE
        };
        probe_times::has_come(self.round_started_at, now, probe_times::PERIOD)
            && !self.schedule.was_rtt_probed(now, age)
            && self.has(Mechanism::RttProbe)
            && self.model.is_rtt_min_older_than(now, age)
    }

    /// Sends slower, to see the queue gone and the shortest RTT.
    pub(super) fn enter_drain(&mut self, now: Instant, kind: Slow) {
        self.schedule.rtt_probed_at = Some(now);
        if self.tally.rtt_samples > 0 {
            self.drains.open(now, self.round, kind == Slow::Together);
        }
        self.enter(Phase::slow(kind));
    }
}
