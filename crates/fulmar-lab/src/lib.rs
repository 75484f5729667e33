//! The laboratory: every transport over the same links, in virtual time and against real TCP.
//!
//! * [`sim`] moves the network model in virtual time with protocol cores at the ends: a run is a function of
//!   (scenario, seed).
//! * Both drivers describe links by [`link::LinkSpec`] and report an [`outcome::Outcome`].

pub mod link;
pub mod outcome;
pub mod scenario;
pub mod sim;
pub mod statistics;
pub mod traffic;

pub mod commands;
