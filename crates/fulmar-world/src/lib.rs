//! Client and server in virtual time, for tests of the protocol.
//!
//! * [`World`] is two endpoints joined by the links of `fulmar-net`: what happens is a function of its
//!   configuration and seed.
//! * [`swarm`] draws such worlds, with their faults and all that the applications do, at random from a seed.
//!
//! The protocol's own tests, its fuzz targets and `fulmar-lab swarm` share it. Nothing that ships depends on
//! it but the laboratory.
#![forbid(unsafe_code)]
// What an event leads to is no guard of its arm.
#![allow(clippy::collapsible_match)]

mod observer;
mod settings;
pub mod swarm;
mod world;

pub use observer::Observer;
pub use settings::{Anyone, client_config, server_config};
pub use world::{Node, RESET_KEY, World};
