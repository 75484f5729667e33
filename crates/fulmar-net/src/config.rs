//! What a link does to packets.

use core::time::Duration;

use fulmar_units::Rate;

use crate::{Intervals, LinkRate, Loss, Policer, Probability, QueueConfig, QueueLimit, Stalls, Steps};

/// One direction of a link. The default is perfect: no delay, no limit, no fault.
///
/// A packet passes in this order: MTU, loss if it strikes before the queue, policer, marking by threshold,
/// queue, transmitter
/// (rate), random marking, black-outs, loss if it strikes on the wire, corruption, duplication, delay,
/// stalls, jitter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LinkConfig {
    /// How fast the transmitter empties the queue.
    pub rate: LinkRate,
    /// Propagation delay, after the last byte has left the transmitter.
    pub delay: Duration,
    /// Added to the delay, by the time at which a packet leaves the transmitter. Queues that are given in
    /// bandwidth-delay products do not count it.
    pub added_delay: Option<Steps<Duration>>,
    /// Added to both, drawn for each packet.
    pub jitter: Jitter,
    /// Whether jitter may change the order of packets.
    pub order: Order,
    /// What waits in front of the transmitter. The packet being transmitted is not counted.
    pub queue: QueueConfig,
    /// What loses packets.
    pub loss: Loss,
    /// Where it does so.
    pub loss_place: LossPlace,
    /// Probability that a packet that is ECN-capable is marked, whatever the queue.
    pub mark: Probability,
    /// ECN-capable packets that find at least this much in the queue are marked.
    pub mark_threshold: Option<QueueLimit>,
    /// Probability that a packet comes out twice; each copy has its own jitter, neither uses the transmitter
    /// again.
    pub duplicate: Probability,
    /// Probability that one bit of the packet is flipped.
    pub corrupt: Probability,
    /// The largest IP packet in bytes; larger ones vanish. `None`: no limit.
    pub mtu_bytes: Option<u32>,
    /// When nothing that passes the wire arrives. (A rate of zero, by contrast, keeps packets in the queue.)
    pub blackouts: Intervals,
    /// When nothing comes out, and then all at once.
    pub stalls: Stalls,
    /// What drops packets that come faster than it allows.
    pub policer: Option<Policer>,
}

impl LinkConfig {
    /// A link with a rate and a delay, a queue of one bandwidth-delay product, and no fault.
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate: LinkRate::Constant(rate),
            delay,
            queue: QueueConfig::DropTail(QueueLimit::ONE_BDP),
            ..Self::default()
        }
    }

    /// The same link with a loss model.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// The same link with another queue.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueConfig) -> Self {
        self.queue = queue;
        self
    }

    /// The same link with jitter.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter, order: Order) -> Self {
        self.jitter = jitter;
        self.order = order;
        self
    }

    /// Rate, delay, queue, policer and MTU of this link without any of its faults: no loss, marks, copies,
    /// damage, black-outs,
    /// stalls, jitter. What a test switches to when the faults must end.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        Self {
            rate: self.rate.clone(),
            delay: self.delay,
            queue: self.queue.clone(),
            mtu_bytes: self.mtu_bytes,
            policer: self.policer,
            ..Self::default()
        }
    }
}

/// Delay that varies from packet to packet. Draws are independent.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Uniform from zero to this.
    Uniform(Duration),
    /// Exponential with this mean: mostly small, sometimes large.
    Exponential(Duration),
    /// This much for some packets, nothing for the others: with [`Order::Free`], reordering by that much.
    Some {
        /// Which share of packets.
        probability: Probability,
        /// How much.
        extra: Duration,
    },
}

/// Whether packets may overtake each other.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Order {
    /// Never: a packet that would overtake comes out together with the one before it.
    #[default]
    Kept,
    /// Whenever jitter lets them.
    Free,
}

/// Where packets are lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum LossPlace {
    /// After the queue: lost packets have used the link's rate, as on a radio link.
    #[default]
    Wire,
    /// Before the queue: lost packets leave the rate to others, as when the loss is on an earlier hop.
    BeforeQueue,
}
