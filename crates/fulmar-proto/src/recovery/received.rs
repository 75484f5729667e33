//! The receiving end of acknowledgement: what arrived, and when to say so.
//!
//! Decides when an ACK is due (RFC 9000 13.2; spacing asked for by the peer after
//! draft-ietf-quic-ack-frequency), and is the replay protection: a packet number is accepted once. Bounded:
//! at most [`RANGES_MAX`] ranges are remembered, and what is below them counts as received.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::{Ecn, RangeSet};
use crate::wire::frame::{ACK_RANGES_MAX, EcnCounts};
use crate::{Instant, PacketNumber};

/// Ranges remembered. Where jitter mixes packets every fourth begins a range, so that is some 4,000 packets of
/// tolerance to reordering: 50 ms at 1 Gb/s.
const RANGES_KEPT: usize = 1024;
/// With more than so many the surplus is forgotten at once: one by one, each would move all the others.
const RANGES_MAX: usize = RANGES_KEPT + RANGES_KEPT / 4;
/// The highest ranges are reported in every ACK.
const REPORTED_MIN: usize = 32;
/// Packets that came late, below those ranges, which are reported until so many more came.
const LATE_MAX: usize = 31;

/// Packets no further apart than so many times the longest delay of an ACK are a flow.
const FLOWING_DELAYS: u32 = 16;
/// From so many packets on that were acknowledged and asked for nothing, an ACK asks to be acknowledged now
/// and again.
const UNANSWERED_MANY: u32 = 8;

/// Packets with numbers below this are acknowledged one by one: the sender has nothing else yet to measure the path
/// with, and trains of ten packets of which some are lost leave few ACKs.
const FIRST_PACKETS: u64 = 64;

/// How the peer wants its packets acknowledged.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckPolicy {
    /// At least after so many ack-eliciting packets.
    pub every_packets: u32,
    /// At least after so long.
    pub delay: Duration,
    /// An ACK after which nothing comes is repeated so often: it may be lost, and the other end wait for it.
    pub repeats: u8,
}

impl AckPolicy {
    /// No ACK is repeated more often, whatever the peer asks for.
    pub const REPEATS_MAX: u8 = 10;
}

impl Default for AckPolicy {
    fn default() -> Self {
        // RFC 9000 13.2.2: every second packet; 18.2: max_ack_delay of 25 ms.
        Self { every_packets: 2, delay: Duration::from_millis(25), repeats: 0 }
    }
}

/// What a packet number turned out to be.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Not seen before.
    New,
    /// Seen before, or so old that this cannot be told.
    Duplicate,
}

/// Packet numbers received in one packet-number space.
#[derive(Debug)]
pub struct Received {
    ranges: RangeSet,
    /// Everything below counts as received.
    floor: u64,
    /// An ACK that arrived reported everything from here to some range above.
    reported_below: u64,
    /// The newest packets that came below what every ACK reports.
    late: VecDeque<u64>,
    largest_at: Instant,
    ecn: EcnCounts,
    policy: AckPolicy,
    unacked_packets: u32,
    /// When an ACK is due at the latest.
    due_at: Option<Instant>,
    is_due_now: bool,
    /// An out-of-order arrival was answered at once since the last regular ACK.
    gap_reports: u32,
    /// Packets that elicited an ACK since this end last elicited one.
    unanswered_packets: u32,
    /// When the last ACK is repeated, and how often it may still be.
    repeat_at: Option<Instant>,
    repeats_left: u8,
    /// When the last packet came that elicits an ACK.
    eliciting_at: Option<Instant>,
}

impl Received {
    /// Nothing received yet.
    pub fn new(policy: AckPolicy) -> Self {
        Self {
            ranges: RangeSet::default(),
            floor: 0,
            reported_below: 0,
            late: VecDeque::new(),
            largest_at: Instant::ZERO,
            ecn: EcnCounts::default(),
            policy,
            unacked_packets: 0,
            due_at: None,
            is_due_now: false,
            gap_reports: 0,
            unanswered_packets: 0,
            repeat_at: None,
            repeats_left: 0,
            eliciting_at: None,
        }
    }

    /// What `number` would be. To be asked after decryption and before processing.
    pub fn classify(&self, number: PacketNumber) -> Arrival {
        if number.0 < self.floor || self.ranges.contains(number.0) {
            Arrival::Duplicate
        } else {
            Arrival::New
        }
    }

    /// A new packet was processed.
    pub fn on_packet(
        &mut self,
        now: Instant,
        number: PacketNumber,
        ecn: Option<Ecn>,
        is_ack_eliciting: bool,
    ) {
        let previous_max = self.ranges.max();
        self.ranges.insert(number.0);
        if self.ranges.range_count() > RANGES_MAX {
            self.ranges.keep_highest(RANGES_KEPT);
            self.floor = self.floor.max(self.ranges.iter().next().map_or(0, |r| r.start));
        }
        let is_largest = previous_max.is_none_or(|max| number.0 > max);
        if is_largest {
            self.largest_at = now;
        } else if number.0 < self.always_reported_from().max(self.reported_below) {
            self.late.truncate(LATE_MAX - 1);
            self.late.push_front(number.0);
        }
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => {}
        }
        if !is_ack_eliciting {
            return;
        }
        self.unacked_packets += 1;
        self.unanswered_packets = self.unanswered_packets.saturating_add(1);
        self.repeat_at = None;
        // A lone packet, as one that keeps a connection alive, is not waited for.
        let is_flowing = self.eliciting_at.is_some_and(|at| now - at <= self.policy.delay * FLOWING_DELAYS);
        self.repeats_left = if is_flowing { self.policy.repeats } else { 0 };
        self.eliciting_at = Some(now);
        // RFC 9000 13.2.1: out-of-order arrival and CE marks are reported at once. On a lossy path at speed,
        // that would be nearly every packet, so gaps count as one more packet each toward the regular ACK
        // instead.
        let is_gap = previous_max.is_some_and(|max| number.0 != max + 1);
        if is_gap {
            self.gap_reports += 1;
        }
        let is_first_gap = is_gap && self.gap_reports == 1;
        let is_first = number.0 < FIRST_PACKETS;
        let is_enough = self.unacked_packets >= self.policy.every_packets;
        if is_enough || is_first || is_first_gap || ecn == Some(Ecn::Ce) {
            self.is_due_now = true;
        }
        if self.due_at.is_none() {
            self.due_at = Some(now + self.policy.delay);
        }
    }

    /// The peer asked for this spacing.
    pub fn set_policy(&mut self, policy: AckPolicy) {
        self.policy = policy;
    }

    /// An ACK is wanted with the next packet, whatever the spacing.
    pub fn request_ack(&mut self) {
        self.is_due_now = !self.ranges.is_empty();
    }

    /// Whether an ACK must be sent at `now`, in a packet of its own if need be.
    pub fn is_ack_due(&self, now: Instant) -> bool {
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        self.is_due_now || is_past(self.due_at) || is_past(self.repeat_at)
    }

    /// Whether there is something new to acknowledge, worth putting into a packet that leaves anyway.
    pub fn has_news(&self) -> bool {
        self.is_due_now || self.due_at.is_some()
    }

    /// When an ACK becomes due by time.
    pub fn timeout(&self) -> Option<Instant> {
        self.due_at.or(self.repeat_at)
    }

    /// Largest packet number received.
    pub fn largest(&self) -> Option<PacketNumber> {
        self.ranges.max().map(PacketNumber)
    }

    /// The number a packet to be opened is expected to have, for expansion of its truncated number.
    pub fn expected(&self) -> PacketNumber {
        PacketNumber(self.ranges.max().map_or(0, |max| max + 1))
    }

    /// Where the highest ranges begin, which every ACK reports.
    fn always_reported_from(&self) -> u64 {
        self.ranges.iter_descending().nth(REPORTED_MIN - 1).map_or(0, |range| range.start)
    }

    /// What to acknowledge: inclusive ranges from the largest down, at most [`ACK_RANGES_MAX`]. What is far
    /// below the largest is left out when it is known to have been told, but for the ranges of packets that
    /// came lately.
    pub fn ranges(&self) -> impl Iterator<Item = (PacketNumber, PacketNumber)> + Clone + '_ {
        let late = self.late_ranges();
        let room = ACK_RANGES_MAX - late.len();
        let lowest = late.first().map_or(0, |range| range.end);
        let high = self
            .ranges
            .iter_descending()
            .take_while(move |range| range.end > self.reported_below && range.start >= lowest);
        high.take(room).chain(late).map(|range| (PacketNumber(range.start), PacketNumber(range.end - 1)))
    }

    /// The ranges of packets that came late, descending.
    fn late_ranges(&self) -> Vec<Range<u64>> {
        if self.late.is_empty() {
            return Vec::new();
        }
        // What came late may have joined the highest ranges since.
        let below = self.always_reported_from();
        let mut ranges: Vec<Range<u64>> =
            self.late.iter().filter_map(|&number| self.ranges.range_of(number)).collect();
        ranges.retain(|range| range.end <= below);
        ranges.sort_unstable_by_key(|range| std::cmp::Reverse(range.start));
        ranges.dedup();
        ranges
    }

    /// Time since the largest packet arrived, in microseconds.
    pub fn delay_us(&self, now: Instant) -> u64 {
        u64::try_from((now - self.largest_at).as_micros()).unwrap_or(u64::MAX).min(crate::wire::VARINT_MAX)
    }

    /// ECN counts to report; `None` if no mark of any kind was seen.
    pub fn ecn_counts(&self) -> Option<EcnCounts> {
        (self.ecn != EcnCounts::default()).then_some(self.ecn)
    }

    /// A packet left that elicits an ACK.
    pub fn on_eliciting_sent(&mut self) {
        self.unanswered_packets = 0;
    }

    /// The newest packet brought nothing that its sender would have to send again: its ACK is not worth repeating.
    pub fn on_nothing_brought(&mut self) {
        self.repeats_left = 0;
    }

    /// Data is coming in and nothing of this end asks for ACKs of its ACKs.
    pub fn hears_much(&self) -> bool {
        self.unanswered_packets >= UNANSWERED_MANY
    }

    /// An ACK of everything has left.
    pub fn on_ack_sent(&mut self, now: Instant) {
        self.repeat_at = self.repeats_left.checked_sub(1).map(|left| {
            self.repeats_left = left;
            now + self.policy.delay * 2
        });
        self.unacked_packets = 0;
        self.gap_reports = 0;
        self.due_at = None;
        self.is_due_now = false;
    }

    /// The peer has received an ACK that reported everything up to `largest`: ranges far below need no more
    /// reporting (RFC 9000 13.2.4). They are remembered all the same, for replay protection and for packets
    /// that come late.
    pub fn on_ack_acked(&mut self, largest: PacketNumber) {
        self.reported_below = self.reported_below.max(self.always_reported_from().min(largest.0 + 1));
        // Those that came after the last ACK left are not in it.
        self.late.truncate(self.unacked_packets as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn every_second_packet_or_after_the_delay_but_each_of_the_first() {
        let mut received = Received::new(AckPolicy::default());
        for number in 0..FIRST_PACKETS {
            received.on_packet(at(0), PacketNumber(number), None, true);
            assert!(received.is_ack_due(at(0)));
            received.on_ack_sent(at(0));
        }
        received.on_packet(at(0), PacketNumber(FIRST_PACKETS), None, true);
        assert!(!received.is_ack_due(at(24)) && received.is_ack_due(at(25)));
        assert_eq!(received.timeout(), Some(at(25)));
        received.on_packet(at(1), PacketNumber(FIRST_PACKETS + 1), None, true);
        assert!(received.is_ack_due(at(1)));
        received.on_ack_sent(at(1));
        assert!(!received.is_ack_due(at(1000)) && !received.has_news());
    }

    #[test]
    fn the_last_ack_is_repeated_as_often_as_asked_unless_more_comes() {
        let policy = AckPolicy { every_packets: 1, delay: Duration::from_millis(5), repeats: 2 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(100), None, true);
        received.on_ack_sent(at(0));
        assert_eq!(received.timeout(), None, "a lone packet");
        received.on_packet(at(0), PacketNumber(101), None, true);
        received.on_ack_sent(at(0));
        assert_eq!(received.timeout(), Some(at(10)));
        assert!(!received.is_ack_due(at(9)) && received.is_ack_due(at(10)) && !received.has_news());
        received.on_ack_sent(at(10));
        received.on_ack_sent(at(20));
        assert_eq!(received.timeout(), None, "twice");
        received.on_packet(at(30), PacketNumber(102), None, true);
        received.on_ack_sent(at(30));
        received.on_packet(at(31), PacketNumber(103), None, false);
        assert_eq!(received.timeout(), Some(at(40)));
    }

    #[test]
    fn the_ack_of_a_packet_that_brought_nothing_is_not_repeated() {
        let policy = AckPolicy { every_packets: 1, delay: Duration::from_millis(5), repeats: 2 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(100), None, true);
        received.on_packet(at(1), PacketNumber(101), None, true);
        received.on_nothing_brought();
        received.on_ack_sent(at(1));
        assert_eq!(received.timeout(), None);
        received.on_packet(at(2), PacketNumber(102), None, true);
        received.on_ack_sent(at(2));
        assert_eq!(received.timeout(), Some(at(12)));
    }

    #[test]
    fn packets_that_elicit_no_ack_make_none_due() {
        let mut received = Received::new(AckPolicy::default());
        for number in 0..10 {
            received.on_packet(at(0), PacketNumber(number), None, false);
        }
        assert!(!received.is_ack_due(at(1000)));
        assert_eq!(received.ranges().collect::<Vec<_>>(), [(PacketNumber(0), PacketNumber(9))]);
    }

    #[test]
    fn the_first_gap_and_ce_are_reported_at_once() {
        let policy = AckPolicy { every_packets: 100, delay: Duration::from_millis(25), repeats: 0 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(0), None, true);
        received.on_packet(at(0), PacketNumber(2), None, true);
        assert!(received.is_ack_due(at(0)));
        received.on_ack_sent(at(1));
        received.on_packet(at(1), PacketNumber(3), Some(Ecn::Ce), true);
        assert!(received.is_ack_due(at(1)));
        assert_eq!(received.ecn_counts().map(|c| c.ce), Some(1));
    }

    #[test]
    fn a_packet_number_is_accepted_once_however_old() {
        let mut received = Received::new(AckPolicy::default());
        for number in (0..9000).step_by(2) {
            assert_eq!(received.classify(PacketNumber(number)), Arrival::New);
            received.on_packet(at(0), PacketNumber(number), None, true);
            assert_eq!(received.classify(PacketNumber(number)), Arrival::Duplicate);
        }
        // Beyond the bound on ranges it can no longer be told: refused.
        assert_eq!(received.classify(PacketNumber(1)), Arrival::Duplicate);
        assert_eq!(received.classify(PacketNumber(8997)), Arrival::New);
        received.on_ack_acked(PacketNumber(8998));
        assert_eq!(received.classify(PacketNumber(0)), Arrival::Duplicate);
        assert!(received.ranges().count() <= 32);
    }

    #[test]
    fn a_packet_that_comes_late_is_accepted_and_reported_however_mixed_those_above_are() {
        let mut received = Received::new(AckPolicy::default());
        (0..400).step_by(2).for_each(|number| received.on_packet(at(0), PacketNumber(number), None, true));
        received.on_ack_sent(at(1));
        assert_eq!(received.ranges().count(), ACK_RANGES_MAX);
        received.on_ack_acked(PacketNumber(398));
        assert_eq!(received.ranges().count(), REPORTED_MIN);
        for late in [101, 7, 9] {
            assert_eq!(received.classify(PacketNumber(late)), Arrival::New);
            received.on_packet(at(2), PacketNumber(late), None, true);
        }
        let told: Vec<_> = received.ranges().skip(REPORTED_MIN).map(|(low, high)| (low.0, high.0)).collect();
        assert_eq!(told, [(100, 102), (6, 10)]);
        let ranges: Vec<_> = received.ranges().collect();
        assert!(ranges.windows(2).all(|pair| pair[1].1.0 + 1 < pair[0].0.0), "{ranges:?}");
        // Until it is known that an ACK with them arrived.
        received.on_ack_sent(at(3));
        received.on_ack_acked(PacketNumber(398));
        assert_eq!(received.ranges().count(), REPORTED_MIN);
    }
}
