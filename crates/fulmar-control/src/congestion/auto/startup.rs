//! Start-up: doubling until the delivery rate stops growing.
//!
//! Loss alone, which may be random, proves nothing; a queue does. Source: BBRv3 (draft-ietf-ccwg-bbr 4.3.1).
//!
//! A packet train (see `trains`) shows the rate before it is reached. Then start-up *jumps*: it sends at a
//! part of that rate, when the first of that came back without a queue at all of it, and is over when as much
//! arrives. If it does not, the train was wrong, and doubling goes on from what did arrive. A queue, or too
//! much loss, that a part of the rate meets is others' doing: a train shows how fast a link is, not how busy;
//! then start-up is over too. (A part first: draft-ietf-tsvwg-careful-resume, where it is half.)

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::early::{EARLY_PACKETS, Early};
use super::flights::Flights;
use super::tally::{TURNS_MIN, Tally};
use super::trains::{LONG_TRAIN, Train, Trains};
use crate::Feedback;

/// A queue that stretches every round trip by this factor leaves no doubt.
pub(super) const LONG_QUEUE: f64 = 1.5;
/// Loss beyond the random loss that is too much for start-up.
pub(super) const STARTUP_LOSS: f64 = 0.15;
/// The same where round trips are too restless for a full queue.
pub(super) const STARTUP_LOSS_RESTLESS: f64 = 0.25;
/// BBR: 2/ln 2 = 2.885, the least that doubles the rate every round; BBRv3 takes 2.77.
pub(super) const STARTUP_GAIN: f64 = 2.77;
/// It is over when the delivery rate did not grow by this factor (BBR: 1.25) ..
const FULL_GROWTH: f64 = 1.25;
/// .. for so many rounds, or for fewer if there is a queue. Once there is a queue the pace is that of a
/// probe: if it was only noise the rate grows on, if not the queue grows little.
const FULL_ROUNDS: u32 = 3;
const FULL_ROUNDS_QUEUE: u32 = 2;
/// Of rounds that measure nothing, for they had too little to send in the end, it takes more.
const FILLED_ROUNDS: u32 = 8;
/// A round that lost more than this share did not grow because of a burst; a few of them are passed over.
const BURST_SHARE: f64 = 0.3;
const SKIPPED_ROUNDS_MAX: u32 = 3;
/// Rounds in a row that each lost more than is tolerated, and together, of so many packets, by so many
/// standard deviations: the link is full.
const EXCESS_ROUNDS: u32 = 3;
const EXCESS_PACKETS_MIN: u32 = 96;
const EXCESS_SIGMAS: f64 = 3.0;
/// Rounds of fewer packets say nothing about it.
const PACKETS_MIN: u32 = 8;
/// A jump saves the round trips of doubling. Where they are short that is little, and neighbours that begin
/// at the same moment, each of which sees the whole link, would overfill its queue for it.
pub(super) const JUMP_RTT_MIN: Duration = Duration::from_millis(80);
/// A jump was right if so much of its rate arrives ..
const JUMP_CONFIRMED: f64 = 0.85;
/// .. with losses counted as arrived, up to this share: more is not the path's.
const JUMP_LOSS_MAX: f64 = 0.25;
/// A jump after which so much is lost met others that jumped.
const JUMP_OVERLOAD: f64 = 0.5;
/// The round in which it was decided, the one in which its first packets leave, and the one that tells.
const JUMP_ROUNDS: u32 = 3;
/// A jump begins with this share of its rate, until ACKs have come for this part of a round trip; the
/// shortest round trip of each such part tells whether there is a queue.
const JUMP_FIRST_SHARE: f64 = 0.7;
const JUMP_LOOK_PART: u32 = 8;
/// Packets of which the share that was lost is worth something.
const KNOWN_PACKETS_MIN: u32 = 32;
/// A train that is slower than this share of what was delivered met somebody else's packets, and one that is
/// slower than start-up's own pace is chance, as a queue would have shown by now, unless it is long
/// ([`LONG_TRAIN`]) and stretched the round trip by more than those of the round before differed.
const TRAIN_MIN: f64 = 0.8;

/// The queue that a round met.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Every round trip was the shortest.
    Flat,
    None,
    Some,
    /// It stretches every round trip so far that it leaves no doubt.
    Long,
}

impl Queue {
    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Flat | Self::None)
    }
}

/// What a round means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rate grew: the pipe was not full.
    Grew,
    Undecided,
    Full,
    /// Others fill the link.
    Shared,
}

/// A rate taken from a train.
#[derive(Copy, Clone, Debug)]
struct Jump {
    train: Train,
    decided_at: Instant,
    /// When the first packet sent since then was acknowledged, and how many bytes after it.
    answered_at: Option<Instant>,
    arrived_bytes: u64,
    /// Packets answered after it, and those of them that were lost.
    losses: Losses,
    /// The newest of those ACKs.
    heard_at: Instant,
    /// The shortest round trip since the last look at it, and when that was.
    look: Option<(Instant, Duration)>,
    /// ACKs have come for long enough to tell.
    has_looked: bool,
    is_whole: bool,
    has_queue: bool,
    /// Rounds that have ended since it is whole.
    rounds: u32,
}

impl Jump {
    fn new(train: Train, now: Instant) -> Self {
        Self {
            train,
            decided_at: now,
            answered_at: None,
            arrived_bytes: 0,
            heard_at: now,
            look: None,
            losses: Losses::default(),
            has_looked: false,
            is_whole: false,
            has_queue: false,
            rounds: 0,
        }
    }

    /// What has arrived of it in each second.
    fn arrived(&self) -> Option<Rate> {
        Rate::from_bytes_in(self.arrived_bytes, self.heard_at - self.answered_at?)
    }

    fn rate(&self) -> Rate {
        self.train.rate.scaled(if self.is_whole { 1.0 } else { JUMP_FIRST_SHARE })
    }

    /// An ACK. Round trips longer than `rtt_min` by more than `slack` meet a queue; a queue that was full
    /// before is seen by what it drops: more than `tolerated`.
    fn on_ack(&mut self, feedback: &Feedback, rtt_min: Duration, slack: Duration, tolerated: f64) {
        let (Some(sent_at), Some(rtt)) = (feedback.newest_acked_sent_at, feedback.rtt) else { return };
        if sent_at < self.decided_at {
            return;
        }
        let (now, rtt) = (feedback.now, rtt.saturating_sub(feedback.ack_delay));
        if self.answered_at.is_some() {
            self.arrived_bytes = self.arrived_bytes.saturating_add(feedback.acked_bytes);
            self.losses.add(feedback.acked_packets, feedback.lost.packets);
        }
        self.heard_at = now;
        let answered_at = *self.answered_at.get_or_insert(now);
        let (looked_at, shortest) = self.look.unwrap_or((now, rtt));
        let shortest = shortest.min(rtt);
        self.look = Some((looked_at, shortest));
        if now - looked_at >= rtt_min / JUMP_LOOK_PART {
            self.has_queue |= shortest > rtt_min + slack;
            self.look = None;
        }
        self.has_looked |= now - answered_at >= rtt_min / JUMP_LOOK_PART;
        self.is_whole |= self.may_be_whole() && !self.losses.are_beyond(tolerated);
    }

    /// The part of the rate that was tried met no queue.
    fn may_be_whole(&self) -> bool {
        self.has_looked && !self.has_queue
    }
}

/// Packets of several rounds, and those of them that were lost.
#[derive(Copy, Clone, Debug, Default)]
struct Losses {
    packets: u32,
    lost_packets: u32,
}

impl Losses {
    fn add(&mut self, acked_packets: u32, lost_packets: u32) {
        self.packets = self.packets.saturating_add(acked_packets).saturating_add(lost_packets);
        self.lost_packets = self.lost_packets.saturating_add(lost_packets);
    }

    fn add_round(&mut self, tally: &Tally) {
        self.add(tally.acked_packets, tally.lost_packets);
    }

    /// Those of a round.
    fn of(tally: &Tally) -> Self {
        Self { packets: tally.packets(), lost_packets: tally.lost_packets }
    }

    /// So many are not lost by chance if `tolerated` of them are to be expected.
    fn are_beyond(&self, tolerated: f64) -> bool {
        let packets = f64::from(self.packets);
        let chance = EXCESS_SIGMAS * libm::sqrt(packets * tolerated * (1.0 - tolerated));
        f64::from(self.lost_packets) > packets * tolerated + chance
    }

    /// The share that was lost; `None` of few packets.
    fn share(&self) -> Option<f64> {
        let is_known = self.packets >= KNOWN_PACKETS_MIN;
        is_known.then(|| f64::from(self.lost_packets) / f64::from(self.packets))
    }
}

/// Rounds in a row that lost more than is tolerated.
#[derive(Copy, Clone, Debug, Default)]
struct Excess {
    rounds: u32,
    losses: Losses,
}

impl Excess {
    /// A round ends. If it lost more than `tolerated` of its packets, that is given. True if the rounds leave
    /// no doubt any more.
    fn on_round(&mut self, tally: &Tally, tolerated: Option<f64>) -> bool {
        let Some(tolerated) = tolerated else {
            *self = Self::default();
            return false;
        };
        self.rounds += 1;
        self.losses.add_round(tally);
        let is_enough = self.rounds >= EXCESS_ROUNDS && self.losses.packets >= EXCESS_PACKETS_MIN;
        is_enough && self.losses.are_beyond(tolerated)
    }
}

/// The highest rate that was seen to grow, and the rounds without growth since.
#[derive(Copy, Clone, Debug)]
struct Plateau {
    rate: Rate,
    rounds: u32,
}

impl Plateau {
    fn at(rate: Rate) -> Self {
        Self { rate, rounds: 0 }
    }

    /// Whether `rate` is so much higher that growth goes on from there.
    fn is_left_by(&mut self, rate: Rate) -> bool {
        let is_left = rate >= self.rate.scaled(FULL_GROWTH);
        if is_left {
            *self = Self::at(rate);
        }
        is_left
    }
}

/// Where start-up stands.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    /// Of the rounds that measured a delivery rate.
    full: Plateau,
    /// Of those that measured nothing and filled the path for a part.
    filled: Plateau,
    /// Rounds passed over because of a burst of losses.
    skipped_rounds: u32,
    excess: Excess,
    /// The last round did not grow and met a queue.
    is_nearly_full: bool,
    /// Packets and losses of the last round that still grew.
    pub(super) newest_round: Option<(u32, u32)>,
    pub(super) early: Early,
    trains: Trains,
    flights: Flights,
    jump: Option<Jump>,
    /// The rounds before anything of a jump was answered.
    before_jump: Losses,
    /// A train promised what did not arrive: from now on they only end start-up.
    was_wrong: bool,
    /// By how much round trips differed in the last round.
    rtt_range: Duration,
    /// The least mean round trip of rounds that went up and down and met no queue: what jitter makes of the
    /// shortest.
    usual_rtt: Option<Duration>,
    /// The first packets: what was lost when so little was sent is no queue's of ours.
    first: Losses,
}

impl Startup {
    /// Doubling from a delivery rate of `full_rate`.
    pub(super) fn new(full_rate: Rate, early: Early) -> Self {
        Self {
            full: Plateau::at(full_rate),
            filled: Plateau::at(Rate::ZERO),
            skipped_rounds: 0,
            excess: Excess::default(),
            is_nearly_full: false,
            newest_round: None,
            early,
            trains: Trains::default(),
            flights: Flights::new(),
            jump: None,
            before_jump: Losses::default(),
            was_wrong: false,
            rtt_range: Duration::ZERO,
            usual_rtt: None,
            first: Losses::default(),
        }
    }

    /// Looks for a train, `with_flights` through jitter as well, and at the queue that a jump meets; `rate`
    /// is the link's, as far as it was measured.
    pub(super) fn watch_trains(
        &mut self,
        feedback: &Feedback,
        rate: Rate,
        rtt_min: Duration,
        slack: Duration,
        with_flights: bool,
    ) {
        let tolerated = self.tolerated_loss();
        if let Some(jump) = &mut self.jump {
            jump.on_ack(feedback, rtt_min, slack, tolerated);
        }
        let flight = with_flights.then(|| self.flights.on_feedback(feedback, rtt_min)).flatten();
        let Some(train) = self.trains.on_feedback(feedback).or(flight) else { return };
        let is_slower = train.rate < rate.scaled(STARTUP_GAIN);
        let is_too_fast = self.was_wrong && !is_slower;
        let is_too_slow = train.packets < LONG_TRAIN || train.rate < rate.scaled(TRAIN_MIN);
        let is_jitter = train.growth.is_some_and(|growth| growth < self.rtt_range);
        if (is_slower && (is_too_slow || is_jitter)) || is_too_fast {
            return;
        }
        match &mut self.jump {
            Some(jump) if train.packets >= jump.train.packets => jump.train = train,
            Some(_) => {}
            None => self.jump = Some(Jump::new(train, feedback.now)),
        }
    }

    /// The pace where what was measured says `pace`; `None` as ACKs come.
    pub(super) fn pacing(&self, pace: Rate) -> Option<Rate> {
        self.jump_rate().or_else(|| self.early.pacing(pace))
    }

    /// The pace of a jump: the bottleneck's rate as a train showed it, or a part of it.
    pub(super) fn jump_rate(&self) -> Option<Rate> {
        self.jump.map(|jump| jump.rate())
    }

    /// How long a round trip of several packets usually is, if that is known; zero otherwise.
    pub(super) fn usual_rtt(&self) -> Duration {
        self.usual_rtt.unwrap_or_default()
    }

    /// A round ends, which met `queue`. A queue of ours grows; round trips that go up and down are jitter's.
    fn learn_usual(&mut self, tally: &Tally, queue: Queue) {
        let is_rough = tally.has_shape() && tally.rtt_turns() >= TURNS_MIN;
        let is_short = queue == Queue::Some && self.usual_rtt.is_none();
        let is_usual = is_rough && (queue.is_empty() || is_short);
        if let Some(mean) = tally.rtt_mean().filter(|_| is_usual) {
            self.usual_rtt = Some(self.usual_rtt.map_or(mean, |usual| usual.min(mean)));
        }
        if u64::from(self.first.packets) < EARLY_PACKETS && !tally.is_blackout {
            self.first.add_round(tally);
        }
    }

    /// The share that was lost of the first packets; zero as long as they are too few.
    pub(super) fn first_loss(&self) -> f64 {
        self.first.share().unwrap_or(0.0)
    }

    /// What looked like a train was jitter.
    pub(super) fn drop_jump(&mut self) {
        self.was_wrong |= self.jump.take().is_some();
    }

    /// What has arrived of a jump in each second.
    pub(super) fn arrived_rate(&self) -> Option<Rate> {
        self.jump?.arrived()
    }

    /// What a jump may lose: what was lost as well when little was sent is no crowd's.
    fn tolerated_loss(&self) -> f64 {
        (self.before_jump.share().unwrap_or(0.0) + STARTUP_LOSS).min(1.0)
    }

    /// A round ends during a jump: is it right? If the round lost more than `tolerated`, that is given.
    fn judge_jump(&mut self, tally: &Tally, tolerated: Option<f64>) -> Option<Verdict> {
        if self.jump.is_none_or(|jump| jump.answered_at.is_none()) {
            self.before_jump.add_round(tally);
        }
        let explained = self.tolerated_loss();
        let jump = self.jump.as_mut()?;
        let is_crowded = jump.answered_at.is_some()
            && tolerated.is_some_and(|tolerated| Losses::of(tally).are_beyond(tolerated.max(explained)));
        if is_crowded || (jump.has_queue && !jump.is_whole) {
            return Some(Verdict::Shared);
        }
        if !jump.is_whole {
            // What it lost, if it lost much, is the path's.
            jump.is_whole = jump.may_be_whole();
            return Some(Verdict::Undecided);
        }
        if jump.has_queue {
            return Some(Verdict::Full);
        }
        jump.rounds += 1;
        let lost_share = tally.lost_share();
        let arrived = tally.delivery_rate.scaled(1.0 / (1.0 - lost_share.min(JUMP_LOSS_MAX)));
        if arrived >= jump.train.rate.scaled(JUMP_CONFIRMED) {
            return Some(Verdict::Full);
        }
        let is_overloaded = lost_share > JUMP_OVERLOAD;
        if is_overloaded || (jump.rounds >= JUMP_ROUNDS && !tally.is_app_limited) {
            self.jump = None;
            self.was_wrong = true;
            // Others jumped as well: what they left is found from there, without doubling into their queue.
            return is_overloaded.then_some(Verdict::Full);
        }
        Some(Verdict::Undecided)
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.is_nearly_full
    }

    /// A round that was undecided filled the path for a part, and `rate` is the highest that ever arrived:
    /// where the receiver's flow control leaves nothing to send in every round, this alone ends start-up.
    pub(super) fn is_full_at(&mut self, rate: Rate) -> bool {
        if !self.filled.is_left_by(rate) {
            self.filled.rounds += 1;
        }
        self.filled.rounds >= FILLED_ROUNDS
    }

    /// A round ends. If it lost more than `tolerated` of its packets, that is given.
    pub(super) fn judge(&mut self, tally: &Tally, queue: Queue, tolerated: Option<f64>) -> Verdict {
        self.rtt_range = if tally.has_shape() { tally.rtt_range() } else { Duration::ZERO };
        self.learn_usual(tally, queue);
        // Too few packets measure nothing but their own loss.
        let is_measured = tally.delivery_rate > Rate::ZERO && tally.packets() >= PACKETS_MIN;
        if !is_measured || tally.is_blackout {
            return Verdict::Undecided;
        }
        if let Some(verdict) = self.judge_jump(tally, tolerated.filter(|_| queue != Queue::Flat)) {
            return verdict;
        }
        // A queue that is full before we come is not seen, what it drops is.
        if self.excess.on_round(tally, tolerated) {
            return Verdict::Full;
        }
        // Whoever had reached the link's rate before: what grows in spite of a queue is taken from others.
        if self.early.is_again() && !queue.is_empty() {
            return Verdict::Full;
        }
        if self.full.is_left_by(tally.delivery_rate) {
            self.is_nearly_full = false;
            return Verdict::Grew;
        }
        if tally.is_app_limited && queue != Queue::Long {
            return Verdict::Undecided;
        }
        let is_burst = f64::from(tally.lost_packets) > BURST_SHARE * f64::from(tally.packets());
        if is_burst && queue.is_empty() && self.skipped_rounds < SKIPPED_ROUNDS_MAX {
            self.skipped_rounds += 1;
            return Verdict::Undecided;
        }
        self.full.rounds += 1;
        self.is_nearly_full = !queue.is_empty();
        let rounds_needed = match queue {
            Queue::Flat | Queue::None => FULL_ROUNDS,
            Queue::Some => FULL_ROUNDS_QUEUE,
            Queue::Long => 1,
        };
        if self.full.rounds >= rounds_needed { Verdict::Full } else { Verdict::Undecided }
    }
}

#[cfg(test)]
mod tests;
