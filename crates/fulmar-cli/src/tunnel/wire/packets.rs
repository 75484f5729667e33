//! What is said of a tunnel for packets (docs/internals/tunnel-protocol.md): the wish, and what is granted.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// How packets travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Coded and repaired, each for itself: a lost packet holds up no other
    AnyOrder,
    /// Coded and repaired, in the order in which they came
    InOrder,
    /// As the path delivers them, without coding or repair
    Unreliable,
    /// Repaired ahead of loss, and never waited for: for games and calls
    Repaired,
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// How the gateway is to send.
    pub delivery: Delivery,
    /// Longest packet.
    pub mtu: u16,
    /// Milliseconds after which repaired packets are worth nothing; always something without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// The address that the client had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
}

/// What it gets: addresses of both ends, in one network of 30 bits, and one of 126.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Longest packet.
    pub mtu: u16,
    /// The client's end.
    pub v4: Ipv4Addr,
    /// The gateway's.
    pub gateway_v4: Ipv4Addr,
    /// The client's end.
    pub v6: Ipv6Addr,
    /// The gateway's.
    pub gateway_v6: Ipv6Addr,
}
