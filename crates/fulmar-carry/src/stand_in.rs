//! Addresses that stand in for names: a program asks for the address of a name, gets one that nobody has, and
//! connects to it; the name goes to the gateway, which alone looks it up.
//!
//! They come from 198.18.0.0/15 and 2001:2::/48, which are set aside for tests of network equipment (RFC
//! 2544, RFC 5180) and are in use nowhere else. The IPv6 address of a name holds its IPv4 address in its last
//! four bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How many names can have an address at the same time.
pub const STAND_INS: u32 = (1 << 17) - 2;

const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 1]);
const PREFIX: [u16; 6] = [0x2001, 2, 0, 0, 0, 0];

/// The number of an address that stands in for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StandIn(u32);

impl StandIn {
    /// The one with this number, counted around.
    pub fn new(number: u32) -> Self {
        Self(number % STAND_INS)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The number of this address, if it stands in for a name.
    pub fn of(ip: IpAddr) -> Option<Self> {
        let v4 = match ip.to_canonical() {
            IpAddr::V4(v4) => v4,
            IpAddr::V6(v6) => {
                let segments = v6.segments();
                let has_prefix = segments[..6] == PREFIX;
                has_prefix.then(|| Ipv4Addr::from(u32::from(segments[6]) << 16 | u32::from(segments[7])))?
            }
        };
        let number = u32::from(v4).checked_sub(FIRST)?;
        (number < STAND_INS).then_some(Self(number))
    }

    /// As an IPv4 address.
    pub fn v4(self) -> Ipv4Addr {
        Ipv4Addr::from(FIRST + self.0)
    }

    /// As an IPv6 address.
    pub fn v6(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = PREFIX;
        let v4 = FIRST + self.0;
        Ipv6Addr::new(a, b, c, d, e, f, (v4 >> 16) as u16, v4 as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_number() {
        for number in [0, 1, 255, 256, 65_536, STAND_INS - 1] {
            let stand_in = StandIn::new(number);
            assert_eq!(StandIn::of(stand_in.v4().into()), Some(stand_in));
            assert_eq!(StandIn::of(stand_in.v6().into()), Some(stand_in));
            assert_eq!(StandIn::of(stand_in.v4().to_ipv6_mapped().into()), Some(stand_in));
        }
        assert_eq!(StandIn::new(STAND_INS), StandIn::new(0));
        assert_eq!(StandIn::new(STAND_INS - 1).v4(), Ipv4Addr::new(198, 19, 255, 254));
        assert_eq!(StandIn::new(0).v6().to_string(), "2001:2::c612:1");
    }

    #[test]
    fn other_addresses_stand_for_themselves() {
        for ip in [
            "198.18.0.0",
            "198.17.255.255",
            "198.19.255.255",
            "198.20.0.0",
            "0.0.0.0",
            "::1",
            "2001:2:1::c612:1",
        ] {
            assert_eq!(StandIn::of(ip.parse().unwrap()), None, "{ip}");
        }
    }
}
