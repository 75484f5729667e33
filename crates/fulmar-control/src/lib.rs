//! What to send, when and how fast: congestion controllers, RTT and loss-rate estimators, redundancy policies,
//! and the pacer that obeys them.
//!
//! Everything here knows numbers and time, and no bytes: no packet contents, no codec, no socket, no clock. Each
//! algorithm is one file behind one small trait, chosen per connection at run time. All of them are fed by one
//! record, [`Feedback`], which carries what several papers need side by side: raw loss, loss that a code repaired,
//! congestion marks, degrees of freedom. An algorithm may ignore a signal; the engine never hides one (RFC 9265).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod feedback;
mod rate;
mod time;

pub mod congestion;
pub mod loss;
pub mod redundancy;

pub use congestion::{CongestionController, SendBudget};
pub use feedback::{Feedback, LossEvent, PathView, RateSample, Sent};
pub use loss::{LossEstimator, LossView};
pub use rate::Rate;
pub use redundancy::{Choice, RedundancyPolicy, RepairReason, Slot};
pub use time::Instant;
