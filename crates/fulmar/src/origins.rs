//! Addresses of peers that do not come by the socket of their endpoint: by a byte stream, or by another port.
//!
//! To the protocol each is one more address, that no datagram has: a flow label that no network gives (RFC
//! 6437 has 20 bits) says by which way it comes. So a connection moves between ways as it moves between
//! addresses.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// By a stream: to the protocol that is another path (`fulmar_proto::DatagramMeta`).
const STREAM: u32 = 1 << 31;
/// By another port: the same path.
const PORT: u32 = 1 << 30;

fn label(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.flowinfo(),
    }
}

fn labelled(address: SocketAddr, label: u32) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), label, 0).into(),
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), label, v6.scope_id()).into(),
    }
}

/// The same peer by the stream of this number.
pub(crate) fn by_stream(address: SocketAddr, number: u32) -> SocketAddr {
    labelled(address, STREAM | number)
}

/// Whether that is the address of a stream.
pub(crate) fn is_stream(address: SocketAddr) -> bool {
    label(address) & STREAM != 0
}

/// The same peer by the port of this number.
pub(crate) fn by_port(address: SocketAddr, number: usize) -> SocketAddr {
    labelled(address, PORT | u32::try_from(number).unwrap_or(0))
}

/// By which port it comes, if not by the endpoint's first.
pub(crate) fn port(address: SocketAddr) -> Option<usize> {
    let label = label(address);
    (label & (STREAM | PORT) == PORT).then_some((label & !PORT) as usize)
}

/// The address that people and systems know.
pub(crate) fn visible(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.flowinfo() & (STREAM | PORT) != 0 => match v6.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), v6.port()),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into(),
        },
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_an_address_of_its_own_that_no_datagram_has() {
        for text in ["192.0.2.1:5", "[2001:db8::1]:5", "[fe80::1%3]:5"] {
            let peer: SocketAddr = text.parse().unwrap();
            let all = [peer, by_stream(peer, 0), by_stream(peer, 1), by_port(peer, 0), by_port(peer, 1)];
            for (at, address) in all.into_iter().enumerate() {
                assert_eq!(visible(address), peer);
                assert_eq!(all.iter().position(|other| *other == address), Some(at));
                assert_eq!(is_stream(address), [1, 2].contains(&at));
                assert_eq!(port(address), at.checked_sub(3));
            }
        }
    }
}
