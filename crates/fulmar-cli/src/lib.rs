//! The program `fulmar`, as a library so that its parts can be tested.
#![forbid(unsafe_code)]

pub mod cp;
pub mod exit;
pub mod frames;
pub mod session;
pub mod units;
