//! The peers of a UDP port, who are strangers: whose packets get a flow when there are more peers than flows.
//!
//! A source (an IPv4 address, a /56 of IPv6) may have as many flows as are left free, so one gets half and
//! never all. When none is left for somebody, flows of whoever has most go first: those that were one packet
//! and nothing else, the oldest first, then those that have been quiet for long. A conversation is never
//! ended for a newcomer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A flow of one packet that is younger is left alone: its answer may be on its way. So there are at most as
/// many changes in a second as there are flows, however many come.
const AGE_MIN: Duration = Duration::from_secs(1);

/// A conversation that has been quiet for so long may go.
const QUIET_MIN: Duration = Duration::from_secs(10);

/// Pause before a victim is looked for again when there was none.
const SEARCH_PAUSE: Duration = Duration::from_millis(100);

/// Bits of an IPv6 address that one site has (RFC 6177).
const SITE_BITS: u32 = 56;

/// Where somebody comes from, as far as shares are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let site = u128::from(v6) & (u128::MAX << (u128::BITS - SITE_BITS));
                Self(Ipv6Addr::from(site).into())
            }
            v4 => Self(v4),
        }
    }
}

/// What a flow has exchanged: told by whoever carries it.
#[derive(Debug)]
pub struct Activity {
    begin: Instant,
    packets: AtomicU64,
    last_ms: AtomicU64,
}

impl Activity {
    fn new(begin: Instant) -> Self {
        Self { begin, packets: AtomicU64::new(0), last_ms: AtomicU64::new(0) }
    }

    /// One more packet, either way.
    pub fn count(&self) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.last_ms.store(self.begin.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether it was one packet, and nothing else.
    pub fn is_single(&self) -> bool {
        self.packets.load(Ordering::Relaxed) < 2
    }

    fn last(&self) -> Instant {
        self.begin + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }
}

/// A peer's flow, with what the caller keeps of it.
#[derive(Debug)]
struct Flow<T> {
    /// Tells it from an earlier flow of the same peer that is still ending.
    number: u64,
    activity: Arc<Activity>,
    kept: T,
}

/// All peers of one port.
#[derive(Debug)]
pub struct Peers<T> {
    flows_max: usize,
    flows: HashMap<SocketAddr, Flow<T>>,
    by_source: HashMap<Source, usize>,
    next: u64,
    /// Nobody could go for a newcomer: not looked again before this.
    search_at: Option<Instant>,
}

impl<T> Peers<T> {
    /// Room for so many flows.
    pub fn new(flows_max: usize) -> Self {
        Self { flows_max, flows: HashMap::new(), by_source: HashMap::new(), next: 0, search_at: None }
    }

    /// The flow of a peer, if it has one; its packet counts.
    pub fn get(&self, peer: &SocketAddr) -> Option<&T> {
        let flow = self.flows.get(peer)?;
        flow.activity.count();
        Some(&flow.kept)
    }

    /// Makes room for a flow of this peer, whose first packet has come. `None` if there is none; otherwise
    /// the flow's number and its activity, which are to be given to [`insert`](Self::insert) with what is
    /// kept.
    pub fn admit(&mut self, peer: SocketAddr) -> Option<(u64, Arc<Activity>)> {
        let now = Instant::now();
        let source = Source::from(peer.ip());
        let own = self.by_source.get(&source).copied().unwrap_or_default();
        let free = self.flows_max.saturating_sub(self.flows.len());
        if own >= free {
            if self.search_at.is_some_and(|at| now < at) {
                return None;
            }
            let Some(victim) = self.victim(source, own, now) else {
                self.search_at = Some(now + SEARCH_PAUSE);
                return None;
            };
            self.take(victim);
        }
        self.next += 1;
        let activity = Arc::new(Activity::new(now));
        activity.count();
        Some((self.next, activity))
    }

    /// Keeps a flow that was admitted.
    pub fn insert(&mut self, peer: SocketAddr, (number, activity): (u64, Arc<Activity>), kept: T) {
        self.take(peer);
        self.flows.insert(peer, Flow { number, activity, kept });
        *self.by_source.entry(Source::from(peer.ip())).or_default() += 1;
    }

    /// The flow of this number has ended.
    pub fn remove(&mut self, peer: SocketAddr, number: u64) {
        if self.flows.get(&peer).is_some_and(|flow| flow.number == number) {
            self.take(peer);
        }
    }

    fn take(&mut self, peer: SocketAddr) {
        if self.flows.remove(&peer).is_some() {
            let source = Source::from(peer.ip());
            if let Some(count) = self.by_source.get_mut(&source) {
                *count -= 1;
                if *count == 0 {
                    self.by_source.remove(&source);
                }
            }
        }
    }

    /// Whose flow goes for a newcomer of this source, which has `own` flows.
    fn victim(&self, source: Source, own: usize, now: Instant) -> Option<SocketAddr> {
        let most = self.by_source.values().copied().max().unwrap_or_default();
        // Whoever has most gives of his own.
        let gives = |of: Source| {
            if own >= most {
                of == source
            } else {
                self.by_source.get(&of).is_some_and(|&count| count == most)
            }
        };
        let age = |at: Instant| now.saturating_duration_since(at);
        let candidates = self.flows.iter().filter(|(peer, _)| gives(Source::from(peer.ip())));
        let ranked = candidates.filter_map(|(peer, flow)| {
            let activity = &flow.activity;
            let quiet = age(activity.last());
            // Ends of the order: the greatest goes.
            if activity.is_single() && age(activity.begin) >= AGE_MIN {
                Some(((1, age(activity.begin)), *peer))
            } else if quiet >= QUIET_MIN {
                Some(((0, quiet), *peer))
            } else {
                None
            }
        });
        ranked.max_by_key(|(rank, peer)| (*rank, *peer)).map(|(_, peer)| peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    fn come(peers: &mut Peers<()>, from: SocketAddr) -> bool {
        if peers.get(&from).is_some() {
            return true;
        }
        peers.admit(from).map(|admitted| peers.insert(from, admitted, ())).is_some()
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_source_gets_half_and_replaces_only_its_own() {
        let mut peers = Peers::new(1024);
        let count = (1..=2000).filter(|port| come(&mut peers, peer(1, *port))).count();
        assert_eq!(count, 512);
        assert!(come(&mut peers, peer(2, 1)), "others find something left");
        pass(AGE_MIN).await;
        assert!(come(&mut peers, peer(1, 3000)));
        assert_eq!(peers.by_source[&Source::from(peer(1, 1).ip())], 512);
        assert!(peers.flows.contains_key(&peer(2, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_stays_and_the_oldest_single_packet_goes() {
        let mut peers = Peers::new(8);
        let talking = peer(99, 1);
        come(&mut peers, talking);
        come(&mut peers, talking);
        // Forged sources: one packet of each.
        let forged: Vec<_> = (1..=20).map(|host| peer(host, 1)).collect();
        let mut taken = 0;
        for from in &forged {
            taken += usize::from(come(&mut peers, *from));
            pass(Duration::from_millis(1)).await;
        }
        assert_eq!(taken, 7);
        pass(AGE_MIN * 2).await;
        assert!(come(&mut peers, peer(50, 1)));
        assert!(!peers.flows.contains_key(&forged[0]) && peers.flows.contains_key(&forged[1]));
        for host in 51..=70 {
            pass(AGE_MIN).await;
            come(&mut peers, talking);
            assert!(come(&mut peers, peer(host, 1)));
            assert!(peers.flows.contains_key(&talking));
        }
        // Two packets each: they stay until they have been quiet.
        let mut full = Peers::new(4);
        for host in 1..=4 {
            come(&mut full, peer(host, 1));
            come(&mut full, peer(host, 1));
        }
        pass(QUIET_MIN / 2).await;
        come(&mut full, peer(2, 1));
        assert!(!come(&mut full, peer(9, 1)));
        pass(QUIET_MIN / 2).await;
        assert!(come(&mut full, peer(9, 1)));
        assert!(full.flows.contains_key(&peer(2, 1)), "it was heard of five seconds ago");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_an_earlier_flow_does_not_end_the_next() {
        let mut peers = Peers::new(8);
        let first = peers.admit(peer(1, 1)).unwrap();
        peers.insert(peer(1, 1), (first.0, Arc::clone(&first.1)), ());
        let second = peers.admit(peer(1, 1)).unwrap();
        peers.insert(peer(1, 1), (second.0, Arc::clone(&second.1)), ());
        peers.remove(peer(1, 1), first.0);
        assert_eq!(peers.flows.len(), 1);
        peers.remove(peer(1, 1), second.0);
        assert!(peers.flows.is_empty() && peers.by_source.is_empty());
    }

    #[test]
    fn a_site_is_one_source() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("2001:db8:0:12ff::1"), source("2001:db8:0:1200:5::"));
        assert_ne!(source("2001:db8:0:1300::1"), source("2001:db8:0:1200::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}
