//! The units that all of the core shares: a point in time and a data rate.
//!
//! Time is a number that comes in from outside, never read from a clock, so that everything above runs in
//! virtual time as well as in real time.
#![no_std]
#![forbid(unsafe_code)]

mod rate;
mod time;

pub use rate::Rate;
pub use time::{Instant, whole_nanos};
