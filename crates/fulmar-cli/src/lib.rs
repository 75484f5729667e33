//! The program `fulmar`, as a library so that its parts can be tested one by one.
//!
//! | part | decides |
//! |---|---|
//! | [`args`], [`closed_pipe`], [`exit`], [`log`], [`listen`], [`network`], [`units`] | what people and scripts say and hear |
//! | [`limits`] | the rates that the process keeps |
//! | [`descriptors`] | how many files and sockets clients may have open |
//! | [`reach`], [`trust`], [`session`] | who is connected to whom, may be, and how |
//! | [`frames`] | how what is said is cut out of a byte stream |
//! | [`cp`], [`serve`] | copying files; docs/internals/cp-protocol.md |
//! | [`perf`] | measuring; docs/internals/perf-protocol.md |
//! | [`pair`], [`authorize`] | how keys become known |
//! | [`tunnel`] | other programs' connections; docs/internals/tunnel-protocol.md |
//! | `packets`, `transparent`, `run` | IP packets, all TCP of a machine, one program through it (Linux) |
//! | `demo`, `relay` | a lossy path on one machine |
//! | [`platform`] | what differs between systems |
#![forbid(unsafe_code)]

pub mod args;
pub mod authorize;
pub mod closed_pipe;
pub mod cp;
#[cfg(demo)]
pub mod demo;
pub mod descriptors;
pub mod exit;
pub mod frames;
pub mod host_names;
pub mod keygen;
pub mod limits;
pub mod listen;
pub mod log;
#[cfg(feature = "manual")]
pub mod manual;
pub mod network;
#[cfg(machine)]
pub mod packets;
pub mod pair;
pub mod perf;
pub mod platform;
pub mod profile_names;
pub mod profiles;
pub mod qlog;
pub mod reach;
#[cfg(machine)]
pub mod run;
pub mod serve;
pub mod session;
#[cfg(machine)]
pub mod system;
#[cfg(machine)]
pub mod transparent;
pub mod trust;
pub mod tunnel;
pub mod turned_away;
pub mod units;

#[cfg(demo)]
pub use fulmar_relay as relay;

/// The README's example is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
