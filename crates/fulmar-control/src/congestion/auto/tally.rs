//! What one packet-timed round trip brought: the sample every slower decision rests on.
//!
//! Packets sent in one round are resolved in the next, so a round's losses are judged by the pace of the
//! round before. Units: packets, bytes, time. A round touched by a black-out is marked and teaches nothing
//! about loss.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::drains::dip_margin;
use super::pulses::Swing;
use crate::Feedback;

/// So many bandwidth-delay products fill a path for certain; start-up has up to 2.77 of them under way.
const FILLED: f64 = 1.75;
/// Round trips that go so many times their range up and down are jitter's: up and down once is what a queue
/// does.
pub(super) const TURNS_MIN: f64 = 2.0;
/// Fewer samples of the round trip have no shape.
const SHAPE_SAMPLES_MIN: u32 = 4;

/// Sums over one round.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) acked_packets: u32,
    pub(super) acked_bytes: u64,
    pub(super) lost_packets: u32,
    pub(super) marked_packets: u32,
    /// The path's shortest RTT when the round began.
    pub(super) known_rtt_min: Option<Duration>,
    /// Smallest RTT of the round; `Duration::MAX` without a sample.
    pub(super) rtt_min: Duration,
    pub(super) rtt_samples: u32,
    rtt_sum: Duration,
    rtt_max: Duration,
    /// When the longest was seen.
    rtt_max_at: Instant,
    rtt_last: Duration,
    /// When its packet left.
    sent_last_at: Option<Instant>,
    /// How far the round trip has fallen of late, beyond what half of the time explains, and the most of it.
    falling: Duration,
    rtt_fall: Duration,
    /// The way the round trip went up and down.
    rtt_way: Duration,
    /// The newest sample of the link's rate, the earlier ones and their sum in bytes per second.
    newest_link: Option<(Instant, Rate)>,
    link_samples: u32,
    link_sum: u64,
    /// Largest delivery rate of the round that the application did not limit, as measured at the receiver.
    pub(super) delivery_rate: Rate,
    /// The same on the wire: see `model`.
    pub(super) link_rate: Rate,
    /// Most that was under way.
    pub(super) in_flight_bytes: u64,
    /// The sender was held back by window or pacer at least once.
    pub(super) is_window_limited: bool,
    /// The application, or the receiver's flow control, left too little to send for a part of it.
    pub(super) is_app_limited: bool,
    /// A black-out lasted into it.
    pub(super) is_blackout: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            acked_packets: 0,
            acked_bytes: 0,
            lost_packets: 0,
            marked_packets: 0,
            known_rtt_min: None,
            rtt_min: Duration::MAX,
            rtt_samples: 0,
            rtt_sum: Duration::ZERO,
            rtt_max: Duration::ZERO,
            rtt_max_at: Instant::ZERO,
            rtt_last: Duration::ZERO,
            sent_last_at: None,
            falling: Duration::ZERO,
            rtt_fall: Duration::ZERO,
            rtt_way: Duration::ZERO,
            newest_link: None,
            link_samples: 0,
            link_sum: 0,
            delivery_rate: Rate::ZERO,
            link_rate: Rate::ZERO,
            in_flight_bytes: 0,
            is_window_limited: false,
            is_app_limited: false,
            is_blackout: false,
        }
    }

    /// Nothing yet, on a path whose shortest round trip is `rtt_min` as far as is known.
    pub(super) fn above(rtt_min: Option<Duration>) -> Self {
        Self { known_rtt_min: rtt_min, ..Self::new() }
    }

    /// Takes in feedback on a path whose shortest round trip is `rtt_min`.
    pub(super) fn add(&mut self, feedback: &Feedback, rtt_min: Duration) {
        self.acked_packets = self.acked_packets.saturating_add(feedback.acked_packets);
        self.acked_bytes = self.acked_bytes.saturating_add(feedback.acked_bytes);
        self.lost_packets =
            self.lost_packets.saturating_add(feedback.lost.packets).saturating_sub(feedback.spurious_packets);
        self.marked_packets = self.marked_packets.saturating_add(feedback.ecn_ce_packets);
        if let Some(rtt) = feedback.rtt {
            // What the peer held back is no queue.
            let rtt = rtt.saturating_sub(feedback.ack_delay).max(rtt_min.min(rtt));
            if self.rtt_samples > 0 {
                self.rtt_way = self.rtt_way.saturating_add(rtt.abs_diff(self.rtt_last));
            }
            if let (Some(before), Some(sent)) = (self.sent_last_at, feedback.newest_acked_sent_at) {
                self.falling = (self.falling + self.rtt_last).saturating_sub(rtt + (sent - before) / 2);
                self.rtt_fall = self.rtt_fall.max(self.falling);
            }
            self.sent_last_at = feedback.newest_acked_sent_at;
            self.rtt_last = rtt;
            if rtt > self.rtt_max {
                (self.rtt_max, self.rtt_max_at) = (rtt, feedback.now);
            }
            self.rtt_min = self.rtt_min.min(rtt);
            self.rtt_samples = self.rtt_samples.saturating_add(1);
            self.rtt_sum = self.rtt_sum.saturating_add(rtt);
        }
        self.in_flight_bytes = self.in_flight_bytes.max(feedback.in_flight_bytes_before);
        self.is_window_limited |= feedback.is_window_limited;
        self.is_app_limited |= feedback.rate_sample.is_some_and(|sample| sample.is_app_limited);
    }

    /// Too little was left to send for a part of the round, yet in another more was under way than the
    /// `bdp_bytes` that the path holds at the highest rate it ever had.
    pub(super) fn has_filled(&self, bdp_bytes: u64) -> bool {
        self.is_app_limited && !self.is_blackout && self.in_flight_bytes as f64 > bdp_bytes as f64 * FILLED
    }

    /// Mean RTT of the round.
    pub(super) fn rtt_mean(&self) -> Option<Duration> {
        (self.rtt_samples > 0).then(|| self.rtt_sum / self.rtt_samples)
    }

    /// There are samples enough to see how the round trip moved.
    pub(super) fn has_shape(&self) -> bool {
        self.rtt_samples >= SHAPE_SAMPLES_MIN
    }

    /// From the shortest round trip to the longest.
    pub(super) fn rtt_range(&self) -> Duration {
        self.rtt_max.saturating_sub(self.rtt_min)
    }

    /// Its longest round trip, when that was seen, and the distance from the shortest.
    pub(super) fn swing(&self) -> Option<Swing> {
        let swing = Swing { rtt_max: self.rtt_max, at: self.rtt_max_at, range: self.rtt_range() };
        self.has_shape().then_some(swing)
    }

    /// How many times that range the round trip went, up or down.
    pub(super) fn rtt_turns(&self) -> f64 {
        self.rtt_way.as_secs_f64() / self.rtt_range().as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// How far it fell at most faster than half of the time in which its packets left: see `moves`.
    pub(super) fn rtt_fall(&self) -> Duration {
        self.rtt_fall
    }

    /// A sample of the link's rate: see `model`. Of ACKs that come at once only the last has all that
    /// arrived.
    pub(super) fn add_link_rate(&mut self, now: Instant, rate: Rate) {
        self.link_rate = self.link_rate.max(rate);
        if let Some((_, earlier)) = self.newest_link.replace((now, rate)).filter(|(at, _)| *at != now) {
            self.link_samples = self.link_samples.saturating_add(1);
            self.link_sum = self.link_sum.saturating_add(earlier.bytes_per_second());
        }
    }

    /// The mean of those samples.
    pub(super) fn link_rate_mean(&self) -> Option<Rate> {
        let (_, newest) = self.newest_link?;
        let sum = self.link_sum.saturating_add(newest.bytes_per_second());
        Some(Rate::from_bytes_per_second(sum / (u64::from(self.link_samples) + 1)))
    }

    /// The round found a round trip clearly shorter than any that was known.
    pub(super) fn found_shorter_rtt(&self) -> bool {
        let is_shorter = |known| self.rtt_min + dip_margin(self.rtt_min, Duration::ZERO) < known;
        self.rtt_samples > 0 && self.known_rtt_min.is_some_and(is_shorter)
    }

    /// Lost packets over those whose fate the round settled.
    pub(super) fn lost_share(&self) -> f64 {
        f64::from(self.lost_packets) / f64::from(self.packets().max(1))
    }

    /// Packets whose fate the round settled.
    pub(super) fn packets(&self) -> u32 {
        self.acked_packets.saturating_add(self.lost_packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_round_trip_is_one_that_was_not_known() {
        let ms = Duration::from_millis;
        let found = |known, rtt| {
            let mut tally = Tally::above(known);
            (tally.rtt_min, tally.rtt_samples) = (rtt, 1);
            tally.found_shorter_rtt()
        };
        assert!(found(Some(ms(38)), ms(37)));
        assert!(!found(Some(ms(38)), ms(38)) && !found(Some(ms(20)), ms(37)) && !found(None, ms(37)));
        assert!(!Tally::above(Some(ms(38))).found_shorter_rtt(), "no sample");
    }
}
