//! Datagrams that the two ends of a flow send each other, beside all else on the connection: who sent which
//! when, and when it came.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_proto::Instant;

use super::host::Host;
use crate::outcome::{Delays, Talk as Found};
use crate::traffic::Datagrams;

/// IPv4 and UDP.
const HEADERS_BYTES: u64 = 28;

/// What one end says, and the other hears of it.
struct Way {
    /// Over empty links.
    delay: Duration,
    next_at: Option<Instant>,
    /// When each was handed over.
    sent: Vec<Instant>,
    /// By how much later than over empty links each came that did.
    late: BTreeMap<usize, Duration>,
    /// Handed over, and refused for lack of room.
    refused: u64,
}

/// Both ways.
pub(super) struct Talk {
    kind: Datagrams,
    ways: [Way; 2],
    /// What was sent before does not count.
    count_from: Instant,
    end: Instant,
    /// Bytes that the hosts had sent by then.
    bytes_before: Option<u64>,
}

impl Talk {
    /// From the side that begins, and back, with these delays.
    pub(super) fn new(kind: Datagrams, delays: [Duration; 2], count_from: Instant, end: Instant) -> Self {
        let way = |delay| Way { delay, next_at: None, sent: Vec::new(), late: BTreeMap::new(), refused: 0 };
        Self { kind, ways: delays.map(way), count_from, end, bytes_before: None }
    }

    /// The measured time begins later by this.
    pub(super) fn postpone(&mut self, late: Duration) {
        self.count_from += late;
        self.end += late;
    }

    pub(super) fn poll_timeout(&self, side: usize) -> Option<Instant> {
        self.ways[side].next_at.filter(|at| *at < self.end)
    }

    /// One end says what is due, and hears what has come. `sent_bytes` is what both hosts have sent so far.
    pub(super) fn serve(&mut self, side: usize, now: Instant, host: &mut Host, sent_bytes: u64) {
        if now >= self.count_from {
            self.bytes_before.get_or_insert(sent_bytes);
        }
        let Some(connection) = host.first() else { return };
        while let Some(data) = connection.recv_datagram() {
            self.ways[1 - side].on_heard(now, &data);
        }
        let way = &mut self.ways[side];
        if connection.any_datagram_bytes_max().is_none() {
            return;
        }
        let mut due = *way.next_at.get_or_insert(now);
        while due <= now && due < self.end {
            let mut data = (way.sent.len() as u32).to_be_bytes().to_vec();
            data.resize(self.kind.bytes as usize, 0x5a);
            match connection.send_datagram_with(now, data.into(), self.kind.options()) {
                Ok(()) => {}
                Err(_) => way.refused += 1,
            }
            way.sent.push(due);
            due += self.kind.interval;
        }
        way.next_at = Some(due);
    }

    /// What came of all whose time has come by now.
    pub(super) fn found(&self, now: Instant, sent_bytes: u64) -> Found {
        let mut found = Found { deadline_ms: crate::outcome::ms(self.kind.deadline), ..Found::default() };
        let (mut sent, mut late) = (0, Vec::new());
        for way in &self.ways {
            for (number, &at) in way.sent.iter().enumerate().filter(|(_, at)| **at >= self.count_from) {
                sent += 1;
                if at + way.delay + self.kind.deadline > now {
                    continue;
                }
                found.count += 1;
                let extra = way.late.get(&number).copied();
                found.in_time += u64::from(extra.is_some_and(|extra| extra <= self.kind.deadline));
                late.extend(extra);
            }
            found.refused += way.refused;
        }
        found.extra_delay = Delays::of(&mut late);
        let bytes = sent_bytes - self.bytes_before.unwrap_or(sent_bytes);
        found.wire_ratio = bytes as f64 / (sent * (u64::from(self.kind.bytes) + HEADERS_BYTES)).max(1) as f64;
        found
    }
}

impl Way {
    fn on_heard(&mut self, now: Instant, data: &[u8]) {
        let Some((number, _)) = data.split_first_chunk() else { return };
        let number = u32::from_be_bytes(*number) as usize;
        let Some(&sent) = self.sent.get(number) else { return };
        self.late.entry(number).or_insert((now - sent).saturating_sub(self.delay));
    }
}
