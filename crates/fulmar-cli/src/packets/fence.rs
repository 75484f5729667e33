//! Which packets a tunnel takes and gives: addresses belong to keys, both ways, as with WireGuard's cryptokey
//! routing.
//!
//! | end | takes from the tunnel | gives to the tunnel |
//! |---|---|---|
//! | gateway | from the addresses it has leased to this client | to these addresses |
//! | client | to its own addresses, from networks that are routed into the tunnel | from its own addresses |

use std::net::IpAddr;

use etherparse::{Ipv4HeaderSlice, Ipv6HeaderSlice};

use crate::network::Network;

/// Both sides of a tunnel's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// What comes out of the tunnel.
    pub inward: Gate,
    /// What goes into it.
    pub outward: Gate,
}

/// Where packets may come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Addresses that they may come from.
    pub sources: Ends,
    /// Addresses that they may go to.
    pub destinations: Ends,
}

/// Addresses of one end of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ends {
    /// Whichever.
    Any,
    /// Those that lie in one of the first networks, and in no smaller one of the second.
    In(Vec<Network>, Vec<Network>),
}

impl Ends {
    fn have(&self, address: IpAddr) -> bool {
        // A packet has addresses of one family: an IPv4-mapped one is on no wire (RFC 4291, section 2.5.5.2).
        address == address.to_canonical()
            && match self {
                Self::Any => true,
                Self::In(networks, except) => {
                    let longest = |networks: &[Network]| {
                        networks.iter().filter(|net| net.contains(address)).map(Network::length).max()
                    };
                    longest(networks) > longest(except)
                }
            }
    }
}

impl Gate {
    /// Whether this packet may go through; what is no IP packet may not.
    pub fn lets(&self, packet: &[u8]) -> bool {
        ends(packet).is_some_and(|(from, to)| self.sources.have(from) && self.destinations.have(to))
    }
}

impl Fence {
    /// Of a gateway whose client has these addresses.
    pub fn of_gateway(leased: &[IpAddr]) -> Self {
        let own = Ends::In(leased.iter().copied().map(Network::one).collect(), Vec::new());
        Self {
            inward: Gate { sources: own.clone(), destinations: Ends::Any },
            outward: Gate { sources: Ends::Any, destinations: own },
        }
    }

    /// Of a client with these addresses, that reaches `routed` through the tunnel, and `around` beside it.
    pub fn of_client(own: &[IpAddr], routed: Vec<Network>, mut around: Vec<Network>) -> Self {
        let own: Vec<_> = own.iter().copied().map(Network::one).collect();
        // Nobody else sends in this end's own name, either.
        around.extend(&own);
        let own = Ends::In(own, Vec::new());
        Self {
            inward: Gate { sources: Ends::In(routed, around), destinations: own.clone() },
            outward: Gate { sources: own, destinations: Ends::Any },
        }
    }
}

/// Source and destination.
fn ends(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => {
            let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
            Some((header.source_addr().into(), header.destination_addr().into()))
        }
        6 => {
            let header = Ipv6HeaderSlice::from_slice(packet).ok()?;
            Some((header.source_addr().into(), header.destination_addr().into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    use super::*;

    fn packet(from: &str, to: &str) -> Vec<u8> {
        let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let mut out = Vec::new();
        let builder = match (from, to) {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 64),
            (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a.octets(), b.octets(), 64),
            _ => panic!("of one family"),
        };
        builder.udp(1, 2).write(&mut out, b"x").unwrap();
        out
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn nets(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_gateway_takes_from_the_lease_and_gives_to_the_lease() {
        let fence = Fence::of_gateway(&ips(&["10.97.0.2", "fdf1::2"]));
        for (from, to, expected) in [
            ("10.97.0.2", "8.8.8.8", true),
            ("fdf1::2", "2001:db8::1", true),
            ("10.97.0.1", "8.8.8.8", false),
            ("10.97.0.6", "8.8.8.8", false),
            ("8.8.8.8", "10.97.0.2", false),
            ("127.0.0.1", "127.0.0.1", false),
            ("fe80::1", "ff02::2", false),
            ("::ffff:10.97.0.2", "2001:db8::1", false),
            ("fdf1::2", "::ffff:10.0.0.1", false),
        ] {
            assert_eq!(fence.inward.lets(&packet(from, to)), expected, "{from} {to}");
            assert_eq!(fence.outward.lets(&packet(to, from)), expected, "{to} {from}");
        }
    }

    #[test]
    fn a_client_hears_who_is_routed_and_no_neighbour() {
        let around = nets(&["192.168.1.0/24", "127.0.0.0/8", "10.0.0.0/8"]);
        let routed = nets(&["0.0.0.0/0", "10.97.0.0/30", "10.5.0.0/16"]);
        let fence = Fence::of_client(&ips(&["10.97.0.2"]), routed, around);
        for (from, to, expected) in [
            ("8.8.8.8", "10.97.0.2", true),
            ("10.97.0.1", "10.97.0.2", true),
            ("10.5.1.1", "10.97.0.2", true),
            ("10.6.1.1", "10.97.0.2", false),
            ("192.168.1.1", "10.97.0.2", false),
            ("127.0.0.1", "10.97.0.2", false),
            ("10.97.0.2", "10.97.0.2", false),
            ("8.8.8.8", "192.168.1.2", false),
            ("8.8.8.8", "127.0.0.1", false),
        ] {
            assert_eq!(fence.inward.lets(&packet(from, to)), expected, "{from} {to}");
        }
        assert!(!fence.inward.lets(&packet("2001:db8::1", "fdf1::2")), "it has no IPv6");
        assert!(fence.outward.lets(&packet("10.97.0.2", "8.8.8.8")));
        assert!(!fence.outward.lets(&packet("192.168.1.2", "8.8.8.8")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_let_through_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let fence = Fence::of_gateway(&ips(&["10.97.0.2", "fdf1::2"]));
            let _ = (fence.inward.lets(&bytes), fence.outward.lets(&bytes));
        }
    }
}
