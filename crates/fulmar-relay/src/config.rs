//! What a relay is told, and what it tells.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fulmar_net::{DelayHistogram, Direction, LinkConfig, LinkStats};

use super::meddling::Meddling;

/// What a relay does.
#[derive(Clone, Debug)]
pub struct RelayConfig {
    /// Where clients send to; port 0 for any.
    pub listen: SocketAddr,
    /// Where it all goes.
    pub server: SocketAddr,
    /// From clients to the server.
    pub forward: LinkConfig,
    /// Back.
    pub backward: LinkConfig,
    /// Seed of all draws.
    pub seed: u64,
    /// How many clients are known at a time.
    pub clients_max: usize,
    /// How many bytes may be on the way in each direction, whatever the links allow.
    pub held_bytes_max: u64,
}

impl RelayConfig {
    /// A relay on any port of the loopback interface, with 64 clients and 64 MiB at most.
    pub fn new(server: SocketAddr, forward: LinkConfig, backward: LinkConfig) -> Self {
        let listen = match server.ip() {
            IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        };
        Self { listen, server, forward, backward, seed: 1, clients_max: 64, held_bytes_max: 64 << 20 }
    }
}

/// What a relay did so far; at most 20 ms old.
#[derive(Clone, Debug, Default)]
pub struct RelayStats {
    /// Bytes that wait in the queue toward the server.
    pub backlog_bytes: u64,
    /// From clients to the server.
    pub forward: LinkStats,
    /// Back.
    pub backward: LinkStats,
    /// How long after its time each packet was sent on.
    pub lateness: DelayHistogram,
    /// Clients known now.
    pub clients: usize,
    /// Packets not taken in: too many bytes on the way, or no socket to be had for a new client.
    pub refused_packets: u64,
    /// Packets that meddling took out, and copies that it put in.
    pub meddled_packets: u64,
    /// Packets the system would not send, or whose client has been forgotten.
    pub unsent_packets: u64,
    /// Receive buffer of the socket toward clients, as the system granted it.
    pub receive_buffer_bytes: usize,
}

/// What its thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    Reconfigure(Direction, Box<LinkConfig>),
    Rebind,
    Meddle(Meddling),
    Stop,
}
