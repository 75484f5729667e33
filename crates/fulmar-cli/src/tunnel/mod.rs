//! Other programs' connections through a tunnel: docs/tunnel-protocol.md.
//!
//! | part | decides |
//! |---|---|
//! | [`target`], [`error`], [`message`] | what is said on a stream, and what went wrong |
//! | [`halves`], [`tcp`], [`pump`], [`packets`], [`datagrams`], [`waiting`], [`drops`], [`traffic`] | how bytes and packets are carried and counted |
//! | [`grants`], [`rules`], [`pattern`], [`address`], [`special`], [`account`] | what a client may, and how much |
//! | [`gateway`], [`guest`], [`lookups`], [`dial`], [`visitors`], [`peers`], [`holders`] | the far end |
//! | [`client`], [`link`], [`links`], [`opening`], [`ahead`], [`incoming`], [`reverses`] | the near end |
//! | [`proxy`], [`login`], [`socks`], [`socks_udp`], [`owner`], [`http`], [`forward`], [`local`] | how programs come in |
//! | [`report`], [`metrics`], [`control`] | what those see who look after it |
//! | [`config`], [`commands`] | the file and the command lines |

pub mod account;
pub mod address;
pub mod ahead;
pub mod client;
pub mod commands;
pub mod config;
mod config_values;
pub mod control;
pub mod datagrams;
pub mod dial;
pub mod drops;
pub mod error;
pub mod forward;
pub mod gateway;
pub mod grants;
pub mod guest;
pub mod halves;
pub mod holders;
pub mod http;
pub mod incoming;
pub mod link;
pub mod links;
pub mod local;
pub mod login;
pub mod lookups;
pub mod message;
pub mod metrics;
pub mod opening;
pub mod owner;
pub mod packets;
pub mod pattern;
pub mod peers;
pub mod proxy;
pub mod pump;
pub mod report;
pub mod reverses;
pub mod rules;
pub mod socks;
pub mod socks_udp;
pub mod special;
pub mod target;
pub mod tcp;
pub mod traffic;
pub mod visitors;
pub mod waiting;

pub use client::Client;
pub use error::{Code, OpenError};
pub use opening::Flow;
pub use target::{Place, Target};
