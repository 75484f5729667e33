//! The bottleneck's rate, read from a flight through jitter.
//!
//! Jitter moves each packet by more than a packet takes, so that no four parts of a flight agree (see
//! `trains`). A line through all of its ACKs has the error of one of them over the root of their number:
//! three hundred packets that take 11 ms and come up to 5 ms late show the rate within a twentieth.
//!
//! Source: least squares; the standard error of a slope is s / sqrt(Sxx), s the residuals' standard
//! deviation.
//!
//! Units: packets, seconds. Invariant: at most [`POINTS_MAX`] points are kept, each the mean of as many ACKs.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::trains::{AGREEMENT, LONG_TRAIN, Train};
use crate::Feedback;

/// A flight is over, and the next begins, where nothing left for this part of the shortest round trip.
const GAP_PART: u32 = 4;
/// Points kept; when there are more, every two become their mean.
const POINTS_MAX: usize = 64;
/// Fewer show nothing.
const POINTS_MIN: usize = 16;
/// The slope is known if its standard error is no more than this share of it, and the halves of the flight
/// agree as the parts of a train do ([`AGREEMENT`]).
const ERROR_MAX: f64 = 0.05;
/// It is the bottleneck's if packets left in no more than this share of the time in which they arrived.
const SENT_SHARE: f64 = 0.75;

/// The mean of some ACKs: how many packets after the flight's first, and seconds since it when the newest of
/// them was sent, and answered.
#[derive(Copy, Clone, Debug, Default)]
struct Point {
    packet: f64,
    sent: f64,
    answered: f64,
}

/// The first ACK of a flight.
#[derive(Copy, Clone, Debug)]
struct Start {
    sent_at: Instant,
    ordinal: u32,
}

/// Watches the ACKs of one flight after the other.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    start: Option<Start>,
    newest_sent_at: Instant,
    packets: u32,
    acked_bytes: u64,
    acked_packets: u32,
    points: Vec<Point>,
    /// ACKs in each point but the last, and in that.
    acks_each: u32,
    acks_last: u32,
}

impl Flights {
    pub(super) fn new() -> Self {
        Self {
            start: None,
            newest_sent_at: Instant::ZERO,
            packets: 0,
            acked_bytes: 0,
            acked_packets: 0,
            points: Vec::new(),
            acks_each: 1,
            acks_last: 0,
        }
    }

    /// The flight that this ACK belongs to, if it shows the rate.
    pub(super) fn on_feedback(&mut self, feedback: &Feedback, rtt_min: Duration) -> Option<Train> {
        let sent_at = feedback.newest_acked_sent_at?;
        let rtt = feedback.rtt?.saturating_sub(feedback.ack_delay);
        if sent_at.saturating_duration_since(self.newest_sent_at) > rtt_min / GAP_PART {
            self.points.clear();
            *self = Self { points: core::mem::take(&mut self.points), ..Self::new() };
        }
        self.newest_sent_at = self.newest_sent_at.max(sent_at);
        let start = *self.start.get_or_insert(Start { sent_at, ordinal: feedback.newest_acked_ordinal });
        // The first ACK says when it came, not how much came with it.
        let packets = feedback.newest_acked_ordinal.wrapping_sub(start.ordinal);
        if packets == 0 || packets > u32::MAX / 2 {
            return None;
        }
        self.acked_bytes = self.acked_bytes.saturating_add(feedback.acked_bytes);
        self.acked_packets = self.acked_packets.saturating_add(feedback.acked_packets);
        self.packets = self.packets.max(packets);
        let sent = sent_at.saturating_duration_since(start.sent_at).as_secs_f64();
        self.add(Point { packet: f64::from(packets), sent, answered: sent + rtt.as_secs_f64() });
        self.train()
    }

    fn add(&mut self, ack: Point) {
        if self.acks_last == 0 || self.acks_last == self.acks_each {
            if self.points.len() == POINTS_MAX {
                self.points = self.points.chunks_exact(2).map(|pair| pair[0].mean(pair[1], 2)).collect();
                self.acks_each *= 2;
            }
            self.points.push(ack);
            self.acks_last = 1;
            return;
        }
        self.acks_last += 1;
        if let Some(last) = self.points.last_mut() {
            *last = last.mean(ack, self.acks_last);
        }
    }

    fn train(&self) -> Option<Train> {
        if self.packets < LONG_TRAIN || self.points.len() < POINTS_MIN {
            return None;
        }
        let whole = Line::through(&self.points)?;
        let is_bottleneck = whole.sent <= SENT_SHARE * whole.answered;
        let is_known = whole.answered > 0.0 && whole.error <= ERROR_MAX * whole.answered;
        if !is_bottleneck || !is_known {
            return None;
        }
        let (first, second) = self.points.split_at(self.points.len() / 2);
        let (first, second) = (Line::through(first)?.answered, Line::through(second)?.answered);
        if first.min(second) < AGREEMENT * first.max(second) {
            return None;
        }
        let packet_bytes = self.acked_bytes as f64 / f64::from(self.acked_packets.max(1));
        let rate = Rate::from_bytes_per_second((packet_bytes / whole.answered) as u64);
        Some(Train { rate, packets: self.packets, growth: None })
    }
}

impl Point {
    /// The mean, where `other` is one of `of`.
    fn mean(self, other: Self, of: u32) -> Self {
        let share = 1.0 / f64::from(of);
        let between = |own: f64, other: f64| own + (other - own) * share;
        Self {
            packet: between(self.packet, other.packet),
            sent: between(self.sent, other.sent),
            answered: between(self.answered, other.answered),
        }
    }
}

/// What a packet takes, in seconds: to leave, to arrive, and the standard error of that.
struct Line {
    sent: f64,
    answered: f64,
    error: f64,
}

impl Line {
    /// `None` of fewer than three points, or if all are of one packet.
    fn through(points: &[Point]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |what: fn(&Point) -> f64| points.iter().map(what).sum::<f64>() / count;
        let (packet, sent, answered) =
            (mean(|point| point.packet), mean(|point| point.sent), mean(|point| point.answered));
        let mut sums = [0.0; 4];
        for point in points {
            let [x, y, z] = [point.packet - packet, point.answered - answered, point.sent - sent];
            for (sum, product) in sums.iter_mut().zip([x * x, x * y, y * y, x * z]) {
                *sum += product;
            }
        }
        let [xx, xy, yy, xz] = sums;
        if points.len() < 3 || xx <= 0.0 {
            return None;
        }
        let residuals = (yy - xy * xy / xx).max(0.0) / (count - 2.0);
        Some(Self { sent: xz / xx, answered: xy / xx, error: libm::sqrt(residuals / xx) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u64 = 1000;
    const RTT: Duration = Duration::from_millis(400);

    /// Each of `packets` is sent and answered so many microseconds after the flight's begin, `RTT` aside.
    fn flight(flights: &mut Flights, begin: Duration, packets: &[(u64, u64)]) -> Vec<Train> {
        let mut acks: Vec<_> = packets.iter().copied().zip(0_u32..).collect();
        acks.sort_by_key(|((_, answered), _)| *answered);
        let found = acks.iter().filter_map(|&((sent, answered), ordinal)| {
            let sent_at = Instant::ZERO + begin + Duration::from_micros(sent);
            let rtt = RTT + Duration::from_micros(answered - sent);
            let mut feedback = Feedback::at(sent_at + rtt);
            (feedback.acked_bytes, feedback.acked_packets) = (MTU, 1);
            (feedback.newest_acked_sent_at, feedback.rtt) = (Some(sent_at), Some(rtt));
            feedback.newest_acked_ordinal = ordinal;
            flights.on_feedback(&feedback, RTT)
        });
        found.collect()
    }

    /// Up to `most` microseconds, another for each packet.
    fn jitter(packet: u64, most: u64) -> u64 {
        (((packet + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * most) >> 32
    }

    /// A packet each 40 us, sent in half of that, and delayed by up to 5 ms; in order or not.
    fn jittered(packets: u64, is_in_order: bool) -> Vec<(u64, u64)> {
        let mut latest = 0;
        let arrival = |packet| {
            let answered = 40 * packet + jitter(packet, 5000);
            latest = answered.max(latest);
            (20 * packet, if is_in_order { latest } else { answered })
        };
        (0..packets).map(arrival).collect()
    }

    #[test]
    fn a_long_flight_shows_the_rate_through_jitter() {
        for is_in_order in [false, true] {
            let found = flight(&mut Flights::new(), Duration::ZERO, &jittered(400, is_in_order));
            let last = found.last().expect("it is long enough");
            let off = last.rate.bytes_per_second() as f64 * 40e-6 / MTU as f64;
            assert!((0.85..1.1).contains(&off), "{off} of the rate, in order: {is_in_order}");
            assert!(last.packets > 300);
        }
    }

    #[test]
    fn a_short_one_does_not() {
        assert!(flight(&mut Flights::new(), Duration::ZERO, &jittered(60, false)).is_empty());
    }

    #[test]
    fn what_arrives_as_fast_as_it_was_sent_shows_nothing() {
        let packets: Vec<_> =
            (0..400).map(|packet| (40 * packet, 42 * packet + jitter(packet, 5000))).collect();
        assert!(flight(&mut Flights::new(), Duration::ZERO, &packets).is_empty());
    }

    #[test]
    fn a_flight_held_up_in_the_middle_shows_nothing() {
        let held = |packet: u64| if packet < 200 { 5 * packet } else { 40_000 + 5 * packet };
        let packets: Vec<_> = (0..400).map(|packet| (packet, held(packet))).collect();
        let found = flight(&mut Flights::new(), Duration::ZERO, &packets);
        assert!(found.iter().all(|train| train.packets < 200), "{found:?}");
    }

    #[test]
    fn each_flight_stands_alone_and_memory_is_bounded() {
        let mut flights = Flights::new();
        for begin in 0..5 {
            assert!(!flight(&mut flights, RTT * begin, &jittered(2000, false)).is_empty());
            assert!(flights.points.len() <= POINTS_MAX);
        }
    }
}
