//! Which addresses are nobody's business from outside: those that lead to the gateway itself, to its network,
//! or to what a cloud tells its machines.
//!
//! Addresses are judged after names have been resolved, in the form in which they are then connected to, so
//! that no spelling of a name, no second answer of a name server and no address within an address makes a
//! difference.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

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

/// Metadata and platform services that live at addresses which look public (Azure's wire server).
const METADATA_V4: [Ipv4Addr; 1] = [Ipv4Addr::new(168, 63, 129, 16)];

/// Networks that are not the Internet (IANA IPv4 Special-Purpose Address Registry, without those named
/// otherwise).
const NETWORKS_V4: [(Ipv4Addr, u32); 9] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
];

/// Why this address is private; `None` if it is public. An own address of this machine counts as private.
pub fn private(address: IpAddr) -> Option<Private> {
    judge(address).or_else(|| is_own(address).then_some(Private::Own))
}

/// As [`private`], by the address alone.
fn judge(address: IpAddr) -> Option<Private> {
    match address {
        IpAddr::V4(address) => judge_v4(address),
        IpAddr::V6(address) => judge_v6(address),
    }
}

fn judge_v4(address: Ipv4Addr) -> Option<Private> {
    let bits = u32::from(address);
    let is_in = |(net, length): &(Ipv4Addr, u32)| (bits ^ u32::from(*net)) >> (32 - length) == 0;
    if address.is_loopback() {
        Some(Private::Loopback)
    } else if address.is_link_local() {
        Some(Private::LinkLocal)
    } else if METADATA_V4.contains(&address) {
        Some(Private::Metadata)
    } else if address.octets()[0] == 0 || address.octets()[0] >= 224 {
        Some(Private::NoHost)
    } else {
        NETWORKS_V4.iter().any(is_in).then_some(Private::Network)
    }
}

fn judge_v6(address: Ipv6Addr) -> Option<Private> {
    if address.is_loopback() {
        return Some(Private::Loopback);
    }
    if address.is_unspecified() || address.is_multicast() {
        return Some(Private::NoHost);
    }
    // An IPv4 address within an IPv6 address leads where the IPv4 address does.
    let inner = embedded_v4(address);
    let segments = address.segments();
    match segments[0] {
        // fe80::/10, and the site-local fec0::/10 of old.
        0xfe80..=0xfebf => Some(Private::LinkLocal),
        0xfec0..=0xfeff | 0xfc00..=0xfdff => Some(Private::Network),
        // 2001:db8::/32 and 3fff::/20 are for documents, 100::/64 discards, 2001:2::/48 is for benchmarks.
        0x2001 if segments[1] == 0xdb8 || (segments[1] == 2 && segments[2] == 0) => Some(Private::Network),
        0x3fff if segments[1] < 0x1000 => Some(Private::Network),
        0x100 if segments[1..4] == [0; 3] => Some(Private::NoHost),
        _ => inner.and_then(judge_v4),
    }
}

/// The IPv4 address that an IPv6 address is translated to on its way: mapped (RFC 4291 2.5.5), compatible,
/// NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(join(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, _, _, _, high, low] => {
            Some(join(high, low))
        }
        [0x2002, high, low, ..] => Some(join(high, low)),
        [0x2001, 0, .., high, low] => Some(join(!high, !low)),
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(join(high, low)),
        _ => None,
    }
}

/// Whether an address is one of this machine's: exactly those can be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// An address in its plain form: an IPv4 address within an IPv6 address is the IPv4 address.
pub fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_inside_is_private_in_every_spelling() {
        for (text, why) in [
            ("127.0.0.1", Private::Loopback),
            ("127.255.1.2", Private::Loopback),
            ("::1", Private::Loopback),
            ("::ffff:127.0.0.1", Private::Loopback),
            ("::ffff:0:127.0.0.1", Private::Loopback),
            ("::127.0.0.1", Private::Loopback),
            ("64:ff9b::7f00:1", Private::Loopback),
            ("64:ff9b:1::7f00:1", Private::Loopback),
            ("2002:7f00:1::", Private::Loopback),
            ("2001:0:1:2:3:4:80ff:fffe", Private::Loopback),
            ("2a00::5efe:10.0.0.1", Private::Network),
            ("169.254.169.254", Private::LinkLocal),
            ("::ffff:169.254.169.254", Private::LinkLocal),
            ("fe80::1", Private::LinkLocal),
            ("fd00:ec2::254", Private::Network),
            ("fec0::1", Private::Network),
            ("10.1.2.3", Private::Network),
            ("172.16.0.1", Private::Network),
            ("172.31.255.255", Private::Network),
            ("192.168.1.1", Private::Network),
            ("100.100.100.200", Private::Network),
            ("192.0.0.192", Private::Network),
            ("198.19.255.255", Private::Network),
            ("168.63.129.16", Private::Metadata),
            ("0.0.0.0", Private::NoHost),
            ("0.1.2.3", Private::NoHost),
            ("224.0.0.1", Private::NoHost),
            ("255.255.255.255", Private::NoHost),
            ("240.0.0.1", Private::NoHost),
            ("::", Private::NoHost),
            ("ff02::1", Private::NoHost),
        ] {
            assert_eq!(judge(text.parse().unwrap()), Some(why), "{text}");
        }
    }

    #[test]
    fn the_internet_is_public() {
        for text in [
            "1.1.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.255.255",
            "100.128.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert_eq!(judge(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn addresses_of_this_machine_are_its_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
    }
}
