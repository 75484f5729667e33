//! Handshakes under way, by the networks that they come from: none takes the place of all others.
//!
//! Who answers a Retry has proved an address, and addresses of one network are cheap for whoever has it. So
//! each network has a share, and where that or the whole is full the oldest gives way, as in a SYN cache. It
//! has a second before that: one round trip on any path, and nobody is pushed out faster than he can finish.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::client_network::ClientNetwork;
use crate::Instant;

/// How long a handshake has its place in any case.
const GRACE: Duration = Duration::from_secs(1);

/// A handshake's place among the others.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    network: ClientNetwork,
    turn: u64,
}

/// Most handshakes that may be under way.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits {
    pub(super) of_all: usize,
    pub(super) of_network: usize,
}

/// What there is for a new one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// If this one goes.
    InsteadOf(usize),
    None,
}

/// One handshake: which connection's, and since when.
#[derive(Copy, Clone, Debug)]
struct Beginner {
    connection: usize,
    since: Instant,
}

/// All handshakes under way.
#[derive(Debug, Default)]
pub(super) struct Beginners {
    /// Of each network, the oldest first.
    networks: BTreeMap<ClientNetwork, BTreeMap<u64, Beginner>>,
    /// By how many they are.
    sizes: BTreeSet<(usize, ClientNetwork)>,
    count: usize,
    next_turn: u64,
}

impl Beginners {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether there is room for a client at `address`.
    pub(super) fn room(&self, now: Instant, address: SocketAddr, limits: Limits) -> Room {
        let network = ClientNetwork::of(address);
        let of_network = self.networks.get(&network).map_or(0, BTreeMap::len);
        let crowded = if of_network >= limits.of_network.max(1) {
            Some(network)
        } else if self.count >= limits.of_all.max(1) {
            self.sizes.last().map(|&(_, network)| network)
        } else {
            return Room::Free;
        };
        let oldest = crowded.and_then(|network| self.networks.get(&network)?.values().next());
        match oldest {
            Some(oldest) if now - oldest.since >= GRACE => Room::InsteadOf(oldest.connection),
            _ => Room::None,
        }
    }

    /// A handshake begins.
    pub(super) fn enter(&mut self, now: Instant, address: SocketAddr, connection: usize) -> Place {
        let (network, turn) = (ClientNetwork::of(address), self.next_turn);
        self.next_turn += 1;
        self.count += 1;
        let of_network = self.networks.entry(network).or_default();
        self.sizes.remove(&(of_network.len(), network));
        of_network.insert(turn, Beginner { connection, since: now });
        self.sizes.insert((of_network.len(), network));
        Place { network, turn }
    }

    /// It is over.
    pub(super) fn leave(&mut self, place: Place) {
        let Some(of_network) = self.networks.get_mut(&place.network) else { return };
        let before = of_network.len();
        if of_network.remove(&place.turn).is_none() {
            return;
        }
        self.count -= 1;
        self.sizes.remove(&(before, place.network));
        if before == 1 {
            self.networks.remove(&place.network);
        } else {
            self.sizes.insert((before - 1, place.network));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn a_network_is_a_24_of_ipv4_and_a_56_of_ipv6() {
        let same = |a: &str, b: &str| ClientNetwork::of(at(a)) == ClientNetwork::of(at(b));
        assert!(same("10.0.0.1", "10.0.0.200") && !same("10.0.0.1", "10.0.1.1"));
        assert!(same("10.0.0.1", "::ffff:10.0.0.9") && !same("10.0.0.1", "::10.0.0.1"));
        assert!(same("2001:db8:0:12::1", "2001:db8:0:ff:8000::1"));
        assert!(!same("2001:db8:0:112::1", "2001:db8:0:12::1"));
    }

    #[test]
    fn a_full_network_gives_its_own_oldest_place_and_a_full_server_that_of_the_largest() {
        let limits = Limits { of_all: 5, of_network: 3 };
        let mut beginners = Beginners::default();
        let begin = Instant::ZERO + GRACE;
        let places: Vec<_> =
            (0..3).map(|n| beginners.enter(begin + GRACE * n, at("10.0.0.1"), n as usize)).collect();
        let now = begin + GRACE * 2;
        assert_eq!(beginners.room(now, at("10.0.0.9"), limits), Room::InsteadOf(0));
        assert_eq!(beginners.room(now, at("10.0.1.9"), limits), Room::Free);
        beginners.leave(places[0]);
        assert_eq!(beginners.room(now, at("10.0.0.9"), limits), Room::Free);
        beginners.leave(places[0]);
        assert_eq!(beginners.count(), 2);
        for n in 10..13 {
            beginners.enter(now, at("10.0.1.1"), n);
        }
        // The largest network's have had no time yet.
        assert_eq!(beginners.room(now, at("10.0.2.1"), limits), Room::None);
        assert_eq!(beginners.room(now, at("10.0.0.1"), limits), Room::None);
        assert_eq!(beginners.room(now + GRACE, at("10.0.2.1"), limits), Room::InsteadOf(10));
        places.into_iter().for_each(|place| beginners.leave(place));
        assert_eq!((beginners.count(), beginners.sizes.len(), beginners.networks.len()), (3, 1, 1));
    }
}
