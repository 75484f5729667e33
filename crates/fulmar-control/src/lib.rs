//! What to send, when and how fast: congestion controllers, RTT and loss-rate estimators, redundancy
//! policies, and the pacer that obeys them.
//!
//! Everything here knows numbers and time, and no bytes: no packet contents, no codec, no socket, no clock.
//! Each algorithm is one file behind one small trait, chosen per connection at run time. All of them are fed
//! by one record, [`Feedback`], which carries what several papers need side by side: raw loss, loss that a
//! code repaired, congestion marks, degrees of freedom. An algorithm may ignore a signal; the engine never
//! hides one (RFC 9265).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod feedback;
mod pacer;
mod sizing;
pub mod windowed;

pub mod congestion;
pub mod loss;
pub mod redundancy;
pub mod rtt;

pub use congestion::{
    AboveCode, Auto, Bbr, CongestionController, Ctcp, Cubic, CubicConfig, EcnOnly, GrowOnly, Mechanism,
    NewReno, ReceiveWindow, Reno, SendBudget, TcpFec, TokenBucket, Unlimited, UnlimitedConfig, WindowConfig,
};
pub use feedback::{Feedback, LossEvent, PathView, RateSample};
pub use loss::{Autoregressive, AutoregressiveConfig, Ewma, LossEstimator, LossView, Oracle, Pooled};
pub use pacer::Pacer;
pub use redundancy::{
    AdaptiveConfig, AdaptiveRedundancy, Arq, AutoRedundancy, BlockView, Channel, Choice, CtcpHybrid, Favor,
    FixedRate, Fountain, FountainConfig, GroupSize, InsuredSet, LtTcp, LtTcpConfig, OftenLost, Opportunity,
    Reading, RedundancyPolicy, RepairReason, Retransmissions, TcpFecGroups, TcpNcCombinations, TcpNcConfig,
};
pub use rtt::{RTO_INITIAL, RTO_MAX, RTO_MIN, RttEstimator, Variation, backed_off};
pub use sizing::{FixedSizing, Sizing, WindowSizing};
