//! How many streams there may be: of strangers, and from each network.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fulmar::ClientNetwork;

/// Streams of all strangers, and of those from one network: each costs a TLS session.
const STRANGERS_MAX: usize = 256;
const STRANGERS_OF_NETWORK_MAX: usize = 32;

/// Streams from one network, those of clients that are known among them.
const OF_NETWORK_MAX: usize = 512;

/// Streams from one network.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    all: usize,
    strangers: usize,
}

/// All places of a server.
#[derive(Debug, Default)]
pub struct Places {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    strangers: usize,
    networks: BTreeMap<ClientNetwork, Count>,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stranger comes; nothing if there is no place.
    pub fn enter(self: &Arc<Self>, peer: SocketAddr) -> Option<Place> {
        let network = ClientNetwork::of(peer);
        let mut taken = self.lock();
        let count = taken.networks.get(&network).copied().unwrap_or_default();
        if taken.strangers >= STRANGERS_MAX
            || count.strangers >= STRANGERS_OF_NETWORK_MAX
            || count.all >= OF_NETWORK_MAX
        {
            return None;
        }
        taken.strangers += 1;
        taken.networks.insert(network, Count { all: count.all + 1, strangers: count.strangers + 1 });
        Some(Place { places: Arc::clone(self), network, is_stranger: true })
    }
}

/// One stream's place, until this is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    network: ClientNetwork,
    is_stranger: bool,
}

impl Place {
    /// It is a stranger's no more.
    pub fn on_known(&mut self) {
        if std::mem::replace(&mut self.is_stranger, false) {
            let mut taken = self.places.lock();
            taken.strangers -= 1;
            if let Some(count) = taken.networks.get_mut(&self.network) {
                count.strangers -= 1;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.on_known();
        let mut taken = self.places.lock();
        if let Some(count) = taken.networks.get_mut(&self.network) {
            count.all -= 1;
            if count.all == 0 {
                taken.networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(network: usize, host: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, network as u8, host as u8], 5))
    }

    #[test]
    fn one_network_cannot_take_the_places_of_others() {
        let places = Arc::<Places>::default();
        let mut held: Vec<_> = (0..100).filter_map(|host| places.enter(from(0, host))).collect();
        assert_eq!(held.len(), STRANGERS_OF_NETWORK_MAX);
        assert!(places.enter(from(1, 0)).is_some(), "another network has its own");
        // Clients that are known make room for strangers, up to a point.
        while held.len() < OF_NETWORK_MAX {
            held.iter_mut().for_each(Place::on_known);
            held.extend((0..100).map_while(|host| places.enter(from(0, host))));
        }
        held.iter_mut().for_each(Place::on_known);
        assert_eq!(held.len(), OF_NETWORK_MAX);
        assert!(places.enter(from(0, 1)).is_none());
        drop(held);
        let all: Vec<_> = (0..100).flat_map(|n| (0..9).map(move |h| from(n, h))).collect();
        let held: Vec<_> = all.iter().filter_map(|&peer| places.enter(peer)).collect();
        assert_eq!(held.len(), STRANGERS_MAX);
        drop(held);
        let taken = places.lock();
        assert_eq!((taken.strangers, taken.networks.len()), (0, 0), "nothing is left behind");
    }
}
