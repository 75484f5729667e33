//! The book: five short pages, each with examples that run.
//!
//! 1. [Connect](connect): a server and a client, the life of a connection, its ends.
//! 2. [Trust](trust): keys, files of keys, certificates.
//! 3. [Streams](streams): ordered bytes, ends, cancellation, priorities.
//! 4. [Datagrams](datagrams): what may get lost.
//! 5. [Tuning](tuning): measuring, speed, delay, memory.

#[doc = include_str!("connect.md")]
pub mod connect {}

#[doc = include_str!("trust.md")]
pub mod trust {}

#[doc = include_str!("streams.md")]
pub mod streams {}

#[doc = include_str!("datagrams.md")]
pub mod datagrams {}

#[doc = include_str!("tuning.md")]
pub mod tuning {}
