//! Packets on the wire, by the time they come out.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Ordering;

use fulmar_units::Instant;

/// A packet on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Flight<P> {
    /// When it comes out.
    pub(crate) due: Instant,
    /// The order in which packets entered the wire; decides between equal times.
    pub(crate) serial: u64,
    pub(crate) bytes: u32,
    pub(crate) packet: P,
}

impl<P> Flight<P> {
    fn key(&self) -> (Instant, u64) {
        (self.due, self.serial)
    }
}

/// Ordered backwards, because `BinaryHeap` hands out its greatest.
impl<P> Ord for Flight<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<P> PartialOrd for Flight<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flight<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Flight<P> {}

/// The wire. Packets that come out after all those before them wait in a plain queue; only those that
/// overtake pay for a heap. Invariant: `in_order` is sorted by `due`, then `serial`.
#[derive(Clone, Debug)]
pub(crate) struct Transit<P> {
    in_order: VecDeque<Flight<P>>,
    overtaking: BinaryHeap<Flight<P>>,
    next_serial: u64,
    bytes: u64,
}

impl<P> Transit<P> {
    pub(crate) fn new() -> Self {
        Self { in_order: VecDeque::new(), overtaking: BinaryHeap::new(), next_serial: 0, bytes: 0 }
    }

    pub(crate) fn push(&mut self, due: Instant, bytes: u32, packet: P) {
        let flight = Flight { due, serial: self.next_serial, bytes, packet };
        self.next_serial += 1;
        self.bytes += u64::from(bytes);
        if self.in_order.back().is_some_and(|last| due < last.due) {
            self.overtaking.push(flight);
        } else {
            self.in_order.push_back(flight);
        }
    }

    /// When the next packet comes out.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let (a, b) = (self.in_order.front().map(|f| f.due), self.overtaking.peek().map(|f| f.due));
        a.into_iter().chain(b).min()
    }

    /// The next packet, if it is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Flight<P>> {
        let overtaken = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(a), Some(b)) => b.key() < a.key(),
            (None, Some(_)) => true,
            _ => false,
        };
        let next = if overtaken { self.overtaking.peek() } else { self.in_order.front() };
        if next?.due > now {
            return None;
        }
        let flight = if overtaken { self.overtaking.pop() } else { self.in_order.pop_front() }?;
        self.bytes -= u64::from(flight.bytes);
        Some(flight)
    }

    pub(crate) fn packets(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use alloc::vec::Vec;

    #[test]
    fn comes_out_by_time_then_by_order_of_entry() {
        let mut rng = Rng::new(5, 0);
        let mut transit = Transit::new();
        let mut expected = Vec::new();
        for serial in 0..5000u64 {
            let due = Instant::from_nanos(serial / 4 + rng.below(50));
            transit.push(due, 100, serial);
            expected.push((due, serial));
        }
        assert_eq!((transit.packets(), transit.bytes()), (5000, 500_000));
        expected.sort_unstable();
        let mut found = Vec::new();
        while let Some(due) = transit.next_due() {
            if due > Instant::ZERO {
                assert!(transit.pop_due(Instant::from_nanos(due.as_nanos() - 1)).is_none());
            }
            let flight = transit.pop_due(due).expect("due");
            assert_eq!(flight.due, due);
            found.push((flight.due, flight.packet));
        }
        assert_eq!(found, expected);
        assert_eq!(transit.bytes(), 0);
    }
}
