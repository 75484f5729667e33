//! Which addresses are nobody's business from outside: those that lead to the gateway itself, to its network,
//! or to what a cloud tells its machines.
//!
//! Addresses are judged after names have been resolved, in the form in which they are then connected to, so
//! that no spelling of a name, no second answer of a name server and no address within an address makes a
//! difference.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use super::special::{Private, special};

/// Why an address is private, and what its network is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// The kind.
    pub why: Private,
    /// The registry's name of the network.
    pub name: &'static str,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            Private::Network | Private::NoHost | Private::Metadata => {
                write!(f, "{} ({})", self.why.describe(), self.name)
            }
            why => f.write_str(why.describe()),
        }
    }
}

/// Why this address is private; `None` if it is public. An own address of this machine counts as private.
pub fn private(address: IpAddr) -> Option<Reason> {
    let address = plain(address);
    let own = || {
        let inner = inner(address).map(IpAddr::V4);
        let is_ours = is_own(address) || inner.is_some_and(is_own);
        is_ours.then_some(Reason { why: Private::Own, name: "" })
    };
    judge(address).or_else(own)
}

/// As [`private`], by the address alone. An IPv4 address within an IPv6 address leads where the IPv4 address
/// does.
fn judge(address: IpAddr) -> Option<Reason> {
    let address = plain(address);
    let of = |ip| special(ip).and_then(|found| found.why.map(|why| Reason { why, name: found.name }));
    // Of an unused form the kind of the address within says more than the form, if it is private.
    inner(address).and_then(|inner| of(inner.into())).or_else(|| of(address))
}

fn inner(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        // Neither is an address within another.
        IpAddr::V6(Ipv6Addr::LOCALHOST | Ipv6Addr::UNSPECIFIED) | IpAddr::V4(_) => None,
        IpAddr::V6(address) => embedded_v4(address),
    }
}

/// The IPv4 address that an IPv6 address is translated to on its way: compatible (RFC 4291 2.5.5), translated
/// (RFC 2765), NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214).
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(join(high, low)),
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
    use proptest::prelude::*;

    use super::super::special::SPECIAL;
    use super::*;

    fn kind(text: &str) -> Option<Private> {
        judge(text.parse().unwrap()).map(|reason| reason.why)
    }

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
            ("2a00::200:5efe:10.0.0.1", Private::Network),
            ("169.254.169.254", Private::LinkLocal),
            ("::ffff:169.254.169.254", Private::LinkLocal),
            ("64:ff9b::169.254.169.254", Private::LinkLocal),
            ("fe80::1", Private::LinkLocal),
            ("fe80::a9fe:a9fe", Private::LinkLocal),
            ("fd00:ec2::254", Private::Network),
            ("fd20:ce::254", Private::Network),
            ("fec0::1", Private::Network),
            ("10.1.2.3", Private::Network),
            ("172.16.0.1", Private::Network),
            ("172.31.255.255", Private::Network),
            ("192.168.1.1", Private::Network),
            ("100.100.100.200", Private::Network),
            ("192.0.0.192", Private::Network),
            ("192.0.0.9", Private::Network),
            ("192.88.99.1", Private::Network),
            ("198.19.255.255", Private::Network),
            ("168.63.129.16", Private::Metadata),
            ("64:ff9b::168.63.129.16", Private::Metadata),
            ("0.0.0.0", Private::NoHost),
            ("0.1.2.3", Private::NoHost),
            ("224.0.0.1", Private::NoHost),
            ("255.255.255.255", Private::NoHost),
            ("240.0.0.1", Private::NoHost),
            ("::", Private::NoHost),
            ("::1.1.1.1", Private::NoHost),
            ("::ffff:0:1.1.1.1", Private::NoHost),
            ("ff02::1", Private::NoHost),
            ("4000::1", Private::NoHost),
            ("5f00::1", Private::Network),
            ("2001:20::1", Private::Network),
            ("2001:0:1:2:3:4:fefe:fefe", Private::Network),
            // RFC 6052 puts the address elsewhere within shorter prefixes: all of the network is private.
            ("64:ff9b:1:7f00:0:100:101:101", Private::Network),
            ("64:ff9b:1:0:1:1:101:101", Private::Network),
            // A prefix that is neither of the two that are set aside for NAT64.
            ("64:ff9b:0:0:0:1:101:101", Private::NoHost),
        ] {
            assert_eq!(kind(text), Some(why), "{text}");
        }
    }

    #[test]
    fn the_internet_is_public() {
        for text in [
            "1.1.1.1",
            "::ffff:1.1.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "100.63.255.255",
            "100.128.0.1",
            "192.0.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "64:ff9b::101:101",
            "2002:101:101::",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn no_special_network_has_a_public_address_at_its_ends() {
        for found in SPECIAL.iter().filter(|special| special.why.is_some() && special.network.length() > 0) {
            let (first, last) = ends(&found.network);
            assert!(judge(first).is_some() && judge(last).is_some(), "{}: {first}", found.name);
        }
        let reason = judge("10.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(reason.to_string(), "a private address (Private-Use)");
    }

    fn ends(network: &crate::network::Network) -> (IpAddr, IpAddr) {
        let first = network.first();
        let last = match first {
            IpAddr::V4(ip) => {
                let rest = u32::MAX.checked_shr(network.length().into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from(u32::from(ip) | rest))
            }
            IpAddr::V6(ip) => {
                let rest = u128::MAX.checked_shr(network.length().into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from(u128::from(ip) | rest))
            }
        };
        (first, last)
    }

    /// An IPv4 address: any, or one near the edge of a special network.
    fn any_v4() -> impl Strategy<Value = Ipv4Addr> {
        let near =
            (any::<proptest::sample::Index>(), any::<bool>(), -1i64..=1).prop_map(|(at, is_last, by)| {
                let networks: Vec<_> = SPECIAL.iter().filter(|special| special.network.is_v4()).collect();
                let (first, last) = ends(&at.get(&networks).network);
                let IpAddr::V4(ip) = (if is_last { last } else { first }) else { unreachable!("of IPv4") };
                Ipv4Addr::from(u32::from(ip).wrapping_add(by as u32))
            });
        prop_oneof![any::<u32>().prop_map(Ipv4Addr::from), near]
    }

    proptest! {
        #[test]
        fn an_address_is_judged_alike_in_every_form(ip in any_v4(), host in any::<u64>()) {
            let plain = judge(ip.into());
            prop_assert_eq!(judge(ip.to_ipv6_mapped().into()), plain);
            let bits = u128::from(u32::from(ip));
            let v6 = |high: u128, at: u32| IpAddr::V6(Ipv6Addr::from(high | bits << at));
            let nat64 = 0x0064_ff9b_u128 << 96;
            let six_to_four = 0x2002_u128 << 112 | u128::from(host);
            prop_assert_eq!(judge(v6(nat64, 0)), plain);
            // With the address of a host behind it, which may be another in disguise (ISATAP).
            prop_assert!(plain.is_none() || judge(v6(six_to_four, 80)).is_some());
            prop_assert_eq!(judge(v6(six_to_four >> 64 << 64, 80)), plain);
            // Whole networks that nobody needs.
            for high in [nat64 | 1 << 80, 0, 0xffff << 48, 0x2001_u128 << 112] {
                prop_assert!(judge(v6(high, 0)).is_some());
                prop_assert!(judge(v6(high | u128::from(host) << 32, 0)).is_some() || high == 0);
            }
        }

        /// What is not of the Internet's part of IPv6 is private, whatever it is.
        #[test]
        fn nothing_outside_of_global_unicast_is_public(bits in any::<u128>()) {
            let ip = Ipv6Addr::from(bits);
            let is_global = bits >> 125 == 1;
            let is_nat64 = bits >> 32 == 0x0064_ff9b_u128 << 64;
            let is_mapped = ip.to_ipv4_mapped().is_some();
            prop_assert!(is_global || is_nat64 || is_mapped || judge(ip.into()).is_some());
        }
    }

    #[test]
    fn addresses_of_this_machine_are_its_own() {
        assert!(is_own("127.0.0.1".parse().unwrap()));
        assert!(!is_own("192.0.2.77".parse().unwrap()));
    }
}
