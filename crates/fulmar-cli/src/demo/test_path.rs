//! What lies between the two ends of a run: here a relay in user space, which needs no privileges.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use fulmar_net::LinkStats;

use super::course::Course;
use crate::exit::Failure;
use crate::relay::{Relay, RelayConfig};

/// The sockets of both ends, and what is between them.
#[derive(Debug)]
pub struct TestPath {
    /// The server's socket.
    pub server: UdpSocket,
    /// The client's.
    pub client: UdpSocket,
    /// Where the client finds the server.
    pub target: SocketAddr,
    /// What is between them.
    pub middle: Box<dyn Middle>,
}

/// What is between the ends of a path.
pub trait Middle: Debug {
    /// What the forward link did so far.
    fn forward(&self) -> LinkStats;

    /// Comes to its end, and says what the forward link did in all.
    fn stop(self: Box<Self>) -> Result<LinkStats, Failure>;
}

impl TestPath {
    /// On this machine's loopback.
    pub(super) fn relayed(course: &Course) -> Result<Self, Failure> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let broken = |e: std::io::Error| Failure::Other(format!("no relay: {e}"));
        let (server, client) = (bind().map_err(broken)?, bind().map_err(broken)?);
        let [forward, back] = course.links.clone();
        let config = RelayConfig {
            seed: course.seed(),
            ..RelayConfig::new(server.local_addr().map_err(broken)?, forward, back)
        };
        let relay = Relay::start(config).map_err(broken)?;
        Ok(Self { server, client, target: relay.local_addr(), middle: Box::new(relay) })
    }
}

impl Middle for Relay {
    fn forward(&self) -> LinkStats {
        self.stats().forward
    }

    fn stop(self: Box<Self>) -> Result<LinkStats, Failure> {
        let stats = Relay::stop(*self).map_err(|e| Failure::Other(format!("the relay failed: {e}")))?;
        Ok(stats.forward)
    }
}
