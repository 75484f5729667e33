//! Strangers who begin a handshake, prove their address where they are asked to, and say no more.

use std::net::SocketAddr;

use fulmar_proto::wire::packet::{LongType, Peeked, peek};
use fulmar_proto::{
    Connection, ConnectionId, DatagramMeta, Endpoint, EndpointConfig, Instant, Route, TransportConfig,
};

use super::super::draw::Draw;
use crate::settings::client_config;

/// Networks (/24) that they come from.
const NETWORKS: u64 = 3;

/// One of them.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) address: SocketAddr,
    endpoint: Endpoint,
    connection: Connection,
}

impl Half {
    /// One who calls this server, and what he says first.
    pub(super) fn new(now: Instant, draw: &mut Draw, server: SocketAddr) -> (Self, Vec<u8>) {
        let host = [10, 5, draw.between(1, NETWORKS) as u8, draw.between(1, 250) as u8];
        let address = SocketAddr::from((host, draw.between(1024, 65_000) as u16));
        let mut seed = [5; 32];
        seed[..8].copy_from_slice(&draw.bits().to_be_bytes());
        let mut endpoint = Endpoint::new(&EndpointConfig::default(), None, seed);
        let config = client_config(TransportConfig::default());
        let connected = endpoint.connect(now, &config, server, "server.test");
        let (_, connection) = connected.expect("an address");
        let mut half = Self { address, endpoint, connection };
        let first = half.say(now).unwrap_or_default();
        (half, first)
    }

    /// The next that he has to say.
    fn say(&mut self, now: Instant) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.connection.poll_transmit(now, 1, &mut bytes)?;
        Some(bytes)
    }

    /// Hears something: the proof that is asked for is all that he answers with.
    pub(super) fn hear(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let Ok(Peeked::Long { ty: LongType::Retry, .. }) = peek(bytes, ConnectionId::LEN_MIN) else {
            return None;
        };
        let meta = DatagramMeta { remote: from, local_ip: None, ecn: None };
        let (mut bytes, mut response) = (bytes.to_vec(), Vec::new());
        let Route::Connection(_) = self.endpoint.route(now, &meta, &bytes, &mut response) else {
            return None;
        };
        self.connection.handle_datagram(now, &meta, &mut bytes);
        self.say(now)
    }
}

/// Whether somebody at this address is one of them.
pub(super) fn is_one(address: SocketAddr) -> bool {
    matches!(address.ip(), std::net::IpAddr::V4(ip) if ip.octets()[..2] == [10, 5])
}
