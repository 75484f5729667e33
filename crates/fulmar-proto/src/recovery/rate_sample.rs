//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation; BBR draft 4.1).
//!
//! The rate at which data were delivered between the sending of a packet and its ACK, taken over the longer
//! of the time it took to send them and the time it took to acknowledge them, so that ACK compression cannot
//! inflate it.

use fulmar_control::RateSample;
use fulmar_units::Instant;

/// State a packet carries from its sending to its ACK.
#[derive(Copy, Clone, Debug, Default)]
pub struct Stamp {
    delivered_bytes: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    lost_bytes: u64,
    is_app_limited: bool,
}

/// Estimates the delivery rate of one path.
#[derive(Debug, Default)]
pub struct RateSampler {
    delivered_bytes: u64,
    delivered_at: Instant,
    lost_bytes: u64,
    /// Send time of the packet that opened the current sampling interval.
    first_sent_at: Instant,
    /// While `delivered_bytes` is below this, samples were taken with too little data to send.
    app_limited_until: u64,
    /// Packet-timed round trips: one ends when a packet is acknowledged that was sent after the last one
    /// ended.
    round: u64,
    round_ends_at_bytes: u64,
}

impl RateSampler {
    /// Bytes delivered since the path began.
    pub fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Packet-timed round trips completed.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// A packet leaves; `in_flight_bytes` includes it. Returns the stamp to keep with it.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, in_flight_bytes: u64) -> Stamp {
        // An idle period must not count as time spent sending.
        if in_flight_bytes <= bytes {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered_bytes: self.delivered_bytes,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            lost_bytes: self.lost_bytes,
            is_app_limited: self.app_limited_until > self.delivered_bytes,
        }
    }

    /// The application left the window unused while `in_flight_bytes` were under way.
    pub fn on_app_limited(&mut self, in_flight_bytes: u64) {
        self.app_limited_until = (self.delivered_bytes + in_flight_bytes).max(1);
    }

    /// Bytes were declared lost.
    pub fn on_lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes;
    }

    /// Bytes were acknowledged. All of one ACK are counted before its sample is taken.
    pub fn on_delivered(&mut self, now: Instant, bytes: u64) {
        self.delivered_bytes += bytes;
        self.delivered_at = now;
    }

    /// The sample that the newest packet of an ACK completes; `None` if its interval is empty.
    pub fn sample(&mut self, stamp: &Stamp, sent_at: Instant) -> Option<RateSample> {
        if stamp.delivered_bytes >= self.round_ends_at_bytes {
            self.round += 1;
            self.round_ends_at_bytes = self.delivered_bytes;
        }
        let send_elapsed = sent_at - stamp.first_sent_at;
        let ack_elapsed = self.delivered_at - stamp.delivered_at;
        self.first_sent_at = self.first_sent_at.max(sent_at);
        let interval = send_elapsed.max(ack_elapsed);
        if interval.is_zero() {
            return None;
        }
        let mut sample =
            RateSample::new(self.delivered_bytes.saturating_sub(stamp.delivered_bytes), interval);
        sample.lost_bytes = self.lost_bytes.saturating_sub(stamp.lost_bytes);
        sample.is_app_limited = stamp.is_app_limited;
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_steady_flow_is_measured_at_its_rate() {
        // One packet of 1000 bytes each ms, RTT 10 ms: 1 MB/s.
        let mut sampler = RateSampler::default();
        let mut stamps = Vec::new();
        let mut last = None;
        for ms in 0..100 {
            if ms >= 10 {
                sampler.on_delivered(at(ms), 1000);
                last = sampler.sample(&stamps[(ms - 10) as usize], at(ms - 10));
            }
            let in_flight = 1000 * (ms.min(9) + 1);
            stamps.push(sampler.on_sent(at(ms), 1000, in_flight));
        }
        let sample = last.unwrap();
        assert_eq!(sample.rate.bytes_per_second(), 1_000_000);
        assert!(!sample.is_app_limited);
        assert!((8..=10).contains(&sampler.round()), "{}", sampler.round());
    }

    #[test]
    fn compressed_acks_do_not_inflate_the_rate() {
        let mut sampler = RateSampler::default();
        let stamps: Vec<_> = (0..10).map(|ms| sampler.on_sent(at(ms), 1000, 1000 * (ms + 1))).collect();
        // All ten ACKs come in one instant: the sending took 9 ms, and that bounds the rate.
        sampler.on_delivered(at(30), 10_000);
        let sample = sampler.sample(&stamps[9], at(9)).unwrap();
        assert_eq!(sample.interval, Duration::from_millis(30));
    }

    #[test]
    fn a_sender_without_data_is_marked() {
        let mut sampler = RateSampler::default();
        let stamp = sampler.on_sent(at(0), 1000, 1000);
        sampler.on_app_limited(1000);
        let limited = sampler.on_sent(at(1), 1000, 2000);
        sampler.on_delivered(at(10), 1000);
        assert!(!sampler.sample(&stamp, at(0)).unwrap().is_app_limited);
        sampler.on_delivered(at(11), 1000);
        assert!(sampler.sample(&limited, at(1)).unwrap().is_app_limited);
        assert!(!sampler.on_sent(at(12), 1000, 1000).is_app_limited);
    }
}
