//! Copying files: `fulmar cp`, and the protocol it speaks with `fulmar serve` (docs/cp-protocol.md).

pub mod command;
pub mod error;
pub mod job;
pub mod message;
pub mod plan;
pub mod progress;
pub mod receive;
pub mod send;
pub mod server;
pub mod store;
pub mod target;
