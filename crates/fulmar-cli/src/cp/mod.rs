//! Copying files: `fulmar cp`, and the protocol it speaks with `fulmar serve`
//! (docs/internals/cp-protocol.md).

#[cfg(feature = "live")]
mod bar;
#[cfg(not(feature = "live"))]
#[path = "no_bar.rs"]
mod bar;
pub mod clients;
pub mod command;
pub mod compare;
mod disk;
pub mod error;
pub mod hashing;
pub mod job;
pub mod message;
mod meta;
pub mod name;
pub mod observed;
pub mod part;
pub mod patience;
pub mod plan;
pub mod progress;
mod publish;
pub mod receive;
pub mod report;
pub mod send;
pub mod server;
pub mod source;
pub mod space;
pub mod store;
pub mod target;
pub mod walk;
pub mod work;
