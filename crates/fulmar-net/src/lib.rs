//! A deterministic model of a network: links with rate, delay, jitter, queues, loss, marking and faults.
//!
//! The model does no I/O and reads no clock: a driver hands it packets together with the time (`send`), asks
//! when it wants to be called next (`poll_timeout`) and takes out what has arrived (`poll_deliver`). In
//! virtual time the driver jumps from timeout to timeout; in real time it waits. Both see the same link.
//!
//! * A [`Link`] is one direction, a [`Path`] two of them, one per direction, a [`Network`] many with nodes
//!   between.
//! * What the link does to packets is a [`LinkConfig`]; what it did is in [`LinkStats`].
//! * What it carries is anything that is a [`Payload`]; [`Datagram`] is one for those who have no type of
//!   their own.
//!
//! ```
//! use std::time::Duration;
//! use fulmar_units::{Instant, Rate};
//! use fulmar_net::{Datagram, Link, LinkConfig, Loss, Probability};
//!
//! let config = LinkConfig::new(Rate::from_bits_per_second(12_000_000), Duration::from_millis(10))
//!     .with_loss(Loss::bernoulli(Probability::from_percent(5)));
//! let mut link = Link::new(config, 7);
//! for _ in 0..100 {
//!     link.send(Instant::ZERO, Datagram { contents: vec![0; 1472], ..Datagram::default() });
//! }
//! while let Some(now) = link.poll_timeout() {
//!     while link.poll_deliver(now).is_some() {}
//! }
//! // The queue holds 20 packets (20 ms at 12 Mbit/s) beside the one being sent.
//! assert_eq!(link.stats().dropped.packets, 79);
//! assert_eq!(link.stats().delivered.packets + link.stats().lost.packets, 21);
//! ```
//!
//! # Determinism
//! Every random draw comes from generators seeded by the caller and uses integers only, so a run is equal on
//! every machine. Each feature draws from a generator of its own: switching jitter on does not change which
//! packets are lost. The outcome is a function of the packets and the times at which they were sent, not of
//! how often the link is polled.
//!
//! # Units
//! Rates and queues count whole IP packets: [`Payload::wire_bytes`] includes the 28 bytes of the IPv4 and UDP
//! headers.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod parse;
pub mod topology;

mod config;
mod link;
mod loss;
mod network;
mod path;
mod payload;
mod policer;
mod probability;
mod queue;
mod rate;
mod rng;
mod schedule;
mod stalls;
mod stats;
mod steps;
mod transit;

pub use config::{Jitter, LinkConfig, LossPlace, Order};
pub use link::Link;
pub use loss::{InvalidTwoState, Loss, LossPattern, LossTrace, Periodic, PoissonBursts, TwoState};
pub use network::{Delivery, LinkId, Network, NoRoute, NodeId, Routed};
pub use path::{Direction, Path};
pub use payload::{Datagram, Ecn, Payload, UDP_OVER_IPV4_BYTES};
pub use policer::Policer;
pub use probability::{InvalidProbability, Probability};
pub use queue::{
    CodelConfig, DrrConfig, FqCodelConfig, QueueConfig, QueueLimit, RedConfig, SfqConfig, WfqConfig,
};
pub use rate::{LinkRate, RateTrace};
pub use rng::Rng;
pub use schedule::Intervals;
pub use stalls::{StallProcess, Stalls};
pub use stats::{Backlog, Count, DelayHistogram, LinkStats};
pub use steps::{InvalidTrace, Steps};
