//! How the peer is asked to space its ACKs (after draft-ietf-quic-ack-frequency).
//!
//! Decides how many packets and how much time an ACK may wait for. Too few ACKs make a sender blind, too many
//! cost both ends time. On a path back that loses nothing there are about eight per round trip. Where ACKs
//! are lost in bursts there are as many as make a silence longer than a quarter of a round trip improbable: a
//! burst takes packets, so many ACKs make it short.

use std::time::Duration;

use fulmar_control::Channel;

use super::AckPolicy;
use crate::Instant;

/// ACKs per round trip where none is lost.
const PER_ROUND_MIN: u32 = 8;
/// And at most.
const PER_ROUND_MAX: u32 = 256;
/// Silences of a quarter of a round trip that may be expected in each: one in so many rounds.
const SILENCES_PER_ROUND: f64 = 0.02;
/// Where a loss on the way back is this rare, a silence costs less than the ACKs.
const LOSS_MIN: f64 = 0.002;
/// Probability that the last ACK and all its repetitions are lost in one burst.
const ALL_LOST: f64 = 0.1;
const EVERY_MAX: u64 = 64;
const DELAY_MIN: Duration = Duration::from_millis(1);
/// Eight in a round trip of 0.8 s. More of them would cost both ends as much as they do on a short path, and tell no more.
const DELAY_MAX: Duration = Duration::from_millis(100);
/// A policy this close to the one asked for is not worth a frame.
const NEAR: f64 = 1.5;

/// What the peer was asked for, and what it is still to be told.
#[derive(Debug, Default)]
pub struct AckSpacing {
    asked: AckPolicy,
    pending: Option<AckPolicy>,
    /// When an ACK was last asked for at once.
    asked_at: Instant,
    /// The peer's own longest delay, from the handshake.
    peer_delay_max: Option<Duration>,
}

impl AckSpacing {
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
        self.pending.take()
    }

    /// Whether the last symbol of a flight may ask to be acknowledged at once: not every one of a trickle at
    /// high speed may.
    pub fn may_ask_now(&mut self, now: Instant, rtt: Duration) -> bool {
        let may = now - self.asked_at > rtt / PER_ROUND_MIN;
        if may {
            self.asked_at = now;
        }
        may
    }

    /// The window, in packets, the smoothed RTT, and what the path back does are now these.
    pub(super) fn update(&mut self, window_packets: u64, rtt: Duration, way_back: &Channel) {
        let per_round = acks_per_round(way_back);
        let every_packets = (window_packets / u64::from(per_round)).clamp(1, EVERY_MAX) as u32;
        // One for every packet is for paths that need it.
        let every_packets = if per_round == PER_ROUND_MIN { every_packets.max(2) } else { every_packets };
        let delay = (rtt / per_round).clamp(DELAY_MIN, DELAY_MAX);
        let repeats = repeats(way_back);
        let is_near = |new: f64, old: f64| new <= old * NEAR && new * NEAR >= old;
        let is_fine = is_near(f64::from(every_packets), f64::from(self.asked.every_packets))
            && is_near(delay.as_secs_f64(), self.asked.delay.as_secs_f64())
            && (repeats == 0) == (self.asked.repeats == 0);
        if !is_fine {
            self.asked = AckPolicy { every_packets, delay, repeats };
            self.pending = Some(self.asked);
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
        (0..1000).filter(|n| n % period >= lost).for_each(|n| way_back.on_packet(PacketNumber(n)));
        way_back
    }

    #[test]
    fn eight_acks_a_round_trip_are_asked_for_once() {
        let clean = way_back(0, 1).channel();
        let mut acks = AckSpacing::default();
        acks.update(80, Duration::from_millis(80), &clean);
        let policy = AckPolicy { every_packets: 10, delay: Duration::from_millis(10), repeats: 0 };
        assert_eq!((acks.poll(), acks.poll()), (Some(policy), None));
        acks.update(90, Duration::from_millis(90), &clean);
        assert_eq!(acks.poll(), None, "close to what was asked for");
        acks.update(100_000, Duration::from_secs(1), &clean);
        assert_eq!(acks.poll(), Some(AckPolicy { every_packets: 64, delay: DELAY_MAX, repeats: 0 }));
    }

    /// Many for a connection that is young, and the last of them again.
    #[test]
    fn a_young_way_back_is_asked_for_more_of_them() {
        let asked = |way_back: WayBack| {
            let mut acks = AckSpacing::default();
            acks.update(160, Duration::from_millis(80), &way_back.at_worst());
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
}
