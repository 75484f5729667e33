//! Addresses of tunnels: a block of four for each, of which the gateway has the second and the client the
//! third. The gateway of the first tunnel is `.1`.
//!
//! Addresses belong to keys: a key gets those that it had, and what is held no other key gets. A client that
//! comes again before its old connection is known to be lost takes its own addresses over.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use fulmar::crypto::PublicKey;
use tokio::sync::Notify;

use crate::network::Network;

/// Networks of tunnels where nothing else is said.
pub const NETWORK_V4: &str = "10.97.0.0/16";
/// Unique local addresses (RFC 4193) of tunnels: `f` and "fulm" in the prefix, the tunnel's number at the
/// end.
pub const NETWORK_V6: &str = "fdf1:6675:6c6d::/48";

const PREFIX_V6: [u16; 4] = [0xfdf1, 0x6675, 0x6c6d, 0];

/// Lengths of the blocks: without their first address, and of IPv4 without the last, they have room for two.
pub const BLOCK_V4_BITS: u8 = 30;
/// The same for IPv6.
pub const BLOCK_V6_BITS: u8 = 126;

const BLOCK_ADDRESSES: u32 = 4;
const GATEWAY_AT: u32 = 1;
const CLIENT_AT: u32 = 2;

/// Shortest network of a pool.
const POOL_BITS_MIN: u8 = 8;

/// Most tunnels at the same time, however large the network is.
const BLOCKS_MAX: u32 = 1 << 16;

/// Addresses that a gateway gives to tunnels.
#[derive(Debug, Clone)]
pub struct Pool {
    network: Network,
    first: u32,
    blocks: u32,
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    /// Whose each block is, or was last.
    blocks: BTreeMap<u32, Owner>,
    /// Leases so far.
    leases: u64,
}

#[derive(Debug)]
struct Owner {
    key: PublicKey,
    /// The last lease.
    lease: u64,
    /// What ends it; `None` if it has ended.
    holder: Option<Arc<Notify>>,
}

/// The addresses of both ends; free again when dropped.
#[derive(Debug)]
pub struct Lease {
    pool: Pool,
    block: u32,
    lease: u64,
    ended: Arc<Notify>,
}

impl std::str::FromStr for Pool {
    type Err = String;

    /// As `10.97.0.0/16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let network: Network = text.parse()?;
        let bits = POOL_BITS_MIN..=BLOCK_V4_BITS;
        match network.first() {
            std::net::IpAddr::V4(first) if bits.contains(&network.length()) => {
                let blocks = (1 << (BLOCK_V4_BITS - network.length())).min(BLOCKS_MAX);
                Ok(Self { network, first: first.into(), blocks, books: Arc::default() })
            }
            _ => Err(format!("`{text}` is no IPv4 network with room for a tunnel, as {NETWORK_V4}")),
        }
    }
}

impl Pool {
    /// All addresses.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Addresses for one more tunnel of this key; those that it wishes, if they are its own or nobody's.
    /// `None` if all are held.
    pub fn lease(&self, key: PublicKey, wish: Option<Ipv4Addr>) -> Option<Lease> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let block = self.choose(&books, key, wish)?;
        books.leases += 1;
        let (lease, ended) = (books.leases, Arc::new(Notify::new()));
        let owner = Owner { key, lease, holder: Some(Arc::clone(&ended)) };
        if let Some(before) = books.blocks.insert(block, owner).and_then(|owner| owner.holder) {
            before.notify_one();
        }
        Some(Lease { pool: self.clone(), block, lease, ended })
    }

    fn choose(&self, books: &Books, key: PublicKey, wish: Option<Ipv4Addr>) -> Option<u32> {
        let offset = wish.and_then(|wish| u32::from(wish).checked_sub(self.first));
        let wished = offset.map(|offset| offset / BLOCK_ADDRESSES).filter(|block| *block < self.blocks);
        let is_good = |block: &u32| books.blocks.get(block).is_none_or(|owner| owner.key == key);
        let own = || {
            let is_own = |owner: &Owner| owner.key == key && owner.holder.is_none();
            books.blocks.iter().find(|(_, owner)| is_own(owner)).map(|(block, _)| *block)
        };
        let new = || (0..self.blocks).find(|block| !books.blocks.contains_key(block));
        let oldest = || {
            let free = books.blocks.iter().filter(|(_, owner)| owner.holder.is_none());
            free.min_by_key(|(_, owner)| owner.lease).map(|(block, _)| *block)
        };
        wished.filter(is_good).or_else(own).or_else(new).or_else(oldest)
    }

    /// The gateway's end and the client's, of the tunnel with this number.
    fn v4(&self, block: u32) -> (Ipv4Addr, Ipv4Addr) {
        let first = self.first + BLOCK_ADDRESSES * block;
        ((first + GATEWAY_AT).into(), (first + CLIENT_AT).into())
    }

    /// The gateway's end and the client's, of the tunnel with this number.
    fn v6(&self, block: u32) -> (Ipv6Addr, Ipv6Addr) {
        let [a, b, c, d] = PREFIX_V6;
        // Tunnels of several gateways meet in nobody's routing table: the IPv4 network is part of the
        // address.
        let (high, low) = ((self.first >> 16) as u16, self.first as u16);
        let first = BLOCK_ADDRESSES * block;
        let end = |last: u32| Ipv6Addr::new(a, b, c, d, high, low, (last >> 16) as u16, last as u16);
        (end(first + GATEWAY_AT), end(first + CLIENT_AT))
    }

    /// The gateway's addresses of the first tunnel.
    pub fn sample(&self) -> (Ipv4Addr, Ipv6Addr) {
        (self.v4(0).0, self.v6(0).0)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut books = self.pool.books.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = books.blocks.get_mut(&self.block).filter(|owner| owner.lease == self.lease) {
            owner.holder = None;
        }
    }
}

impl Lease {
    /// The gateway's end and the client's.
    pub fn v4(&self) -> (Ipv4Addr, Ipv4Addr) {
        self.pool.v4(self.block)
    }

    /// The gateway's end and the client's.
    pub fn v6(&self) -> (Ipv6Addr, Ipv6Addr) {
        self.pool.v6(self.block)
    }

    /// Resolves when the same key has taken the addresses over, on another connection.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use fulmar::crypto::Identity;

    use super::*;

    fn key(seed: u8) -> PublicKey {
        Identity::from_seed(&[seed; 32]).public_key()
    }

    fn client(lease: &Option<Lease>) -> String {
        lease.as_ref().map(|lease| lease.v4().1.to_string()).unwrap_or_default()
    }

    #[test]
    fn blocks_are_given_once_and_come_back_to_their_key() {
        let pool: Pool = "10.97.3.0/28".parse().unwrap();
        let mut leases: Vec<_> = (0..4).map(|seed| pool.lease(key(seed), None)).collect();
        let first = leases[0].as_ref().unwrap();
        assert_eq!(first.v4(), ("10.97.3.1".parse().unwrap(), "10.97.3.2".parse().unwrap()));
        assert_eq!(pool.sample().0.to_string(), "10.97.3.1");
        assert_eq!(client(&leases[3]), "10.97.3.14");
        assert_eq!(leases[1].as_ref().unwrap().v6().1.to_string(), "fdf1:6675:6c6d:0:a61:300:0:6");
        assert!(pool.lease(key(9), None).is_none());
        // What is held another key never gets, whatever it wishes.
        assert!(pool.lease(key(9), Some("10.97.3.6".parse().unwrap())).is_none());
        leases[2] = None;
        leases[1] = None;
        assert_eq!(client(&pool.lease(key(1), None)), "10.97.3.6", "without a wish");
        assert_eq!(client(&pool.lease(key(2), Some("192.0.2.1".parse().unwrap()))), "10.97.3.10");
        // Nothing else is left: what has been free for longest. Block 1 was leased before block 2.
        let wish = Some("10.97.3.10".parse().unwrap());
        let third = pool.lease(key(9), wish);
        assert_eq!(client(&third), "10.97.3.6", "that of another key is not for the asking");
    }

    #[tokio::test]
    async fn a_key_takes_its_own_addresses_over_and_no_other_key_does() {
        let pool: Pool = "10.97.3.0/28".parse().unwrap();
        let before = pool.lease(key(1), None).unwrap();
        let wish = Some(before.v4().1);
        let other = pool.lease(key(2), wish).unwrap();
        assert_ne!(other.v4(), before.v4());
        let again = pool.lease(key(1), wish).unwrap();
        assert_eq!(again.v4(), before.v4());
        before.ended().await;
        drop(before);
        // The end of the old lease does not free what the new one holds.
        assert_ne!(pool.lease(key(2), wish).unwrap().v4(), again.v4());
        // Without a wish it is another tunnel of the same key.
        assert_ne!(pool.lease(key(1), None).unwrap().v4(), again.v4());
    }

    #[test]
    fn networks_that_are_none() {
        for text in [
            "10.97.0.0",
            "10.97.0.0/31",
            "10.97.0.0/32",
            "10.0.0.0/7",
            "10.97.0.7/24",
            "10.97.0/16",
            "::/64",
            "/16",
            "",
        ] {
            assert!(text.parse::<Pool>().is_err(), "{text}");
        }
        let mapped: Pool = "::ffff:10.97.0.0/112".parse().unwrap();
        assert_eq!(mapped.network().to_string(), "10.97.0.0/16");
    }
}
