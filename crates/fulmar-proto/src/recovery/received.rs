//! The receiving end of acknowledgement: what arrived, and when to say so.
//!
//! Decides when an ACK is due (RFC 9000 13.2; spacing asked for by the peer after
//! draft-ietf-quic-ack-frequency), and is the replay protection: a packet number is accepted once. Bounded:
//! at most [`RANGES_MAX`] ranges are remembered, and what is below them counts as received.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;

use super::ack_policy::PASSING_DELAY;
use super::{AckPolicy, Ecn, RangeSet};
use crate::wire::frame::{ACK_RANGES_MAX, EcnCounts};
use crate::{Instant, PacketNumber};

/// Ranges remembered. Where jitter mixes packets every fourth begins a range, so that is some 4,000 packets of
/// tolerance to reordering: 50 ms at 1 Gb/s.
const RANGES_KEPT: usize = 1024;
/// With more than so many the surplus is forgotten at once: one by one, each would move all the others.
const RANGES_MAX: usize = RANGES_KEPT + RANGES_KEPT / 4;
/// So many of the highest ranges are reported in every ACK, though it be known that they were told ..
const REPORTED_MIN: usize = 4;
/// .. and so many where packets come out of order: more of them than are kept in mind would have to be told again.
const REPORTED_MIXED_MIN: usize = 32;
/// Packets are out of order where it is not known of so many late ones that they were told.
const LATE_MANY: usize = 8;
/// So many late packets are kept in mind, the newest, until it is known that they were told.
const LATE_MAX: usize = 31;

/// Packets no further apart than so many times the longest delay of an ACK are a flow.
const FLOWING_DELAYS: u32 = 16;
/// From so many packets on that were acknowledged and asked for nothing, an ACK asks to be acknowledged now
/// and again.
const UNANSWERED_MANY: u32 = 8;

/// Packets with numbers below this are acknowledged one by one: the sender has nothing else yet to measure the path
/// with, and trains of ten packets of which some are lost leave few ACKs.
const FIRST_PACKETS: u64 = 64;

/// So many packets that are never sent again are acknowledged together, unless the peer asks for still fewer
/// ACKs.
const WORDS_MANY: u32 = 4;

/// So long after the last packet that is sent again a gap may have been one of these, and is reported at
/// once.
const GAPS_MATTER: Duration = Duration::from_secs(1);

/// What the sender of a packet waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// Nothing: no ACK is elicited.
    Nothing,
    /// A word of the path: whatever was in the packet is never sent again by it (PING, DATAGRAM).
    Word,
    /// That it arrived: until that is known it may be sent again.
    Arrival,
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
    /// Late packets, the newest first, and the largest number that had come before each.
    late: VecDeque<(u64, u64)>,
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
    /// When the last packet came that is sent again until it is known to have arrived.
    arrival_at: Option<Instant>,
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
            arrival_at: None,
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
    pub fn on_packet(&mut self, now: Instant, number: PacketNumber, ecn: Option<Ecn>, awaits: Awaits) {
        let previous_max = self.ranges.max();
        self.ranges.insert(number.0);
        if self.ranges.range_count() > RANGES_MAX {
            self.ranges.keep_highest(RANGES_KEPT);
            self.floor = self.floor.max(self.ranges.iter().next().map_or(0, |r| r.start));
        }
        let is_largest = previous_max.is_none_or(|max| number.0 > max);
        match previous_max {
            Some(max) if !is_largest => {
                self.late.truncate(LATE_MAX - 1);
                self.late.push_front((number.0, max));
            }
            _ => self.largest_at = now,
        }
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => {}
        }
        if awaits == Awaits::Nothing {
            return;
        }
        self.unacked_packets += 1;
        self.unanswered_packets = self.unanswered_packets.saturating_add(1);
        self.repeat_at = None;
        // What its sender does not wait for has no repetition of its own, and the next ACK is one of those before it.
        if awaits == Awaits::Arrival {
            self.arrival_at = Some(now);
            // A lone packet, as one that keeps a connection alive, is not waited for.
            let is_flowing =
                self.eliciting_at.is_some_and(|at| now - at <= self.policy.delay * FLOWING_DELAYS);
            self.repeats_left = if is_flowing { self.policy.repeats } else { 0 };
        }
        self.eliciting_at = Some(now);
        // RFC 9000 13.2.1: out-of-order arrival and CE marks are reported at once. On a lossy path at speed,
        // that would be nearly every packet, so gaps count as one more packet each toward the regular ACK
        // instead.
        let is_gap = previous_max.is_some_and(|max| number.0 != max + 1);
        if is_gap {
            self.gap_reports += 1;
        }
        // Nobody waits to send again what a gap among datagrams was.
        let is_waited_for = self.arrival_at.is_some_and(|at| now - at < GAPS_MATTER);
        let is_first_gap = is_gap && self.gap_reports == 1 && is_waited_for;
        let is_first = number.0 < FIRST_PACKETS;
        let every = match awaits {
            Awaits::Word => self.policy.every_packets.max(WORDS_MANY),
            _ => self.policy.every_packets,
        };
        let is_enough = self.unacked_packets >= every;
        if is_enough || is_first || is_first_gap || ecn == Some(Ecn::Ce) {
            self.is_due_now = true;
        }
        let delay = match awaits {
            Awaits::Word => self.policy.delay.max(PASSING_DELAY),
            _ => self.policy.delay,
        };
        let due_at = now + delay;
        self.due_at = Some(self.due_at.map_or(due_at, |at| at.min(due_at)));
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
        let min = if self.late.len() < LATE_MANY { REPORTED_MIN } else { REPORTED_MIXED_MIN };
        self.ranges.iter_descending().nth(min - 1).map_or(0, |range| range.start)
    }

    /// What to acknowledge: inclusive ranges from the largest down, at most [`ACK_RANGES_MAX`]. What is
    /// below the highest is left out when it is known to have been told, but for the ranges of packets that
    /// came late.
    pub fn ranges(&self) -> impl Iterator<Item = (PacketNumber, PacketNumber)> + Clone + '_ {
        let late = self.late_ranges();
        let room = ACK_RANGES_MAX - late.len();
        let high = self.ranges.iter_descending().take_while(|range| range.end > self.reported_below);
        high.take(room).chain(late).map(|range| (PacketNumber(range.start), PacketNumber(range.end - 1)))
    }

    /// The ranges of packets that came late, descending.
    fn late_ranges(&self) -> SmallVec<[Range<u64>; 4]> {
        // What is not reported in any case, nor has become a part of it since.
        let below = self.reported_below;
        let numbers = self.late.iter().map(|(number, _)| *number).filter(|number| *number < below);
        let all = numbers.filter_map(|number| self.ranges.range_of(number));
        let mut ranges: SmallVec<[_; 4]> = all.filter(|range| range.end <= below).collect();
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

    /// The peer has received an ACK that reported everything up to `largest`: ranges below need no more
    /// reporting (RFC 9000 13.2.4). They are remembered all the same, for replay protection and for packets
    /// that come late.
    pub fn on_ack_acked(&mut self, largest: PacketNumber) {
        // What came late when no larger number had come than it reports may have come after it left.
        self.late.retain(|&(_, largest_before)| largest_before >= largest.0);
        self.reported_below = self.reported_below.max(self.always_reported_from().min(largest.0 + 1));
    }
}

#[cfg(test)]
mod tests {
    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn every_second_packet_or_after_the_delay_but_each_of_the_first() {
        let mut received = Received::new(AckPolicy::default());
        for number in 0..FIRST_PACKETS {
            received.on_packet(at(0), PacketNumber(number), None, Awaits::Arrival);
            assert!(received.is_ack_due(at(0)));
            received.on_ack_sent(at(0));
        }
        received.on_packet(at(0), PacketNumber(FIRST_PACKETS), None, Awaits::Arrival);
        assert!(!received.is_ack_due(at(24)) && received.is_ack_due(at(25)));
        assert_eq!(received.timeout(), Some(at(25)));
        received.on_packet(at(1), PacketNumber(FIRST_PACKETS + 1), None, Awaits::Arrival);
        assert!(received.is_ack_due(at(1)));
        received.on_ack_sent(at(1));
        assert!(!received.is_ack_due(at(1000)) && !received.has_news());
    }

    #[test]
    fn the_last_ack_is_repeated_as_often_as_asked_unless_more_comes() {
        let policy = AckPolicy { every_packets: 1, delay: Duration::from_millis(5), repeats: 2 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(100), None, Awaits::Arrival);
        received.on_ack_sent(at(0));
        assert_eq!(received.timeout(), None, "a lone packet");
        received.on_packet(at(0), PacketNumber(101), None, Awaits::Arrival);
        received.on_ack_sent(at(0));
        assert_eq!(received.timeout(), Some(at(10)));
        assert!(!received.is_ack_due(at(9)) && received.is_ack_due(at(10)) && !received.has_news());
        received.on_ack_sent(at(10));
        received.on_ack_sent(at(20));
        assert_eq!(received.timeout(), None, "twice");
        received.on_packet(at(30), PacketNumber(102), None, Awaits::Arrival);
        received.on_ack_sent(at(30));
        received.on_packet(at(31), PacketNumber(103), None, Awaits::Nothing);
        assert_eq!(received.timeout(), Some(at(40)));
    }

    #[test]
    fn the_ack_of_a_packet_that_brought_nothing_is_not_repeated() {
        let policy = AckPolicy { every_packets: 1, delay: Duration::from_millis(5), repeats: 2 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(100), None, Awaits::Arrival);
        received.on_packet(at(1), PacketNumber(101), None, Awaits::Word);
        received.request_ack();
        received.on_ack_sent(at(1));
        assert_eq!(received.timeout(), None);
        received.on_packet(at(2), PacketNumber(102), None, Awaits::Arrival);
        received.on_ack_sent(at(2));
        assert_eq!(received.timeout(), Some(at(12)));
    }

    /// Its sender never sends it again.
    #[test]
    fn the_ack_of_a_datagram_waits_for_others_and_is_not_repeated() {
        let policy = AckPolicy { every_packets: 10, delay: Duration::from_millis(5), repeats: 2 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(100), None, Awaits::Word);
        received.on_packet(at(10), PacketNumber(101), None, Awaits::Word);
        assert_eq!(received.timeout(), Some(at(25)));
        received.on_packet(at(11), PacketNumber(102), None, Awaits::Arrival);
        assert_eq!(received.timeout(), Some(at(16)), "that one is waited for");
        received.on_ack_sent(at(16));
        assert_eq!(received.timeout(), Some(at(26)), "and its ACK repeated");
        received.on_packet(at(17), PacketNumber(103), None, Awaits::Word);
        received.on_ack_sent(at(42));
        assert_eq!(received.timeout(), Some(at(52)), "once as the ACK of the last datagram, and once more");
        received.on_ack_sent(at(52));
        assert_eq!(received.timeout(), None);
    }

    #[test]
    fn packets_that_elicit_no_ack_make_none_due() {
        let mut received = Received::new(AckPolicy::default());
        for number in 0..10 {
            received.on_packet(at(0), PacketNumber(number), None, Awaits::Nothing);
        }
        assert!(!received.is_ack_due(at(1000)));
        assert_eq!(received.ranges().collect::<Vec<_>>(), [(PacketNumber(0), PacketNumber(9))]);
    }

    #[test]
    fn the_first_gap_and_ce_are_reported_at_once() {
        let policy = AckPolicy { every_packets: 100, delay: Duration::from_millis(25), repeats: 0 };
        let mut received = Received::new(policy);
        received.on_packet(at(0), PacketNumber(0), None, Awaits::Arrival);
        received.on_packet(at(0), PacketNumber(2), None, Awaits::Arrival);
        assert!(received.is_ack_due(at(0)));
        received.on_ack_sent(at(1));
        received.on_packet(at(1), PacketNumber(3), Some(Ecn::Ce), Awaits::Arrival);
        assert!(received.is_ack_due(at(1)));
        assert_eq!(received.ecn_counts().map(|c| c.ce), Some(1));
    }

    #[test]
    fn a_packet_number_is_accepted_once_however_old() {
        let mut received = Received::new(AckPolicy::default());
        for number in (0..9000).step_by(2) {
            assert_eq!(received.classify(PacketNumber(number)), Arrival::New);
            received.on_packet(at(0), PacketNumber(number), None, Awaits::Arrival);
            assert_eq!(received.classify(PacketNumber(number)), Arrival::Duplicate);
        }
        // Beyond the bound on ranges it can no longer be told: refused.
        assert_eq!(received.classify(PacketNumber(1)), Arrival::Duplicate);
        assert_eq!(received.classify(PacketNumber(8997)), Arrival::New);
        received.on_ack_acked(PacketNumber(8998));
        assert_eq!(received.classify(PacketNumber(0)), Arrival::Duplicate);
        assert!(received.ranges().count() <= 32);
    }

    /// What of a mixed flow arrives is known to the sender of the ACKs' packets sooner or later, whichever ACKs are lost.
    #[test]
    fn every_packet_is_told_in_an_ack_that_arrives_however_late_it_came() {
        for mixed in [0, 2, 40] {
            let mut rng = Pcg64Mcg::seed_from_u64(mixed);
            let mut chance = |one_in: u64| one_in > 0 && u64::from(rng.next_u32()) % one_in == 0;
            let (mut received, mut told) = (Received::new(AckPolicy::default()), RangeSet::default());
            // ACKs under way, with what they report and when it is known that they arrived; and packets.
            let mut acks: VecDeque<(u64, Vec<Range<u64>>)> = VecDeque::new();
            let (mut late, mut came): (Vec<(u64, u64)>, Vec<u64>) = (Vec::new(), Vec::new());
            for now in 0..20_000_u64 {
                if !chance(20) {
                    late.push((if chance(mixed) { now + 1 + now % 60 } else { now }, now));
                }
                for (_, number) in late.extract_if(.., |(due, _)| *due <= now) {
                    received.on_packet(at(0), PacketNumber(number), None, Awaits::Arrival);
                    came.push(number);
                    if chance(3) {
                        let report = received.ranges().map(|(low, high)| low.0..high.0 + 1).collect();
                        received.on_ack_sent(at(0));
                        if !chance(4) {
                            acks.push_back((now + 100, report));
                        }
                    }
                }
                while acks.front().is_some_and(|(due, _)| *due <= now) {
                    let Some((_, report)) = acks.pop_front() else { break };
                    received.on_ack_acked(PacketNumber(report[0].end - 1));
                    report.into_iter().for_each(|range| told.insert_range(range));
                }
            }
            came.retain(|number| *number < 19_000);
            let missing: Vec<_> = came.iter().filter(|number| !told.contains(**number)).collect();
            assert!(missing.is_empty(), "one in {mixed} out of order: {} never told", missing.len());
        }
    }

    #[test]
    fn a_packet_that_comes_late_is_accepted_and_reported_however_mixed_those_above_are() {
        let mut received = Received::new(AckPolicy::default());
        (0..400)
            .step_by(2)
            .for_each(|number| received.on_packet(at(0), PacketNumber(number), None, Awaits::Arrival));
        received.on_ack_sent(at(1));
        assert_eq!(received.ranges().count(), ACK_RANGES_MAX);
        received.on_ack_acked(PacketNumber(398));
        assert_eq!(received.ranges().count(), REPORTED_MIN);
        for late in [101, 7, 9] {
            assert_eq!(received.classify(PacketNumber(late)), Arrival::New);
            received.on_packet(at(2), PacketNumber(late), None, Awaits::Arrival);
        }
        let told: Vec<_> = received.ranges().skip(REPORTED_MIN).map(|(low, high)| (low.0, high.0)).collect();
        assert_eq!(told, [(100, 102), (6, 10)]);
        let ranges: Vec<_> = received.ranges().collect();
        assert!(ranges.windows(2).all(|pair| pair[1].1.0 + 1 < pair[0].0.0), "{ranges:?}");
        // Until it is known that an ACK with them arrived: one with the same largest number may have left before.
        received.on_ack_sent(at(3));
        received.on_ack_acked(PacketNumber(398));
        assert_eq!(received.ranges().count(), REPORTED_MIN + 2);
        received.on_packet(at(4), PacketNumber(400), None, Awaits::Arrival);
        received.on_ack_sent(at(4));
        received.on_ack_acked(PacketNumber(400));
        assert_eq!(received.ranges().count(), REPORTED_MIN);
    }
}
