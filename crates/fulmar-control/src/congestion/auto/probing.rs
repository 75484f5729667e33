//! The probing cycle: what the round that just ended means for the phase.
//!
//! Source: BBRv3 (draft-ietf-ccwg-bbr 4.3), with phases that begin and end with rounds. Start-up doubles until the
//! delivery rate stops growing, Drain empties what it queued; then Cruise, Up (at least two rounds: the first round's
//! ACKs are of packets sent before it), Down (at least one whole round, so that loss at three quarters of the rate can
//! be compared) in turn.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::Auto;
use super::floor::Floor;
use super::phase::Phase;
use super::tally::Tally;
use crate::PathView;

/// Start-up is over when the delivery rate did not grow by this factor (BBR: 1.25) ..
const FULL_GROWTH: f64 = 1.25;
/// .. for so many rounds, or for fewer if there is a queue. Once there is a queue the pace is that of a probe: if it was
/// only noise the rate grows on, if not the queue grows little.
const FULL_ROUNDS: u32 = 3;
const FULL_ROUNDS_QUEUE: u32 = 2;
/// A queue that stretches every round trip by this factor leaves no doubt.
const LONG_QUEUE: f64 = 1.5;
/// A round that lost more than this share did not grow because of a burst; a few of them are passed over.
const BURST_SHARE: f64 = 0.3;
const SKIPPED_ROUNDS_MAX: u32 = 3;
/// Rounds of fewer packets say nothing about it.
const STARTUP_PACKETS_MIN: u32 = 8;
/// Rounds of cruising between probes, before variation: with two up and one or two down, a cycle of about ten.
const CRUISE_ROUNDS: u64 = 6;
/// After congestion the next probe waits as long as Reno would take to win back what it gave up: a packet per round,
/// so as many rounds as the window has packets (BBRv3: at most 63, and 2 to 3 seconds).
const LONG_CRUISE_ROUNDS_MAX: u64 = 63;
const LONG_CRUISE_MAX: Duration = Duration::from_millis(2500);
/// A floor above this is compared with a slow round at least every so many rounds.
const FLOOR_CHECKED: f64 = 0.02;
const FLOOR_CHECK_ROUNDS: u64 = 10;
/// Most rounds of draining: a queue that does not drain is somebody else's.
const DOWN_ROUNDS_MAX: u32 = 3;
/// A probe that finds this much more goes on.
const UP_GROWTH: f64 = 1.05;
/// After so many rounds of growth without a queue doubling is quicker.
const UP_ROUNDS_MAX: u32 = 4;
/// The shortest RTT is looked for when not seen for this long; half of the window in which it stays valid.
const RTT_PROBE_AGE: Duration = Duration::from_secs(5);

impl Auto {
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_rounds = 0;
        self.round_gain = self.round_gain.max(phase.gain());
    }

    pub(super) fn end_round(&mut self, now: Instant, path: &PathView) {
        let finished_gain = self.round_gain;
        let was_wrong = self.learn_floor(now, path);
        self.watch_queue();
        self.watch_probe_loss(now, path);
        match self.phase {
            Phase::Startup => self.judge_startup(now, path),
            _ if was_wrong => self.enter(Phase::Down),
            Phase::Drain | Phase::Down | Phase::DeepDown => self.judge_down(now, path),
            Phase::Cruise => self.judge_cruise(now, path),
            Phase::Up => self.judge_up(now),
            Phase::Compete => self.judge_compete(now),
        }
        self.sent_gain = finished_gain;
        self.round_gain = self.phase.gain();
        self.tally = Tally::new();
        self.round_started_at = now;
        self.ack_gap /= 2;
    }

    /// The pipe is full when the delivery rate stops growing: loss alone, which may be random, proves nothing.
    pub(super) fn judge_startup(&mut self, now: Instant, path: &PathView) {
        // Too few packets measure nothing but their own loss.
        let is_measured =
            self.tally.delivery_rate > Rate::ZERO && self.tally.packets() >= STARTUP_PACKETS_MIN;
        if !is_measured || self.tally.is_blackout {
            return;
        }
        if self.tally.delivery_rate >= self.full_rate.scaled(FULL_GROWTH) {
            self.full_rate = self.tally.delivery_rate;
            self.full_rounds = 0;
            self.is_nearly_full = false;
            self.learn_startup_floor(now, path);
            return;
        }
        let has_queue = self.tally.rtt_samples > 0 && self.has_queue(self.tally.rtt_min);
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        let has_long_queue =
            has_queue && self.tally.rtt_min > rtt_min.mul_f64(LONG_QUEUE) + self.queue_slack();
        if self.tally.is_app_limited && !has_long_queue {
            return;
        }
        let is_burst = f64::from(self.tally.lost_packets) > BURST_SHARE * f64::from(self.tally.packets());
        if is_burst && !has_queue && self.skipped_rounds < SKIPPED_ROUNDS_MAX {
            self.skipped_rounds += 1;
            return;
        }
        self.full_rounds += 1;
        self.is_nearly_full = has_queue;
        let is_full = has_long_queue || (has_queue && self.full_rounds >= FULL_ROUNDS_QUEUE);
        if is_full || self.full_rounds >= FULL_ROUNDS {
            if has_queue {
                self.on_alone(now);
            } else {
                self.model.rescale(1.0 - self.floor.rate());
                self.floor = Floor::new();
            }
            self.enter(Phase::Drain);
        }
    }

    pub(super) fn judge_down(&mut self, now: Instant, path: &PathView) {
        self.slow_round = self.round;
        if self.round_gain > self.phase.gain() {
            // Entered in the middle of a round: one whole slow round is needed to compare loss.
            return;
        }
        self.phase_rounds += 1;
        let target = self.model.bdp_bytes().unwrap_or(0) as f64 * self.phase.drain_target();
        if path.in_flight_bytes as f64 <= target || self.phase_rounds >= DOWN_ROUNDS_MAX {
            if self.probe_round < self.round {
                self.model.next_cycle();
                self.schedule_probe(now, path);
            }
            self.enter(Phase::Cruise);
        }
    }

    /// Sets when the next probe is due.
    pub(super) fn schedule_probe(&mut self, now: Instant, path: &PathView) {
        // Neighbours that started together must not probe together: a number that differs between flows.
        let variation = (self.round ^ path.rtt_latest.as_nanos() as u64) % 4;
        let window_packets = self.window_bytes / u64::from(self.mtu_bytes.max(1));
        let rounds = if self.was_congested_lately(now) && self.alone_at.is_some() {
            window_packets.clamp(CRUISE_ROUNDS, LONG_CRUISE_ROUNDS_MAX)
        } else {
            CRUISE_ROUNDS
        };
        self.probe_round = self.round + rounds + variation;
        self.probe_at = now + LONG_CRUISE_MAX;
    }

    pub(super) fn judge_cruise(&mut self, now: Instant, path: &PathView) {
        let has_queue = self.tally.rtt_mean().is_some_and(|rtt| self.has_queue(rtt));
        // Loss in excess without a queue and without sending faster is no congestion: the path changed, or it was chance.
        if self.sent_gain <= 1.0 && self.is_congested(path) && (has_queue || self.tally.marked_packets > 0) {
            self.on_congestion(now, path);
        }
        if !self.tally.is_window_limited {
            return;
        }
        let is_probe_due = self.round >= self.probe_round || now >= self.probe_at;
        // Compensation is earned anew: from time to time a slow round shows whether the loss is still random.
        let is_check_due = self.floor.rate() > FLOOR_CHECKED
            && self.round.saturating_sub(self.slow_round) > FLOOR_CHECK_ROUNDS;
        if self.is_in_company() {
            self.enter_compete(path);
        } else if self.is_rtt_probe_due(now) {
            self.enter_rtt_probe(now);
        } else if is_probe_due {
            self.probe_round = self.round;
            self.model.unbound_rate();
            self.up_rate = self.model.rate().unwrap_or(Rate::ZERO);
            self.up_rtt = self.tally.rtt_min;
            self.enter(Phase::Up);
        } else if is_check_due {
            self.enter(Phase::Down);
        }
    }

    /// The first round's ACKs are of packets sent before the probe; the second tells.
    pub(super) fn judge_up(&mut self, now: Instant) {
        self.phase_rounds += 1;
        if self.phase_rounds < 2 {
            return;
        }
        // What was sent faster arrived without a queue: congestion's bound was too low.
        self.bound_bytes = None;
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        let has_grown = rate >= self.up_rate.scaled(UP_GROWTH) && self.tally.is_window_limited;
        self.up_rate = rate;
        if has_grown && self.phase_rounds >= UP_ROUNDS_MAX {
            // Far below the rate still: start-up ended too early, or the path became faster.
            self.restart();
        } else if !has_grown {
            self.on_alone(now);
            self.enter(Phase::Down);
        }
    }

    /// Doubling again, from the rate at hand.
    fn restart(&mut self) {
        self.full_rate = self.tally.delivery_rate;
        self.full_rounds = 0;
        self.is_nearly_full = false;
        self.startup_round = None;
        self.model.next_cycle();
        self.enter(Phase::Startup);
    }

    /// A probe ends at once when it meets a queue or loss.
    pub(super) fn watch_probe(&mut self, now: Instant, path: &PathView) {
        if self.phase != Phase::Up || self.phase_rounds == 0 {
            return;
        }
        // A queue that was there before is not ours; one that grows is.
        let base = self.up_rtt.max(self.model.rtt_min().unwrap_or_default());
        let has_queue =
            self.tally.rtt_samples >= 4 && self.tally.rtt_min > base.saturating_add(self.queue_slack());
        let is_congested = self.is_congested(path);
        if is_congested {
            self.bound(now, path);
        }
        if has_queue || is_congested {
            let rate = self.model.rate().unwrap_or(Rate::ZERO);
            if has_queue || rate < self.up_rate.scaled(UP_GROWTH) {
                self.on_alone(now);
            }
            self.enter(Phase::Down);
        }
    }

    /// Flows that share a queue see the same shortest RTT at the same time, and so come to drain it together.
    pub(super) fn is_rtt_probe_due(&self, now: Instant) -> bool {
        let was_probed = self.rtt_probed_at.is_some_and(|at| now - at < RTT_PROBE_AGE);
        !was_probed && self.model.is_rtt_min_older_than(now, RTT_PROBE_AGE)
    }

    pub(super) fn enter_rtt_probe(&mut self, now: Instant) {
        self.rtt_probed_at = Some(now);
        self.enter(Phase::DeepDown);
    }
}
