//! What lies between the two ends of a run: a relay in user space, which needs no privileges, or a bridge
//! between network namespaces, over which the kernel's TCP can go as well. Both move the same model.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use fulmar_net::LinkStats;

use super::course::Course;
use crate::exit::Failure;
use crate::relay::{Relay, RelayConfig};

/// The sockets of both ends, and what is between them.
#[derive(Debug)]
pub(super) struct Road {
    pub(super) server: UdpSocket,
    pub(super) client: UdpSocket,
    /// Where the client finds the server.
    pub(super) target: SocketAddr,
    pub(super) middle: Middle,
}

/// What is between them.
#[derive(Debug)]
pub(super) enum Middle {
    Relay(Relay),
    #[cfg(target_os = "linux")]
    Bridge(Box<fulmar_lab::bridge::Bridge>),
}

impl Road {
    /// On this machine's loopback.
    pub(super) fn relayed(course: &Course) -> Result<Self, Failure> {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let broken = |e: std::io::Error| Failure::Other(format!("no relay: {e}"));
        let (server, client) = (bind().map_err(broken)?, bind().map_err(broken)?);
        let [forward, back] = course.links.clone();
        let config = RelayConfig {
            seed: course.path.seed,
            ..RelayConfig::new(server.local_addr().map_err(broken)?, forward, back)
        };
        let relay = Relay::start(config).map_err(broken)?;
        Ok(Self { server, client, target: relay.local_addr(), middle: Middle::Relay(relay) })
    }
}

impl Middle {
    /// What the forward link did so far.
    pub(super) fn forward(&self) -> LinkStats {
        match self {
            Self::Relay(relay) => relay.stats().forward,
            #[cfg(target_os = "linux")]
            Self::Bridge(bridge) => bridge.forward_stats(),
        }
    }

    /// Comes to its end, and says what the forward link did in all.
    pub(super) fn stop(self) -> Result<LinkStats, Failure> {
        match self {
            Self::Relay(relay) => {
                let stats = relay.stop().map_err(|e| Failure::Other(format!("the relay failed: {e}")))?;
                Ok(stats.forward)
            }
            #[cfg(target_os = "linux")]
            Self::Bridge(bridge) => stop(*bridge),
        }
    }
}

/// Ends a bridge, and says what its forward link did.
#[cfg(target_os = "linux")]
pub(super) fn stop(bridge: fulmar_lab::bridge::Bridge) -> Result<LinkStats, Failure> {
    let forward = bridge.forward_stats();
    let mut outcome = fulmar_lab::outcome::Outcome::default();
    bridge.finish(fulmar_lab::bridge::LATENESS_P99_MAX, &mut outcome).map_err(Failure::Other)?;
    for remark in &outcome.remarks {
        tracing::warn!("the bridge could not keep its times: {remark}");
    }
    Ok(forward)
}
