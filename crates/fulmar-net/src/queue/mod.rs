//! What waits in front of a link, and what is dropped or marked there.

mod codel;
mod discipline;
mod droptail;
mod fifo;
mod flows;
mod fq_codel;
mod limit;
mod priority;
mod red;
mod round_robin;
mod wfq;

use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::Instant;

use crate::stats::{Backlog, LinkStats};
use crate::{LinkRate, Payload, Rng};
use codel::Codel;
use discipline::Discipline;
use droptail::DropTail;
use fq_codel::FqCodel;
use priority::Priority;
use red::Red;
use round_robin::RoundRobin;
use wfq::Wfq;

pub use codel::CodelConfig;
pub(crate) use discipline::{Queued, try_mark};
pub use fq_codel::FqCodelConfig;
pub(crate) use limit::Bound;
pub use limit::QueueLimit;
pub use red::RedConfig;
pub use round_robin::{DrrConfig, SfqConfig};
pub use wfq::WfqConfig;

/// The queueing discipline of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
