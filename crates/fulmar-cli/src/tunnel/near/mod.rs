//! The client: its connection to a gateway, and how programs come in.
//!
//! | part | decides |
//! |---|---|
//! | [`link`], [`links`] | a connection, and which one is used |
//! | [`opening`], [`ahead`] | how a flow is opened |
//! | [`reverses`], [`incoming`] | what comes from the gateway |
//! | [`client`] | all of this under one handle |
//! | [`proxy`], [`login`], [`http`], [`socks`], [`socks_udp`], [`owner`] | how programs come in by a proxy |
//! | [`forward`] | how they come in by a port |

pub mod ahead;
pub mod client;
pub mod forward;
pub mod http;
pub mod incoming;
pub mod link;
pub mod links;
pub mod login;
pub mod opening;
pub mod owner;
pub mod proxy;
pub mod reverses;
pub mod socks;
pub mod socks_udp;
