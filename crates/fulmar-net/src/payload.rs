//! What a link needs to know of the packets it carries.

use alloc::vec::Vec;

/// Bytes of the IPv4 and UDP headers in front of every UDP payload.
pub const UDP_OVER_IPV4_BYTES: u32 = 28;

/// The two ECN bits of the IP header (RFC 3168, section 5).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Ecn {
    /// The sender does not understand marks: a queue drops instead.
    #[default]
    NotEct,
    /// Capable, codepoint `ECT(0)`.
    Ect0,
    /// Capable, codepoint `ECT(1)`.
    Ect1,
    /// Congestion experienced: marked on the way.
    Ce,
}

impl Ecn {
    /// Whether a queue may mark this packet (or already has).
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// A packet a link can carry. `Clone` is for duplication on the wire; nothing else copies packets.
pub trait Payload: Clone {
    /// Size of the whole IP packet in bytes, headers included.
    fn wire_bytes(&self) -> u32;

    /// The ECN codepoint the packet has now.
    fn ecn(&self) -> Ecn;

    /// Sets the codepoint to [`Ecn::Ce`]. Called only if [`Ecn::is_capable`].
    fn set_ce(&mut self);

    /// What a fair queue tells flows apart by (in reality a hash of the five-tuple). Unequal flows, unequal
    /// numbers.
    fn flow(&self) -> u64;

    /// How urgent the packet is, to a queue that cares: more is more.
    fn priority(&self) -> u8 {
        0
    }

    /// Damages the contents; which bit is chosen by `random`, uniform over all of `u64`. The size stays.
    fn corrupt(&mut self, random: u64);
}

/// A UDP datagram as a [`Payload`]: contents, ECN bits, and the number of the flow it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Datagram {
    /// The UDP payload.
    pub contents: Vec<u8>,
    /// ECN codepoint.
    pub ecn: Ecn,
    /// Flow number for fair queues.
    pub flow: u64,
}

impl Payload for Datagram {
    fn wire_bytes(&self) -> u32 {
        u32::try_from(self.contents.len()).unwrap_or(u32::MAX).saturating_add(UDP_OVER_IPV4_BYTES)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn corrupt(&mut self, random: u64) {
        let bits = self.contents.len() as u64 * 8;
        if bits > 0 {
            let bit = random % bits;
            self.contents[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn corruption_flips_exactly_one_bit() {
        for random in [0, 1, 7, 8, 12_345, u64::MAX] {
            let clean = Datagram { contents: vec![0xa5; 33], ..Datagram::default() };
            let mut bad = clean.clone();
            bad.corrupt(random);
            let flipped: u32 =
                clean.contents.iter().zip(&bad.contents).map(|(a, b)| (a ^ b).count_ones()).sum();
            assert_eq!(flipped, 1);
        }
        let mut empty = Datagram::default();
        empty.corrupt(7);
        assert_eq!(empty.wire_bytes(), UDP_OVER_IPV4_BYTES);
    }
}
