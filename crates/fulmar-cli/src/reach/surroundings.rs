//! What happens around a connection that it cannot see: this machine slept, or it comes to a server from
//! another address than before.
//!
//! Nothing is asked in time: the kernel tells when something has changed, and only then it is looked for what
//! has. A way that is lost changes nothing yet; it has when there is one again.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::any_like;
use crate::platform::{Routes, Sleep};

/// Addresses and routes change several at a time.
const SETTLE: Duration = Duration::from_millis(100);

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// This machine slept.
    Slept,
    /// Its address on the way to the server is another one, or there is a way again.
    Address,
}

impl Change {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Slept => "this machine slept; asking whether the connection goes on",
            Self::Address => "this machine has another address; going on from there",
        }
    }
}

/// What is known of them.
pub(super) struct Surroundings {
    routes: Routes,
    sleep: Sleep,
    server: SocketAddr,
    /// From where packets to the server leave.
    from: Option<IpAddr>,
}

impl Surroundings {
    pub(super) fn of(server: SocketAddr) -> io::Result<Self> {
        let (routes, sleep) = (Routes::watch()?, Sleep::watch()?);
        Ok(Self { routes, sleep, server, from: way_to(server) })
    }

    /// The next change.
    pub(super) async fn changed(&mut self) -> io::Result<Change> {
        loop {
            tokio::select! {
                slept = self.sleep.ended() => return slept.map(|()| Change::Slept),
                changed = self.routes.changed() => changed?,
            }
            tokio::time::sleep(SETTLE).await;
            let now = way_to(self.server);
            if is_other(&mut self.from, now) {
                return Ok(Change::Address);
            }
        }
    }
}

/// From where packets to a server leave, if there is a way to it. None is sent.
fn way_to(server: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(any_like(server)).ok()?;
    socket.connect(server).ok()?;
    socket.local_addr().ok().map(|from| from.ip())
}

fn is_other(from: &mut Option<IpAddr>, now: Option<IpAddr>) -> bool {
    let before = std::mem::replace(from, now);
    now.is_some() && now != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_address_counts_and_a_way_that_is_there_again() {
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|ip| Some(IpAddr::from(ip)));
        let mut from = one;
        let seen = [one, other, other, None, None, other, one, None, one].map(|now| is_other(&mut from, now));
        assert_eq!(seen, [false, true, false, false, false, true, true, false, true]);
    }
}
