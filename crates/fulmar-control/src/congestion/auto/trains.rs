//! Packet trains: the bottleneck's rate, read from a queue while it grows.
//!
//! While packets wait, the bottleneck is never idle, so they leave it at its rate, however they were sent. A
//! *train* is a run of packets during which the round trip grows steadily; all of it, lost packets too, over
//! the time that its ACKs took, is the rate of the bottleneck. The ten packets of the first
//! flight are such a train on most paths, so that the rate is known after one round trip, and a flow that its
//! peer's flow control holds back shows it too, which its rate over a round trip does not.
//!
//! Source: packet-pair dispersion (Keshav 1991; Dovrolis, Ramanathan, Moore 2004). It is fooled by delay that
//! is no queue; so a train counts only if it lasts longer than the hosts' noise, if its parts agree, and
//! if ACKs came clearly slower than the packets left; and start-up takes it back when what it promised does
//! not arrive.
//!
//! Units: bytes, time. Invariant: at most [`POINTS_MAX`] points are kept.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

use crate::Feedback;

/// A train of fewer packets is no measurement, nor is one whose ACKs divide it into fewer parts; no more are
/// compared.
const PACKETS_MIN: u32 = 6;
const PARTS_MIN: usize = 3;
const PARTS_MAX: usize = 4;
/// By so much a train must have stretched the round trip: the hosts' own noise seldom does so evenly. The
/// first ten packets do on a link of a gigabit.
const GROWTH_MIN: Duration = Duration::from_micros(100);
/// By this share of the time in which it was acknowledged: else it was hardly faster than the bottleneck.
const GROWTH_SHARE: f64 = 0.2;
/// The slowest part of a train arrives at no less than this share of the fastest one's rate.
pub(super) const AGREEMENT: f64 = 0.6;
/// A train of fewer packets may be chance, where there is jitter.
pub(super) const LONG_TRAIN: u32 = 64;
/// Points kept; every other one is dropped when there are more.
const POINTS_MAX: usize = 64;

/// An ACK of a train.
#[derive(Copy, Clone, Debug)]
struct Point {
    /// When the newest packet that it acknowledges was answered, as far as this end sees.
    answered_at: Instant,
    rtt: Duration,
    /// Which packet that is.
    ordinal: u32,
    /// Bytes and packets acknowledged so far.
    acked_bytes: u64,
    acked_packets: u32,
}

impl Point {
    /// Packets sent since `earlier`, lost ones too: those passed the bottleneck, for its queue was not full
    /// yet.
    fn packets_since(&self, earlier: &Self) -> u32 {
        self.ordinal.wrapping_sub(earlier.ordinal)
    }

    fn time_since(&self, earlier: &Self) -> Duration {
        self.answered_at.saturating_duration_since(earlier.answered_at)
    }
}

/// What a train says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Train {
    /// The rate at which the bottleneck let it through.
    pub(super) rate: Rate,
    /// How long it was.
    pub(super) packets: u32,
    /// By how much it stretched the round trip; `None` where that is not what showed it.
    pub(super) growth: Option<Duration>,
}

/// Watches ACKs for trains.
#[derive(Clone, Debug, Default)]
pub(super) struct Trains {
    acked_bytes: u64,
    acked_packets: u32,
    points: Vec<Point>,
}

impl Trains {
    /// The train that this ACK belongs to, if it is one.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback) -> Option<Train> {
        self.acked_bytes = self.acked_bytes.saturating_add(feedback.acked_bytes);
        self.acked_packets = self.acked_packets.saturating_add(feedback.acked_packets);
        // What the peer held back is no queue.
        let rtt = feedback.rtt?.saturating_sub(feedback.ack_delay);
        let point = Point {
            answered_at: feedback.newest_acked_sent_at? + rtt,
            rtt,
            ordinal: feedback.newest_acked_ordinal,
            acked_bytes: self.acked_bytes,
            acked_packets: self.acked_packets,
        };
        if self.points.first().is_none_or(|first| rtt <= first.rtt) {
            self.points.clear();
        }
        if self.points.len() == POINTS_MAX {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.points.push(point);
        // A train may have begun after the oldest of the points.
        let count = self.points.len();
        [0, count / 2, count * 3 / 4].into_iter().find_map(|start| train(&self.points[start..]))
    }
}

/// What these points say, if they are a train.
fn train(points: &[Point]) -> Option<Train> {
    let (first, last) = (points.first()?, points.last()?);
    let packets = last.packets_since(first);
    let growth = last.rtt.saturating_sub(first.rtt);
    let elapsed = last.time_since(first);
    let is_queue = growth >= GROWTH_MIN && growth >= elapsed.mul_f64(GROWTH_SHARE);
    if !is_queue || packets < PACKETS_MIN || !do_parts_agree(points, packets, growth) {
        return None;
    }
    let acked_packets = u64::from(last.acked_packets.wrapping_sub(first.acked_packets).max(1));
    let bytes = u64::from(packets) * (last.acked_bytes - first.acked_bytes) / acked_packets;
    Some(Train { rate: Rate::from_bytes_in(bytes, elapsed)?, packets, growth: Some(growth) })
}

/// Each part of the train, a quarter or what lies between two points if there are fewer, arrived at about the
/// same rate, and met a longer queue than the one before.
fn do_parts_agree(points: &[Point], packets: u32, growth: Duration) -> bool {
    let first = &points[0];
    let parts = (points.len() - 1).min(PARTS_MAX);
    if parts < PARTS_MIN {
        return false;
    }
    let mut start = first;
    let (mut slowest, mut fastest) = (f64::MAX, 0.0_f64);
    for part in 1..=parts {
        let due = u64::from(packets) * part as u64 / parts as u64;
        let distance = |point: &&Point| u64::from(point.packets_since(first)).abs_diff(due);
        let is_later = |point: &&Point| point.packets_since(first) > start.packets_since(first);
        let Some(end) = points.iter().filter(is_later).min_by_key(distance) else { return false };
        let elapsed = end.time_since(start).as_secs_f64();
        let part_packets = f64::from(end.packets_since(start));
        let due_growth = growth.mul_f64(part_packets / f64::from(packets));
        if end.rtt < start.rtt + due_growth / 2 || elapsed <= 0.0 {
            return false;
        }
        let rate = part_packets / elapsed;
        (slowest, fastest) = (slowest.min(rate), fastest.max(rate));
        start = end;
    }
    slowest >= AGREEMENT * fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u32 = 1000;

    /// Packets sent at `sent_micros`, each answered at `answered_micros`, acknowledged one by one.
    fn trains(packets: impl Iterator<Item = (u64, u64)>) -> Option<Train> {
        let (mut trains, mut ordinal) = (Trains::default(), 0);
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        packets.fold(None, |found, (sent, answered)| {
            let mut feedback = Feedback::at(at(answered));
            (feedback.acked_bytes, feedback.acked_packets) = (u64::from(MTU), 1);
            feedback.newest_acked_sent_at = Some(at(sent));
            feedback.rtt = Some(at(answered) - at(sent));
            ordinal += 1;
            feedback.newest_acked_ordinal = ordinal;
            trains.on_feedback(&feedback).or(found)
        })
    }

    /// One of nine packets after the first.
    fn train_of(bytes_per_second: u64, growth_micros: u64) -> Train {
        let growth = Some(Duration::from_micros(growth_micros));
        Train { rate: Rate::from_bytes_per_second(bytes_per_second), packets: 9, growth }
    }

    #[test]
    fn a_flight_sent_at_once_shows_the_bottleneck() {
        // A packet every 400 us: 2.5 MB/s.
        let found = trains((0..10).map(|packet| (0, 100_000 + 400 * packet)));
        assert_eq!(found, Some(train_of(2_500_000, 3600)));
    }

    #[test]
    fn of_a_gigabit_ten_packets_are_enough_and_what_is_shorter_is_noise() {
        let found = trains((0..10).map(|packet| (0, 100_000 + 12 * packet)));
        assert_eq!(found, Some(train_of(83_333_333, 108)));
        assert_eq!(trains((0..10).map(|packet| (0, 100_000 + 11 * packet))), None);
    }

    /// What packets sent at once show whose ACKs came, each with its place in the train and how many
    /// microseconds more than 100 ms it took.
    fn acked(packets: &[(u32, u64)]) -> Vec<Train> {
        let mut trains = Trains::default();
        let found = packets.iter().filter_map(|&(ordinal, micros)| {
            let rtt = Duration::from_micros(100_000 + micros);
            let mut feedback = Feedback::at(Instant::ZERO + rtt);
            (feedback.acked_bytes, feedback.acked_packets) = (u64::from(MTU), 1);
            (feedback.newest_acked_sent_at, feedback.rtt) = (Some(Instant::ZERO), Some(rtt));
            feedback.newest_acked_ordinal = ordinal;
            trains.on_feedback(&feedback)
        });
        found.collect()
    }

    #[test]
    fn of_a_train_with_losses_a_few_acks_are_enough() {
        // Three parts, of 2, 3 and 4 packets.
        let found = acked(&[(0, 0), (2, 800), (5, 2000), (9, 3600)]);
        assert_eq!(found, [train_of(2_500_000, 3600)]);
    }

    /// A packet each 22 us, of which some are lost, or their ACKs: a part is a single one.
    #[test]
    fn the_parts_of_a_train_with_losses_are_not_equally_long() {
        let found = acked(&[(1, 0), (3, 44), (6, 110), (7, 132), (8, 154), (9, 176), (10, 198)]);
        let packets: Vec<u32> = found.iter().map(|train| train.packets).collect();
        assert_eq!(packets, [6, 7, 8, 9]);
        assert!(found.iter().all(|train| train.rate.bytes_per_second() == 45_454_545), "{found:?}");
    }

    #[test]
    fn what_arrives_as_fast_as_it_was_sent_shows_nothing() {
        assert_eq!(trains((0..100).map(|packet| (400 * packet, 100_000 + 410 * packet))), None);
    }

    #[test]
    fn a_stall_and_a_delay_that_comes_and_goes_are_no_train() {
        let stalled = |packet| if packet < 10 { 100_000 + 100 * packet } else { 600_000 + 100 * packet };
        assert_eq!(trains((0..20).map(|packet| (100 * packet, stalled(packet)))), None);
        let jitter =
            |packet: u64| 100_000 + 100 * packet + ((packet + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50);
        let mut latest = 0;
        let in_order = (0..400).map(|packet| {
            latest = jitter(packet).max(latest);
            (100 * packet, latest)
        });
        assert_eq!(trains(in_order), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = Trains::default();
        for packet in 0..10_000u64 {
            let sent = Instant::ZERO + Duration::from_micros(packet);
            let mut feedback = Feedback::at(sent + Duration::from_micros(100_000 + packet));
            (feedback.acked_bytes, feedback.acked_packets) = (u64::from(MTU), 1);
            (feedback.newest_acked_sent_at, feedback.rtt) = (Some(sent), Some(feedback.now - sent));
            feedback.newest_acked_ordinal = packet as u32;
            all.on_feedback(&feedback);
            assert!(all.points.len() <= POINTS_MAX);
        }
    }
}
