//! The topologies of the literature: dumbbell and parking lot.
//!
//! Source: systems.md D13, after the DFCP thesis. Each builder adds its nodes and links to a network and says
//! which is which, so that several can be combined.

use alloc::vec::Vec;

use crate::{LinkConfig, LinkId, Network, NodeId, Payload};

/// A link in each direction.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    /// From the left (the senders) to the right.
    pub forward: LinkId,
    /// Back.
    pub backward: LinkId,
}

/// Two ends that talk to each other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// On the left.
    pub sender: NodeId,
    /// On the right.
    pub receiver: NodeId,
}

/// What joins the ends of a pair to the network, the same in both directions.
#[derive(Clone, Debug)]
pub struct Access {
    /// The sender's link.
    pub sender: LinkConfig,
    /// The receiver's.
    pub receiver: LinkConfig,
}

impl From<LinkConfig> for Access {
    /// The sender's link; the receiver is joined without limit or delay.
    fn from(sender: LinkConfig) -> Self {
        Self { sender, receiver: LinkConfig::default() }
    }
}

/// Several pairs that share one link.
///
/// ```text
/// sender 0 --.                        .-- receiver 0
/// sender 1 ---+-- left ===== right --+--- receiver 1
/// sender 2 --'      bottleneck        '-- receiver 2
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// The ends.
    pub pairs: Vec<Pair>,
    /// The link they share.
    pub bottleneck: Pipe,
}

impl Dumbbell {
    /// Adds a dumbbell with a pair for each of `access`, which says how its ends are connected, in both
    /// directions (a different delay gives each pair its own round-trip time).
    pub fn build<P: Payload>(
        network: &mut Network<P>,
        forward: LinkConfig,
        backward: LinkConfig,
        access: impl IntoIterator<Item: Into<Access>>,
    ) -> Self {
        let (left, right) = (network.add_node(), network.add_node());
        let bottleneck = pipe(network, left, right, forward, backward);
        let pairs = access.into_iter().map(|access| attach(network, left, right, access.into())).collect();
        Self { pairs, bottleneck }
    }
}

/// Bottlenecks in a row, with pairs that cross all of them and pairs that cross one.
///
/// ```text
/// sender 0 --.    sender 2 --.    .-- receiver 1    .-- receiver 0, 2
/// sender 1 --+-- a ========= b =='================ c
///                 bottleneck 0      bottleneck 1
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkingLot {
    /// The ends, in the order of the places they were given.
    pub pairs: Vec<Pair>,
    /// From left to right.
    pub bottlenecks: Vec<Pipe>,
}

/// Which bottlenecks of a parking lot a pair crosses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// All of them.
    Long,
    /// The one of this index.
    Short(usize),
}

impl ParkingLot {
    /// Adds a parking lot with these bottlenecks, to the right and back, and a pair for each of `places`:
    /// where it is, and how its ends are connected (each pair has access links, and so a round-trip time, of
    /// its own).
    ///
    /// # Panics
    /// If a place is beyond the bottlenecks.
    pub fn build<P: Payload>(
        network: &mut Network<P>,
        bottlenecks: impl IntoIterator<Item = (LinkConfig, LinkConfig)>,
        places: impl IntoIterator<Item = (Place, impl Into<Access>)>,
    ) -> Self {
        let (mut nodes, mut pipes) = (alloc::vec![network.add_node()], Vec::new());
        for (forward, backward) in bottlenecks {
            let next = network.add_node();
            pipes.push(pipe(network, nodes[pipes.len()], next, forward, backward));
            nodes.push(next);
        }
        let pairs = places.into_iter().map(|(place, access)| {
            let (left, right) = match place {
                Place::Long => (0, pipes.len()),
                Place::Short(index) => (index, index + 1),
            };
            attach(network, nodes[left], nodes[right], access.into())
        });
        Self { pairs: pairs.collect(), bottlenecks: pipes }
    }
}

fn pipe<P: Payload>(
    network: &mut Network<P>,
    a: NodeId,
    b: NodeId,
    forward: LinkConfig,
    backward: LinkConfig,
) -> Pipe {
    let (forward, backward) = network.connect(a, b, forward, backward);
    Pipe { forward, backward }
}

/// Adds a pair: a sender at `left` and a receiver at `right`, each behind its access link.
fn attach<P: Payload>(network: &mut Network<P>, left: NodeId, right: NodeId, access: Access) -> Pair {
    let (sender, receiver) = (network.add_node(), network.add_node());
    network.connect(sender, left, access.sender.clone(), access.sender);
    network.connect(right, receiver, access.receiver.clone(), access.receiver);
    Pair { sender, receiver }
}
