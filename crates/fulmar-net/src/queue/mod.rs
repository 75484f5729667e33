//! What waits in front of a link, and what is dropped or marked there.

mod droptail;

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_control::Instant;

use crate::stats::{Backlog, LinkStats};
use crate::{LinkRate, Payload};
use droptail::DropTail;

/// How much a queue may hold.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Bytes of whole IP packets.
    Bytes(u64),
    /// Packets of any size.
    Packets(u64),
    /// Thousandths of the bandwidth-delay product: the link's highest rate times `rtt`, or times twice the link's own
    /// delay without one. Never less than one packet of 1500 bytes; no limit on a link of unlimited rate.
    Bdp {
        /// 1000 is one bandwidth-delay product.
        milli: u32,
        /// The round-trip time that counts.
        rtt: Option<Duration>,
    },
}

impl QueueLimit {
    /// One bandwidth-delay product of a link whose way back has the same delay.
    pub const ONE_BDP: Self = Self::Bdp { milli: 1000, rtt: None };

    pub(crate) fn resolve(self, rate: &LinkRate, delay: Duration) -> Bound {
        match self {
            Self::Bytes(bytes) => Bound { packets: u64::MAX, bytes },
            Self::Packets(packets) => Bound { packets, bytes: u64::MAX },
            Self::Bdp { milli, rtt } => {
                let rtt = rtt.unwrap_or(delay.saturating_mul(2));
                let bytes = rate.peak().map_or(u64::MAX, |rate| {
                    let product = u128::from(rate.bytes_in(rtt)) * u128::from(milli) / 1000;
                    u64::try_from(product).unwrap_or(u64::MAX).max(1500)
                });
                Bound { packets: u64::MAX, bytes }
            }
        }
    }
}

/// A [`QueueLimit`] in numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    packets: u64,
    bytes: u64,
}

impl Bound {
    /// Whether a packet of `bytes` still fits beside `backlog`.
    pub(crate) fn admits(&self, backlog: Backlog, bytes: u32) -> bool {
        backlog.packets < self.packets && backlog.bytes.saturating_add(u64::from(bytes)) <= self.bytes
    }
}

/// The queueing discipline of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueConfig {
    /// First in, first out; what does not fit is dropped.
    DropTail(QueueLimit),
}

impl Default for QueueConfig {
    /// Drop-tail with 1000 packets, as on most hosts.
    fn default() -> Self {
        Self::DropTail(QueueLimit::Packets(1000))
    }
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub(crate) struct Queued<P> {
    pub(crate) arrived: Instant,
    pub(crate) bytes: u32,
    pub(crate) packet: P,
}

/// A queueing discipline at work.
pub(crate) trait Discipline<P> {
    /// Takes a packet in, or drops it (or another) and says so in the statistics.
    fn push(&mut self, item: Queued<P>, stats: &mut LinkStats);

    /// The packet to send next. May drop on the way, and returns `None` only if nothing is left.
    fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>>;

    /// What waits.
    fn backlog(&self) -> Backlog;

    /// Empties the queue, in any fair order, without drops.
    fn drain(&mut self) -> Vec<Queued<P>>;
}

/// Any of the disciplines.
#[derive(Clone, Debug)]
pub(crate) enum Queue<P> {
    DropTail(DropTail<P>),
}

impl<P: Payload> Queue<P> {
    pub(crate) fn new(config: &QueueConfig, rate: &LinkRate, delay: Duration) -> Self {
        match config {
            QueueConfig::DropTail(limit) => Self::DropTail(DropTail::new(limit.resolve(rate, delay))),
        }
    }

    fn discipline(&mut self) -> &mut dyn Discipline<P> {
        match self {
            Self::DropTail(queue) => queue,
        }
    }

    pub(crate) fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        match self {
            // The common case without a call through a table.
            Self::DropTail(queue) => queue.push(item, stats),
        }
    }

    pub(crate) fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>> {
        match self {
            Self::DropTail(queue) => queue.pop(now, stats),
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        match self {
            Self::DropTail(queue) => queue.backlog(),
        }
    }

    pub(crate) fn drain(&mut self) -> Vec<Queued<P>> {
        self.discipline().drain()
    }
}
