//! What a client takes of what a gateway grants: addresses where it has said so, and none of its neighbours'.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage};

use super::carry::MTU_MIN;
use super::pool::{BLOCK_V4_BITS, BLOCK_V6_BITS, NETWORK_V4, NETWORK_V6};
use crate::network::Network;
use crate::tunnel::wire::packets::Grant;

/// Where name servers are written down: the system's own, and those behind systemd's.
const RESOLVERS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// What is around this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Networks of its interfaces, but for the tunnel's own.
    pub networks: Vec<Network>,
    /// Its name servers, and the gateway.
    pub hosts: Vec<IpAddr>,
}

impl Around {
    /// What is there now. `device` is the tunnel's, `gateway` where its packets go.
    pub fn look(device: &str, gateway: IpAddr) -> std::io::Result<Self> {
        let mut networks = Vec::new();
        for interface in getifaddrs()?.filter(|interface| interface.interface_name != device) {
            let length = interface.netmask.as_ref().and_then(ip).map_or(u8::MAX, ones);
            if let Some(address) = interface.address.as_ref().and_then(ip) {
                networks.push(Network::of(address, length).unwrap_or(Network::one(address)));
            }
            networks.extend(interface.destination.as_ref().and_then(ip).map(Network::one));
        }
        let read = |path: &&str| std::fs::read_to_string(path).unwrap_or_default();
        let mut hosts: Vec<_> = RESOLVERS.iter().map(read).flat_map(|text| name_servers(&text)).collect();
        hosts.push(gateway.to_canonical());
        Ok(Self { networks, hosts })
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    match address.family()? {
        AddressFamily::Inet => Some(address.as_sockaddr_in()?.ip().into()),
        AddressFamily::Inet6 => Some(address.as_sockaddr_in6()?.ip().into()),
        _ => None,
    }
}

/// The length that a mask says.
fn ones(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(mask) => u32::from(mask).leading_ones(),
        IpAddr::V6(mask) => u128::from(mask).leading_ones(),
    };
    ones as u8
}

fn name_servers(text: &str) -> Vec<IpAddr> {
    let of_line = |line: &str| {
        let address = line.trim_start().strip_prefix("nameserver")?.split_whitespace().next()?;
        // A link-local one has its interface behind it.
        address.split('%').next()?.parse().ok()
    };
    text.lines().filter_map(of_line).collect()
}

/// Whether a client with this MTU, which lets the gateway choose among `allowed`, takes a grant; otherwise
/// why not. A family for which nothing is allowed by name has the networks of tunnels.
pub fn check(grant: &Grant, mtu_max: u16, allowed: &[Network], around: &Around) -> Result<(), String> {
    if !(MTU_MIN..=mtu_max).contains(&grant.mtu) {
        return Err(format!("the gateway grants an MTU of {}; asked for were {mtu_max}", grant.mtu));
    }
    check_pair(grant.v4.into(), grant.gateway_v4.into(), BLOCK_V4_BITS, allowed, around)?;
    check_pair(grant.v6.into(), grant.gateway_v6.into(), BLOCK_V6_BITS, allowed, around)
}

/// The network of a tunnel in which this address is.
pub fn block(address: IpAddr) -> Option<Network> {
    Network::of(address, if address.is_ipv4() { BLOCK_V4_BITS } else { BLOCK_V6_BITS })
}

fn check_pair(
    own: IpAddr,
    gateway: IpAddr,
    bits: u8,
    allowed: &[Network],
    around: &Around,
) -> Result<(), String> {
    let block = Network::of(own, bits).ok_or_else(|| format!("{own} is in no network of {bits} bits"))?;
    let is_end = |address: IpAddr| block.contains(address) && address != block.first();
    if own == gateway || !is_end(own) || !is_end(gateway) {
        return Err(format!(
            "the gateway grants {own} and calls itself {gateway}, which is no pair of {block}"
        ));
    }
    let default = if own.is_ipv4() { NETWORK_V4 } else { NETWORK_V6 };
    let named: Vec<Network> = allowed.iter().copied().filter(|net| net.is_v4() == own.is_ipv4()).collect();
    let within = if named.is_empty() { default.parse().into_iter().collect() } else { named };
    let holds = |net: &Network| net.contains(own) && net.length() <= bits;
    if !within.iter().any(holds) {
        let within: Vec<_> = within.iter().map(Network::to_string).collect();
        return Err(format!(
            "the gateway grants {own}, outside of {} (to allow more: --addresses NETWORK)",
            within.join(", ")
        ));
    }
    if let Some(net) = around.networks.iter().find(|net| net.overlaps(&block)) {
        return Err(format!(
            "the gateway grants {own} in {block}, but this machine has an interface in {net}"
        ));
    }
    match around.hosts.iter().find(|host| block.contains(**host)) {
        Some(host) => Err(format!("the gateway grants {own} in {block}, where {host} is used already")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(v4: &str, gateway_v4: &str) -> Grant {
        Grant {
            mtu: 1380,
            v4: v4.parse().unwrap(),
            gateway_v4: gateway_v4.parse().unwrap(),
            v6: "fdf1:6675:6c6d::2".parse().unwrap(),
            gateway_v6: "fdf1:6675:6c6d::1".parse().unwrap(),
        }
    }

    fn nets(texts: &[&str]) -> Vec<Network> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_lying_gateway_gets_nowhere() {
        let around = Around {
            networks: nets(&["192.168.1.0/24", "10.97.9.0/24", "127.0.0.0/8"]),
            hosts: vec!["10.97.5.53".parse().unwrap(), "fdf1:6675:6c6d::101".parse().unwrap()],
        };
        let honest = grant("10.97.0.2", "10.97.0.1");
        let judge = |grant: &Grant, allowed: &[&str]| check(grant, 1380, &nets(allowed), &around);
        assert_eq!(judge(&honest, &[]), Ok(()));
        for (v4, gateway_v4, words) in [
            ("192.168.1.54", "192.168.1.53", "outside of 10.97.0.0/16"),
            ("10.98.0.2", "10.98.0.1", "--addresses"),
            ("10.97.9.2", "10.97.9.1", "10.97.9.0/24"),
            ("10.97.5.54", "10.97.5.53", "10.97.5.53 is used"),
            ("10.97.0.2", "10.97.1.1", "no pair"),
            ("10.97.0.2", "8.8.8.8", "no pair"),
            ("10.97.0.2", "10.97.0.2", "no pair"),
            ("10.97.0.2", "10.97.0.0", "no pair"),
            ("10.97.0.0", "10.97.0.1", "no pair"),
            ("0.0.0.0", "0.0.0.1", "no pair"),
            ("127.0.0.1", "127.0.0.2", "outside"),
            ("255.255.255.254", "255.255.255.253", "outside"),
        ] {
            let error = judge(&grant(v4, gateway_v4), &[]).unwrap_err();
            assert!(error.contains(words), "{v4}: {error}");
        }
        // What this machine has is nobody's else, whatever is allowed.
        for v4 in ["192.168.1.54", "127.0.0.2", "10.97.9.2"] {
            let gateway: std::net::Ipv4Addr =
                (u32::from(v4.parse::<std::net::Ipv4Addr>().unwrap()) ^ 3).into();
            assert!(judge(&grant(v4, &gateway.to_string()), &["0.0.0.0/0"]).is_err(), "{v4}");
        }
        assert_eq!(judge(&grant("10.98.0.2", "10.98.0.1"), &["10.98.0.0/24"]), Ok(()));
        assert!(judge(&honest, &["10.98.0.0/24"]).is_err(), "what is named is all there is");
        assert_eq!(judge(&honest, &["fd00::/8"]), Ok(()), "the other family stays as it was");
        assert!(judge(&honest, &["10.97.0.2"]).is_err(), "the pair has to lie in it");

        for mtu in [0, 1279, 1381, 65_535] {
            assert!(judge(&Grant { mtu, ..honest.clone() }, &[]).is_err(), "{mtu}");
        }
        for (v6, gateway_v6) in
            [("fd00::2", "fd00::1"), ("fdf1:6675:6c6d::102", "fdf1:6675:6c6d::101"), ("::2", "::1")]
        {
            let (v6, gateway_v6) = (v6.parse().unwrap(), gateway_v6.parse().unwrap());
            assert!(judge(&Grant { v6, gateway_v6, ..honest.clone() }, &[]).is_err(), "{v6}");
        }
    }

    #[test]
    fn what_is_around_this_machine() {
        let gateway = "::ffff:192.0.2.9".parse().unwrap();
        let around = Around::look("no-such-device", gateway).unwrap();
        assert!(around.networks.contains(&"127.0.0.0/8".parse().unwrap()), "{around:?}");
        assert!(around.hosts.contains(&"192.0.2.9".parse().unwrap()));
        assert!(!Around::look("lo", gateway).unwrap().networks.contains(&"127.0.0.0/8".parse().unwrap()));
        let text =
            "# nameserver 1.1.1.1\nnameserver 192.0.2.1\n nameserver fe80::1%eth0\nnameserver\nsearch x\n";
        let expected: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(name_servers(text), expected);
    }
}
