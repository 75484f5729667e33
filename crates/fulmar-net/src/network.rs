//! Nodes, links between them, static routes, and one clock for all.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use fulmar_units::Instant;

use crate::{Ecn, Link, LinkConfig, Payload};

/// A place where packets are sent, forwarded and received.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// One direction of a link of a [`Network`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

/// There is no way from one node to another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NoRoute {
    /// Where the packet was.
    pub from: NodeId,
    /// Where it should go.
    pub to: NodeId,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no route from node {} to node {}", self.from.0, self.to.0)
    }
}

impl core::error::Error for NoRoute {}

/// A packet that has reached the node it was sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Exactly when.
    pub at: Instant,
    /// Who sent it.
    pub from: NodeId,
    /// Where it is now.
    pub node: NodeId,
    /// The packet.
    pub packet: P,
}

/// Links, joined by nodes that forward without delay along the way with the fewest links.
///
/// Events are handled in order of time whatever the calls: a packet that crosses three links is handed from
/// one to the next at the exact times even if the network is polled late.
#[derive(Clone, Debug)]
pub struct Network<P> {
    links: Vec<Edge<P>>,
    nodes: usize,
    /// `toward[to][at]`: the link to take. Empty: to be computed.
    toward: Vec<Vec<Option<usize>>>,
    /// When links want to be polled. An entry counts only if it is the one its link is armed with.
    events: BinaryHeap<Reverse<(Instant, usize)>>,
    arrived: VecDeque<Delivery<P>>,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Edge<P> {
    from: NodeId,
    to: NodeId,
    link: Link<Routed<P>>,
    armed: Option<Instant>,
}

/// A packet with its ends: what the links of a network carry.
#[derive(Clone, Debug)]
pub struct Routed<P> {
    from: NodeId,
    to: NodeId,
    packet: P,
}

impl<P: Payload> Payload for Routed<P> {
    fn wire_bytes(&self) -> u32 {
        self.packet.wire_bytes()
    }
    fn ecn(&self) -> Ecn {
        self.packet.ecn()
    }
    fn set_ce(&mut self) {
        self.packet.set_ce();
    }
    fn flow(&self) -> u64 {
        self.packet.flow()
    }
    fn priority(&self) -> u8 {
        self.packet.priority()
    }
    fn corrupt(&mut self, random: u64) {
        self.packet.corrupt(random);
    }
}

impl<P: Payload> Network<P> {
    /// No nodes and no links. Every link gets a seed of its own from this one.
    pub fn new(seed: u64) -> Self {
        let (links, toward, arrived) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { links, nodes: 0, toward, events: BinaryHeap::new(), arrived, seed }
    }

    /// Adds a node.
    pub fn add_node(&mut self) -> NodeId {
        self.toward.clear();
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    /// Adds a link in one direction.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, config: LinkConfig) -> LinkId {
        self.toward.clear();
        let index = self.links.len();
        // Any seeds that differ will do; `Rng::new` separates neighbours.
        let link = Link::new(config, self.seed.wrapping_add((index as u64) << 32));
        self.links.push(Edge { from, to, link, armed: None });
        LinkId(index)
    }

    /// Adds a link in each direction; returns the one from `a` to `b` first.
    pub fn connect(
        &mut self,
        a: NodeId,
        b: NodeId,
        forward: LinkConfig,
        backward: LinkConfig,
    ) -> (LinkId, LinkId) {
        (self.add_link(a, b, forward), self.add_link(b, a, backward))
    }

    /// Hands a packet to the network.
    ///
    /// # Errors
    /// If there is no way to `to`.
    pub fn send(&mut self, now: Instant, from: NodeId, to: NodeId, packet: P) -> Result<(), NoRoute> {
        self.advance(now);
        self.forward(now, from, Routed { from, to, packet })
    }

    /// When [`Self::poll_deliver`] should be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self.arrived.front().map(|delivery| delivery.at);
        waiting.or_else(|| self.events.peek().map(|Reverse((at, _))| *at))
    }

    /// The next packet that has reached its destination by `now`, in order of time.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<Delivery<P>> {
        if self.arrived.is_empty() {
            self.advance(now);
        }
        self.arrived.pop_front()
    }

    /// A link, to read its statistics.
    pub fn link(&self, id: LinkId) -> &Link<Routed<P>> {
        &self.links[id.0].link
    }

    /// Changes what a link does from `now` on.
    pub fn reconfigure(&mut self, now: Instant, id: LinkId, config: LinkConfig) {
        self.advance(now);
        self.links[id.0].link.reconfigure(now, config);
        self.arm(id.0);
    }

    /// All links, in the order in which they were added.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<P> {
        (0..self.links.len()).map(LinkId)
    }

    /// Handles every event up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(&Reverse((at, index))) = self.events.peek().filter(|Reverse((at, _))| *at <= now) {
            let node = self.links[index].to;
            while let Some((at, routed)) = self.links[index].link.poll_arrival(at) {
                if routed.to == node {
                    self.arrived.push_back(Delivery { at, from: routed.from, node, packet: routed.packet });
                } else {
                    // The way there existed when the packet was sent, and links are never taken away.
                    let _ = self.forward(at, node, routed);
                }
            }
            self.arm(index);
        }
    }

    fn forward(&mut self, now: Instant, at: NodeId, routed: Routed<P>) -> Result<(), NoRoute> {
        if self.toward.is_empty() {
            self.toward = self.routes();
        }
        let to = routed.to;
        let hop = self.toward.get(to.0).and_then(|row| *row.get(at.0)?);
        let index = hop.ok_or(NoRoute { from: at, to })?;
        self.links[index].link.send(now, routed);
        self.arm(index);
        Ok(())
    }

    /// Notes when a link wants to be polled next, and forgets entries at the top that no longer count.
    fn arm(&mut self, index: usize) {
        let edge = &mut self.links[index];
        let at = edge.link.poll_timeout();
        if at != edge.armed {
            edge.armed = at;
            self.events.extend(at.map(|at| Reverse((at, index))));
        }
        while let Some(Reverse((at, index))) = self.events.peek() {
            if self.links[*index].armed == Some(*at) {
                break;
            }
            self.events.pop();
        }
    }

    /// For each destination, the first link of a shortest way from every node.
    fn routes(&self) -> Vec<Vec<Option<usize>>> {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.nodes];
        for (index, edge) in self.links.iter().enumerate() {
            into[edge.to.0].push(index);
        }
        (0..self.nodes).map(|to| self.ways_to(to, &into)).collect()
    }

    /// A breadth-first search back from the destination.
    fn ways_to(&self, to: usize, into: &[Vec<usize>]) -> Vec<Option<usize>> {
        let mut first = vec![None; self.nodes];
        let mut frontier = VecDeque::from([to]);
        while let Some(node) = frontier.pop_front() {
            for &index in &into[node] {
                let before = self.links[index].from.0;
                if before != to && first[before].is_none() {
                    first[before] = Some(index);
                    frontier.push_back(before);
                }
            }
        }
        first
    }
}
