//! Networks as people write them: one reading for permits, routes, rules and pools of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// Bits before the IPv4 address in an IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// A network, as ADDRESS/LENGTH, or an address alone. One of IPv4-mapped addresses is that of the IPv4
/// addresses: every address is here in its plain form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(IpNet);

impl Network {
    /// The network of an address by its length in bits; `None` if it has no such length.
    pub fn of(address: IpAddr, length: u8) -> Option<Self> {
        IpNet::new(address, length).ok().map(|net| Self(net.trunc()))
    }

    /// One address.
    pub fn one(address: IpAddr) -> Self {
        Self(address.to_canonical().into())
    }

    /// Whether the address lies in it. An IPv4-mapped address is the IPv4 address, and no other address lies
    /// in a network of the other family.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Whether there is an address in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0.contains(&other.0) || other.0.contains(&self.0)
    }

    /// Its first address.
    pub fn first(&self) -> IpAddr {
        self.0.network()
    }

    /// Bits that all its addresses have in common.
    pub fn length(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Is it one of IPv4?
    pub fn is_v4(&self) -> bool {
        matches!(self.0, IpNet::V4(_))
    }
}

impl FromStr for Network {
    type Err = String;

    /// Refuses what is no network, and what does not say which is meant: bits beyond the length.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network, as 10.0.0.0/8");
        let (written, length) = text.split_once('/').map_or((text, None), |(ip, bits)| (ip, Some(bits)));
        let written: IpAddr = written.parse().map_err(|_| wrong())?;
        let Some(length) = length else { return Ok(Self::one(written)) };
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u8 = length.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        let address = written.to_canonical();
        let length = if address.is_ipv4() == written.is_ipv4() {
            length
        } else {
            let too_short = || format!("`{text}`: a network of IPv4-mapped addresses has 96 bits or more");
            length.checked_sub(MAPPED_BITS).ok_or_else(too_short)?
        };
        let network = Self::of(address, length).ok_or_else(wrong)?;
        if network.first() != address {
            return Err(format!(
                "`{text}` has bits beyond its length: say {network} for the network, or {address} for the \
                 address"
            ));
        }
        Ok(network)
    }
}

/// As nft and ip write it: an address alone without a length.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            write!(f, "{}", self.0.addr())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        for (net, ip, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "::ffff:10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::10.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("::/0", "1.2.3.4", false),
            ("::/0", "::ffff:1.2.3.4", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("::ffff:10.0.0.1", "127.0.0.1", false),
            ("::ffff:10.0.0.1/128", "10.0.0.2", false),
            ("::ffff:10.0.0.0/104", "10.9.9.9", true),
            ("::ffff:10.0.0.0/104", "11.0.0.0", false),
            ("::ffff:0:0/96", "1.2.3.4", true),
        ] {
            assert_eq!(network(net).contains(ip.parse().unwrap()), expected, "{net} {ip}");
        }
    }

    #[test]
    fn what_is_no_network_or_two_is_refused() {
        for text in [
            "",
            "ten",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0.0/-1",
            "10.0.0.0/256",
            "10.0.0.1; flush ruleset",
            "010.0.0.1",
            "::/129",
            "::ffff:10.0.0.0/95",
            "::ffff:10.0.0.0/8",
            "::ffff:0:0/0",
            "::ffff:10.0.0.1/104",
            "10.0.0.1/8",
            "fd00::1/8",
            "[::1]",
            " 10.0.0.0/8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let error = "10.0.0.1/8".parse::<Network>().unwrap_err();
        assert!(error.contains("10.0.0.0/8") && error.contains("or 10.0.0.1 "), "{error}");
        assert!(network("10.0.0.0/8").overlaps(&network("10.1.0.0/16")));
        assert!(network("10.1.0.1").overlaps(&network("10.1.0.0/16")));
        assert!(!network("10.1.0.0/16").overlaps(&network("10.2.0.0/16")));
        assert!(!network("::/0").overlaps(&network("10.2.0.0/16")));
    }

    proptest! {
        /// Against bits counted one by one: the same family, and the same bits up to the length.
        #[test]
        fn an_address_lies_in_a_network_by_its_bits_alone(
            bits in any::<u128>(), flip in 0u8..128, length in 0u8..=128, v4 in any::<bool>(), mapped in any::<bool>(),
        ) {
            let (width, bits) = if v4 { (32u8, bits & 0xffff_ffff) } else { (128, bits) };
            let (length, flip) = (length % (width + 1), flip % width);
            let ip = |bits: u128| match (v4, mapped) {
                (true, false) => IpAddr::V4(Ipv4Addr::from(bits as u32)),
                (true, true) => IpAddr::V6(Ipv4Addr::from(bits as u32).to_ipv6_mapped()),
                _ => IpAddr::V6(Ipv6Addr::from(bits)),
            };
            let masked = (0..length).fold(0u128, |sum, at| sum | bits & 1 << (width - 1 - at));
            prop_assume!(v4 || ip(masked).to_canonical().is_ipv6() && ip(bits).to_canonical().is_ipv6());
            let more = if v4 && mapped { MAPPED_BITS } else { 0 };
            let net: Network = format!("{}/{}", ip(masked), length + more).parse().unwrap();
            let other = bits ^ 1 << (width - 1 - flip);
            prop_assert!(net.contains(ip(bits)) && net.contains(ip(bits).to_canonical()));
            prop_assert_eq!(net.contains(ip(other)), flip >= length);
            let foreign = if v4 { IpAddr::V6(Ipv6Addr::from(bits)) } else { IpAddr::V4(Ipv4Addr::from(bits as u32)) };
            prop_assert!(!net.contains(foreign));
        }
    }
}
