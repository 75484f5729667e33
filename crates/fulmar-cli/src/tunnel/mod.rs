//! Other programs' connections through a tunnel: docs/tunnel-protocol.md.

pub mod address;
pub mod client;
pub mod commands;
pub mod dial;
pub mod error;
pub mod gateway;
pub mod halves;
pub mod message;
pub mod pump;
pub mod rules;
pub mod socks;
pub mod target;
pub mod traffic;

pub use client::{Client, Flow};
pub use error::{Code, OpenError};
pub use target::{Place, Target};
