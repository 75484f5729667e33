//! Other programs' connections through a tunnel: docs/internals/tunnel-protocol.md.
//!
//! | part | decides |
//! |---|---|
//! | [`wire`] | what is said on a stream, and what went wrong |
//! | [`policy`] | what a client may reach |
//! | [`flow`] | how a flow's bytes and packets are carried and counted |
//! | [`far`] | the gateway |
//! | [`near`] | the client, and how programs come in |
//! | [`watch`] | what those see who look after it |
//! | [`config`], [`commands`] | the file and the command lines |
//!
//! The parts down to `near` use those above them only, and `far` and `near` do not know of each other
//! (`crates/tidy/tests/rooms.rs`).

pub mod commands;
pub mod config;
mod config_values;
pub mod far;
pub mod flow;
pub mod near;
pub mod policy;
pub mod watch;
pub mod wire;

pub use near::client::Client;
pub use near::opening::Flow;
pub use wire::error::{Code, OpenError};
pub use wire::target::{Place, Target};
