//! Controlled delay: which packets are dropped or marked because packets have waited too long for too long.
//!
//! Source: RFC 8289, section 5 (the names in backquotes are those of its pseudocode). A packet that can be
//! marked is marked instead of dropped and sent at once, as in Linux. The control law
//! `interval / sqrt(count)` is in integers.

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::Instant;

use super::discipline::{Discipline, Queued, try_mark};
use super::fifo::Fifo;
use super::limit::{Bound, QueueLimit};
use crate::Payload;
use crate::stats::{Backlog, LinkStats};

/// Parameters of controlled delay.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CodelConfig {
    /// What the queue can hold at all.
    pub limit: QueueLimit,
    /// The waiting time that is acceptable for ever.
    pub target: Duration,
    /// How long packets may wait longer than that: about one round trip.
    pub interval: Duration,
    /// Mark packets that can be marked instead of dropping them.
    pub ecn: bool,
}

impl Default for CodelConfig {
    /// RFC 8289 section 4: 5 ms and 100 ms; 1000 packets, with ECN.
    fn default() -> Self {
        Self {
            limit: QueueLimit::Packets(1000),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            ecn: true,
        }
    }
}

/// The state machine, for one list of packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    /// When packets will have waited too long for a whole interval; `None` while they do not.
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// What the state machine goes by.
#[derive(Copy, Clone, Debug)]
pub(super) struct Law {
    target: Duration,
    interval: Duration,
    ecn: bool,
    /// The longest packet so far: a queue of no more than that is never too long.
    pub(super) longest_bytes: u32,
}

impl Law {
    pub(super) fn new(target: Duration, interval: Duration, ecn: bool) -> Self {
        // A day is for ever, and its square fits.
        Self { target, interval: interval.min(Duration::from_secs(86_400)), ecn, longest_bytes: 0 }
    }

    /// `control_law`: t + interval / sqrt(count).
    fn next(self, from: Instant, count: u32) -> Instant {
        let square = self.interval.as_nanos().pow(2) / u128::from(count.max(1));
        from + Duration::from_nanos(u64::try_from(square.isqrt()).unwrap_or(u64::MAX))
    }

    /// Marks the packet, which then stays, or drops it.
    fn punish<P: Payload>(self, mut item: Queued<P>, stats: &mut LinkStats) -> Option<Queued<P>> {
        if self.ecn && try_mark(&mut item.packet, item.bytes, stats) {
            return Some(item);
        }
        stats.dropped.add(item.bytes);
        None
    }
}

/// The head of the list, and whether packets have waited too long for a whole interval.
struct Head<P> {
    item: Option<Queued<P>>,
    ok_to_drop: bool,
}

impl Control {
    /// `dequeue`: the packet to send next, after dropping those that have to go.
    pub(super) fn pop<P: Payload>(
        &mut self,
        law: Law,
        now: Instant,
        waiting: &mut Fifo<P>,
        stats: &mut LinkStats,
    ) -> Option<Queued<P>> {
        let mut head = self.take(law, now, waiting);
        if !self.dropping {
            return if head.ok_to_drop {
                self.start_dropping(law, now, head.item?, waiting, stats)
            } else {
                head.item
            };
        }
        self.dropping = head.ok_to_drop;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            let marked = law.punish(head.item?, stats);
            if marked.is_some() {
                self.drop_next = law.next(self.drop_next, self.count);
                return marked;
            }
            head = self.take(law, now, waiting);
            self.dropping = head.ok_to_drop;
            if self.dropping {
                self.drop_next = law.next(self.drop_next, self.count);
            }
        }
        head.item
    }

    /// Drops or marks the first packet. If the last dropping state was not long ago, the drop rate that
    /// controlled the queue then is the one to start from.
    fn start_dropping<P: Payload>(
        &mut self,
        law: Law,
        now: Instant,
        first: Queued<P>,
        waiting: &mut Fifo<P>,
        stats: &mut LinkStats,
    ) -> Option<Queued<P>> {
        let next = law.punish(first, stats).or_else(|| self.take(law, now, waiting).item);
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let was_recent = now - self.drop_next < law.interval * 16;
        self.count = if delta > 1 && was_recent { delta } else { 1 };
        self.drop_next = law.next(now, self.count);
        self.last_count = self.count;
        next
    }

    /// `dodequeue`.
    fn take<P>(&mut self, law: Law, now: Instant, waiting: &mut Fifo<P>) -> Head<P> {
        let item = waiting.pop();
        let waited = item.as_ref().map_or(Duration::ZERO, |item| now - item.arrived);
        let ok_to_drop = if waited < law.target || waiting.bytes() <= u64::from(law.longest_bytes) {
            self.first_above = None;
            false
        } else {
            now >= *self.first_above.get_or_insert(now + law.interval)
        };
        Head { item, ok_to_drop }
    }
}

/// One list of packets under controlled delay.
#[derive(Clone, Debug)]
pub(crate) struct Codel<P> {
    waiting: Fifo<P>,
    bound: Bound,
    law: Law,
    control: Control,
}

impl<P> Codel<P> {
    pub(crate) fn new(config: &CodelConfig, bound: Bound) -> Self {
        Self {
            waiting: Fifo::new(),
            bound,
            law: Law::new(config.target, config.interval, config.ecn),
            control: Control::default(),
        }
    }
}

impl<P: Payload> Discipline<P> for Codel<P> {
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        self.law.longest_bytes = self.law.longest_bytes.max(item.bytes);
        if self.bound.admits(self.waiting.backlog(), item.bytes) {
            self.waiting.push(item);
        } else {
            stats.dropped.add(item.bytes);
        }
    }

    fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>> {
        self.control.pop(self.law, now, &mut self.waiting, stats)
    }

    fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    fn drain(&mut self) -> Vec<Queued<P>> {
        self.control = Control::default();
        self.waiting.drain()
    }
}
