//! Packets sent and not yet forgotten, in order of their numbers.
//!
//! Only what somebody wants to hear of again takes room. Acknowledged packets leave holes that are skipped by
//! path compression, so an ACK costs time in proportion to what it newly acknowledges, not to the window. A
//! packet declared lost stays for a while: if it is acknowledged after all, the loss was spurious and is
//! taken back.

use std::collections::VecDeque;
use std::time::Duration;

use super::rate_sample::Stamp;
use crate::{Instant, PacketNumber};

/// What a packet carries that somebody wants to hear of again.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Cargo<T> {
    /// What the sender gave.
    Given(T),
    /// A probe for a larger MTU, or of marks: recovery's own, which nobody above hears of.
    Trial,
}

/// One packet under way.
#[derive(Copy, Clone, Debug)]
pub struct SentPacket<T> {
    /// When it left.
    pub sent_at: Instant,
    /// Size of its datagram's payload.
    pub bytes: u32,
    /// What it carried.
    pub cargo: Cargo<T>,
    /// It left with ECT(0).
    pub is_ect: bool,
    /// How many packets that elicit an ACK left before it, probes for a larger MTU left out: neighbours in a
    /// run of losses.
    pub ordinal: u32,
    /// State for the delivery rate.
    pub stamp: Stamp,
}

/// A packet newly acknowledged.
#[derive(Copy, Clone, Debug)]
pub struct Acked<T> {
    /// Its number.
    pub number: PacketNumber,
    /// What was kept of it.
    pub packet: SentPacket<T>,
    /// It had been declared lost.
    pub was_lost: bool,
}

/// A packet newly declared lost.
#[derive(Copy, Clone, Debug)]
pub struct Lost<T> {
    /// Its number.
    pub number: PacketNumber,
    /// What was kept of it.
    pub packet: SentPacket<T>,
}

/// One place of a [`Row`].
#[derive(Copy, Clone, Debug)]
enum Entry<T> {
    Kept(SentPacket<T>),
    /// Nothing of interest here and in the next `n - 1` entries.
    Gone(u32),
}

/// Entries of a [`Row`] to look at.
#[derive(Copy, Clone, Debug)]
struct Span {
    first: usize,
    /// The newest packet left for another time.
    rest: Option<u64>,
}

/// Packets in ascending order of their numbers, of which any may be taken out.
#[derive(Debug)]
struct Row<T>(VecDeque<(u64, Entry<T>)>);

impl<T: Copy> Row<T> {
    fn push(&mut self, number: u64, packet: SentPacket<T>) {
        self.0.push_back((number, Entry::Kept(packet)));
    }

    /// Which entries hold packets `low` to `high`, as far as at most the newest `slots` are looked at.
    fn span(&mut self, low: u64, high: u64, slots: usize) -> Span {
        // Most ranges of an ACK are old, or new.
        let (oldest, newest) = (self.0.front(), self.0.back());
        if newest.is_none_or(|(newest, _)| *newest < low) || oldest.is_none_or(|(oldest, _)| *oldest > high) {
            return Span { first: self.0.len(), rest: None };
        }
        let first = self.find(self.position(low));
        if self.0.len() - first <= slots {
            return Span { first, rest: None };
        }
        // Counted with what is gone in between, which costs at most a pass too many.
        let end = self.position(high + 1);
        if end.saturating_sub(first) <= slots {
            return Span { first, rest: None };
        }
        let at = end - slots;
        let rest = at.checked_sub(1).and_then(|at| self.0.get(at)).map(|(number, _)| *number);
        Span { first: self.find(at), rest }
    }

    /// Takes out the packets of `span` up to `high`, ascending. Returns how many.
    fn take(&mut self, span: &Span, high: u64, mut each: impl FnMut(u64, SentPacket<T>)) -> usize {
        let (mut at, mut taken) = (span.first, 0);
        while let Some((number, entry)) = self.0.get_mut(at).filter(|(number, _)| *number <= high) {
            if let Entry::Kept(packet) = std::mem::replace(entry, Entry::Gone(1)) {
                each(*number, packet);
            }
            taken += 1;
            at = self.find(at + 1);
        }
        // Nobody has to pass these one by one again.
        self.find(span.first);
        taken
    }

    /// The packets `low` to `high`, ascending.
    fn kept(&self, low: u64, high: u64) -> impl Iterator<Item = &SentPacket<T>> {
        let mut at = self.position(low);
        std::iter::from_fn(move || {
            loop {
                match self.0.get(at)? {
                    (number, _) if *number > high => return None,
                    (_, Entry::Gone(skip)) => at += *skip as usize,
                    (_, Entry::Kept(packet)) => {
                        at += 1;
                        return Some(packet);
                    }
                }
            }
        })
    }

    /// Where the first entry is whose number is not below `number`.
    fn position(&self, number: u64) -> usize {
        self.0.partition_point(|(at, _)| *at < number)
    }

    /// First entry from `at` on that is not gone.
    fn find(&mut self, at: usize) -> usize {
        let mut found = at;
        while let Some((_, Entry::Gone(skip))) = self.0.get(found) {
            found += *skip as usize;
        }
        // Path compression: whoever passes here again jumps straight to the end.
        let mut passed = at;
        while passed < found
            && let Some((_, Entry::Gone(skip))) = self.0.get_mut(passed)
        {
            let next = passed + *skip as usize;
            *skip = u32::try_from(found - passed).unwrap_or(u32::MAX);
            passed = next;
        }
        found
    }

    /// The oldest packet; what is gone before it is forgotten.
    fn front(&mut self) -> Option<(u64, &SentPacket<T>)> {
        while let Some((_, Entry::Gone(_))) = self.0.front() {
            self.0.pop_front();
        }
        match self.0.front() {
            Some((number, Entry::Kept(packet))) => Some((*number, packet)),
            _ => None,
        }
    }

    /// Gives the memory back when nothing is left.
    fn shrink(&mut self) {
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }

    fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(u64, Entry<T>)>()
    }
}

/// The packets of one packet-number space.
#[derive(Debug)]
pub struct SentPackets<T> {
    /// Neither acknowledged nor declared lost. The oldest is declared lost first, so all are newer than those
    /// in `lost`.
    outstanding: Row<T>,
    lost: Row<T>,
    /// Number of the next packet.
    next: u64,
    outstanding_packets: usize,
    in_flight_bytes: u64,
    largest_acked: Option<PacketNumber>,
}

impl<T> Default for SentPackets<T> {
    fn default() -> Self {
        Self {
            outstanding: Row(VecDeque::new()),
            lost: Row(VecDeque::new()),
            next: 0,
            outstanding_packets: 0,
            in_flight_bytes: 0,
            largest_acked: None,
        }
    }
}

impl<T: Copy> SentPackets<T> {
    /// Number of the next packet.
    pub fn next_number(&self) -> PacketNumber {
        PacketNumber(self.next)
    }

    /// Bytes neither acknowledged nor declared lost.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Packets neither acknowledged nor declared lost.
    pub fn outstanding_packets(&self) -> usize {
        self.outstanding_packets
    }

    /// Largest packet number acknowledged so far.
    pub fn largest_acked(&self) -> Option<PacketNumber> {
        self.largest_acked
    }

    /// The packet with the next number left and elicits an ACK.
    pub fn push(&mut self, packet: SentPacket<T>) {
        self.in_flight_bytes += u64::from(packet.bytes);
        self.outstanding_packets += 1;
        self.outstanding.push(self.next, packet);
        self.next += 1;
    }

    /// The packet with the next number left and elicits no ACK: only its number is used up.
    pub fn push_untracked(&mut self) {
        self.next += 1;
    }

    /// Packets `low` to `high` are acknowledged; `each` is called for those that were not before, ascending.
    /// `high` must be below [`Self::next_number`].
    ///
    /// Of what is remembered of them at most the newest `slots` are looked at, which are counted off. Returns
    /// the newest packet that is left, if there is one.
    pub fn on_ack_range(
        &mut self,
        low: PacketNumber,
        high: PacketNumber,
        slots: &mut usize,
        mut each: impl FnMut(Acked<T>),
    ) -> Option<PacketNumber> {
        debug_assert!(high < self.next_number());
        self.largest_acked = self.largest_acked.max(Some(high));
        let outstanding = self.outstanding.span(low.0, high.0, *slots);
        let mut rest = outstanding.rest;
        if rest.is_none() && self.lost.0.back().is_some_and(|(newest, _)| *newest >= low.0) {
            let newer = self.outstanding.0.len().saturating_sub(outstanding.first);
            let newer = newer.min((high.0 + 1 - low.0) as usize);
            let lost = self.lost.span(low.0, high.0, slots.saturating_sub(newer));
            rest = lost.rest;
            *slots -= self.lost.take(&lost, high.0, |number, packet| {
                each(Acked { number: PacketNumber(number), packet, was_lost: true });
            });
        }
        *slots -= self.outstanding.take(&outstanding, high.0, |number, packet| {
            self.outstanding_packets -= 1;
            self.in_flight_bytes -= u64::from(packet.bytes);
            each(Acked { number: PacketNumber(number), packet, was_lost: false });
        });
        rest.map(PacketNumber)
    }

    /// What the packets `low` to `high` carry that are neither acknowledged nor declared lost, ascending.
    pub fn carried(&self, low: PacketNumber, high: PacketNumber) -> impl Iterator<Item = T> + '_ {
        self.outstanding.kept(low.0, high.0).filter_map(|packet| match packet.cargo {
            Cargo::Given(cargo) => Some(cargo),
            Cargo::Trial => None,
        })
    }

    /// The oldest packet that is neither acknowledged nor declared lost.
    pub fn oldest(&mut self) -> Option<(PacketNumber, &SentPacket<T>)> {
        self.outstanding.front().map(|(number, packet)| (PacketNumber(number), packet))
    }

    /// Declares the oldest outstanding packet lost.
    pub fn declare_oldest_lost(&mut self) -> Option<Lost<T>> {
        let (number, packet) = self.outstanding.front().map(|(number, packet)| (number, *packet))?;
        self.outstanding.0.pop_front();
        self.lost.push(number, packet);
        self.outstanding_packets -= 1;
        self.in_flight_bytes -= u64::from(packet.bytes);
        Some(Lost { number: PacketNumber(number), packet })
    }

    /// Packets for which memory is held.
    pub fn remembered(&self) -> usize {
        self.outstanding.0.len() + self.lost.0.len()
    }

    /// Bytes held.
    pub fn memory_bytes(&self) -> usize {
        self.outstanding.memory_bytes() + self.lost.memory_bytes()
    }

    /// Forgets what can no longer matter: acknowledged packets at the front, and lost ones sent longer than
    /// `retention` ago.
    pub fn forget_front(&mut self, now: Instant, retention: Duration) {
        while self.lost.front().is_some_and(|(_, packet)| now - packet.sent_at > retention) {
            self.lost.0.pop_front();
        }
        self.outstanding.front();
    }

    /// Forgets every packet.
    pub fn let_go(&mut self) {
        let (next, largest_acked) = (self.next, self.largest_acked);
        *self = Self { next, largest_acked, ..Self::default() };
    }

    /// Gives the memory back that held packets which are forgotten now.
    pub fn release_memory(&mut self) {
        self.outstanding.shrink();
        self.lost.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use std::collections::BTreeMap;

    fn packet(bytes: u32) -> SentPacket<()> {
        SentPacket {
            sent_at: Instant::ZERO,
            bytes,
            cargo: Cargo::Given(()),
            is_ect: false,
            ordinal: 0,
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn what_elicits_no_ack_takes_no_room_behind_a_packet_never_acknowledged() {
        let mut sent = SentPackets::default();
        sent.push(packet(1000));
        let before = sent.memory_bytes();
        (0..100_000).for_each(|_| sent.push_untracked());
        assert_eq!((sent.memory_bytes(), sent.next_number()), (before, PacketNumber(100_001)));
        sent.on_ack_range(PacketNumber(0), PacketNumber(100_000), &mut 1, |acked| {
            assert_eq!(acked.number.0, 0)
        });
        assert_eq!(sent.outstanding_packets(), 0);
    }

    #[test]
    fn nothing_under_way_takes_no_room_at_rest() {
        let mut sent = SentPackets::default();
        (0..5).for_each(|_| sent.push(packet(1000)));
        sent.declare_oldest_lost();
        let mut slots = usize::MAX;
        sent.on_ack_range(PacketNumber(0), PacketNumber(4), &mut slots, |_| ());
        sent.forget_front(Instant::ZERO, Duration::ZERO);
        sent.release_memory();
        assert_eq!(sent.memory_bytes(), 0);
    }

    #[test]
    fn it_agrees_with_a_plain_map() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        for _ in 0..100 {
            let mut sent = SentPackets::default();
            // Number -> (bytes, lost)
            let mut plain: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
            for _ in 0..300 {
                let next = sent.next_number().0;
                match rng.next_u32() % 5 {
                    0 => sent.push_untracked(),
                    1 | 2 => {
                        let bytes = rng.next_u32() % 1500;
                        sent.push(packet(bytes));
                        plain.insert(next, (bytes, false));
                    }
                    3 if next > 0 => {
                        let high = next - 1 - u64::from(rng.next_u32()) % next.min(20);
                        let low = high.saturating_sub(u64::from(rng.next_u32() % 30));
                        let mut got = Vec::new();
                        // All of it, however little is looked at in one pass.
                        let (mut rest, slots) = (Some(PacketNumber(high)), 1 + rng.next_u32() as usize % 30);
                        while let Some(high) = rest {
                            let mut passed = Vec::new();
                            rest = sent.on_ack_range(PacketNumber(low), high, &mut { slots }, |a| {
                                passed.push((a.number.0, a.was_lost))
                            });
                            assert!(passed.len() <= slots);
                            got.splice(0..0, passed);
                        }
                        let want: Vec<_> =
                            plain.range(low..=high).map(|(&n, &(_, lost))| (n, lost)).collect();
                        plain.retain(|n, _| !(low..=high).contains(n));
                        assert_eq!(got, want);
                    }
                    _ => {
                        let want = plain.iter().find(|(_, (_, lost))| !lost).map(|(&n, _)| n);
                        assert_eq!(sent.oldest().map(|(n, _)| n.0), want);
                        assert_eq!(sent.declare_oldest_lost().map(|l| l.number.0), want);
                        if let Some(number) = want {
                            plain.get_mut(&number).unwrap().1 = true;
                        }
                    }
                }
                if rng.next_u32() % 20 == 0 {
                    sent.forget_front(Instant::ZERO + Duration::from_secs(1), Duration::ZERO);
                    let front = plain.iter().find(|(_, (_, lost))| !lost).map_or(u64::MAX, |(&n, _)| n);
                    plain.retain(|&n, _| n >= front);
                }
                let in_flight: u64 =
                    plain.values().filter(|(_, lost)| !lost).map(|&(b, _)| u64::from(b)).sum();
                assert_eq!(sent.in_flight_bytes(), in_flight);
                assert_eq!(sent.outstanding_packets(), plain.values().filter(|(_, lost)| !lost).count());
            }
        }
    }
}
