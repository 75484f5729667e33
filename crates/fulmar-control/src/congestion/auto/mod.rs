//! `auto`, the default controller: model-based, tolerant of random loss, obedient to congestion.
//!
//! It decides pace and window from a model of the path (`model`: the bottleneck's rate on the wire and the
//! shortest round trip), from the random loss (`random_loss`: the loss that does not depend on our rate) and
//! from signs of congestion: loss above the random loss, ECN marks, a growing RTT. It paces at the link's
//! rate C and so delivers C (1 - p), where BBR delivers C (1 - p)^2 and falls off a cliff at p = 20 %.
//!
//! Sources: BBRv3 (draft-ietf-ccwg-bbr) for the phases, the gains and the bounds; RFC 9002 for persistent
//! loss. It differs in what counts as capacity (see `model`), in obeying loss relative to the random loss
//! rather than to a fixed 2 %, in cruising just below the rate, so that most rounds find the queue empty and
//! measure the random loss, and in draining a little deeper for the shortest RTT rather than stopping.
//!
//! Phases change at the ends of packet-timed rounds, so that a round's losses can be told by the pace at
//! which its packets were sent; signs of congestion end a probe at once.
//!
//! Invariants: the window is at least [`WINDOW_PACKETS_MIN`] packets; the pace is positive; loss compensation
//! is bounded by the random loss, which is measured below the rate it compensates and only while our probes
//! move the path; a black-out changes neither model nor random loss.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::{Company, CongestionController, Cubic, CubicConfig, SendBudget};
use crate::{Feedback, PathView};

mod ablation;
mod aggregation;
mod backlog;
mod belief;
mod beside_bbr;
mod carried;
mod competitive;
mod crowd;
mod cusum;
mod drains;
mod early;
mod evidence;
mod fill;
mod flights;
mod insistent;
mod jitter;
mod model;
mod moves;
mod phase;
mod policer;
mod probe_times;
mod probing;
mod pulses;
mod random_loss;
mod restless;
mod rival;
mod schedule;
mod spread;
mod startup;
mod still;
mod streak;
mod tally;
mod trains;
mod trough;
mod unmoved;

pub use ablation::Mechanism;

use aggregation::Aggregation;
use backlog::Backlog;
use carried::Carried;
use crowd::Crowd;
use cusum::Cusum;
use drains::Drains;
use early::{EARLY_PACKETS, Early, INITIAL_PACKETS, Sought};
use insistent::Insistent;
use jitter::Jitter;
use model::Model;
use phase::{Phase, Slow, UP_GAIN};
use policer::Policer;
use pulses::Pulses;
use random_loss::RandomLoss;
use schedule::Schedule;
use spread::Spread;
use startup::{JUMP_RTT_MIN, LONG_QUEUE, STARTUP_GAIN, Startup};
use streak::Streak;
use tally::Tally;
use trough::Troughs;
use unmoved::Unmoved;

/// Smallest window: enough for a loss to be found by later packets.
const WINDOW_PACKETS_MIN: u64 = 4;
/// Window as a multiple of the bandwidth-delay product (BBR's cwnd_gain): room for delayed and aggregated
/// ACKs.
const WINDOW_GAIN: f64 = 2.0;
/// What is ours of a queue that is not all our own, as a part of the bandwidth-delay product; but no more
/// than the shortest queue that we see, or of a common one they would have the more whose round trips are the
/// longer.
const SHARED_QUEUE: f64 = 0.05;
/// Bytes in flight, as a multiple of that product, for a probe in such a queue: enough to find the rate again
/// at a round trip a third longer than the shortest, or the rate would spiral down where the delay is not a
/// queue but jitter.
const SHARED_PROBE_GAIN: f64 = 1.5;
/// Window during a jump, as a multiple of what the train promises: the loss it did not see, and a little.
const JUMP_WINDOW_GAIN: f64 = 1.25;

/// Evidence about the path, and when it was found.
#[derive(Copy, Clone, Debug)]
struct Found {
    at: Instant,
    round: u64,
    rtt_min: Duration,
}

/// The default controller.
#[derive(Clone, Debug)]
pub struct Auto {
    mtu_bytes: u32,
    /// Left out.
    without: Option<Mechanism>,
    model: Model,
    jitter: Jitter,
    /// Rounds whose round trips were too restless for a full queue.
    restless: Streak,
    random_loss: RandomLoss,
    tally: Tally,
    round: u64,
    round_started_at: Instant,
    phase: Phase,
    schedule: Schedule,
    /// Highest gain in force while the packets now being acknowledged were sent.
    sent_gain: f64,
    /// Highest gain in force in the present round.
    round_gain: f64,
    /// When, in which round and above what shortest round trip our probing last moved the path.
    alone: Option<Found>,
    /// A probe has found that there is no more to be had.
    is_at_limit: bool,
    /// When congestion was last obeyed.
    congested_at: Option<Instant>,
    aggregation: Aggregation,
    carried: Carried,
    backlog: Backlog,
    policer: Policer,
    drains: Drains,
    unmoved: Unmoved,
    /// When the queue was last drained to see whose it is.
    tested_round: Option<u64>,
    /// Losses beyond the random loss while we compete.
    excess: Cusum,
    insistent: Option<Insistent>,
    troughs: Troughs,
    pulses: Pulses,
    crowd: Crowd,
    spread: Spread,
    /// The last round of cruising met nothing.
    is_flat: bool,
    /// The last round that might have taught the random loss found no queue: the first that finds none may
    /// tell of losses in one.
    was_drained: bool,
    /// A queue stood through the last round although we sent no faster than the rate.
    has_standing_queue: bool,
    /// A long round of cruising met an overload, and none since then was free of congestion.
    was_overloaded: bool,
    /// Most bytes in flight that congestion allows (BBRv3's inflight_hi); `None` if it never spoke.
    bound_bytes: Option<u64>,
    window_bytes: u64,
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
            without: None,
            model: Model::new(),
            jitter: Jitter::new(),
            restless: Streak::default(),
            random_loss: RandomLoss::new(),
            tally: Tally::new(),
            round: 0,
            round_started_at: Instant::ZERO,
            phase: Phase::startup(Rate::ZERO, Early::new()),
            schedule: Schedule::new(),
            sent_gain: STARTUP_GAIN,
            round_gain: STARTUP_GAIN,
            alone: None,
            is_at_limit: false,
            congested_at: None,
            aggregation: Aggregation::default(),
            carried: Carried::new(),
            backlog: Backlog::default(),
            policer: Policer::default(),
            drains: Drains::new(),
            unmoved: Unmoved::default(),
            tested_round: None,
            excess: Cusum::default(),
            insistent: None,
            troughs: Troughs::new(),
            pulses: Pulses::default(),
            crowd: Crowd::default(),
            spread: Spread::new(),
            is_flat: false,
            was_drained: false,
            has_standing_queue: false,
            was_overloaded: false,
            bound_bytes: None,
            window_bytes: INITIAL_PACKETS * u64::from(mtu_bytes),
            timeouts: 0,
            blackout_round: None,
        }
    }

    /// The same without a mechanism, for ablations.
    #[must_use]
    pub fn without(self, without: Option<Mechanism>) -> Self {
        Self { without, ..self }
    }

    fn has(&self, mechanism: Mechanism) -> bool {
        self.without != Some(mechanism)
    }

    /// The loss rate held for random, 0 to 0.5, for statistics.
    pub fn random_loss(&self) -> f64 {
        self.random_loss.rate()
    }

    /// Pace as a multiple of the link's rate.
    fn gain(&self) -> f64 {
        match &self.phase {
            Phase::Startup(startup) if startup.is_nearly_full() => UP_GAIN,
            phase => phase.gain(),
        }
    }

    fn set_window(&mut self, acked_bytes: u64) {
        let min_bytes = WINDOW_PACKETS_MIN * u64::from(self.mtu_bytes);
        let window_bytes = match (self.model.bdp_bytes(), &self.phase) {
            (None, _) => self.window_bytes.saturating_add(acked_bytes),
            (Some(_), Phase::Compete(rival)) => rival.budget().window_bytes,
            (Some(_), Phase::Startup(startup)) if startup.jump_rate().is_some() => self.jump_window(startup),
            (Some(bdp_bytes), _) => self.window_for(bdp_bytes).min(self.bound_bytes.unwrap_or(u64::MAX)),
        };
        self.window_bytes = window_bytes.max(min_bytes);
    }

    /// What fills the path at the rate of a jump: its packets are still to tell whether it was right.
    fn jump_window(&self, startup: &Startup) -> u64 {
        let rate = startup.jump_rate().unwrap_or(Rate::ZERO).scaled(JUMP_WINDOW_GAIN);
        let bdp_bytes = self.model.rtt_min().map_or(0, |rtt| rate.bytes_in(rtt + self.bunch_gap()));
        bdp_bytes.saturating_add(2 * self.burst_bytes())
    }

    /// The window for a bandwidth-delay product, congestion aside.
    fn window_for(&self, bdp_bytes: u64) -> u64 {
        let packet = u64::from(self.mtu_bytes);
        let gain = match &self.phase {
            Phase::Startup(startup) if startup.is_nearly_full() => SHARED_PROBE_GAIN,
            Phase::Startup(_) if bdp_bytes < EARLY_PACKETS * packet => STARTUP_GAIN,
            Phase::Up(_) if self.has_standing_queue => SHARED_PROBE_GAIN,
            Phase::Slow { kind: Slow::Drain, .. } => WINDOW_GAIN,
            Phase::Cruise { .. } | Phase::Slow { .. } if self.has_standing_queue => self.shared_window_gain(),
            _ => WINDOW_GAIN,
        };
        // A round of doubling is as long as its round trips are.
        let usual_bytes = self.model.rate().map_or(0, |rate| rate.bytes_in(self.usual_rtt()));
        let filling_bytes = bdp_bytes.max(usual_bytes);
        let window_bytes = ((filling_bytes as f64 * gain) as u64)
            .saturating_add(self.held_bytes())
            .saturating_add(2 * self.burst_bytes());
        match &self.phase {
            Phase::Startup(startup) => startup.early.window(window_bytes).max(INITIAL_PACKETS * packet),
            _ => window_bytes,
        }
    }

    /// How long round trips usually are in start-up, where jitter makes them longer than the shortest, but no
    /// longer than what would be a queue for certain; zero otherwise.
    fn usual_rtt(&self) -> Duration {
        let rtt_max = self.model.rtt_min().unwrap_or_default().mul_f64(LONG_QUEUE);
        match &self.phase {
            Phase::Startup(startup) => startup.usual_rtt().min(rtt_max),
            _ => Duration::ZERO,
        }
    }

    /// Bytes in flight beside the bandwidth-delay product, though no queue stands. Bunched ACKs: as much as
    /// arrives between them (BBR: extra_acked). Jitter: as much as the path holds of what it delays.
    fn held_bytes(&self) -> u64 {
        let held = self.bunch_gap().max(self.spread());
        self.model.rate().map_or(0, |rate| rate.bytes_in(held))
    }

    /// Bytes in flight that fill the path: less would be less than its rate.
    fn path_bytes(&self) -> u64 {
        self.model.bdp_bytes().unwrap_or(0).saturating_add(self.held_bytes())
    }

    /// Bytes in flight, as a multiple of the bandwidth-delay product, while a queue stands that is not all
    /// our own.
    fn shared_window_gain(&self) -> f64 {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        let seen = self.standing_slack().as_secs_f64() / rtt_min.as_secs_f64().max(f64::MIN_POSITIVE);
        1.0 + SHARED_QUEUE.min(seen)
    }

    /// The first flights grow.
    fn watch_early(&mut self, feedback: &Feedback, rtt: Duration, path: &PathView) {
        let has_queue = self.has_queue(rtt);
        let sought = match self.is_looking_for_trains() {
            false => Sought::Nothing,
            true if self.has(Mechanism::Flights) => Sought::Flight,
            true => Sought::Train,
        };
        if let Phase::Startup(startup) = &mut self.phase {
            let bdp_bytes = self.model.bdp_bytes().unwrap_or(0);
            startup.early.on_ack(feedback, rtt, sought, (has_queue, bdp_bytes), path);
        }
    }

    /// Start-up where round trips are so long that it matters.
    fn is_long_startup(&self) -> bool {
        self.phase.is_startup() && self.model.rtt_min().is_some_and(|rtt| rtt >= JUMP_RTT_MIN)
    }

    /// A train would tell the rate of a long path, and jitter does not look like one.
    fn may_meet_trains(&self) -> bool {
        self.is_long_startup() && self.has(Mechanism::Trains) && !self.model.is_jittered()
    }

    /// None has told it yet.
    fn is_looking_for_trains(&self) -> bool {
        let Phase::Startup(startup) = &self.phase else { return false };
        self.may_meet_trains() && startup.jump_rate().is_none()
    }

    fn watch_trains(&mut self, feedback: &Feedback) {
        let (rate, slack) = (self.model.rate().unwrap_or(Rate::ZERO), self.queue_slack());
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        let with_flights = self.has(Mechanism::Flights);
        if let Phase::Startup(startup) = &mut self.phase {
            startup.watch_trains(feedback, rate, rtt_min, slack, with_flights);
        }
    }

    /// A millisecond's worth, so that a coarse timer can keep the pace, within a few packets and a few GSO
    /// batches.
    fn burst_bytes(&self) -> u64 {
        let packet = u64::from(self.mtu_bytes);
        match self.model.rate().filter(|_| !self.is_looking_for_trains()) {
            None => INITIAL_PACKETS * packet,
            Some(rate) => rate.bytes_in(Duration::from_millis(1)).clamp(2 * packet, 256 * 1024),
        }
    }
}

impl CongestionController for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn on_flight_begun(&mut self) {
        self.aggregation.on_silence();
    }

    fn on_handshake_rtt(&mut self, path: &PathView) {
        if let Phase::Startup(startup) = &mut self.phase
            && self.model.rate().is_none()
        {
            startup.early.on_handshake_rtt(path);
            self.window_bytes = self.window_bytes.max(startup.early.window(0));
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.mtu_bytes = path.mtu_bytes;
        if let Some(rtt) = feedback.rtt {
            let of_path = rtt.saturating_sub(feedback.ack_delay);
            let is_shortest = self.model.rtt_min().is_none_or(|min| rtt <= min);
            if is_shortest || !self.backlog.has_waited(feedback) {
                self.on_rtt(feedback.now, rtt);
                self.model.on_packet_rtt(feedback.now, of_path, feedback.newest_acked_bytes, path.mtu_bytes);
            }
            self.watch_backlog(feedback, of_path, path);
            self.watch_early(feedback, of_path, path);
        }
        self.on_acks_after_blackout(feedback);
        self.watch_ack_gap(feedback);
        if let Some(sample) = feedback.rate_sample.map(|sample| self.backlog.limited(feedback.now, sample)) {
            let sample = &sample;
            let random_loss = self.compensated(feedback.now);
            let link_rate = if self.counts_rounds() {
                self.model.link_rate(sample, random_loss)
            } else {
                self.model.on_rate(sample, random_loss)
            };
            if let Some(link_rate) = link_rate {
                self.tally.add_link_rate(feedback.now, link_rate);
                if !sample.is_app_limited {
                    self.tally.delivery_rate = self.tally.delivery_rate.max(sample.rate);
                }
            }
        }
        if self.may_meet_trains() {
            self.watch_trains(feedback);
        }
        self.tally.add(feedback, self.model.rtt_min().unwrap_or_default());
        self.on_rival_feedback(feedback, path);
        self.watch_probe(feedback.now, path);
        self.watch_brief(feedback.now, path);
        self.watch_fill(path);
        if feedback.round != self.round {
            self.round = feedback.round;
            self.end_round(feedback.now, path);
        }
        self.set_window(feedback.acked_bytes);
    }

    fn on_timeout(&mut self, _now: Instant, count: u32, _path: &PathView) {
        // Silence longer than a round trip is no loss rate: keep the model, send little, and go on when it
        // ends.
        self.timeouts = count;
        self.tally.is_blackout = true;
    }

    fn on_path_change(&mut self, _now: Instant, path: &PathView) {
        *self = Self::new(path.mtu_bytes).without(self.without);
    }

    fn budget(&self) -> SendBudget {
        let packet = u64::from(self.mtu_bytes);
        let window_bytes = if self.timeouts >= 2 { WINDOW_PACKETS_MIN * packet } else { self.window_bytes };
        let pace = |rate: Rate| rate.scaled(self.gain()).max(Rate::from_bytes_per_second(packet));
        let pacing = match (self.model.rate(), &self.phase) {
            (None, Phase::Startup(startup)) => startup.early.first_pacing(self.mtu_bytes),
            (None, _) => None,
            (Some(rate), Phase::Startup(startup)) => startup.pacing(pace(rate)),
            (Some(rate), Phase::Compete(rival)) => Some(rival.pace().unwrap_or(pace(rate))),
            (Some(rate), Phase::Fill(fill)) => Some(fill.pace(rate)),
            (Some(rate), _) => Some(pace(rate)),
        };
        SendBudget { window_bytes, pacing, burst_bytes: self.burst_bytes() }
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.model.rate()
    }

    fn phase(&self) -> &'static str {
        self.phase.name()
    }

    fn company(&self) -> Option<Company> {
        self.belief()
    }
}
