//! How the peer is asked to space its ACKs (after draft-ietf-quic-ack-frequency).
//!
//! Decides how many packets and how much time an ACK may wait for. Too few ACKs make a sender blind, too many
//! cost both ends time. On a path back that loses nothing there are about eight per round trip. Where ACKs
//! are lost in bursts there are as many as make a silence longer than a quarter of a round trip improbable: a
//! burst takes packets, so many ACKs make it short.
//!
//! ACKs obey the way back (RFC 3449): where it is full of them, or their queue makes the round trip long,
//! there are fewer.

use std::time::Duration;

use fulmar_control::{Channel, RttEstimator};

use super::AckPolicy;
use super::back_rate::BackRate;
use crate::Instant;

/// ACKs per round trip where none is lost.
const PER_ROUND_MIN: u32 = 8;
/// And so many where a way back that has been full has a queue again, which makes the round trip long: window
/// and rate need some to follow the path.
const PER_ROUND_QUEUED_MIN: f64 = 2.0;
/// And at most.
const PER_ROUND_MAX: u32 = 256;
/// Silences of a quarter of a round trip that may be expected in each: one in so many rounds.
const SILENCES_PER_ROUND: f64 = 0.02;
/// Where a loss on the way back is this rare, a silence costs less than the ACKs.
const LOSS_MIN: f64 = 0.002;
/// Probability that the last ACK and all its repetitions are lost in one burst.
const ALL_LOST: f64 = 0.1;
const EVERY_MAX: u64 = 64;
/// The same where the way back carries no more ACKs.
const EVERY_MAX_FULL: u64 = 512;
const DELAY_MIN: Duration = Duration::from_millis(1);
/// Eight in a round trip of 0.8 s. More of them would cost both ends as much as they do on a short path, and
/// tell no more.
const DELAY_MAX: Duration = Duration::from_millis(100);
/// A policy this close to the one asked for is not worth a frame.
const NEAR: f64 = 1.25;
/// The same where the way back carries no more: it is to be offered a little less.
const NEAR_FULL: f64 = 1.1;

/// What the peer was asked for, and what it is still to be told.
#[derive(Debug, Default)]
pub struct AckSpacing {
    asked: AckPolicy,
    is_pending: bool,
    /// What was asked for stays, whatever the path is like.
    is_fixed: bool,
    /// When an ACK was last asked for at once.
    asked_at: Instant,
    /// The peer's own longest delay, from the handshake.
    peer_delay_max: Option<Duration>,
}

impl AckSpacing {
    /// Asks for this policy from now on, whatever the path is like.
    pub fn fix(&mut self, policy: AckPolicy) {
        (self.asked, self.is_pending, self.is_fixed) = (policy, true, true);
    }

    /// The peer said in the handshake how long it may hold an ACK back.
    pub fn on_peer_delay(&mut self, delay: Duration) {
        self.peer_delay_max = Some(delay);
    }

    /// The longest time for which the peer may hold back an ACK.
    pub fn delay_max(&self) -> Duration {
        self.asked.delay.max(self.peer_delay_max.unwrap_or(AckPolicy::default().delay))
    }

    /// The delay that was asked for.
    pub fn delay(&self) -> Duration {
        self.asked.delay
    }

    /// A request to be sent, once.
    pub fn poll(&mut self) -> Option<AckPolicy> {
        std::mem::take(&mut self.is_pending).then_some(self.asked)
    }

    /// Whether the last symbol of a flight may ask to be acknowledged at once: not every one of a trickle at
    /// high speed may.
    pub fn may_ask_now(&mut self, now: Instant, rtt: Duration) -> bool {
        let may = now - self.asked_at > self.asked.delay.max(rtt / PER_ROUND_MIN);
        if may {
            self.asked_at = now;
        }
        may
    }

    /// The window, in packets, the RTT, and what the path back does and carries are now these.
    pub(super) fn update(
        &mut self,
        window_packets: u64,
        rtt: &RttEstimator,
        way_back: &Channel,
        back_rate: &mut BackRate,
    ) {
        if self.is_fixed {
            return;
        }
        let (wanted, smoothed) = (acks_per_round(way_back), rtt.smoothed());
        let seconds = smoothed.as_secs_f64();
        let mut per_round = f64::from(wanted);
        if wanted == PER_ROUND_MIN && back_rate.has_been_full() {
            // Per second they fall with the third power of the round trip: the queue of ACKs remains short.
            let shortest = rtt.min().as_secs_f64() / seconds;
            per_round = (per_round * shortest * shortest).clamp(PER_ROUND_QUEUED_MIN, per_round);
        }
        back_rate.on_wanted(per_round / seconds);
        let carried = back_rate.per_second_max().map(|max| (max * seconds).max(1.0));
        let is_full = carried.is_some_and(|carried| carried < per_round);
        let per_round = carried.unwrap_or(per_round).min(per_round);
        let (every_max, near) = if is_full { (EVERY_MAX_FULL, NEAR_FULL) } else { (EVERY_MAX, NEAR) };
        let every = window_packets as f64 / per_round;
        let every_packets =
            (if is_full { libm::ceil(every) } else { every } as u64).clamp(1, every_max) as u32;
        // One for every packet is for paths that need it.
        let every_packets = if wanted == PER_ROUND_MIN { every_packets.max(2) } else { every_packets };
        let delay = smoothed.div_f64(per_round).clamp(DELAY_MIN, DELAY_MAX);
        let repeats = repeats(way_back);
        let is_near = |new: f64, old: f64| new <= old * near && new * near >= old;
        let is_fine = is_near(f64::from(every_packets), f64::from(self.asked.every_packets))
            && is_near(delay.as_secs_f64(), self.asked.delay.as_secs_f64())
            && (repeats == 0) == (self.asked.repeats == 0);
        if !is_fine {
            self.asked = AckPolicy { every_packets, delay, repeats };
            self.is_pending = true;
        }
    }
}

/// How often the last ACK is to be repeated so that one probably outlives a burst.
fn repeats(way_back: &Channel) -> u8 {
    if way_back.loss() < LOSS_MIN {
        return 0;
    }
    let repeats = way_back.probes_for(ALL_LOST, u32::from(AckPolicy::REPEATS_MAX));
    u8::try_from(repeats).unwrap_or(AckPolicy::REPEATS_MAX)
}

/// The fewest ACKs a round trip with which a quarter of it seldom passes without one. Of n ACKs, n p / E
/// begin a burst, which takes n / 4 of them with probability P(lost | lost)^(n / 4 - 1).
fn acks_per_round(way_back: &Channel) -> u32 {
    if way_back.loss() < LOSS_MIN {
        return PER_ROUND_MIN;
    }
    let again = way_back.lost_after_lost();
    let begins = way_back.loss() * (1.0 - again);
    // Asked with every ACK: its powers are products.
    let power = |n: u32| libm::sqrt(libm::sqrt(again)).powi(n.cast_signed());
    let (mut per_round, mut lasts) = (PER_ROUND_MIN, power(PER_ROUND_MIN - 4));
    while per_round < PER_ROUND_MAX && f64::from(per_round) * begins * lasts > SILENCES_PER_ROUND {
        let more = per_round / 4;
        per_round += more;
        lasts *= power(more);
    }
    per_round.min(PER_ROUND_MAX)
}

#[cfg(test)]
mod tests {
    use fulmar_control::LossView;

    use super::*;
    use crate::PacketNumber;
    use crate::recovery::WayBack;

    fn channel(rate: f64, burst_packets: f64) -> Channel {
        Channel::new(&LossView { rate, burst_packets, weight_packets: 1000.0 })
    }

    /// Of every `period` of 1000 packets the first `lost` are.
    fn way_back(lost: u64, period: u64) -> WayBack {
        let mut way_back = WayBack::default();
        (0..1000).filter(|n| n % period >= lost).for_each(|n| _ = way_back.on_packet(PacketNumber(n), false));
        way_back
    }

    fn steady(ms: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new();
        rtt.on_sample(Instant::ZERO, Duration::from_millis(ms), Duration::ZERO);
        rtt
    }

    fn update(acks: &mut AckSpacing, window_packets: u64, rtt_ms: u64, way_back: &Channel) {
        acks.update(window_packets, &steady(rtt_ms), way_back, &mut BackRate::default());
    }

    #[test]
    fn eight_acks_a_round_trip_are_asked_for_once() {
        let clean = way_back(0, 1).channel();
        let mut acks = AckSpacing::default();
        update(&mut acks, 80, 80, &clean);
        let policy = AckPolicy { every_packets: 10, delay: Duration::from_millis(10), repeats: 0 };
        assert_eq!((acks.poll(), acks.poll()), (Some(policy), None));
        update(&mut acks, 90, 90, &clean);
        assert_eq!(acks.poll(), None, "close to what was asked for");
        update(&mut acks, 100_000, 1000, &clean);
        assert_eq!(acks.poll(), Some(AckPolicy { every_packets: 64, delay: DELAY_MAX, repeats: 0 }));
    }

    /// Many for a connection that is young, and the last of them again.
    #[test]
    fn a_young_way_back_is_asked_for_more_of_them() {
        let asked = |way_back: WayBack| {
            let mut acks = AckSpacing::default();
            update(&mut acks, 160, 80, &way_back.at_worst());
            acks.poll().unwrap()
        };
        let (young, known) = (asked(WayBack::default()), asked(way_back(0, 1)));
        assert!(young.every_packets <= 2 && known.every_packets == 20, "{young:?}, {known:?}");
        assert!(young.repeats > 2 && known.repeats == 0, "{young:?}, {known:?}");
        assert!(asked(way_back(4, 20)).repeats > 2);
    }

    #[test]
    fn more_are_asked_for_the_longer_bursts_on_the_way_back_are() {
        let counts = [(0.001, 10.0), (0.05, 1.1), (0.05, 5.0), (0.10, 10.0), (0.20, 10.0)]
            .map(|(p, e)| acks_per_round(&channel(p, e)));
        assert_eq!(counts[0], PER_ROUND_MIN);
        assert!(counts.is_sorted() && counts[1] < 20 && counts[3] > 100, "{counts:?}");
    }

    #[test]
    fn no_more_are_asked_for_than_the_way_back_carries() {
        let mut acks = AckSpacing::default();
        // It loses most of them, in long runs: of a path by chance that would want many.
        let lossy = channel(0.8, 5.0);
        update(&mut acks, 40, 20, &lossy);
        assert_eq!(acks.poll().map(|policy| policy.every_packets), Some(1));
        acks.update(40, &steady(20), &lossy, &mut BackRate::full_at(200.0));
        let policy = acks.poll().expect("another");
        assert!(policy.every_packets == 10 && policy.delay == Duration::from_millis(5), "{policy:?}");
    }

    /// The receivers of old TCPs: each packet, or every second one within 40 to 200 ms.
    #[test]
    fn what_is_fixed_is_asked_for_once_and_stays() {
        let policy = AckPolicy { every_packets: 2, delay: Duration::from_millis(200), repeats: 0 };
        let mut acks = AckSpacing::default();
        acks.fix(policy);
        assert_eq!((acks.poll(), acks.delay_max()), (Some(policy), policy.delay));
        update(&mut acks, 1000, 20, &channel(0.1, 5.0));
        assert_eq!((acks.poll(), acks.delay()), (None, policy.delay));
    }

    #[test]
    fn fewer_are_asked_for_where_the_queue_of_a_way_back_that_was_full_makes_the_round_trip_long() {
        let mut rtt = steady(20);
        (1..100).for_each(|n| rtt.on_sample(at(n), Duration::from_millis(40), Duration::ZERO));
        let asked = |back_rate: &mut BackRate| {
            let mut acks = AckSpacing::default();
            acks.update(80, &rtt, &channel(0.0, 1.0), back_rate);
            acks.poll().expect("a policy").every_packets
        };
        assert_eq!(asked(&mut BackRate::default()), 10, "the queue of others");
        assert!((39..=41).contains(&asked(&mut BackRate::full_at(1e6))));
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }
}
