//! What to send, when and how fast: congestion controllers, RTT and loss-rate estimators, redundancy
//! policies, and the pacer that obeys them.
//!
//! Everything here knows numbers and time, and no bytes: no packet contents, no codec, no socket, no clock.
//! Each algorithm is one file behind one small trait, chosen per connection at run time; those of published
//! systems are in `fulmar-systems`. All of them are fed
//! by one record, [`Feedback`], which carries what several papers need side by side: raw loss, loss that a
//! code repaired, congestion marks, degrees of freedom. An algorithm may ignore a signal; the engine never
//! hides one (RFC 9265).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod division;
mod feedback;
mod pacer;
mod sizing;
mod turns;
pub mod windowed;

pub mod congestion;
pub mod loss;
pub mod redundancy;
pub mod rtt;

pub use congestion::{
    AboveCode, Auto, Bbr, Company, CongestionController, Cubic, CubicConfig, Mechanism, NewReno,
    ReceiveWindow, Reno, SendBudget, WindowConfig,
};
pub use division::Division;
pub use feedback::{CodingNews, Feedback, LossEvent, PathView, RateSample};
pub use loss::{LossEstimator, LossView, Pooled};
pub use pacer::Pacer;
pub use redundancy::{
    Arq, AutoRedundancy, BlockView, Channel, Choice, Favor, FixedRate, OftenLost, Opportunity, ProtectedSet,
    RedundancyPolicy, RepairReason, Retransmissions,
};
pub use rtt::{RTO_INITIAL, RTO_MAX, RTO_MIN, RttEstimator, Variation, backed_off};
pub use sizing::{FixedSizing, Sizing};
pub use turns::Turns;
