//! Datagrams: sent once, under congestion control; those that are to be repaired, and those too long for one
//! packet, as symbols that repair is made over (docs/internals/wire.md 5.6). What is late is dropped, and
//! nothing waits for ever.
//!
//! `sender` keeps the newest symbols and says when repair is due, as much as `plan` has it; `receiver`
//! restores, puts together and orders; `head` is what a symbol says of its datagram.

mod head;
mod options;
mod plan;
mod receiver;
mod sender;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use fulmar_control::{Favor, LossView, PathView};
use fulmar_units::Rate;

use head::{HEAD_BYTES_MAX, Head, Symbol};
pub use options::{DatagramClass, DatagramOptions, DatagramStats};
pub(super) use receiver::CODED_DATAGRAM_BYTES_MAX;
use receiver::Receiver;
use sender::Sender;

use crate::wire::frame::{self, DATAGRAM_REPAIR_HEADER_BYTES_MAX, DatagramRepair};
use crate::{Instant, TransportError};

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
const ENTRY_BYTES: usize = size_of::<Waiting>();

/// A datagram that waits to be sent.
#[derive(Debug)]
struct Waiting {
    data: Bytes,
    how: How,
}

/// How it is to be sent.
#[derive(Copy, Clone, Debug)]
enum How {
    /// In a packet, as it is.
    Plain {
        /// Unless it is too late by then.
        expires_at: Option<Instant>,
    },
    /// In symbols; it was handed over at that time, and so many bytes of it have left.
    Coded { options: DatagramOptions, since: Instant, left_bytes: usize },
}

impl Waiting {
    /// When it is worth nothing any more. What has begun to leave goes on: the other end waits for it.
    fn expires_at(&self) -> Option<Instant> {
        match self.how {
            How::Plain { expires_at } => expires_at,
            How::Coded { options, since, left_bytes: 0 } => options.deadline.map(|deadline| since + deadline),
            How::Coded { .. } => None,
        }
    }
}

fn held_bytes(data: &[u8]) -> usize {
    data.len() + ENTRY_BYTES
}

/// Queues of datagrams in both directions.
#[derive(Debug)]
pub(super) struct Datagrams {
    limit_bytes: usize,
    favor: Favor,
    outgoing: VecDeque<Waiting>,
    outgoing_bytes: usize,
    incoming: VecDeque<Bytes>,
    incoming_bytes: usize,
    is_blocked: bool,
    /// The application was told of arrivals, and has not looked yet.
    is_announced: bool,
    /// Arrived while the queue was full, so that older ones were dropped.
    pub(super) dropped: u64,
    /// Waited to be sent, and became too long for the path meanwhile.
    outgrown: u64,
    /// Waited to be sent until they were worth nothing.
    expired: u64,
    /// Only where symbols of datagrams come and go.
    sender: Option<Box<Sender>>,
    receiver: Option<Box<Receiver>>,
}

impl Datagrams {
    pub(super) fn new(limit_bytes: usize, favor: Favor) -> Self {
        Self {
            limit_bytes,
            favor,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            incoming: VecDeque::new(),
            incoming_bytes: 0,
            is_blocked: false,
            is_announced: false,
            dropped: 0,
            outgrown: 0,
            expired: 0,
            sender: None,
            receiver: None,
        }
    }

    /// What the connection favours now.
    pub(super) fn set_favor(&mut self, favor: Favor) {
        self.favor = favor;
    }

    /// Queues a datagram that fits a packet, as long as no more than the limit waits, or than a path of this
    /// rate carries in [`QUEUE_TIME`].
    pub(super) fn send(
        &mut self,
        data: Bytes,
        expires_at: Option<Instant>,
        rate: Option<Rate>,
    ) -> Result<(), SendDatagramError> {
        self.queue(Waiting { data, how: How::Plain { expires_at } }, rate)
    }

    /// Queues a datagram that travels in symbols, on the same terms.
    pub(super) fn send_coded(
        &mut self,
        now: Instant,
        data: Bytes,
        options: DatagramOptions,
        rate: Option<Rate>,
    ) -> Result<(), SendDatagramError> {
        self.queue(Waiting { data, how: How::Coded { options, since: now, left_bytes: 0 } }, rate)
    }

    fn queue(&mut self, waiting: Waiting, rate: Option<Rate>) -> Result<(), SendDatagramError> {
        let worth = rate.map_or(0, |rate| usize::try_from(rate.bytes_in(QUEUE_TIME)).unwrap_or(usize::MAX));
        let limit_bytes = worth.clamp(self.limit_bytes, self.limit_bytes.saturating_mul(GROWTH_MAX));
        if self.outgoing_bytes > 0 && self.outgoing_bytes + held_bytes(&waiting.data) > limit_bytes {
            self.is_blocked = true;
            return Err(SendDatagramError::Blocked);
        }
        self.outgoing_bytes += held_bytes(&waiting.data);
        self.outgoing.push_back(waiting);
        Ok(())
    }

    /// Something is to leave: a datagram that is still worth it, or repair of those before, in that order. So
    /// a flow that the path does not carry loses nothing to its repair. What no longer fits an empty packet,
    /// which has `packet_room`, is dropped: the path shrank.
    pub(super) fn has_work(&mut self, now: Instant, packet_room: usize) -> bool {
        while let Some(front) = self.outgoing.front() {
            let is_plain = matches!(front.how, How::Plain { .. });
            if front.expires_at().is_some_and(|at| at <= now) {
                self.expired += 1;
            } else if is_plain && frame::datagram_frame_bytes(front.data.len()) > packet_room {
                self.outgrown += 1;
            } else {
                return true;
            }
            self.pop();
        }
        self.sender.as_mut().is_some_and(|sender| sender.has_repair(now, packet_room))
    }

    /// What leaves next is repair.
    pub(super) fn is_next_repair(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// The next one to send leaves half of a packet of `packet_bytes` free.
    pub(super) fn is_next_small(&self, packet_bytes: usize) -> bool {
        match self.outgoing.front() {
            Some(Waiting { data, how: How::Plain { .. } }) => data.len() <= packet_bytes / 2,
            Some(Waiting { data, how: How::Coded { left_bytes, .. } }) => {
                data.len() - left_bytes <= packet_bytes / 2
            }
            None => self.sender.as_ref().is_some_and(|sender| sender.is_repair_small(packet_bytes)),
        }
    }

    /// Puts the next datagram, a piece of one, or a repair symbol into a packet that has `room`, where an
    /// empty packet has `packet_room`, if it fits. True if that was the last of a datagram.
    pub(super) fn put_next(
        &mut self,
        now: Instant,
        path: &PathView,
        packet: &mut Vec<u8>,
        (room, packet_room): (usize, usize),
    ) -> bool {
        let Some(front) = self.outgoing.front_mut() else {
            self.sender.iter_mut().for_each(|sender| sender.put_repair(packet, room));
            return false;
        };
        match &mut front.how {
            How::Plain { .. } if frame::datagram_frame_bytes(front.data.len()) > room => return false,
            How::Plain { .. } => frame::put_datagram(packet, &front.data),
            How::Coded { options, since, left_bytes } => {
                let piece_max = packet_room.saturating_sub(DATAGRAM_REPAIR_HEADER_BYTES_MAX + HEAD_BYTES_MAX);
                let piece = piece_max.min(front.data.len() - *left_bytes);
                if piece + DATAGRAM_REPAIR_HEADER_BYTES_MAX + HEAD_BYTES_MAX > room {
                    return false;
                }
                let end = *left_bytes + piece;
                let head = Head::of(options, *left_bytes == 0, end == front.data.len());
                let symbol = Symbol::make(head, &front.data[*left_bytes..end]);
                let is_piece = !(head.is_first && head.is_last);
                let until = options.worth_until(now, *since, (is_piece, path.rtt_smoothed));
                let sender = self.sender.get_or_insert_default();
                let budget = options.budget(self.favor);
                sender.put(now, symbol, until, budget, &path.loss, packet);
                *left_bytes = end;
                if end < front.data.len() {
                    return false;
                }
            }
        }
        self.pop();
        true
    }

    fn pop(&mut self) -> Option<Bytes> {
        let waiting = self.outgoing.pop_front()?;
        self.outgoing_bytes -= held_bytes(&waiting.data);
        Some(waiting.data)
    }

    /// A symbol of datagrams arrived. How many datagrams that brings.
    pub(super) fn on_symbol(&mut self, now: Instant, id: u16, symbol: &[u8]) -> Result<u64, TransportError> {
        self.receiver.get_or_insert_default().on_symbol(now, id, symbol)?;
        Ok(self.take_ready())
    }

    /// A repair symbol over datagrams arrived. How many datagrams that brings.
    pub(super) fn on_repair(
        &mut self,
        now: Instant,
        repair: &DatagramRepair<'_>,
    ) -> Result<u64, TransportError> {
        self.receiver.get_or_insert_default().on_repair(now, repair)?;
        Ok(self.take_ready())
    }

    fn take_ready(&mut self) -> u64 {
        let mut count = 0;
        while let Some(data) = self.receiver.as_mut().and_then(|receiver| receiver.poll()) {
            self.receive(data);
            count += 1;
        }
        count
    }

    /// When [`Self::handle_timeout`] is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let sender = self.sender.as_ref().and_then(|sender| sender.timeout());
        let receiver = self.receiver.as_ref().and_then(|receiver| receiver.timeout());
        sender.into_iter().chain(receiver).min()
    }

    /// Time has passed. How many datagrams have waited long enough for those before them.
    pub(super) fn handle_timeout(&mut self, now: Instant, loss: &LossView) -> u64 {
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now, loss);
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
        self.take_ready()
    }

    /// Symbols were sent that repair may be made over.
    pub(super) fn has_symbols(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.memory_bytes() > 0)
    }

    /// Nothing has come or gone for a while. How many datagrams need not wait any more.
    pub(super) fn release_memory(&mut self, now: Instant) -> u64 {
        self.sender.iter_mut().for_each(|sender| sender.release_memory(now));
        self.receiver.iter_mut().for_each(|receiver| receiver.release_memory(now));
        self.take_ready()
    }

    /// Counts of symbols.
    pub(super) fn stats(&self) -> DatagramStats {
        let mut stats = self.receiver.as_ref().map(|receiver| receiver.stats()).unwrap_or_default();
        if let Some(sender) = &self.sender {
            (stats.sent, stats.repairs_sent) = (sender.sent(), sender.repairs_sent());
        }
        (stats.expired, stats.outgrown) = (self.expired, self.outgrown);
        stats
    }

    /// True once after the queue was full and has drained to half.
    pub(super) fn poll_unblocked(&mut self) -> bool {
        let is_unblocked = self.is_blocked && self.outgoing_bytes <= self.limit_bytes / 2;
        self.is_blocked &= !is_unblocked;
        is_unblocked
    }

    /// Keeps an arrival; the oldest ones go when there are too many.
    pub(super) fn receive(&mut self, data: Bytes) {
        while self.incoming_bytes > 0 && self.incoming_bytes + held_bytes(&data) > self.limit_bytes {
            let Some(old) = self.incoming.pop_front() else { return };
            self.incoming_bytes -= held_bytes(&old);
            self.dropped += 1;
        }
        self.incoming_bytes += held_bytes(&data);
        self.incoming.push_back(data);
    }

    /// True if the application must be told that something arrived.
    pub(super) fn poll_announcement(&mut self) -> bool {
        !std::mem::replace(&mut self.is_announced, true)
    }

    /// The application has been told.
    pub(super) fn on_told(&mut self) {
        self.is_announced = false;
    }

    /// Nothing comes or goes any more; what was counted stays.
    pub(super) fn let_go(&mut self) {
        (self.outgoing, self.outgoing_bytes) = (VecDeque::new(), 0);
        self.sender.iter_mut().for_each(|sender| sender.let_go());
        self.receiver.iter_mut().for_each(|receiver| receiver.let_go());
    }

    /// Bytes that wait to be sent, or to be repaired.
    pub(super) fn outgoing_bytes(&self) -> usize {
        self.outgoing_bytes + self.sender.as_ref().map_or(0, |sender| sender.memory_bytes())
    }

    /// Bytes that arrivals take.
    pub(super) fn memory_bytes(&self) -> usize {
        let symbols = self.receiver.as_ref().map_or(0, |receiver| receiver.memory_bytes());
        self.incoming_bytes + (self.incoming.capacity() - self.incoming.len()) * ENTRY_BYTES + symbols
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

    /// The frame of the next datagram, if it fits.
    fn put(d: &mut Datagrams, room: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        d.put_next(Instant::ZERO, &PathView::unknown(1200), &mut packet, (room, 1000));
        packet
    }

    #[test]
    fn queues_are_bounded_and_say_when_there_is_room() {
        let mut d = Datagrams::new(10 * (10 + ENTRY_BYTES), Favor::Balanced);
        for _ in 0..10 {
            d.send(Bytes::from_static(&[0; 10]), None, None).unwrap();
        }
        assert_eq!(d.send(Bytes::from_static(&[0; 10]), None, None), Err(SendDatagramError::Blocked));
        assert!(!d.poll_unblocked());
        (0..5).for_each(|_| assert_eq!(put(&mut d, 20).len(), 12));
        assert!(d.poll_unblocked() && !d.poll_unblocked());
        (0..30).for_each(|i| d.receive(vec![i; 10].into()));
        assert_eq!((d.read().unwrap()[0], d.dropped), (20, 20));
    }

    #[test]
    fn empty_datagrams_take_room_too() {
        let mut d = Datagrams::new(10 * ENTRY_BYTES, Favor::Balanced);
        (0..1000).for_each(|_| d.receive(Bytes::new()));
        assert_eq!(d.dropped, 990);
        assert!(d.memory_bytes() <= 20 * ENTRY_BYTES);
        (0..10).for_each(|_| d.send(Bytes::new(), None, None).unwrap());
        assert_eq!(d.send(Bytes::new(), None, None), Err(SendDatagramError::Blocked));
    }

    #[test]
    fn datagrams_the_path_no_longer_carries_are_dropped() {
        let mut d = Datagrams::new(10_000, Favor::Balanced);
        d.send(Bytes::from(vec![1; 2000]), None, None).unwrap();
        d.send(Bytes::from_static(&[2; 10]), None, None).unwrap();
        assert!(d.has_work(Instant::ZERO, 1000));
        assert_eq!(put(&mut d, 5).len(), 0);
        assert_eq!(put(&mut d, 12).len(), 12);
        assert_eq!(d.outgrown, 1);
    }

    #[test]
    fn a_fast_path_may_stand_still_for_longer_than_the_limit_lasts() {
        let queued = |rate_bits: Option<u64>| {
            let mut d = Datagrams::new(1 << 20, Favor::Balanced);
            let rate = rate_bits.map(Rate::from_bits_per_second);
            (0..).take_while(|_| d.send(Bytes::from_static(&[0; 1200]), None, rate).is_ok()).count() * 1200
        };
        // What comes in two seconds at 20 Mb/s, less what the queue takes for each; a slow path's queue stays
        // as it is, and a very fast one's has an end.
        assert!((4_700_000..5_000_000).contains(&queued(Some(20_000_000))), "{}", queued(Some(20_000_000)));
        assert_eq!(queued(Some(1_000_000)), queued(None));
        assert!((7_900_000..=8 << 20).contains(&queued(Some(100_000_000_000))));
    }
}
