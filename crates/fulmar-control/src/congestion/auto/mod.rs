//! `auto`, the default controller: model-based, tolerant of random loss, obedient to congestion.
//!
//! It decides pace and window from a model of the path (`model`: the bottleneck's rate on the wire and the shortest
//! round trip), from the loss floor (`floor`: the loss that does not depend on our rate) and from signs of congestion:
//! loss above the floor, ECN marks, a growing RTT. It paces at the link's rate C and so delivers C (1 - p), where BBR
//! delivers C (1 - p)^2 and falls off a cliff at p = 20 %.
//!
//! Sources: BBRv3 (draft-ietf-ccwg-bbr) for the phases, the gains and the bounds; RFC 9002 for persistent loss. It
//! differs in what counts as capacity (see `model`), in obeying loss relative to the floor rather than to a fixed 2 %,
//! in cruising just below the rate, so that most rounds find the queue empty and measure the floor, and in
//! looking for the shortest RTT by draining a little deeper rather than by stopping.
//!
//! Phases change at the ends of packet-timed rounds, so that a round's losses can be told by the pace at which its
//! packets were sent; signs of congestion end a probe at once.
//!
//! Invariants: the window is at least [`WINDOW_PACKETS_MIN`] packets; the pace is positive; loss compensation is
//! bounded by the floor, which is measured below the rate it compensates; a black-out changes neither model nor floor.

use core::time::Duration;

use super::{CongestionController, Cubic, CubicConfig, SendBudget};
use crate::{Feedback, Instant, LossEvent, PathView, Rate, Sent};

mod floor;
mod model;
mod phase;
mod tally;

use floor::Floor;
use model::Model;
use phase::Phase;
use tally::Tally;

/// Window before anything is known (RFC 6928).
const INITIAL_PACKETS: u64 = 10;
/// Smallest window: enough for a loss to be found by later packets.
const WINDOW_PACKETS_MIN: u64 = 4;
/// Window as a multiple of the bandwidth-delay product (BBR's cwnd_gain): room for delayed and aggregated ACKs.
const WINDOW_GAIN: f64 = 2.0;
/// Start-up is over when the delivery rate did not grow by this factor (BBR: 1.25) ..
const FULL_GROWTH: f64 = 1.25;
/// .. for so many rounds, or for one if a queue has formed.
const FULL_ROUNDS: u32 = 3;
/// Rounds of fewer packets say nothing about it.
const STARTUP_PACKETS_MIN: u32 = 8;
/// Rounds of cruising between probes, before variation: with two up and one or two down, a cycle of about ten.
const CRUISE_ROUNDS: u64 = 6;
/// Most rounds of draining: a queue that does not drain is somebody else's.
const DOWN_ROUNDS_MAX: u32 = 3;
/// A probe that finds this much more goes on.
const UP_GROWTH: f64 = 1.1;
/// The shortest RTT is looked for when not seen for this long; half of the window in which it stays valid.
const RTT_PROBE_AGE: Duration = Duration::from_secs(5);
/// Losses beyond the floor's explanation: standard deviations ..
const EXCESS_SIGMAS: f64 = 2.5;
/// .. and a share of the packets on top (BBRv2: 2 %).
const EXCESS_SHARE: f64 = 0.02;
/// What is left of the bound on bytes in flight after congestion (BBRv2: beta 0.7; milder, because the floor tells
/// congestion from noise).
const CONGESTION_FACTOR: f64 = 0.85;

/// Bytes in flight, as a multiple of the bandwidth-delay product, while a queue stands that is not all our own.
const SHARED_WINDOW_GAIN: f64 = 1.05;
/// After congestion the next probe waits as long as Reno would take to win back what it gave up: a packet per round,
/// so as many rounds as the window has packets (BBRv3: at most 63, and 2 to 3 seconds).
const LONG_CRUISE_ROUNDS_MAX: u64 = 63;
const LONG_CRUISE_MAX: Duration = Duration::from_millis(2500);
/// A floor above this is compared with a slow round at least every so many rounds.
const FLOOR_CHECKED: f64 = 0.02;
const FLOOR_CHECK_ROUNDS: u64 = 10;
/// Congestion is remembered for so long.
const CONGESTION_MEMORY: Duration = Duration::from_secs(10);
/// A queue longer than this share of the shortest round trip, through so many rounds of cruising ..
const FOREIGN_QUEUE: f64 = 0.35;
/// .. belongs to a flow that fills queues.
const FOREIGN_ROUNDS: u32 = 4;
/// Losses beyond the floor's explanation that a competing window obeys, in standard deviations.
const COMPETE_SIGMAS: f64 = 1.5;

/// The default controller.
#[derive(Clone, Debug)]
pub struct Auto {
    mtu_bytes: u32,
    model: Model,
    floor: Floor,
    tally: Tally,
    round: u64,
    round_started_at: Instant,
    phase: Phase,
    /// Whole rounds spent in the phase.
    phase_rounds: u32,
    /// The next probe is due in this round ..
    probe_round: u64,
    /// .. or at this time.
    probe_at: Instant,
    /// The last round of a slow phase.
    slow_round: u64,
    /// Highest gain in force while the packets now being acknowledged were sent.
    sent_gain: f64,
    /// Highest gain in force in the present round.
    round_gain: f64,
    /// Largest delivery rate that start-up has seen grow, and rounds without growth.
    full_rate: Rate,
    full_rounds: u32,
    /// Packets and losses of the last round of start-up that still grew.
    startup_round: Option<(u32, u32)>,
    /// The link's rate, and the shortest RTT of the last round, when the present probe began.
    up_rate: Rate,
    up_rtt: Duration,
    /// When congestion was last obeyed.
    congested_at: Option<Instant>,
    rtt_probed_at: Option<Instant>,
    /// A queue stood through the last round although we sent no faster than the rate.
    has_standing_queue: bool,
    /// Rounds of cruising in a row that met somebody else's queue.
    foreign_rounds: u32,
    /// The window in [`Phase::Compete`].
    rival: Option<Cubic>,
    /// Most bytes in flight that congestion allows (BBRv3's inflight_hi); `None` if it never spoke.
    bound_bytes: Option<u64>,
    window_bytes: u64,
    /// The initial window per round trip: start-up is never slower, whatever its first samples say.
    initial_rate: Rate,
    /// Probe timeouts in a row.
    timeouts: u32,
    /// The last round that a black-out touches.
    blackout_round: Option<u64>,
}

impl Auto {
    /// A controller for a path of `mtu_bytes`.
    pub fn new(mtu_bytes: u32) -> Self {
        Self {
            mtu_bytes,
            model: Model::new(),
            floor: Floor::new(),
            tally: Tally::new(),
            round: 0,
            round_started_at: Instant::ZERO,
            phase: Phase::Startup,
            phase_rounds: 0,
            probe_round: 0,
            probe_at: Instant::ZERO,
            slow_round: 0,
            sent_gain: Phase::Startup.gain(),
            round_gain: Phase::Startup.gain(),
            full_rate: Rate::ZERO,
            full_rounds: 0,
            startup_round: None,
            up_rate: Rate::ZERO,
            up_rtt: Duration::MAX,
            congested_at: None,
            rtt_probed_at: None,
            has_standing_queue: false,
            foreign_rounds: 0,
            rival: None,
            bound_bytes: None,
            window_bytes: INITIAL_PACKETS * u64::from(mtu_bytes),
            initial_rate: Rate::ZERO,
            timeouts: 0,
            blackout_round: None,
        }
    }

    /// The loss rate held for random, 0 to 0.5, for statistics.
    pub fn loss_floor(&self) -> f64 {
        self.floor.rate()
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_rounds = 0;
        self.round_gain = self.round_gain.max(phase.gain());
    }

    /// How much longer than the shortest a round trip may be before we speak of a queue: an eighth, or a millisecond
    /// of the hosts' own noise.
    fn queue_slack(&self) -> Duration {
        (self.model.rtt_min().unwrap_or_default() / 8).max(Duration::from_millis(1))
    }

    fn has_queue(&self, rtt: Duration) -> bool {
        self.model.rtt_min().is_some_and(|min| rtt > min + self.queue_slack())
    }

    /// The round lost more than the floor explains, or packets were marked.
    fn is_congested(&self, path: &PathView) -> bool {
        let packets = self.tally.packets();
        let explained = self.floor.explained_packets(packets, &path.loss, EXCESS_SIGMAS);
        let tolerated = explained + EXCESS_SHARE * f64::from(packets) + 1.0;
        self.tally.marked_packets > 0
            || (f64::from(self.tally.lost_packets) > tolerated && !self.tally.is_blackout)
    }

    fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if self.model.rtt_min().is_some_and(|min| rtt + self.queue_slack() < min) {
            // What we took for the round trip held a queue, and the rounds we took for clean were not.
            self.model.rescale(1.0 - self.floor.rate());
            self.floor = Floor::new();
        }
        self.model.on_rtt(now, rtt);
    }

    fn was_congested_lately(&self, now: Instant) -> bool {
        self.congested_at.is_some_and(|at| now - at < CONGESTION_MEMORY)
    }

    fn end_round(&mut self, now: Instant, path: &PathView) {
        let finished_gain = self.round_gain;
        let was_wrong = self.learn_floor(now, path);
        self.watch_queue();
        match self.phase {
            Phase::Startup => self.judge_startup(now, path),
            _ if was_wrong => self.enter(Phase::Down),
            Phase::Drain | Phase::Down | Phase::DeepDown => self.judge_down(now, path),
            Phase::Cruise => self.judge_cruise(now, path),
            Phase::Up => self.judge_up(),
            Phase::Compete => self.judge_compete(now),
        }
        self.sent_gain = finished_gain;
        self.round_gain = self.phase.gain();
        self.tally = Tally::new();
        self.round_started_at = now;
    }

    /// True if the floor turned out to be of our own making: then it is compared once more, at the lower rate.
    fn learn_floor(&mut self, now: Instant, path: &PathView) -> bool {
        if self.tally.is_blackout || self.tally.marked_packets > 0 || self.phase == Phase::Startup {
            return false;
        }
        let (packets, lost_packets) = (self.tally.packets(), self.tally.lost_packets);
        let before = self.floor.rate();
        let is_slow = self.sent_gain <= Phase::Down.gain();
        let is_cut = is_slow && self.floor.on_slow_round(packets, lost_packets, &path.loss);
        let is_drained = self.tally.rtt_mean().is_some_and(|rtt| !self.has_queue(rtt));
        if is_cut {
            self.model.rescale((1.0 - before) / (1.0 - self.floor.rate()));
        } else if self.sent_gain <= 1.0 && is_drained {
            self.floor.on_clean_round(now, packets, lost_packets, &path.loss);
        } else {
            self.floor.on_unclean_round(now, now - self.round_started_at);
        }
        is_cut
    }

    /// A queue in a round that was sent no faster than the rate is not the work of our probing.
    fn watch_queue(&mut self) {
        if self.tally.rtt_samples == 0 || self.sent_gain > 1.0 {
            return;
        }
        let rtt = self.tally.rtt_min;
        self.has_standing_queue = self.has_queue(rtt);
        let min = self.model.rtt_min().unwrap_or(rtt);
        let is_long = rtt > min + self.queue_slack() && rtt > min.mul_f64(1.0 + FOREIGN_QUEUE);
        self.foreign_rounds =
            if is_long && self.phase == Phase::Cruise { self.foreign_rounds + 1 } else { 0 };
    }

    /// The pipe is full when the delivery rate stops growing: loss alone, which may be random, proves nothing.
    fn judge_startup(&mut self, now: Instant, path: &PathView) {
        // Too few packets measure nothing but their own loss.
        let is_measured =
            self.tally.delivery_rate > Rate::ZERO && self.tally.packets() >= STARTUP_PACKETS_MIN;
        if !is_measured || self.tally.is_blackout {
            return;
        }
        if self.tally.delivery_rate >= self.full_rate.scaled(FULL_GROWTH) {
            self.full_rate = self.tally.delivery_rate;
            self.full_rounds = 0;
            self.learn_startup_floor(now, path);
            return;
        }
        self.full_rounds += 1;
        let has_queue = self.tally.rtt_samples > 0 && self.has_queue(self.tally.rtt_min);
        if self.full_rounds >= FULL_ROUNDS || has_queue || (self.full_rounds >= 2 && self.is_congested(path))
        {
            self.enter(Phase::Drain);
        }
    }

    /// A round's loss was random if the round after it still delivered more: then the pipe was not full. The first
    /// round leaves unpaced, in a burst that may be more than the queue holds, and does not count.
    fn learn_startup_floor(&mut self, now: Instant, path: &PathView) {
        let is_drained = self.tally.rtt_mean().is_some_and(|rtt| !self.has_queue(rtt));
        let newest = (is_drained && self.round > 1).then(|| (self.tally.packets(), self.tally.lost_packets));
        if let Some((packets, lost_packets)) = self.startup_round.take() {
            self.floor.on_clean_round(now, packets, lost_packets, &path.loss);
        }
        self.startup_round = newest;
    }

    fn judge_down(&mut self, now: Instant, path: &PathView) {
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
    fn schedule_probe(&mut self, now: Instant, path: &PathView) {
        // Neighbours that started together must not probe together: a number that differs between flows.
        let variation = (self.round ^ path.rtt_latest.as_nanos() as u64) % 4;
        let window_packets = self.window_bytes / u64::from(self.mtu_bytes.max(1));
        let rounds = if self.was_congested_lately(now) {
            window_packets.clamp(CRUISE_ROUNDS, LONG_CRUISE_ROUNDS_MAX)
        } else {
            CRUISE_ROUNDS
        };
        self.probe_round = self.round + rounds + variation;
        self.probe_at = now + LONG_CRUISE_MAX;
    }

    fn judge_cruise(&mut self, now: Instant, path: &PathView) {
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
        if self.foreign_rounds >= FOREIGN_ROUNDS {
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
    fn judge_up(&mut self) {
        self.phase_rounds += 1;
        if self.phase_rounds < 2 {
            return;
        }
        // What was sent faster arrived without a queue: congestion's bound was too low.
        self.bound_bytes = None;
        let rate = self.model.rate().unwrap_or(Rate::ZERO);
        if rate >= self.up_rate.scaled(UP_GROWTH) && self.tally.is_window_limited {
            self.up_rate = rate;
        } else {
            self.enter(Phase::Down);
        }
    }

    fn enter_compete(&mut self, path: &PathView) {
        let window_bytes =
            path.in_flight_bytes.max(self.rival.as_ref().map_or(0, |rival| rival.budget().window_bytes));
        self.rival = Some(Cubic::at_window(self.mtu_bytes, CubicConfig::default(), window_bytes));
        self.model.unbound_rate();
        self.bound_bytes = None;
        self.enter(Phase::Compete);
    }

    /// Over when the queue is gone, or to see whether it would go if we let it.
    fn judge_compete(&mut self, now: Instant) {
        self.phase_rounds += 1;
        self.model.next_cycle();
        let is_gone = self.tally.rtt_samples > 0 && !self.has_queue(self.tally.rtt_min);
        if is_gone || self.is_rtt_probe_due(now) {
            self.enter_rtt_probe(now);
        }
    }

    /// Flows that share a queue see the same shortest RTT at the same time, and so come to drain it together.
    fn is_rtt_probe_due(&self, now: Instant) -> bool {
        let was_probed = self.rtt_probed_at.is_some_and(|at| now - at < RTT_PROBE_AGE);
        !was_probed && self.model.is_rtt_min_older_than(now, RTT_PROBE_AGE)
    }

    fn enter_rtt_probe(&mut self, now: Instant) {
        self.rtt_probed_at = Some(now);
        self.enter(Phase::DeepDown);
    }

    /// In company the window is CUBIC's, except that loss up to the floor is none.
    fn on_rival_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        if self.phase != Phase::Compete {
            return;
        }
        let packets = self.tally.packets();
        let explained = self.floor.explained_packets(packets, &path.loss, COMPETE_SIGMAS);
        let is_excess = f64::from(self.tally.lost_packets) > explained + 0.5 && !self.tally.is_blackout;
        let mut seen = feedback.clone();
        if !is_excess {
            seen.lost = LossEvent::default();
        }
        if seen.lost.packets > 0 || seen.ecn_ce_packets > 0 {
            self.congested_at = Some(feedback.now);
        }
        if let Some(rival) = &mut self.rival {
            rival.on_feedback(&seen, path);
        }
    }

    /// Loss above the floor or marks, at a pace that was not above the rate: less is ours than we thought.
    fn on_congestion(&mut self, now: Instant, path: &PathView) {
        let rate = self.model.rate().unwrap_or(self.tally.link_rate);
        // What the link did carry is ours (BBRv3: bw_lo).
        self.model.bound_rate(rate.scaled(CONGESTION_FACTOR).max(self.tally.link_rate.min(rate)));
        self.bound(now, path);
    }

    fn bound(&mut self, now: Instant, path: &PathView) {
        self.congested_at = Some(now);
        let in_flight = path.in_flight_bytes.min(self.window_bytes) as f64 * CONGESTION_FACTOR;
        let bdp = self.model.bdp_bytes().unwrap_or(0);
        self.bound_bytes = Some((in_flight as u64).max(bdp));
    }

    /// A probe ends at once when it meets a queue or loss.
    fn watch_probe(&mut self, now: Instant, path: &PathView) {
        if self.phase != Phase::Up || self.phase_rounds == 0 {
            return;
        }
        // A queue that was there before is not ours; one that grows is.
        let base = self.up_rtt.max(self.model.rtt_min().unwrap_or_default());
        let has_queue = self.tally.rtt_samples >= 4 && self.tally.rtt_min > base + self.queue_slack();
        let is_congested = self.is_congested(path);
        if is_congested {
            self.bound(now, path);
        }
        if has_queue || is_congested {
            self.enter(Phase::Down);
        }
    }

    fn on_acks_after_blackout(&mut self, feedback: &Feedback) {
        if self.timeouts > 0 && feedback.acked_packets > 0 {
            self.timeouts = 0;
            self.blackout_round = Some(feedback.round + 1);
        }
        self.tally.is_blackout |= self.blackout_round.is_some_and(|round| self.round <= round);
    }

    fn set_window(&mut self, acked_bytes: u64) {
        let min_bytes = WINDOW_PACKETS_MIN * u64::from(self.mtu_bytes);
        let initial_bytes = INITIAL_PACKETS * u64::from(self.mtu_bytes);
        self.window_bytes = match self.model.bdp_bytes() {
            None => self.window_bytes + acked_bytes,
            Some(bdp) => {
                let gain = match self.phase {
                    Phase::Up if self.has_standing_queue => Phase::Up.gain(),
                    Phase::Cruise | Phase::Down | Phase::DeepDown if self.has_standing_queue => {
                        SHARED_WINDOW_GAIN
                    }
                    _ => WINDOW_GAIN,
                };
                let window = (bdp as f64 * gain) as u64 + 2 * self.burst_bytes();
                let window = if self.phase == Phase::Startup { window.max(initial_bytes) } else { window };
                let window = window.min(self.bound_bytes.unwrap_or(u64::MAX));
                match &self.rival {
                    Some(rival) if self.phase == Phase::Compete => rival.budget().window_bytes,
                    _ => window,
                }
            }
        }
        .max(min_bytes);
    }

    /// A millisecond's worth, so that a coarse timer can keep the pace, within a few packets and a few GSO batches.
    fn burst_bytes(&self) -> u64 {
        let packet = u64::from(self.mtu_bytes);
        match self.model.rate() {
            None => INITIAL_PACKETS * packet,
            Some(rate) => rate.bytes_in(Duration::from_millis(1)).clamp(2 * packet, 256 * 1024),
        }
    }
}

impl CongestionController for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_sent(&mut self, _sent: &Sent, _path: &PathView) {}

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        if let Some(rtt) = feedback.rtt {
            self.on_rtt(feedback.now, rtt);
            let initial_bytes = INITIAL_PACKETS * u64::from(self.mtu_bytes);
            self.initial_rate = Rate::from_bytes_in(initial_bytes, path.rtt_smoothed).unwrap_or(Rate::ZERO);
        }
        self.on_acks_after_blackout(feedback);
        if let Some(sample) = &feedback.rate_sample {
            let link_rate = self.model.on_rate(sample, self.floor.rate());
            self.tally.link_rate = self.tally.link_rate.max(link_rate.unwrap_or(Rate::ZERO));
            if link_rate.is_some() && !sample.is_app_limited {
                self.tally.delivery_rate = self.tally.delivery_rate.max(sample.rate);
            }
        }
        self.tally.add(feedback);
        self.on_rival_feedback(feedback, path);
        self.watch_probe(feedback.now, path);
        if feedback.round != self.round {
            self.round = feedback.round;
            self.end_round(feedback.now, path);
        }
        self.set_window(feedback.acked_bytes);
    }

    fn on_timeout(&mut self, _now: Instant, count: u32, _path: &PathView) {
        // Silence longer than a round trip is no loss rate: keep the model, send little, and go on when it ends.
        self.timeouts = count;
        self.tally.is_blackout = true;
    }

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        *self = Self::new(path.mtu_bytes);
    }

    fn budget(&self) -> SendBudget {
        let packet = u64::from(self.mtu_bytes);
        let window_bytes = if self.timeouts >= 2 { WINDOW_PACKETS_MIN * packet } else { self.window_bytes };
        let pacing = self.model.rate().map(|rate| {
            let pace = rate.scaled(self.phase.gain()).max(Rate::from_bytes_per_second(packet));
            if self.phase == Phase::Startup { pace.max(self.initial_rate) } else { pace }
        });
        SendBudget { window_bytes, pacing, burst_bytes: self.burst_bytes() }
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.model.rate()
    }

    fn phase(&self) -> &'static str {
        self.phase.name()
    }
}
