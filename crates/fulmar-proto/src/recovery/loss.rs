//! Loss detection: which packets are lost, given which were acknowledged (RFC 9002 6.1).
//!
//! By packets: lost when a packet sent `threshold` later was acknowledged. By time: lost when a later packet
//! was acknowledged and more than 9/8 RTT have passed. Both adapt to reordering: when a packet declared lost
//! arrives after all, the packet threshold grows to what would have spared it and the time threshold by a
//! quarter of the RTT (RFC 8985 6.2, RACK's reordering window), and both shrink back slowly. A declared loss
//! is never final.

use std::time::Duration;

use super::{Lost, SentPackets};
use crate::{Instant, PacketNumber};

/// Where packets were further out of order than this, only time decides.
const THRESHOLD_MAX_PACKETS: u64 = 1000;
/// No packet is so far behind another.
const BY_TIME_ALONE: u64 = u64::MAX;
/// RFC 9002 6.1.2: kGranularity.
const GRANULARITY: Duration = Duration::from_millis(1);
/// RFC 8985 6.2: the reordering window grows by a quarter of the RTT ..
const WINDOW_STEP_EIGHTHS: u32 = 2;
/// .. up to one RTT above 9/8 of it.
const WINDOW_MAX_EIGHTHS: u32 = 9 + 8;
const WINDOW_MIN_EIGHTHS: u32 = 9;
/// RFC 8985 6.2: and shrinks after 16 rounds without reordering.
const PERSIST_ROUNDS: u64 = 16;

/// When the time threshold will declare the next loss.
pub type LossTime = Option<Instant>;

/// Decides what is lost.
#[derive(Debug)]
pub struct LossDetector {
    threshold_min_packets: u64,
    threshold_packets: u64,
    window_eighths: u32,
    /// Round in which reordering was last seen.
    reordered_in_round: u64,
    is_by_packets_alone: bool,
    is_in_order: bool,
    /// When time decides the next loss.
    due_at: LossTime,
}

impl LossDetector {
    /// A detector that begins with, and never goes below, a packet threshold of `reordering_packets` (RFC
    /// 9002 6.1.1: kPacketThreshold, 3).
    pub fn new(reordering_packets: u32) -> Self {
        let threshold_min_packets = u64::from(reordering_packets.max(1));
        Self {
            threshold_min_packets,
            threshold_packets: threshold_min_packets,
            window_eighths: WINDOW_MIN_EIGHTHS,
            reordered_in_round: 0,
            is_by_packets_alone: false,
            is_in_order: false,
            due_at: None,
        }
    }

    /// The same without the threshold by time, if `is_by_packets_alone`.
    pub fn by_packets_alone(self, is_by_packets_alone: bool) -> Self {
        Self { is_by_packets_alone, ..self }
    }

    /// The same which learns nothing of packets that come after all, if `is_in_order`: ACKs are what was
    /// late.
    pub fn in_order(self, is_in_order: bool) -> Self {
        Self { is_in_order, ..self }
    }

    /// Whether it learns nothing of packets that come after all.
    pub fn is_in_order(&self) -> bool {
        self.is_in_order
    }

    /// Packets that must have been acknowledged beyond one before it counts as lost.
    pub fn threshold_packets(&self) -> u64 {
        self.threshold_packets
    }

    /// How long after its sending a packet counts as lost once a later one was acknowledged, given the larger
    /// of the latest and the smoothed RTT.
    pub fn delay(&self, rtt: Duration) -> Duration {
        (rtt * self.window_eighths / 8).max(GRANULARITY)
    }

    /// When to look for losses again, as [`Self::look_again`] was told last.
    pub fn due_at(&self) -> LossTime {
        self.due_at
    }

    /// Losses are to be looked for at `at`.
    pub fn look_again(&mut self, at: LossTime) {
        self.due_at = at;
    }

    /// Declares the next packet lost that is lost at `now`; where there is none, says when time will decide
    /// next.
    pub fn poll<T: Copy>(
        &self,
        now: Instant,
        rtt: Duration,
        sent: &mut SentPackets<T>,
    ) -> Result<Lost<T>, LossTime> {
        let largest = sent.largest_acked().ok_or(None)?;
        // Numbers and send times both ascend, so the first packet that is not lost ends the search.
        let Some((number, packet)) = sent.oldest().filter(|(number, _)| *number <= largest) else {
            return Err(None);
        };
        let lost_at = packet.sent_at + self.delay(rtt);
        let is_lost_by_packets = largest.0 - number.0 >= self.threshold_packets;
        if !is_lost_by_packets && self.is_by_packets_alone {
            return Err(None);
        }
        if !is_lost_by_packets && lost_at > now {
            return Err(Some(lost_at));
        }
        sent.declare_oldest_lost().ok_or(None)
    }

    /// A packet that had been declared lost was acknowledged in an ACK whose largest number is `largest`.
    pub fn on_spurious(&mut self, number: PacketNumber, largest: PacketNumber, round: u64) {
        if self.is_in_order {
            return;
        }
        let distance = largest.0.saturating_sub(number.0) + 1;
        let needed = if distance > THRESHOLD_MAX_PACKETS { BY_TIME_ALONE } else { distance };
        self.threshold_packets = self.threshold_packets.max(needed);
        if round > self.reordered_in_round {
            self.window_eighths = (self.window_eighths + WINDOW_STEP_EIGHTHS).min(WINDOW_MAX_EIGHTHS);
        }
        self.reordered_in_round = round;
    }

    /// A round trip began. Without reordering for long, the thresholds come back down.
    pub fn on_round(&mut self, round: u64) {
        if round >= self.reordered_in_round + PERSIST_ROUNDS {
            self.reordered_in_round = round;
            let threshold = self.threshold_packets.min(2 * THRESHOLD_MAX_PACKETS) / 2;
            self.threshold_packets = threshold.max(self.threshold_min_packets);
            self.window_eighths =
                (self.window_eighths - WINDOW_STEP_EIGHTHS.min(self.window_eighths)).max(WINDOW_MIN_EIGHTHS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::{Cargo, RateSampler, SentPacket};

    const RTT: Duration = Duration::from_millis(80);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn send(sent: &mut SentPackets<()>, sent_at: Instant) {
        let stamp = RateSampler::default().on_sent(sent_at, 1000, 1000);
        sent.push(SentPacket {
            sent_at,
            bytes: 1000,
            cargo: Cargo::Given(()),
            is_ect: false,
            ordinal: 0,
            stamp,
        });
    }

    fn ack(sent: &mut SentPackets<()>, number: u64) -> bool {
        let mut was_lost = false;
        sent.on_ack_range(PacketNumber(number), PacketNumber(number), &mut 1, |acked| {
            was_lost |= acked.was_lost
        });
        was_lost
    }

    fn detect(detector: &LossDetector, sent: &mut SentPackets<()>, now: Instant) -> (Vec<u64>, LossTime) {
        let mut lost = Vec::new();
        let next = loop {
            match detector.poll(now, RTT, sent) {
                Ok(found) => lost.push(found.number.0),
                Err(next) => break next,
            }
        };
        (lost, next)
    }

    #[test]
    fn rfc_9002_6_1_1_three_later_packets_make_a_loss() {
        let (detector, mut sent) = (LossDetector::new(3), SentPackets::default());
        (0..6).for_each(|ms| send(&mut sent, at(ms)));
        ack(&mut sent, 2);
        assert_eq!(detect(&detector, &mut sent, at(80)).0, Vec::<u64>::new());
        ack(&mut sent, 3);
        assert_eq!(detect(&detector, &mut sent, at(80)).0, [0]);
    }

    #[test]
    fn rfc_9002_6_1_2_nine_eighths_of_the_rtt_make_a_loss() {
        let (detector, mut sent) = (LossDetector::new(3), SentPackets::default());
        send(&mut sent, at(0));
        send(&mut sent, at(1));
        ack(&mut sent, 1);
        let (lost, next) = detect(&detector, &mut sent, at(81));
        assert_eq!((lost.len(), next), (0, Some(at(90))));
        // The wake-up time is the time at which something happens, and not earlier.
        assert_eq!(detect(&detector, &mut sent, at(90) - Duration::from_nanos(1)).0.len(), 0);
        assert_eq!(detect(&detector, &mut sent, at(90)), (vec![0], None));
    }

    /// RFC 5681 3.2: the third duplicate ACK, and nothing sooner but the timeout.
    #[test]
    fn by_packets_alone_time_makes_no_loss() {
        let detector = LossDetector::new(3).by_packets_alone(true);
        let mut sent = SentPackets::default();
        (0..4).for_each(|ms| send(&mut sent, at(ms)));
        ack(&mut sent, 2);
        assert_eq!(detect(&detector, &mut sent, at(10_000)), (vec![], None));
        ack(&mut sent, 3);
        assert_eq!(detect(&detector, &mut sent, at(10_000)), (vec![0], None));
    }

    #[test]
    fn nothing_is_lost_beyond_the_largest_acknowledged() {
        let (detector, mut sent) = (LossDetector::new(3), SentPackets::default());
        (0..10).for_each(|_| send(&mut sent, at(0)));
        assert_eq!(detect(&detector, &mut sent, at(10_000)), (vec![], None));
    }

    #[test]
    fn thresholds_adapt_to_reordering_and_come_back() {
        let (mut detector, mut sent) = (LossDetector::new(3), SentPackets::default());
        (0..100).for_each(|_| send(&mut sent, at(0)));
        ack(&mut sent, 20);
        assert_eq!(detect(&detector, &mut sent, at(80)).0.len(), 18);
        assert!(ack(&mut sent, 5));
        detector.on_spurious(PacketNumber(5), PacketNumber(20), 1);
        assert_eq!(detector.threshold_packets(), 16);
        assert_eq!(detector.delay(RTT), RTT * 11 / 8);
        ack(&mut sent, 30);
        // 18..=29 are within 16 of 30 except those below 15; time decides for the rest.
        assert_eq!(detect(&detector, &mut sent, at(81)).0, Vec::<u64>::new());
        (0..200).for_each(|round| detector.on_round(round));
        assert_eq!((detector.threshold_packets(), detector.delay(RTT)), (3, RTT * 9 / 8));
    }

    /// At 800 Mb/s and 25 ms of jitter packets overtake two thousand others: a third of what was sent went
    /// out twice.
    #[test]
    fn packets_that_overtake_more_than_a_thousand_are_judged_by_time() {
        let (mut detector, mut sent) = (LossDetector::new(3), SentPackets::default());
        (0..6000).for_each(|_| send(&mut sent, at(0)));
        detector.on_spurious(PacketNumber(5), PacketNumber(2005), 1);
        ack(&mut sent, 5999);
        assert_eq!(detect(&detector, &mut sent, at(80)).0, Vec::<u64>::new());
        assert_eq!(detect(&detector, &mut sent, at(110)).0.len(), 5999);
        (0..200).for_each(|round| detector.on_round(round));
        assert_eq!(detector.threshold_packets(), 3);
    }
}
