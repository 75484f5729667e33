//! One bottleneck in virtual time for controllers alone: any number of bulk or thin flows, each a `Recovery`
//! of its own, over one link of `fulmar-net`. Every packet counts as useful (an ideal code), so goodput is
//! what arrived.

use std::time::Duration;

use fulmar_control::CongestionController;
use fulmar_net::{
    Datagram, Intervals, Jitter, LinkConfig, LinkRate, LinkStats, Loss, Order, Payload, Policer, Probability,
    QueueConfig, QueueLimit, RateTrace, Stalls, TwoState,
};
use fulmar_proto::recovery::AckPolicy;
use fulmar_proto::{Instant, PacketNumber, Rate};

mod flow;

pub use flow::{App, Flow};

pub const MTU: u32 = 1452;

/// The link all flows share, and the way back.
#[derive(Clone, Debug)]
pub struct Link {
    pub bits_per_second: u64,
    pub rtt: Duration,
    /// Length of the DropTail queue, in bandwidth x delay.
    pub queue_bdp: f64,
    /// Share of packets lost on the wire, and of ACKs.
    pub loss: f64,
    /// Mean burst of losses; 0: independent.
    pub burst: f64,
    /// ACKs arrive in bunches, so far apart (as Wi-Fi and mobile networks deliver them).
    pub bunch: Duration,
    /// Packets queued beyond this share of the queue are marked.
    pub mark_above: Option<f64>,
    /// Nothing passes between these times.
    pub blackouts: Vec<(Instant, Instant)>,
    /// Share of packets marked, whatever the queue.
    pub marked: f64,
    /// Added to the delay of each packet and ACK, uniformly from zero to this, without changing their order.
    pub jitter: Duration,
    /// From then on the link has this rate.
    pub change: Option<(Instant, u64)>,
    /// Every so often the rate changes between its own and this one.
    pub alternates: Option<(Duration, u64)>,
    /// Drops what comes faster before it waits.
    pub policer: Option<Policer>,
    /// The receiver spaces its ACKs as `Recovery` asks; else there is one per packet, so that a test is of
    /// the controller alone.
    pub acks_as_asked: bool,
}

impl Link {
    pub fn new(megabits: u64, rtt_millis: u64) -> Self {
        Self {
            bits_per_second: megabits * 1_000_000,
            rtt: Duration::from_millis(rtt_millis),
            queue_bdp: 1.0,
            loss: 0.0,
            burst: 0.0,
            bunch: Duration::ZERO,
            mark_above: None,
            blackouts: Vec::new(),
            marked: 0.0,
            jitter: Duration::ZERO,
            change: None,
            alternates: None,
            policer: None,
            acks_as_asked: false,
        }
    }

    pub fn lossy(mut self, loss: f64, burst: f64) -> Self {
        (self.loss, self.burst) = (loss, burst);
        self
    }

    pub fn acks_as_asked(mut self) -> Self {
        self.acks_as_asked = true;
        self
    }

    pub fn queue(mut self, bdp: f64) -> Self {
        self.queue_bdp = bdp;
        self
    }

    /// What the wire does in either direction.
    fn wire(&self) -> LinkConfig {
        let loss = Probability::from_f64(self.loss).expect("a share");
        let loss = match (self.burst * 1000.0) as u32 {
            0 => Loss::bernoulli(loss),
            milli => Loss::TwoState(TwoState::new(loss, milli).expect("such a chain exists")),
        };
        LinkConfig {
            delay: self.rtt / 2,
            jitter: Jitter::Uniform(self.jitter),
            order: Order::Kept,
            blackouts: Intervals::new(self.blackouts.iter().copied()),
            ..LinkConfig::default()
        }
        .with_loss(loss)
    }

    fn rate(&self) -> LinkRate {
        let rate = Rate::from_bits_per_second(self.bits_per_second);
        let Some((after, other)) = self.alternates else { return LinkRate::Constant(rate) };
        let steps = vec![(Duration::ZERO, rate), (after, Rate::from_bits_per_second(other))];
        LinkRate::Trace(RateTrace::new(steps, Some(after * 2)).expect("in order"))
    }

    fn forward(&self) -> LinkConfig {
        let share = |bdp: f64| QueueLimit::Bdp { milli: (bdp * 1000.0) as u32, rtt: Some(self.rtt) };
        LinkConfig {
            rate: self.rate(),
            policer: self.policer,
            mark: Probability::from_f64(self.marked).expect("a share"),
            queue: QueueConfig::DropTail(share(self.queue_bdp)),
            mark_threshold: self.mark_above.map(|above| share(above * self.queue_bdp)),
            ..self.wire()
        }
    }

    /// ACKs are small: the way back has no queue.
    fn back(&self, seconds: f64) -> LinkConfig {
        let mut config = self.wire();
        if !self.bunch.is_zero() {
            let bunches = (seconds / self.bunch.as_secs_f64()) as u32 + 1;
            let gap = Duration::from_nanos(1);
            let stall = |n: u32| (Instant::ZERO + self.bunch * n + gap, Instant::ZERO + self.bunch * (n + 1));
            config.stalls = Stalls::At(Intervals::new((0..bunches).map(stall)));
        }
        config
    }
}

/// A packet on its way. Sizes are those of UDP payloads, which is what controllers count: shares of the link
/// are shares.
#[derive(Clone, Debug)]
pub struct Packet {
    flow: usize,
    number: PacketNumber,
    bytes: u32,
    ecn: fulmar_net::Ecn,
    /// How the sender wants its packets acknowledged.
    policy: AckPolicy,
    /// It is to be acknowledged at once.
    is_ping: bool,
}

impl Payload for Packet {
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    fn ecn(&self) -> fulmar_net::Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.ecn = fulmar_net::Ecn::Ce;
    }

    fn flow(&self) -> u64 {
        self.flow as u64
    }

    fn corrupt(&mut self, _random: u64) {
        unreachable!("these links damage nothing");
    }
}

/// The whole arrangement.
pub struct Bottleneck {
    pub link: Link,
    pub flows: Vec<Flow>,
    forward: fulmar_net::Link<Packet>,
    back: fulmar_net::Link<Datagram>,
    now: Instant,
}

impl Bottleneck {
    /// To be run for no longer than `seconds`.
    pub fn new(link: Link, seconds: f64, seed: u64) -> Self {
        Self {
            forward: fulmar_net::Link::new(link.forward(), seed),
            back: fulmar_net::Link::new(link.back(seconds), seed + 1),
            link,
            flows: Vec::new(),
            now: Instant::ZERO,
        }
    }

    pub fn add(&mut self, controller: Box<dyn CongestionController>, start: Duration, app: App) {
        self.add_far(controller, start, app, Duration::ZERO);
    }

    /// A flow whose round trip is longer than the link's, by the way that its ACKs take.
    pub fn add_far(
        &mut self,
        controller: Box<dyn CongestionController>,
        start: Duration,
        app: App,
        farther: Duration,
    ) {
        let index = self.flows.len();
        self.flows.push(Flow::new(index, controller, Instant::ZERO + start, &self.link, app, farther));
    }

    /// What the link did to the packets of all flows.
    pub fn stats(&self) -> &LinkStats {
        self.forward.stats()
    }

    /// Mean queueing delay as a share of the round trip.
    pub fn queue_share(&self) -> f64 {
        self.stats().queue_delay.mean().as_secs_f64() / self.link.rtt.as_secs_f64()
    }

    /// Packets that the policer dropped, as a share of those sent.
    pub fn policed_share(&self) -> f64 {
        self.share_of_sent(self.stats().policed.packets)
    }

    /// Packets that the queue dropped, as a share of those sent.
    pub fn dropped_share(&self) -> f64 {
        self.share_of_sent(self.stats().dropped.packets)
    }

    fn share_of_sent(&self, packets: u64) -> f64 {
        let sent: u64 = self.flows.iter().map(|flow| flow.sent_packets).sum();
        packets as f64 / sent.max(1) as f64
    }

    /// Lets time pass. What each flow received meanwhile, in bytes.
    pub fn run_and_count(&mut self, seconds: f64) -> Vec<u64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.received_bytes).collect();
        self.run(seconds);
        self.flows.iter().zip(before).map(|(flow, before)| flow.received_bytes - before).collect()
    }

    /// Lets time pass.
    pub fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while let Some(at) = self.next_at().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = end;
    }

    fn next_at(&self) -> Option<Instant> {
        let links = [self.forward.poll_timeout(), self.back.poll_timeout()];
        let change = self.link.change.map(|(at, _)| at);
        let flows = self.flows.iter().filter_map(Flow::wake_at);
        links.into_iter().flatten().chain(change).chain(flows).min()
    }

    fn step(&mut self) {
        let now = self.now;
        if let Some((_, bits)) = self.link.change.take_if(|(at, _)| *at <= now) {
            self.link.bits_per_second = bits;
            self.forward.reconfigure(now, self.link.forward());
        }
        while let Some(packet) = self.forward.poll_deliver(now) {
            self.flows[packet.flow].on_packet(now, &packet);
        }
        while let Some(ack) = self.back.poll_deliver(now) {
            self.flows[ack.flow as usize].on_ack_carried(now, ack.contents);
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.wake_at().is_some_and(|at| at <= now)) {
            flow.step(now, |packet| self.forward.send(now, packet), |ack| self.back.send(now, ack));
        }
    }
}
