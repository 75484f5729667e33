//! Networks that are not the Internet: the two IANA Special-Purpose Address Registries, whole, and what IANA
//! keeps elsewhere.
//!
//! What the registries call *globally reachable* is private here all the same, except where an IPv6 address
//! is one of IPv4 in disguise: an anycast address of a relay or translator leads to the one that is next to
//! the gateway.

use std::net::IpAddr;
use std::sync::LazyLock;

use crate::network::Network;

/// Why an address is not reached without a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Private {
    /// The gateway itself.
    Loopback,
    /// The gateway itself, by one of its own addresses.
    Own,
    /// The gateway's link; with IPv4 also where clouds keep their metadata (169.254.169.254).
    LinkLocal,
    /// A network that is not the Internet.
    Network,
    /// A cloud's metadata at an address that looks public.
    Metadata,
    /// No address of one machine: unspecified, multicast, broadcast, reserved.
    NoHost,
}

impl Private {
    /// For people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "a loopback address",
            Self::Own => "an address of the gateway itself",
            Self::LinkLocal => "a link-local address",
            Self::Network => "a private address",
            Self::Metadata => "a cloud's metadata service",
            Self::NoHost => "not the address of a host",
        }
    }
}

/// A network, its name in the registry, and what it is to us; `None` where the IPv4 address within decides.
type Row = (&'static str, &'static str, Option<Private>);

use Private::{LinkLocal, Loopback, Metadata, Network as Net, NoHost};

/// IANA IPv4 Special-Purpose Address Registry (RFC 6890), in its order.
const REGISTRY_V4: &[Row] = &[
    ("0.0.0.0/8", "\"This network\"", Some(NoHost)),
    ("0.0.0.0/32", "\"This host on this network\"", Some(NoHost)),
    ("10.0.0.0/8", "Private-Use", Some(Net)),
    ("100.64.0.0/10", "Shared Address Space", Some(Net)),
    ("127.0.0.0/8", "Loopback", Some(Loopback)),
    ("169.254.0.0/16", "Link Local", Some(LinkLocal)),
    ("172.16.0.0/12", "Private-Use", Some(Net)),
    ("192.0.0.0/24", "IETF Protocol Assignments", Some(Net)),
    ("192.0.0.0/29", "IPv4 Service Continuity Prefix", Some(Net)),
    ("192.0.0.8/32", "IPv4 dummy address", Some(Net)),
    ("192.0.0.9/32", "Port Control Protocol Anycast", Some(Net)),
    ("192.0.0.10/32", "Traversal Using Relays around NAT Anycast", Some(Net)),
    ("192.0.0.170/32", "NAT64/DNS64 Discovery", Some(Net)),
    ("192.0.0.171/32", "NAT64/DNS64 Discovery", Some(Net)),
    ("192.0.2.0/24", "Documentation (TEST-NET-1)", Some(Net)),
    ("192.31.196.0/24", "AS112-v4", Some(Net)),
    ("192.52.193.0/24", "AMT", Some(Net)),
    ("192.88.99.0/24", "Deprecated (6to4 Relay Anycast)", Some(Net)),
    ("192.88.99.2/32", "6a44-relay anycast address", Some(Net)),
    ("192.168.0.0/16", "Private-Use", Some(Net)),
    ("192.175.48.0/24", "Direct Delegation AS112 Service", Some(Net)),
    ("198.18.0.0/15", "Benchmarking", Some(Net)),
    ("198.51.100.0/24", "Documentation (TEST-NET-2)", Some(Net)),
    ("203.0.113.0/24", "Documentation (TEST-NET-3)", Some(Net)),
    ("240.0.0.0/4", "Reserved", Some(NoHost)),
    ("255.255.255.255/32", "Limited Broadcast", Some(NoHost)),
];

/// IANA IPv6 Special-Purpose Address Registry (RFC 6890), in its order. IPv4-mapped addresses (::ffff:0:0/96)
/// are none here: they are IPv4 addresses.
const REGISTRY_V6: &[Row] = &[
    ("::1/128", "Loopback Address", Some(Loopback)),
    ("::/128", "Unspecified Address", Some(NoHost)),
    ("64:ff9b::/96", "IPv4-IPv6 Translat.", None),
    ("64:ff9b:1::/48", "IPv4-IPv6 Translat.", Some(Net)),
    ("100::/64", "Discard-Only Address Block", Some(NoHost)),
    ("100:0:0:1::/64", "Dummy IPv6 Prefix", Some(NoHost)),
    ("2001::/23", "IETF Protocol Assignments", Some(Net)),
    ("2001::/32", "TEREDO", Some(Net)),
    ("2001:1::1/128", "Port Control Protocol Anycast", Some(Net)),
    ("2001:1::2/128", "Traversal Using Relays around NAT Anycast", Some(Net)),
    ("2001:1::3/128", "DNS-SD Service Registration Protocol Anycast", Some(Net)),
    ("2001:2::/48", "Benchmarking", Some(Net)),
    ("2001:3::/32", "AMT", Some(Net)),
    ("2001:4:112::/48", "AS112-v6", Some(Net)),
    ("2001:10::/28", "Deprecated (previously ORCHID)", Some(Net)),
    ("2001:20::/28", "ORCHIDv2", Some(Net)),
    ("2001:30::/28", "Drone Remote ID Protocol Entity Tags (DETs) Prefix", Some(Net)),
    ("2001:db8::/32", "Documentation", Some(Net)),
    ("2002::/16", "6to4", None),
    ("2620:4f:8000::/48", "Direct Delegation AS112 Service", Some(Net)),
    ("3fff::/20", "Documentation", Some(Net)),
    ("5f00::/16", "Segment Routing (SRv6) SIDs", Some(Net)),
    ("fc00::/7", "Unique-Local", Some(Net)),
    ("fe80::/10", "Link-Local Unicast", Some(LinkLocal)),
];

/// What is not in the registries: multicast, forms that are no longer used, and what a cloud tells its
/// machines at an address that looks public (Azure's wire server). All others that are known are in networks
/// above, as 169.254.169.254, fd00:ec2::254, 100.100.100.200, 192.0.0.192.
const MORE: &[Row] = &[
    ("224.0.0.0/4", "Multicast", Some(NoHost)),
    ("168.63.129.16/32", "Azure", Some(Metadata)),
    ("::/96", "IPv4-compatible (RFC 4291)", Some(NoHost)),
    ("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)", Some(NoHost)),
    ("fec0::/10", "Site-Local (RFC 3879)", Some(Net)),
    ("ff00::/8", "Multicast", Some(NoHost)),
];

/// All of IPv6 that IANA has given to the Internet (IANA IPv6 Address Space); of the rest nothing is public.
const GLOBAL_UNICAST: &str = "2000::/3";

/// What a special network is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Special {
    pub network: Network,
    pub name: &'static str,
    pub why: Option<Private>,
}

pub(super) static SPECIAL: LazyLock<Vec<Special>> = LazyLock::new(|| {
    let rows = [REGISTRY_V4, REGISTRY_V6, MORE].concat();
    let parse = |text: &str| text.parse().expect("written above, and read by a test");
    let mut all: Vec<_> =
        rows.iter().map(|(text, name, why)| Special { network: parse(text), name, why: *why }).collect();
    // The smallest of several networks says best what an address is.
    all.sort_by_key(|special| std::cmp::Reverse(special.network.length()));
    let rest = Special { network: parse("::/0"), name: "not assigned", why: Some(NoHost) };
    all.extend([Special { network: parse(GLOBAL_UNICAST), name: "Global Unicast", why: None }, rest]);
    all
});

/// The special network in which an address lies that is in its plain form; for IPv6 the rest is named as
/// well.
pub(super) fn special(address: IpAddr) -> Option<Special> {
    SPECIAL.iter().find(|special| special.network.contains(address)).copied()
}
