//! All hosts, the wires between them, and what happens next.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::iter;
use std::time::Duration;

use fulmar_net::Rng;
use fulmar_proto::Instant;

use super::app::{Receiver, Sender};
use super::host::{Host, keys, transport};
use super::stall::Frozen;
use super::start::START;
use super::talk::Talk;
use super::wires::{Packet, Wires};
use crate::sample::Sample;
use crate::scenario::Scenario;

/// With loss-free handshakes: how long the faults may wait for them.
pub(super) const HANDSHAKES_MAX: Duration = Duration::from_secs(60);

/// Streams of draws for the starts of flows.
const STARTS: u64 = 1 << 32;

/// One flow: the host that sends and the one that receives, with their applications.
pub(super) struct Pair {
    pub(super) sender: Host,
    pub(super) receiver: Host,
    pub(super) writer: Sender,
    pub(super) reader: Receiver,
    pub(super) talk: Option<Talk>,
    pub(super) loss_estimate_sum: f64,
    pub(super) loss_error_sum: f64,
    pub(super) loss_samples: u32,
}

/// A run under way.
pub(super) struct World<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) now: Instant,
    /// When the measured time began: the start, or the end of loss-free handshakes.
    pub(super) began: Instant,
    pub(super) wires: Wires,
    /// The senders' machine and the receivers', which may stand still.
    pub(super) machines: [Frozen; 2],
    pub(super) pairs: Vec<Pair>,
    /// When hosts want to be called. An entry counts only if it is the one its host is armed with.
    pub(super) timers: BinaryHeap<Reverse<(Instant, usize)>>,
    pub(super) armed: Vec<Option<Instant>>,
    pub(super) touched: BTreeSet<usize>,
    pub(super) samples: Vec<Sample>,
    /// Memory of packets that have arrived, for those to come.
    pub(super) buffers: Vec<Vec<u8>>,
}

/// Packets whose memory is kept: as many as are ever under way at once on most links.
const BUFFERS_MAX: usize = 4096;

/// What a run cost, for those who judge the simulator itself.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets handed to protocol cores.
    pub packets: u64,
    /// Steps of virtual time.
    pub steps: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64, logs_drops: bool) -> Result<Self, String> {
        let mut wires = Wires::new(scenario, seed)?;
        if logs_drops {
            wires.log_drops();
        }
        let keys = keys();
        let pairs: Vec<Pair> = (scenario.flows.iter().enumerate())
            .map(|(index, flow)| {
                let random = |role| Rng::new(seed, 1000 + 3 * index as u64 + role);
                let late = Rng::new(seed, STARTS + index as u64).up_to(flow.start_within);
                let start = START + flow.start + late;
                let end = START + flow.stop.unwrap_or(scenario.duration).min(scenario.duration);
                let one_way = wires.one_way(index);
                let delays = [one_way, scenario.rtt(flow).saturating_sub(one_way)];
                let count_from = START + scenario.warm_up;
                let transport = transport(scenario, flow, logs_drops);
                Pair {
                    sender: Host::client(transport.clone(), &keys, random(0)),
                    receiver: Host::server(transport, &keys, random(1)),
                    writer: Sender::new(flow.traffic, start, end, random(2)),
                    reader: Receiver::new(count_from, one_way),
                    talk: flow.datagrams.map(|kind| Talk::new(kind, delays, count_from, end)),
                    loss_estimate_sum: 0.0,
                    loss_error_sum: 0.0,
                    loss_samples: 0,
                }
            })
            .collect();
        let hosts = pairs.len() * 2;
        let mut world = Self {
            scenario,
            now: START,
            began: START,
            wires,
            machines: Frozen::machines(scenario, seed),
            pairs,
            timers: BinaryHeap::new(),
            armed: vec![None; hosts],
            touched: (0..hosts).collect(),
            samples: Vec::new(),
            buffers: Vec::new(),
        };
        world.serve_touched();
        Ok(world)
    }

    /// Lets the flows that start at once connect over links without faults, then begins to measure.
    pub(super) fn shake_hands(&mut self) {
        self.wires.set_faults(self.now, false);
        let end = START + HANDSHAKES_MAX;
        let is_waiting = |world: &Self| {
            let starts_now = |pair: &&Pair| pair.writer.starts_at() <= START;
            world.pairs.iter().filter(starts_now).any(|pair| pair.writer.connected_at().is_none())
        };
        while self.now < end && is_waiting(self) && self.step(end) {}
        self.wires.set_faults(self.now, true);
        let late = self.now - START;
        self.began = self.now;
        for pair in &mut self.pairs {
            pair.writer.postpone(late);
            pair.reader.postpone(late);
            pair.talk.iter_mut().for_each(|talk| talk.postpone(late));
        }
    }

    /// Every flow has an end, and has come to it.
    pub(super) fn is_complete(&self) -> bool {
        self.pairs.iter().all(|pair| pair.reader.meter.has_ended && pair.talk.is_none())
    }

    /// Ends all connections over links without faults (LT-TCP, section 2.1, steps 6 and 7). True if they have
    /// ended.
    pub(super) fn part(&mut self) -> bool {
        self.wires.set_faults(self.now, false);
        let now = self.now;
        for (index, pair) in self.pairs.iter_mut().enumerate() {
            pair.sender.shut_down(now);
            self.touched.insert(2 * index);
        }
        self.serve_touched();
        let end = self.now + HANDSHAKES_MAX;
        let is_over =
            |world: &Self| world.pairs.iter().all(|pair| pair.sender.is_idle() && pair.receiver.is_idle());
        while self.now < end && !is_over(self) && self.step(end) {}
        is_over(self)
    }

    /// Goes on until `end`, or until everything is done.
    pub(super) fn run_to(&mut self, end: Instant) -> Work {
        let interval = self
            .scenario
            .sample_interval
            .unwrap_or(self.scenario.duration / 200)
            .max(Duration::from_millis(1));
        let mut work = Work::default();
        let mut sample_at = self.began + interval;
        while self.now < end && !self.is_complete() {
            let goal = sample_at.min(end);
            while self.now < goal && !self.is_complete() {
                self.step(goal);
                work.steps += 1;
            }
            self.sample();
            sample_at += interval;
        }
        work.packets = self.wires.packets();
        work
    }

    /// Goes to the next event, or to `until`. False if nothing will happen before.
    fn step(&mut self, until: Instant) -> bool {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let thaws = self.machines.iter().filter_map(Frozen::poll_timeout);
        let next = self.wires.poll_timeout().into_iter().chain(timer).chain(thaws).min();
        let Some(at) = next.filter(|&at| at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        for side in 0..2 {
            for (host, packet) in self.machines[side].thaw(self.now) {
                match packet {
                    Some(packet) => self.receive(host, packet),
                    None => _ = self.touched.insert(host),
                }
            }
        }
        while let Some((host, packet)) = self.wires.poll_deliver(self.now) {
            let side = self.side(host);
            if self.machines[side].is_frozen(self.now) {
                self.machines[side].hold(host, Some(packet));
            } else {
                self.receive(host, packet);
            }
        }
        while let Some(Reverse((at, host))) =
            self.timers.peek().copied().filter(|Reverse((at, _))| *at <= self.now)
        {
            self.timers.pop();
            if self.armed[host] == Some(at) {
                self.armed[host] = None;
                let side = self.side(host);
                if self.machines[side].is_frozen(self.now) {
                    self.machines[side].hold(host, None);
                } else {
                    self.touched.insert(host);
                }
            }
        }
        self.serve_touched();
        true
    }

    /// A packet has reached a host.
    fn receive(&mut self, host: usize, mut packet: Packet) {
        let now = self.now;
        if let Some(answer) = self.host(host).receive(now, &mut packet) {
            self.wires.send(now, host, answer, None, &mut iter::empty());
        }
        packet.arrive();
        self.touched.insert(host);
        if self.buffers.len() < BUFFERS_MAX {
            self.buffers.push(packet.contents);
        }
    }

    /// Which machine a host is on.
    fn side(&self, host: usize) -> usize {
        (host + usize::from(self.scenario.flows[host / 2].is_reversed)) % 2
    }

    fn host(&mut self, index: usize) -> &mut Host {
        let pair = &mut self.pairs[index / 2];
        if index.is_multiple_of(2) { &mut pair.sender } else { &mut pair.receiver }
    }

    /// Lets every host that was touched act, and notes when it wants to act again.
    fn serve_touched(&mut self) {
        while let Some(index) = self.touched.pop_first() {
            let now = self.now;
            let Pair { sender, receiver, writer, reader, talk, .. } = &mut self.pairs[index / 2];
            let (host, app_timeout) = if index.is_multiple_of(2) {
                sender.handle_timeouts(now);
                writer.serve(now, sender);
                (sender, writer.poll_timeout())
            } else {
                receiver.handle_timeouts(now);
                reader.serve(now, receiver, writer);
                (receiver, None)
            };
            let talk_timeout = talk.as_mut().and_then(|talk| {
                let sent_bytes = self.wires.sent_bytes(index) + self.wires.sent_bytes(index ^ 1);
                talk.serve(index % 2, now, host, sent_bytes);
                talk.poll_timeout(index % 2)
            });
            let mut buffer = self.buffers.pop().unwrap_or_default();
            while let Some(transmit) = host.poll_transmit(now, &mut buffer) {
                let segment_bytes = transmit.segment_bytes.unwrap_or(buffer.len()).max(1);
                let events = if self.wires.logs_drops() { host.take_packet_events() } else { Vec::new() };
                let mut events = events.into_iter();
                // A batch is cut into packets; a packet alone keeps the memory it was written to.
                let batch = if buffer.len() > segment_bytes { &buffer[..] } else { &[] };
                for segment in batch.chunks(segment_bytes) {
                    let mut contents = self.buffers.pop().unwrap_or_default();
                    contents.clear();
                    contents.extend_from_slice(segment);
                    self.wires.send(now, index, contents, transmit.ecn, &mut events);
                }
                if batch.is_empty() {
                    let contents = std::mem::replace(&mut buffer, self.buffers.pop().unwrap_or_default());
                    self.wires.send(now, index, contents, transmit.ecn, &mut events);
                }
            }
            self.buffers.push(buffer);
            host.settle();
            let wake = host.poll_timeout().into_iter().chain(app_timeout).chain(talk_timeout).min();
            if wake != self.armed[index] {
                self.armed[index] = wake;
                self.timers.extend(wake.map(|at| Reverse((at, index))));
            }
        }
    }

    /// Notes how things are.
    fn sample(&mut self) {
        let queue_bytes = self.wires.bottleneck_backlog_bytes();
        let link = self.wires.bottlenecks().next().map(|(_, link)| link.clone()).unwrap_or_default();
        let loss_rate = self.scenario.topology.first().and_then(crate::link::LinkSpec::loss_rate);
        for (flow, pair) in self.pairs.iter_mut().enumerate() {
            let Some(stats) = pair.sender.stats() else { continue };
            if stats.wire.sent_datagrams > 0 && !stats.path.rtt.is_zero() {
                pair.loss_estimate_sum += stats.path.loss.rate;
                pair.loss_error_sum += (stats.path.loss.rate - loss_rate.unwrap_or(0.0)).abs();
                pair.loss_samples += 1;
            }
            if self.scenario.sample_interval.is_some() {
                self.samples.push(Sample {
                    t: (self.now - self.began).as_secs_f64(),
                    flow,
                    received_bytes: pair.reader.meter.total_bytes,
                    window_bytes: stats.path.window_bytes,
                    in_flight_bytes: stats.path.in_flight_bytes,
                    rtt_ms: crate::outcome::ms(stats.path.rtt),
                    pacing_mbps: stats.path.pacing.map(|rate| rate.bits_per_second() as f64 / 1e6),
                    loss_estimate: Some(stats.path.loss.rate),
                    redundancy: Some(stats.redundancy),
                    delay_ms: pair.reader.take_delay_max().map(crate::outcome::ms),
                    company: stats.company.map(|company| company.name().into()),
                    queue_bytes,
                    sequence_bytes: stats.streams.sent_bytes,
                    repair_packets: stats.coding_sent.repairs_sent(),
                    offered_packets: link.offered.packets,
                    lost_packets: link.lost.packets + link.blacked_out.packets,
                    dropped_packets: link.dropped.packets,
                    marked_packets: link.marked.packets,
                });
            }
        }
    }
}
