//! Unreliable datagrams: sent once, under congestion control, never coded or repeated.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use fulmar_units::Rate;

/// Why a datagram was not taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// It would not fit a packet of the path, or the peer takes no datagrams that long.
    #[error("datagram too large: at most {max} bytes fit now")]
    TooLarge {
        /// Most bytes that fit now.
        max: usize,
    },
    /// The queue is full: wait for `DatagramsUnblocked`.
    #[error("datagram queue is full")]
    Blocked,
    /// The peer takes no datagrams.
    #[error("the peer takes no datagrams")]
    Unsupported,
}

/// What is queued to be sent is worth so much of the path's time at most, where that is more than the limit:
/// a path that stands still for a second, and again soon after (Wi-Fi that scans), loses nothing of what came
/// at its rate.
const QUEUE_TIME: Duration = Duration::from_secs(2);

/// And so many times the limit, whatever the rate.
const GROWTH_MAX: usize = 8;

/// What a queue takes for one datagram besides its bytes: an empty one counts too.
const ENTRY_BYTES: usize = size_of::<Bytes>();

fn held_bytes(data: &[u8]) -> usize {
    data.len() + ENTRY_BYTES
}

/// Queues of datagrams in both directions.
#[derive(Debug)]
pub(super) struct Datagrams {
    limit_bytes: usize,
    outgoing: VecDeque<Bytes>,
    outgoing_bytes: usize,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    is_blocked: bool,
    /// The application was told of arrivals, and has not looked yet.
    is_announced: bool,
    /// Arrived while the queue was full, so that older ones were dropped.
    pub(super) dropped: u64,
    /// Waited to be sent, and became too long for the path meanwhile.
    pub(super) outgrown: u64,
}

impl Datagrams {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            incoming: VecDeque::new(),
            incoming_bytes: 0,
            is_blocked: false,
            is_announced: false,
            dropped: 0,
            outgrown: 0,
        }
    }

    /// Queues a datagram, as long as no more than the limit waits, or than a path of this rate carries in
    /// [`QUEUE_TIME`].
    pub(super) fn send(&mut self, data: Bytes, rate: Option<Rate>) -> Result<(), SendDatagramError> {
        let worth = rate.map_or(0, |rate| usize::try_from(rate.bytes_in(QUEUE_TIME)).unwrap_or(usize::MAX));
        let limit_bytes = worth.clamp(self.limit_bytes, self.limit_bytes.saturating_mul(GROWTH_MAX));
        if self.outgoing_bytes > 0 && self.outgoing_bytes + held_bytes(&data) > limit_bytes {
            self.is_blocked = true;
            return Err(SendDatagramError::Blocked);
        }
        self.outgoing_bytes += held_bytes(&data);
        self.outgoing.push_back(data);
        Ok(())
    }

    pub(super) fn has_pending(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// The next one to send leaves half of a packet of `packet_bytes` free.
    pub(super) fn is_next_small(&self, packet_bytes: usize) -> bool {
        self.outgoing.front().is_some_and(|data| data.len() <= packet_bytes / 2)
    }

    /// The next one to send, if it takes at most `bytes_max`. One that no longer fits any packet is dropped:
    /// the path shrank.
    pub(super) fn poll_send(&mut self, bytes_max: usize, packet_bytes_max: usize) -> Option<Bytes> {
        while self.outgoing.front()?.len() > packet_bytes_max {
            self.pop();
            self.outgrown += 1;
        }
        if self.outgoing.front()?.len() > bytes_max { None } else { self.pop() }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let data = self.outgoing.pop_front()?;
        self.outgoing_bytes -= held_bytes(&data);
        Some(data)
    }

    /// True once after the queue was full and has drained to half.
    pub(super) fn poll_unblocked(&mut self) -> bool {
        let is_unblocked = self.is_blocked && self.outgoing_bytes <= self.limit_bytes / 2;
        self.is_blocked &= !is_unblocked;
        is_unblocked
    }

    /// Keeps an arrival; the oldest ones go when there are too many.
    pub(super) fn receive(&mut self, data: &[u8]) {
        while self.incoming_bytes > 0 && self.incoming_bytes + held_bytes(data) > self.limit_bytes {
            let Some(old) = self.incoming.pop_front() else { return };
            self.incoming_bytes -= held_bytes(&old);
            self.dropped += 1;
        }
        self.incoming_bytes += held_bytes(data);
        self.incoming.push_back(Bytes::copy_from_slice(data));
    }

    /// True if the application must be told that something arrived.
    pub(super) fn poll_announcement(&mut self) -> bool {
        !std::mem::replace(&mut self.is_announced, true)
    }

    /// The application has been told.
    pub(super) fn on_told(&mut self) {
        self.is_announced = false;
    }

    /// Nothing is sent any more.
    pub(super) fn let_go(&mut self) {
        (self.outgoing, self.outgoing_bytes) = (VecDeque::new(), 0);
    }

    /// Bytes that wait to be sent.
    pub(super) fn outgoing_bytes(&self) -> usize {
        self.outgoing_bytes
    }

    /// Bytes that arrivals take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.incoming_bytes + (self.incoming.capacity() - self.incoming.len()) * ENTRY_BYTES
    }

    pub(super) fn read(&mut self) -> Option<Bytes> {
        let data = self.incoming.pop_front()?;
        self.incoming_bytes -= held_bytes(&data);
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_bounded_and_say_when_there_is_room() {
        let mut d = Datagrams::new(10 * (10 + ENTRY_BYTES));
        for _ in 0..10 {
            d.send(Bytes::from_static(&[0; 10]), None).unwrap();
        }
        assert_eq!(d.send(Bytes::from_static(&[0; 10]), None), Err(SendDatagramError::Blocked));
        assert!(!d.poll_unblocked());
        (0..5).for_each(|_| assert!(d.poll_send(10, 1000).is_some()));
        assert!(d.poll_unblocked() && !d.poll_unblocked());
        (0..30).for_each(|i| d.receive(&[i; 10]));
        assert_eq!((d.read().unwrap()[0], d.dropped), (20, 20));
    }

    #[test]
    fn empty_datagrams_take_room_too() {
        let mut d = Datagrams::new(10 * ENTRY_BYTES);
        (0..1000).for_each(|_| d.receive(&[]));
        assert_eq!(d.dropped, 990);
        assert!(d.memory_bytes() <= 20 * ENTRY_BYTES);
        (0..10).for_each(|_| d.send(Bytes::new(), None).unwrap());
        assert_eq!(d.send(Bytes::new(), None), Err(SendDatagramError::Blocked));
    }

    #[test]
    fn datagrams_the_path_no_longer_carries_are_dropped() {
        let mut d = Datagrams::new(10_000);
        d.send(Bytes::from(vec![1; 2000]), None).unwrap();
        d.send(Bytes::from_static(&[2; 10]), None).unwrap();
        assert!(d.poll_send(5, 1000).is_none());
        assert_eq!(d.poll_send(10, 1000).unwrap().len(), 10);
        assert_eq!(d.outgrown, 1);
    }

    #[test]
    fn a_fast_path_may_stand_still_for_longer_than_the_limit_lasts() {
        let queued = |rate_bits: Option<u64>| {
            let mut d = Datagrams::new(1 << 20);
            let rate = rate_bits.map(Rate::from_bits_per_second);
            (0..).take_while(|_| d.send(Bytes::from_static(&[0; 1200]), rate).is_ok()).count() * 1200
        };
        // What comes in two seconds at 20 Mb/s; a slow path's queue stays as it is, and a very fast one's has
        // an end.
        assert!((4_800_000..5_000_000).contains(&queued(Some(20_000_000))), "{}", queued(Some(20_000_000)));
        assert_eq!(queued(Some(1_000_000)), queued(None));
        assert!((8_000_000..=8 << 20).contains(&queued(Some(100_000_000_000))));
    }
}
