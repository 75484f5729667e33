//! Measuring a path between two programs of this kind: `fulmar perf` (docs/internals/perf-protocol.md).

pub mod bulk;
pub mod client;
pub mod clock;
pub mod command;
pub mod half;
mod intervals;
pub mod messages;
pub mod protocol;
pub mod report;
pub mod server;
