//! Which clients count as one, where shares are limited.

use std::net::{IpAddr, SocketAddr};

/// A /24 of IPv4 or a /56 of IPv6: what one household or machine is given. Limits that hold for each network
/// keep one of them from taking the places of all others.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientNetwork(Prefix);

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prefix {
    V4(u32),
    V6(u64),
}

impl ClientNetwork {
    /// The network of a client's address. An IPv4 address that is mapped into IPv6 is one of IPv4.
    pub fn of(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V4(ip) => Prefix::V4(u32::from(ip) >> 8),
            IpAddr::V6(ip) => Prefix::V6((u128::from(ip) >> 72) as u64),
        })
    }
}
