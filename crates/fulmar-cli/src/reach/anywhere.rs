//! Addresses of this machine that nobody has to name.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use fulmar::identity::PORT_DEFAULT;

/// Where servers listen if nothing is said: the port.
pub const DEFAULT_PORT: u16 = PORT_DEFAULT;

/// Every address of this machine, by IPv6 and IPv4, where there is IPv6.
pub fn any_address(port: u16) -> SocketAddr {
    let has_ipv6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if has_ipv6 {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
    } else {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
    }
}

/// Every address of this machine that can send to `remote`, at a port that the system draws.
pub fn any_like(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    }
}
