//! What somebody on the way does to packets that a link does not: firewalls that drop what has ECN bits, that
//! close ports, and observers who copy.

use std::net::IpAddr;
use std::time::Duration;

/// What is done besides what the links do; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meddling {
    /// Packets with ECN bits (ECT or CE) are dropped, both ways.
    pub eats_ecn: bool,
    /// Packets from and to each of a client's ports pass for so long after the first of it, and then never
    /// again, as with a NAT or a firewall that has forgotten a 5-tuple or closed it.
    pub port_life: Option<Duration>,
    /// Somebody sends copies of the clients' packets.
    pub copying: Option<Copying>,
}

/// Copies go to the server at once, and so are there before their packets by the delay of the link, in which
/// they are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copying {
    /// One packet in so many; at least 1.
    pub every: u32,
    /// The address of this machine that they come from.
    pub from: IpAddr,
}
