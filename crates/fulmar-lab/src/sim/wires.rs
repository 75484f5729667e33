//! The network of a run: nodes and links for the flows, and packets that know to which host they go.

use std::time::Duration;

use fulmar_net::topology::{Access, Dumbbell, Pair, ParkingLot, Pipe, Place};
use fulmar_net::{Ecn, LinkConfig, LinkId, LinkStats, Network, NodeId, Payload, UDP_OVER_IPV4_BYTES};
use fulmar_proto::{Instant, PacketEvent};

use super::drops::{Dropped, Drops, Tag};
use super::start::START;
use crate::link::LinkSpec;
use crate::scenario::{FlowSpec, Scenario, Topology};

/// A UDP datagram on its way to a host.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) contents: Vec<u8>,
    pub(super) ecn: Ecn,
    /// Tells when it is dropped, where that is logged: elsewhere a packet stays small.
    tag: Option<Box<Tag>>,
    to_host: usize,
    priority: u8,
}

impl Packet {
    /// It has reached its host.
    pub(super) fn arrive(&mut self) {
        self.tag.take().into_iter().for_each(|tag| tag.arrive());
    }
}

impl Payload for Packet {
    fn wire_bytes(&self) -> u32 {
        self.contents.len() as u32 + UDP_OVER_IPV4_BYTES
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn set_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
    fn flow(&self) -> u64 {
        self.to_host as u64 / 2
    }
    fn priority(&self) -> u8 {
        self.priority
    }
    fn corrupt(&mut self, random: u64) {
        if !self.contents.is_empty() {
            let bit = random % (self.contents.len() as u64 * 8);
            self.contents[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

/// The network, whose time begins with the run: a black-out at 10 s is 10 s after the start. Host 2 i is the
/// sender of flow i, host 2 i + 1 its receiver.
pub(super) struct Wires {
    network: Network<Packet>,
    nodes: Vec<NodeId>,
    one_way: Vec<Duration>,
    /// Of each flow.
    priorities: Vec<u8>,
    /// Links with faults, forward first, with what they do and what to call them.
    bottlenecks: Vec<(LinkId, LinkConfig, String)>,
    sent_bytes: Vec<u64>,
    packets: u64,
    drops: Option<Drops>,
}

impl Wires {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Result<Self, String> {
        let mut network = Network::new(seed);
        let (pairs, pipes) = match &scenario.topology {
            Topology::Dumbbell(link) => dumbbell(&mut network, scenario, link)?,
            Topology::ParkingLot(links) => parking_lot(&mut network, scenario, links)?,
        };
        let ends = |(pair, flow): (&Pair, &FlowSpec)| {
            if flow.is_reversed { [pair.receiver, pair.sender] } else { [pair.sender, pair.receiver] }
        };
        let nodes = pairs.iter().zip(&scenario.flows).flat_map(ends).collect();
        let one_way = scenario.flows.iter().map(|flow| scenario.one_way(flow)).collect();
        let priorities = scenario.flows.iter().map(|flow| flow.priority).collect();
        let mut bottlenecks = Vec::new();
        for (index, pipe) in pipes.iter().enumerate() {
            let suffix = if pipes.len() > 1 { format!(" {}", index + 1) } else { String::new() };
            for (id, name) in [(pipe.forward, "forward"), (pipe.backward, "backward")] {
                bottlenecks.push((id, network.link(id).config().clone(), format!("{name}{suffix}")));
            }
        }
        let sent_bytes = vec![0; pairs.len() * 2];
        Ok(Self { network, nodes, one_way, priorities, bottlenecks, sent_bytes, packets: 0, drops: None })
    }

    /// From now on drops are logged.
    pub(super) fn log_drops(&mut self) {
        self.drops = Some(Drops::default());
    }

    pub(super) fn logs_drops(&self) -> bool {
        self.drops.is_some()
    }

    /// All drops that were logged; the log ends.
    pub(super) fn take_drops(&mut self) -> Vec<Dropped> {
        self.drops.as_mut().map(Drops::end).unwrap_or_default()
    }

    pub(super) fn one_way(&self, flow: usize) -> Duration {
        self.one_way[flow]
    }

    /// Puts a datagram of a host on its way to the other host of the flow. Where drops are logged `events`
    /// begin with those of its packets.
    pub(super) fn send(
        &mut self,
        now: Instant,
        host: usize,
        contents: Vec<u8>,
        ecn: Option<fulmar_proto::Ecn>,
        events: &mut dyn Iterator<Item = PacketEvent>,
    ) {
        let peer = host ^ 1;
        let ecn = if ecn.is_some() { Ecn::Ect0 } else { Ecn::NotEct };
        let tag = self.drops.as_mut().map(|drops| Box::new(drops.tag(host, contents.len(), events)));
        let packet = Packet { contents, ecn, tag, to_host: peer, priority: self.priorities[host / 2] };
        self.sent_bytes[host] += u64::from(packet.wire_bytes());
        self.drops.iter().for_each(|drops| drops.at(now));
        let sent = self.network.send(since_start(now), self.nodes[host], self.nodes[peer], packet);
        debug_assert!(sent.is_ok(), "both ends of every pair are joined");
        self.gather_drops();
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.network.poll_timeout().map(|at| START + (at - Instant::ZERO))
    }

    pub(super) fn poll_deliver(&mut self, now: Instant) -> Option<(usize, Packet)> {
        self.drops.iter().for_each(|drops| drops.at(now));
        let delivery = self.network.poll_deliver(since_start(now));
        self.gather_drops();
        let delivery = delivery?;
        self.packets += 1;
        Some((delivery.packet.to_host, delivery.packet))
    }

    fn gather_drops(&mut self) {
        let (network, bottlenecks) = (&self.network, &self.bottlenecks);
        let links = bottlenecks.iter().map(|(id, _, name)| (name.as_str(), network.link(*id).stats()));
        self.drops.iter_mut().for_each(|drops| drops.gather(links.clone()));
    }

    /// Switches loss, marks, jitter and the like off, or on again.
    pub(super) fn set_faults(&mut self, now: Instant, is_on: bool) {
        for (id, config, _) in &self.bottlenecks {
            let config = if is_on { config.clone() } else { config.without_faults() };
            self.network.reconfigure(since_start(now), *id, config);
        }
    }

    /// Bytes of IP packets a host has sent.
    pub(super) fn sent_bytes(&self, host: usize) -> u64 {
        self.sent_bytes[host]
    }

    /// Packets that arrived at hosts.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn bottleneck_backlog_bytes(&self) -> u64 {
        self.bottlenecks.first().map_or(0, |(id, ..)| self.network.link(*id).backlog().bytes)
    }

    /// Names and counters of the bottlenecks.
    pub(super) fn bottlenecks(&self) -> impl Iterator<Item = (&str, &LinkStats)> {
        self.bottlenecks.iter().map(|(id, _, name)| (name.as_str(), self.network.link(*id).stats()))
    }
}

/// The links' time.
fn since_start(now: Instant) -> Instant {
    Instant::ZERO + (now - START)
}

/// What joins a flow to the bottlenecks: its own links, and the delay it has beyond all of these.
fn access(scenario: &Scenario, flow: usize) -> Access {
    let flow = &scenario.flows[flow];
    let crate::scenario::Access { rate, delay, queue } = flow.access.clone();
    let receiver = LinkConfig { rate, delay, queue, ..LinkConfig::default() };
    let more = (scenario.rtt(flow) - scenario.path_rtt(flow)) / 2;
    Access { sender: LinkConfig { delay: delay + more, ..receiver.clone() }, receiver }
}

fn dumbbell(
    network: &mut Network<Packet>,
    scenario: &Scenario,
    link: &LinkSpec,
) -> Result<(Vec<Pair>, Vec<Pipe>), String> {
    let (forward, backward) = (link.forward()?, link.backward()?);
    let all: Vec<_> = (0..scenario.flows.len()).map(|flow| access(scenario, flow)).collect();
    let has_access = |(access, flow): (&Access, &FlowSpec)| {
        !access.sender.delay.is_zero() || flow.access != crate::scenario::Access::default()
    };
    if !all.iter().zip(&scenario.flows).any(has_access) {
        // Two nodes do for all: fewer links to cross.
        let (sender, receiver) = (network.add_node(), network.add_node());
        let (forward, backward) = network.connect(sender, receiver, forward, backward);
        return Ok((vec![Pair { sender, receiver }; all.len()], vec![Pipe { forward, backward }]));
    }
    let ends = Dumbbell::build(network, forward, backward, all);
    Ok((ends.pairs, vec![ends.bottleneck]))
}

fn parking_lot(
    network: &mut Network<Packet>,
    scenario: &Scenario,
    links: &[LinkSpec],
) -> Result<(Vec<Pair>, Vec<Pipe>), String> {
    let configs = links.iter().map(|link| Ok((link.forward()?, link.backward()?)));
    let configs = configs.collect::<Result<Vec<_>, String>>()?;
    let places = scenario.flows.iter().enumerate().map(|(index, flow)| {
        let place = flow.place.checked_sub(1).map_or(Place::Long, Place::Short);
        (place, access(scenario, index))
    });
    let lot = ParkingLot::build(network, configs, places);
    Ok((lot.pairs, lot.bottlenecks))
}
