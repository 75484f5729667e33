//! Addresses of tunnels: a pair for each, of which the gateway has the even one and the client the odd one.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Unique local addresses (RFC 4193) of tunnels: `f` and "fulm" in the prefix, the pair's number at the end.
const PREFIX_V6: [u16; 4] = [0xfdf1, 0x6675, 0x6c6d, 0];

/// Most tunnels at the same time, however large the network is.
const PAIRS_MAX: u32 = 1 << 16;

/// Addresses that a gateway gives to tunnels.
#[derive(Debug, Clone)]
pub struct Pool {
    first: u32,
    length: u32,
    pairs: u32,
    taken: Arc<Mutex<BTreeSet<u32>>>,
}

/// The addresses of both ends; free again when dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Pool,
    number: u32,
}

impl std::str::FromStr for Pool {
    type Err = String;

    /// As `10.97.0.0/16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no IPv4 network with room for a tunnel, as 10.97.0.0/16");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let address = u32::from(address.parse::<Ipv4Addr>().map_err(|_| wrong())?);
        let length: u32 = length.parse().ok().filter(|bits| (8..=31).contains(bits)).ok_or_else(wrong)?;
        let first = address & (u32::MAX << (32 - length));
        Ok(Self { first, length, pairs: (1 << (31 - length)).min(PAIRS_MAX), taken: Arc::default() })
    }
}

impl Pool {
    /// As it was written.
    pub fn network(&self) -> String {
        format!("{}/{}", Ipv4Addr::from(self.first), self.length)
    }

    /// Addresses for one more tunnel; those whose client had `wish` before, if they are free. `None` if all
    /// are taken.
    pub fn lease(&self, wish: Option<Ipv4Addr>) -> Option<Lease> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let number = |address: Ipv4Addr| u32::from(address).checked_sub(self.first).map(|offset| offset / 2);
        let wish = wish.and_then(number).filter(|number| *number < self.pairs && !taken.contains(number));
        let number = wish.or_else(|| (0..self.pairs).find(|number| !taken.contains(number)))?;
        taken.insert(number);
        Some(Lease { pool: self.clone(), number })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Lease {
    /// The gateway's end and the client's.
    pub fn v4(&self) -> (Ipv4Addr, Ipv4Addr) {
        let even = self.pool.first + 2 * self.number;
        (even.into(), (even + 1).into())
    }

    /// The gateway's end and the client's.
    pub fn v6(&self) -> (Ipv6Addr, Ipv6Addr) {
        let [a, b, c, d] = PREFIX_V6;
        // Tunnels of several gateways meet in nobody's routing table: the IPv4 network is part of the
        // address.
        let (high, low) = ((self.pool.first >> 16) as u16, self.pool.first as u16);
        let end = |last: u32| Ipv6Addr::new(a, b, c, d, high, low, (last >> 16) as u16, last as u16);
        (end(2 * self.number), end(2 * self.number + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_given_once_and_come_back() {
        let pool: Pool = "10.97.3.7/29".parse().unwrap();
        let leases: Vec<_> = (0..4).map(|_| pool.lease(None).unwrap()).collect();
        assert_eq!(leases[0].v4(), ("10.97.3.0".parse().unwrap(), "10.97.3.1".parse().unwrap()));
        assert_eq!(leases[3].v4(), ("10.97.3.6".parse().unwrap(), "10.97.3.7".parse().unwrap()));
        assert_eq!(leases[1].v6().1.to_string(), "fdf1:6675:6c6d:0:a61:300:0:3");
        assert!(pool.lease(None).is_none());
        let before = leases[2].v4().1;
        drop(leases);
        assert_eq!(pool.lease(Some(before)).unwrap().v4().1, before);
        let first = pool.lease(Some("192.0.2.1".parse().unwrap())).unwrap();
        assert_eq!(first.v4().1, "10.97.3.1".parse::<Ipv4Addr>().unwrap(), "no such wish can be granted");
    }

    #[test]
    fn networks_that_are_none() {
        for text in ["10.97.0.0", "10.97.0.0/32", "10.97.0.0/7", "10.97.0/16", "::/64", "/16", ""] {
            assert!(text.parse::<Pool>().is_err(), "{text}");
        }
    }
}
