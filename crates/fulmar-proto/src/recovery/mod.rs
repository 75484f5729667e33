//! Loss recovery below the coding layer: which packets arrived, which are lost, how fast they are delivered.
//!
//! Each question is a struct of its own with its own tests; the connection only wires them. Nothing here retransmits:
//! a lost packet is a fact for the coding layer and the controllers.

mod config;
mod ecn;
mod loss;
mod mtu;
mod ranges;
mod rate_sample;
mod received;
mod sent;

pub use config::{RecoveryConfig, Timeout};
pub use ecn::{Ecn, EcnState};
pub use loss::{LossDetector, LossTime};
pub(crate) use mtu::BASE_BYTES;
pub use mtu::{MtuDiscovery, Probe};
pub use ranges::RangeSet;
pub use rate_sample::{RateSampler, Stamp};
pub use received::{AckPolicy, Arrival, Received};
pub use sent::{Acked, Content, Lost, SentPacket, SentPackets};
