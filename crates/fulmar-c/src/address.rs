//! Addresses and datagrams of the layer without I/O, whose caller has the sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fulmar_proto::{Ecn, Transmit};

use crate::code::{FUL_ERR_ARGUMENT, Outcome};

/// An IP address with a port, apart from any system's struct sockaddr.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ful_address {
    /// The bytes in the order of the network: the first 4 of IPv4, all of IPv6.
    pub ip: [u8; 16],
    /// 4 or 6.
    pub family: u8,
    /// The port, in the order of this machine.
    pub port: u16,
}

impl ful_address {
    pub(crate) fn read(self) -> Outcome<SocketAddr> {
        let ip = match self.family {
            4 => IpAddr::from(Ipv4Addr::new(self.ip[0], self.ip[1], self.ip[2], self.ip[3])),
            6 => IpAddr::from(Ipv6Addr::from(self.ip)),
            _ => return Err(FUL_ERR_ARGUMENT),
        };
        Ok(SocketAddr::new(ip, self.port))
    }

    fn new(address: SocketAddr) -> Self {
        let mut ip = [0; 16];
        let family = match address.ip() {
            IpAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.octets());
                4
            }
            IpAddr::V6(v6) => {
                ip = v6.octets();
                6
            }
        };
        Self { ip, family, port: address.port() }
    }
}

/// Datagrams of one size to one address: what one sendmsg with UDP_SEGMENT sends.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ful_transmit {
    /// Where they begin in the buffer.
    pub offset: usize,
    /// How many bytes they have together.
    pub bytes: usize,
    /// The size of each, the last perhaps shorter; `bytes` if there is one.
    pub segment_bytes: usize,
    /// To whom.
    pub to: ful_address,
    /// The ECN codepoint to send them with: 0, or 2 (ECT(0)), ..
    pub ecn: u8,
}

impl ful_transmit {
    pub(crate) fn new(transmit: &Transmit, offset: usize) -> Self {
        Self {
            offset,
            bytes: transmit.bytes,
            segment_bytes: transmit.segment_bytes.unwrap_or(transmit.bytes),
            to: ful_address::new(transmit.destination),
            ecn: match transmit.ecn {
                None => 0,
                Some(Ecn::Ect1) => 1,
                Some(Ecn::Ect0) => 2,
                Some(Ecn::Ce) => 3,
            },
        }
    }
}

/// The codepoint of two bits (RFC 3168).
pub(crate) fn ecn(bits: u8) -> Option<Ecn> {
    match bits & 3 {
        1 => Some(Ecn::Ect1),
        2 => Some(Ecn::Ect0),
        3 => Some(Ecn::Ce),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["192.0.2.1:4747", "[2001:db8::1]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(ful_address::new(address).read(), Ok(address));
        }
        assert_eq!(ful_address::default().read(), Err(FUL_ERR_ARGUMENT));
    }
}
