//! What counts as evidence: a queue, congestion, loss that is not ours, a black-out.
//!
//! A queue is a round trip longer than that of the empty path by more than `queue_slack`; while we cruise, by
//! more than `standing_slack`, though only the former may be full. Congestion is loss beyond what the random
//! loss explains, or a mark. Both are judged over the round in progress, so that a handful of packets never
//! decides. Loss during a black-out is evidence of nothing.

use core::time::Duration;

use fulmar_units::Instant;

use super::carried::Carried;
use super::phase::{Phase, Slow};
use super::random_loss::RandomLoss;
use super::restless::is_restless;
use super::startup::{STARTUP_LOSS, STARTUP_LOSS_RESTLESS};
use super::{Auto, Found, Mechanism};
use crate::{Feedback, PathView};

/// Losses beyond the random loss's explanation: standard deviations ..
const EXCESS_SIGMAS: f64 = 2.5;
/// .. and a share of the packets on top (BBRv2: 2 %).
const EXCESS_SHARE: f64 = 0.02;
/// What is left of the bound on bytes in flight after congestion (BBRv2: beta 0.7; milder, because the random
/// loss tells congestion from noise).
const CONGESTION_FACTOR: f64 = 0.85;
/// Congestion is remembered for so long.
const CONGESTION_MEMORY: Duration = Duration::from_secs(10);
/// A queue longer than this share of the shortest round trip, although we cruise, is somebody else's. Two to
/// four flows of our own kind keep a third.
const FOREIGN_QUEUE: f64 = 0.5;
/// A probe that moved the path counts for so long, and for so many rounds.
const ALONE_MEMORY: Duration = Duration::from_secs(6);
const ALONE_ROUNDS: u64 = 40;
/// .. and as long as the shortest round trip is within this factor of what it was.
const SAME_RTT: f64 = 1.1;
/// The share of the random loss that the rate makes up for while nothing shows that it is the path's.
const TRUST: f64 = 0.6;
/// Of a random loss above this no more counts then: where so much is lost it is rather a crowd than the path.
const TRUSTED_MAX: f64 = 0.25;
/// A round of so many packets that lost this share more than the random loss, and more by so many standard
/// deviations, met an overload: it is remembered for as long as no probe shows the contrary, and there are
/// hundreds of rounds a second.
const OVERLOAD_PACKETS_MIN: u32 = 32;
const OVERLOAD_LOSS: f64 = 0.1;
const OVERLOAD_SIGMAS: f64 = 5.0;
/// Where round trips are steadier than this part of the shortest, a queue that stands is seen, however long
/// they are, if it is longer than so many packets: others may have round trips that it doubles.
const STEADY: u32 = 16;
const STEADY_PACKETS: u32 = 4;
/// What the hosts' own noise may add to a round trip.
pub(super) const HOST_NOISE: Duration = Duration::from_millis(1);
/// Round trips whose mean is nearer to the shortest than this part of it met no queue at all.
const FLAT: u32 = 512;
/// .. and so is a packet or two that left close together.
pub(super) const FLAT_MIN: Duration = Duration::from_micros(100);
/// Where the path itself is less steady than that, half of its spread, or where it is slow what this part of
/// a packet takes, by which an ACK of many ranges is longer: up to this part.
const FLAT_JITTER: u32 = 160;
const FLAT_PACKET: u64 = 16;
/// The most of a random loss that counts in start-up.
const STARTUP_RANDOM_LOSS_MAX: f64 = 0.05;
/// Packets in flight from which on a gap between ACKs means that they come aggregated.
const BUNCH_PACKETS_MIN: u64 = 16;
/// A probe that made no queue made round trips longer by less than so many packets take, and than this part
/// of the shortest.
const POLICED_PACKETS: u64 = 4;
const POLICED_QUEUE: u32 = 16;
/// Samples of which the shortest is worth something.
const DRAINED_SAMPLES_MIN: u32 = 16;
/// Samples of which the shortest tells of a queue before the round is over.
const TELLING_SAMPLES_MIN: u32 = 4;

impl Auto {
    /// How much longer than the shortest a round trip may be before we speak of a queue: an eighth, or the
    /// hosts' own noise. Where ACKs come aggregated, as far as they are apart: a queue shorter than
    /// that cannot be seen.
    pub(super) fn queue_slack(&self) -> Duration {
        self.shortest_slack().max(self.bunch_gap())
    }

    /// The same for the shortest round trip of a round: one of each bunch has not waited for it.
    pub(super) fn shortest_slack(&self) -> Duration {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        (rtt_min / 8).max(self.host_noise()).max(self.spread())
    }

    /// The same for a queue that stands while we cruise: less where round trips are steady, for all who wait
    /// in it should see it, whatever their own round trip is.
    pub(super) fn standing_slack(&self) -> Duration {
        let is_steady = self.is_steady() && self.has(Mechanism::Steady);
        let Some(rate) = self.model.rate().filter(|_| is_steady) else { return self.queue_slack() };
        let few_bytes = u64::from(self.mtu_bytes) * u64::from(STEADY_PACKETS);
        self.queue_slack().min(rate.time_for(few_bytes).max(self.host_noise()).max(self.spread()))
    }

    /// Round trips are so steady that a queue shorter than an eighth of them is seen.
    fn is_steady(&self) -> bool {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        self.spread.is_known() && self.spread() < rtt_min / STEADY
    }

    /// What the hosts' noise may add: on a narrow path no more than was measured, as soon as it is.
    fn host_noise(&self) -> Duration {
        if self.spread.is_known() && self.is_narrow() { FLAT_MIN } else { HOST_NOISE }
    }

    /// A few packets fill the path: then the queue is our own.
    pub(super) fn is_narrow(&self) -> bool {
        self.has(Mechanism::Narrow) && self.model.is_narrow(self.mtu_bytes) == Some(true)
    }

    /// How far jitter moves a round trip: a queue shorter than that cannot be seen.
    pub(super) fn spread(&self) -> Duration {
        if !self.has(Mechanism::Spread) {
            return Duration::ZERO;
        }
        self.spread.duration().min(self.model.rtt_min().unwrap_or_default() * 2)
    }

    fn watch_spread(&mut self) {
        if self.is_even_cruise() {
            self.spread.on_round(self.round, &self.tally);
        }
    }

    /// A round of cruising whose packets left at that pace.
    pub(super) fn is_even_cruise(&self) -> bool {
        let is_even = self.sent_gain > Slow::Down.gain() && self.sent_gain <= 1.0;
        is_even && matches!(self.phase, Phase::Cruise { .. })
    }

    /// The time between aggregated ACKs; zero if they come steadily.
    pub(super) fn bunch_gap(&self) -> Duration {
        if !self.has(Mechanism::Aggregation) {
            return Duration::ZERO;
        }
        self.aggregation.gap(self.model.rtt_min().unwrap_or_default())
    }

    /// Keeps the longest gap between ACKs of the last rounds.
    pub(super) fn watch_ack_gap(&mut self, feedback: &Feedback) {
        if feedback.acked_packets == 0 {
            return;
        }
        // With few packets in flight gaps are nothing but the packets' own distance.
        let is_dense = feedback.in_flight_bytes_before >= BUNCH_PACKETS_MIN * u64::from(self.mtu_bytes);
        // Nor where ACKs are missing because packets are.
        let is_lossy = self.tally.lost_packets > self.tally.packets() / 4;
        let is_telling = is_dense && !is_lossy && self.timeouts == 0 && !self.tally.is_blackout;
        self.aggregation.on_ack(feedback.now, is_telling);
    }

    /// The round in progress has seen enough of its packets to say what all of them met.
    pub(super) fn tells_of_queue(&self) -> bool {
        self.tally.rtt_samples >= TELLING_SAMPLES_MIN
    }

    pub(super) fn has_queue(&self, rtt: Duration) -> bool {
        self.waits_longer(rtt, self.queue_slack())
    }

    /// The same while we cruise.
    pub(super) fn is_standing_queue(&self, rtt: Duration) -> bool {
        self.waits_longer(rtt, self.standing_slack())
    }

    fn waits_longer(&self, rtt: Duration, slack: Duration) -> bool {
        self.model.empty_rtt().is_some_and(|empty| rtt > empty + slack)
    }

    /// The round found no queue. Where ACKs come aggregated the mean is late by half of the time between;
    /// then the shortest of many samples tells.
    pub(super) fn is_drained(&self) -> bool {
        let shortest = (self.tally.rtt_samples >= DRAINED_SAMPLES_MIN).then_some(self.tally.rtt_min);
        let is_clear = |rtt: Option<Duration>| rtt.is_some_and(|rtt| !self.is_standing_queue(rtt));
        is_clear(self.tally.rtt_mean()) || is_clear(shortest)
    }

    /// The round lost more than the random loss explains, or packets were marked.
    pub(super) fn is_congested(&self, path: &PathView) -> bool {
        let tolerated = self.tolerated_packets(self.tally.packets(), path);
        self.tally.marked_packets > 0
            || (f64::from(self.tally.lost_packets) > tolerated && !self.tally.is_blackout)
    }

    /// Most losses among so many packets that are no congestion.
    pub(super) fn tolerated_packets(&self, packets: u32, path: &PathView) -> f64 {
        let explained = self.random_loss.explained_packets(packets, &path.loss, EXCESS_SIGMAS);
        explained + EXCESS_SHARE * f64::from(packets) + 1.0
    }

    /// The round lost so much more than at random that the link was filled far beyond what it carries.
    pub(super) fn is_overloaded(&self, path: &PathView) -> bool {
        self.tally.packets() >= OVERLOAD_PACKETS_MIN
            && self.loses_too_much()
            && f64::from(self.tally.lost_packets) > self.explained_packets(path, OVERLOAD_SIGMAS)
            && !self.tally.is_blackout
    }

    /// The round lost so much more than the random loss, which may be chance.
    pub(super) fn loses_too_much(&self) -> bool {
        self.tally.lost_share() > self.random_loss.rate() + OVERLOAD_LOSS
    }

    /// Most losses of the round that the random loss explains.
    fn explained_packets(&self, path: &PathView, sigmas: f64) -> f64 {
        self.random_loss.explained_packets(self.tally.packets(), &path.loss, sigmas)
    }

    /// Packets sent faster than the rate were lost, more than at random: reason enough to probe less often.
    pub(super) fn watch_probe_loss(&mut self, now: Instant, path: &PathView) {
        if self.sent_gain <= 1.0 || self.phase.is_startup() || self.tally.is_blackout {
            return;
        }
        if f64::from(self.tally.lost_packets) > self.explained_packets(path, EXCESS_SIGMAS) + 1.0 {
            self.congested_at = Some(now);
            self.schedule.has_probe_lost = true;
        }
    }

    pub(super) fn was_congested_lately(&self, now: Instant) -> bool {
        self.congested_at.is_some_and(|at| now - at < CONGESTION_MEMORY)
    }

    /// A queue in a round that was sent no faster than the rate is not the work of our probing.
    pub(super) fn watch_queue(&mut self, now: Instant) {
        self.watch_spread();
        if self.tally.rtt_samples == 0 || self.sent_gain > 1.0 {
            return;
        }
        let rtt = self.tally.rtt_min;
        self.has_standing_queue = self.is_standing_queue(rtt);
        let empty = self.model.empty_rtt().unwrap_or(rtt);
        let is_long = self.has_standing_queue && rtt > empty.mul_f64(1.0 + FOREIGN_QUEUE);
        if let Phase::Cruise { foreign_rounds, standing } = &mut self.phase {
            // What a probe queued is still there while it drains.
            self.schedule.has_waited |= self.has_standing_queue && self.sent_gain > Slow::Down.gain();
            *foreign_rounds = if is_long { *foreign_rounds + 1 } else { foreign_rounds.saturating_sub(1) };
            if *foreign_rounds == 0 {
                *standing = Carried::new();
            } else {
                standing.on_round(&self.tally, now - self.round_started_at);
            }
        }
    }

    /// Jitter that looks like a queue.
    pub(super) fn watch_jitter(&mut self) {
        if !self.has(Mechanism::Jitter) {
            return;
        }
        if let Some(rate) = self.tally.link_rate_mean().filter(|_| self.counts_rounds()) {
            self.model.on_link_rate(rate, self.tally.is_app_limited);
        }
        self.jitter.on_round(self.round, &self.tally, self.model.rtt_min().unwrap_or_default());
        self.model.set_jittered_rtt(self.jitter.rtt());
        if let Phase::Startup(startup) = &mut self.phase
            && self.model.is_jittered()
        {
            startup.drop_jump();
        }
    }

    /// Whether round trips are too restless for a full queue.
    pub(super) fn watch_restlessness(&mut self) {
        let Some(rate) = self.model.rate().filter(|_| self.has(Mechanism::Restless)) else { return };
        let packet_time = rate.time_for(u64::from(self.mtu_bytes));
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        self.restless.on_round(is_restless(&self.tally, rtt_min, packet_time));
    }

    /// A queue that is always full, and therefore not seen, may be what loses packets, or a policer, which
    /// has none.
    pub(super) fn may_hide_queue(&self, now: Instant) -> bool {
        self.may_be_fooled(now) && !self.unmoved.is_known()
    }

    /// The same, as far as round trips and probes tell.
    pub(super) fn may_be_fooled(&self, now: Instant) -> bool {
        let is_ours = self.is_flat || self.is_alone(now) || self.restless.is_known();
        !is_ours || self.policer.is_known()
    }

    /// With jitter each round has a sample of the rate that is far too high: only the mean of them counts.
    pub(super) fn counts_rounds(&self) -> bool {
        self.model.is_jittered() && !self.phase.is_startup()
    }

    /// Where jitter is all that a round met, congestion's bound is not below what was under way.
    pub(super) fn loosen_bound(&mut self, path: &PathView) {
        let is_slow_enough = self.sent_gain <= 1.0 && self.model.is_jittered();
        if !is_slow_enough || self.has_standing_queue || self.is_congested(path) {
            return;
        }
        if let (Some(mean), Some(rate)) = (self.tally.rtt_mean(), self.model.rate()) {
            let filling_bytes = rate.bytes_in(mean);
            self.bound_bytes = self.bound_bytes.map(|bound| bound.max(filling_bytes));
        }
    }

    /// Our probing moved the path: the queue grew by it. Where it only took from others, who may overfill the
    /// queue as well as we, their loss cannot be told from the path's. (Several flows that each took the
    /// common loss for the path's would drive each other up without end; a flow that came when the queue was
    /// full takes the full queue for the shortest round trip, and sees none.)
    pub(super) fn is_alone(&self, now: Instant) -> bool {
        !self.has(Mechanism::Alone) || self.alone.is_some_and(|alone| self.is_fresh(&alone, now))
    }

    fn is_fresh(&self, found: &Found, now: Instant) -> bool {
        let is_recent =
            now - found.at < ALONE_MEMORY || self.round.saturating_sub(found.round) < ALONE_ROUNDS;
        // A shortest round trip that grew may hold a queue that never empties.
        is_recent && self.model.rtt_min().is_some_and(|rtt| rtt <= found.rtt_min.mul_f64(SAME_RTT))
    }

    /// A round after one of cruising met nothing at all: every round trip was the shortest.
    pub(super) fn watch_flat(&mut self) {
        if self.tally.rtt_samples > 0 && self.sent_gain <= 1.0 && !self.phase.is_startup() {
            self.is_flat = self.is_round_flat();
            self.schedule.free_rounds = if self.is_round_free() { self.schedule.free_rounds + 1 } else { 0 };
        }
    }

    pub(super) fn is_round_flat(&self) -> bool {
        let min = self.model.full_rtt_min().unwrap_or_default();
        let few_bytes = u64::from(self.mtu_bytes) / FLAT_PACKET;
        let longer_ack = self.model.rate().map_or(Duration::ZERO, |rate| rate.time_for(few_bytes));
        let jitter = (self.spread() / 2).max(longer_ack).min(min / FLAT_JITTER);
        let tolerance = (min / FLAT).max(FLAT_MIN).max(jitter);
        self.tally.rtt_mean().is_some_and(|mean| mean.saturating_sub(min) < tolerance)
    }

    /// Nobody fills the path: nothing waits in this round, or round trips are too restless for a full queue.
    pub(super) fn is_round_free(&self) -> bool {
        self.is_round_flat() || self.restless.is_known()
    }

    /// What was lost of start-up's first packets where jitter shows, in which no round is clean.
    fn first_loss(&self) -> f64 {
        match &self.phase {
            Phase::Startup(startup) if self.jitter.has_begun() => startup.first_loss(),
            _ => 0.0,
        }
    }

    /// The share of its packets that a round of start-up may lose, if it lost more: the random loss and more.
    /// Of the random loss only a part counts unless nothing waits anywhere, or round trips are too restless
    /// for a full queue: in one it is what others lose, and doubling on would make it so. Where they are
    /// restless no round is held for clean and it is seldom known: more may be the path's.
    pub(super) fn startup_excess(&self, path: &PathView) -> Option<f64> {
        let random_loss = self.random_loss.rate();
        let is_restless = self.restless.has_begun();
        let is_known = self.is_round_flat() || is_restless;
        let known = if is_known { random_loss } else { random_loss.min(STARTUP_RANDOM_LOSS_MAX) };
        let known = known.max(self.first_loss());
        let tolerated = known + if is_restless { STARTUP_LOSS_RESTLESS } else { STARTUP_LOSS };
        let is_unexplained = self.is_congested(path) || known < random_loss;
        (!self.tally.is_blackout && is_unexplained && self.tally.lost_share() > tolerated)
            .then_some(tolerated)
    }

    /// The loss that the rate makes up for: the random loss, if it is sure to be the path's; else a part of
    /// it. With the whole of it any common loss would be a balance: with a part, N flows that share it come
    /// down.
    pub(super) fn compensated(&self, now: Instant) -> f64 {
        // Where a round trip is long, so is a start-up that grows by less than it could; if others fill the
        // link their loss ends it soon.
        let is_full = !self.may_hide_queue(now) || self.is_long_startup();
        let trusted = self.random_loss.rate().min(TRUSTED_MAX);
        match (is_full, self.model.is_jittered()) {
            (true, false) => self.random_loss.rate(),
            // Jitter may hide who fills the queue.
            (true, true) => trusted,
            (false, _) => TRUST * trusted,
        }
    }

    /// Whether probes neither make a queue nor find more.
    pub(super) fn watch_policer(&mut self) {
        // Who has too little to send fills neither a queue nor a policer's bucket.
        let is_empty = self.tally.is_blackout || self.tally.is_app_limited;
        let is_void = is_empty || self.phase.is_startup() || !self.has(Mechanism::Policer);
        let (Some(rtt), Some(rate)) = (self.tally.rtt_mean(), self.model.rate()) else { return };
        if is_void || !self.tally.has_shape() || !self.is_steady() || self.is_narrow() {
            return;
        }
        let few_bytes = u64::from(self.mtu_bytes) * POLICED_PACKETS;
        let longest = self.model.rtt_min().unwrap_or_default() / POLICED_QUEUE;
        let waited = rate.time_for(few_bytes).min(longest).max(FLAT_MIN);
        if self.sent_gain > 1.0 {
            self.policer.on_probe_round(rtt, waited, &self.tally);
        } else {
            let has_queue = self.waits_longer(rtt, waited.saturating_add(self.spread()));
            self.policer.on_cruise_round(rtt, has_queue);
        }
    }

    /// A probe made a queue.
    pub(super) fn on_alone(&mut self, now: Instant) {
        self.is_at_limit = true;
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        self.alone = Some(Found { at: now, round: self.round, rtt_min });
    }

    /// True if the random loss turned out to be of our own making: then it is compared once more, at the
    /// lower rate.
    pub(super) fn learn_random_loss(&mut self, now: Instant, path: &PathView) -> bool {
        let is_void = self.tally.is_blackout || self.tally.marked_packets > 0 || self.phase.is_startup();
        if is_void || !self.has(Mechanism::RandomLoss) {
            return false;
        }
        let (packets, lost_packets) = (self.tally.packets(), self.tally.lost_packets);
        self.random_loss.on_round(packets, lost_packets, &path.loss);
        let before = self.random_loss.rate();
        let is_slow = self.sent_gain <= Slow::Down.gain();
        let is_cut = is_slow && self.random_loss.on_slow_round(packets, lost_packets, &path.loss);
        let is_drained = self.is_drained();
        let is_clean = self.sent_gain <= 1.0 && is_drained && self.was_drained;
        if is_cut {
            self.follow_random_loss(before);
        } else if is_clean || (is_slow && self.jitter.moves.are_known(self.round)) {
            self.on_clean_round(now, packets, lost_packets, path);
        } else {
            self.random_loss.on_unclean_round(now, now - self.round_started_at);
        }
        self.was_drained = is_drained;
        is_cut
    }

    /// A round's loss was random if the round after it still delivered more: then the pipe was not full. The
    /// first round leaves unpaced, in a burst that may be more than the queue holds, and does not count.
    pub(super) fn learn_startup_loss(&mut self, now: Instant, path: &PathView) {
        let is_drained = self.has(Mechanism::RandomLoss) && self.is_drained();
        let newest = (is_drained && self.round > 1).then(|| (self.tally.packets(), self.tally.lost_packets));
        let Phase::Startup(startup) = &mut self.phase else { return };
        if let Some((packets, lost_packets)) = core::mem::replace(&mut startup.newest_round, newest) {
            self.on_clean_round(now, packets, lost_packets, path);
        }
    }

    fn on_clean_round(&mut self, now: Instant, packets: u32, lost_packets: u32, path: &PathView) {
        let rtt_min = self.model.rtt_min().unwrap_or_default();
        self.random_loss.on_clean_round(now, packets, lost_packets, rtt_min, &path.loss);
    }

    /// The rate makes up for the random loss there is now, and no more for the one `before`.
    fn follow_random_loss(&mut self, before: f64) {
        self.model.rescale((1.0 - before) / (1.0 - self.random_loss.rate()));
    }

    /// A jump is right, and what it lost without making a queue was random.
    pub(super) fn learn_jump_loss(&mut self, now: Instant, path: &PathView) {
        if !self.has(Mechanism::RandomLoss) || !self.is_drained() {
            return;
        }
        let before = self.random_loss.rate();
        self.on_clean_round(now, self.tally.packets(), self.tally.lost_packets, path);
        self.follow_random_loss(before);
    }

    /// Takes a sample of the RTT into the model.
    pub(super) fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if rtt + self.queue_slack() < self.random_loss.rtt_min() {
            // What we took for the round trip held a queue, and the rounds we took for clean were not. (It
            // may have gone little by little: no sample needs to be much below the one before.)
            self.model.rescale(1.0 - self.random_loss.rate());
            self.random_loss = RandomLoss::new();
        }
        self.model.on_rtt(now, rtt, self.spread());
    }

    /// The first ACKs after silence: this round and the next teach nothing about loss.
    pub(super) fn on_acks_after_blackout(&mut self, feedback: &Feedback) {
        if self.timeouts > 0 && feedback.acked_packets > 0 {
            self.timeouts = 0;
            self.blackout_round = Some(feedback.round + 1);
        }
        self.tally.is_blackout |= self.blackout_round.is_some_and(|round| self.round <= round);
    }

    /// More loss than at random, or marks, at a pace not above the rate: less is ours than we thought.
    pub(super) fn on_congestion(&mut self, now: Instant, path: &PathView) {
        let rate = self.model.rate().unwrap_or(self.tally.link_rate);
        // What the link did carry is ours (BBRv3: bw_lo).
        self.model.bound_rate(rate.scaled(CONGESTION_FACTOR).max(self.tally.link_rate.min(rate)));
        self.bound(now, path);
    }

    /// Bounds what is in flight, though not below what fills the path.
    pub(super) fn bound(&mut self, now: Instant, path: &PathView) {
        self.congested_at = Some(now);
        let in_flight = path.in_flight_bytes.min(self.window_bytes) as f64 * CONGESTION_FACTOR;
        self.bound_bytes = Some((in_flight as u64).max(self.path_bytes()));
    }
}
