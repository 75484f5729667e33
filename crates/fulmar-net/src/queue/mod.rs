//! What waits in front of a link, and what is dropped or marked there.

mod codel;
mod droptail;
mod fifo;
mod flows;
mod fq_codel;
mod priority;
mod red;
mod round_robin;
mod wfq;

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::Instant;

use crate::stats::{Backlog, LinkStats};
use crate::{Ecn, LinkRate, Payload, Rng};
use codel::Codel;
use droptail::DropTail;
use fq_codel::FqCodel;
use priority::Priority;
use red::Red;
use round_robin::RoundRobin;
use wfq::Wfq;

pub use codel::CodelConfig;
pub use fq_codel::FqCodelConfig;
pub use red::RedConfig;
pub use round_robin::{DrrConfig, SfqConfig};
pub use wfq::WfqConfig;

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

    /// This limit divided by a number (zero counts as one).
    #[must_use]
    pub const fn divided_by(self, divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes / divisor as u64),
            Self::Packets(packets) => Self::Packets(packets / divisor as u64),
            Self::Bdp { milli, rtt } => Self::Bdp { milli: milli / divisor, rtt },
        }
    }

    pub(crate) fn resolve(self, rate: &LinkRate, delay: Duration) -> Bound {
        match self {
            Self::Bytes(bytes) => Bound { packets: u64::MAX, bytes },
            Self::Packets(packets) => Bound { packets, bytes: u64::MAX },
            Self::Bdp { milli, rtt } => {
                // Thirty years are enough, and keep the product within 128 bits.
                let rtt = rtt.unwrap_or(delay.saturating_mul(2)).min(Duration::from_secs(1_000_000_000));
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

    /// Whether `backlog` is within.
    const fn holds(&self, backlog: Backlog) -> bool {
        backlog.packets <= self.packets && backlog.bytes <= self.bytes
    }

    /// In bytes, with packets of a typical size.
    fn in_bytes(&self, typical: u64) -> u64 {
        self.bytes.min(self.packets.saturating_mul(typical))
    }
}

/// The queueing discipline of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueConfig {
    /// First in, first out; what does not fit is dropped.
    DropTail(QueueLimit),
    /// Random early detection.
    Red(RedConfig),
    /// Controlled delay (RFC 8289).
    Codel(CodelConfig),
    /// Flow queueing with controlled delay (RFC 8290).
    FqCodel(FqCodelConfig),
    /// Deficit round robin between flows.
    Drr(DrrConfig),
    /// Stochastic fair queueing: round robin between hashed flows.
    Sfq(SfqConfig),
    /// Weighted fair queueing between flows.
    Wfq(WfqConfig),
    /// Strict priority: the most urgent first, see [`Payload::priority`].
    Priority(QueueLimit),
}

impl Default for QueueConfig {
    /// Drop-tail with 1000 packets, as on most hosts.
    fn default() -> Self {
        Self::DropTail(QueueLimit::Packets(1000))
    }
}

impl QueueConfig {
    /// What the queue can hold at all.
    pub const fn limit(&self) -> QueueLimit {
        match self {
            Self::DropTail(limit) | Self::Priority(limit) => *limit,
            Self::Red(config) => config.limit,
            Self::Codel(config) => config.limit,
            Self::FqCodel(config) => config.limit,
            Self::Drr(config) => config.limit,
            Self::Sfq(config) => config.limit,
            Self::Wfq(config) => config.limit,
        }
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

    /// Empties the queue without drops; each flow in its order.
    fn drain(&mut self) -> Vec<Queued<P>>;
}

/// Marks a packet if its sender understands marks. Whether it carries a mark now.
pub(crate) fn try_mark<P: Payload>(packet: &mut P, bytes: u32, stats: &mut LinkStats) -> bool {
    let ecn = packet.ecn();
    if ecn.is_capable() && ecn != Ecn::Ce {
        packet.set_ce();
        stats.marked.add(bytes);
    }
    ecn.is_capable()
}

/// The list a flow is hashed into.
fn hash_flow(flow: u64, key: u64, buckets: usize) -> usize {
    ((u128::from(crate::rng::split_mix(flow ^ key)) * buckets as u128) >> 64) as usize
}

/// Any of the disciplines.
#[derive(Clone, Debug)]
pub(crate) enum Queue<P> {
    DropTail(DropTail<P>),
    Red(Red<P>),
    Codel(Codel<P>),
    FqCodel(FqCodel<P>),
    RoundRobin(RoundRobin<P>),
    Wfq(Wfq<P>),
    Priority(Priority<P>),
}

impl<P: Payload> Queue<P> {
    pub(crate) fn new(config: &QueueConfig, rate: &LinkRate, delay: Duration, mut rng: Rng) -> Self {
        let bound = config.limit().resolve(rate, delay);
        match config {
            QueueConfig::DropTail(_) => Self::DropTail(DropTail::new(bound)),
            QueueConfig::Red(config) => Self::Red(Red::new(config, rate, delay, rng)),
            QueueConfig::Codel(config) => Self::Codel(Codel::new(config, bound)),
            QueueConfig::FqCodel(config) => Self::FqCodel(FqCodel::new(config, bound, rng.draw())),
            QueueConfig::Drr(config) => Self::RoundRobin(RoundRobin::drr(config, bound)),
            QueueConfig::Sfq(config) => Self::RoundRobin(RoundRobin::sfq(config, bound, rng.draw())),
            QueueConfig::Wfq(config) => Self::Wfq(Wfq::new(config, bound)),
            QueueConfig::Priority(_) => Self::Priority(Priority::new(bound)),
        }
    }

    fn discipline(&self) -> &dyn Discipline<P> {
        match self {
            Self::DropTail(queue) => queue,
            Self::Red(queue) => queue,
            Self::Codel(queue) => queue,
            Self::FqCodel(queue) => queue,
            Self::RoundRobin(queue) => queue,
            Self::Wfq(queue) => queue,
            Self::Priority(queue) => queue,
        }
    }

    fn discipline_mut(&mut self) -> &mut dyn Discipline<P> {
        match self {
            Self::DropTail(queue) => queue,
            Self::Red(queue) => queue,
            Self::Codel(queue) => queue,
            Self::FqCodel(queue) => queue,
            Self::RoundRobin(queue) => queue,
            Self::Wfq(queue) => queue,
            Self::Priority(queue) => queue,
        }
    }

    pub(crate) fn push(&mut self, item: Queued<P>, stats: &mut LinkStats) {
        self.discipline_mut().push(item, stats);
    }

    pub(crate) fn pop(&mut self, now: Instant, stats: &mut LinkStats) -> Option<Queued<P>> {
        self.discipline_mut().pop(now, stats)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.discipline().backlog()
    }

    /// Takes everything out, in order of arrival.
    pub(crate) fn drain(&mut self) -> Vec<Queued<P>> {
        let mut items = self.discipline_mut().drain();
        items.sort_by_key(|item| item.arrived);
        items
    }
}
