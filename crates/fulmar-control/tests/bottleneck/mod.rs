//! A small packet-level bottleneck in virtual time, for controllers alone: one link with a rate, a DropTail
//! queue and loss on the wire after the queue, any number of bulk or thin flows, an ACK per packet,
//! packet-threshold and time-threshold loss detection. Every packet counts as useful (an ideal code), so
//! goodput is what arrived.
//!
//! A run is a function of its configuration: draws are integers from a seeded generator.
#![allow(dead_code, unreachable_pub)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fulmar_control::CongestionController;
use fulmar_units::Instant;

mod flow;

pub use flow::{App, Flow};

pub const MTU: u32 = 1452;

/// xorshift64*: enough for loss draws.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        (self.next() >> 11) < (share * (1_u64 << 53) as f64) as u64
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// LT-TCP's two-state chain; a burst of 0 means independent losses.
#[derive(Clone, Debug)]
pub struct Loss {
    pub rate: f64,
    pub burst: f64,
    was_lost: bool,
}

impl Loss {
    pub fn new(rate: f64, burst: f64) -> Self {
        Self { rate, burst, was_lost: false }
    }

    fn draw(&mut self, draws: &mut Draws) -> bool {
        let correlation =
            if self.burst > 0.0 { (1.0 - 1.0 / (self.burst * (1.0 - self.rate))).max(0.0) } else { 0.0 };
        let stay = if self.was_lost { correlation } else { 0.0 };
        self.was_lost = draws.chance(stay + (1.0 - correlation) * self.rate);
        self.was_lost
    }
}

/// The link all flows share.
#[derive(Clone, Debug)]
pub struct Link {
    pub bits_per_second: u64,
    pub rtt: Duration,
    /// Length of the DropTail queue, in bandwidth x delay.
    pub queue_bdp: f64,
    pub loss: Loss,
    pub ack_loss: Loss,
    /// ACKs arrive in bunches, so far apart (as Wi-Fi and mobile networks deliver them).
    pub bunch: Duration,
    /// Packets queued beyond this share of the queue are marked; above 1 never.
    pub mark_above: f64,
    /// Nothing passes between these times.
    pub blackouts: Vec<(Instant, Instant)>,
    /// From then on the link has this rate.
    pub change: Option<(Instant, u64)>,
}

impl Link {
    pub fn new(megabits: u64, rtt_millis: u64) -> Self {
        Self {
            bits_per_second: megabits * 1_000_000,
            rtt: Duration::from_millis(rtt_millis),
            queue_bdp: 1.0,
            loss: Loss::new(0.0, 0.0),
            ack_loss: Loss::new(0.0, 0.0),
            bunch: Duration::ZERO,
            mark_above: 2.0,
            blackouts: Vec::new(),
            change: None,
        }
    }

    pub fn lossy(mut self, rate: f64, burst: f64) -> Self {
        self.loss = Loss::new(rate, burst);
        self.ack_loss = Loss::new(rate, burst);
        self
    }

    pub fn queue(mut self, bdp: f64) -> Self {
        self.queue_bdp = bdp;
        self
    }

    fn is_black(&self, now: Instant) -> bool {
        self.blackouts.iter().any(|&(from, to)| from <= now && now < to)
    }

    fn bdp_bytes(&self) -> f64 {
        self.bits_per_second as f64 / 8.0 * self.rtt.as_secs_f64()
    }
}

/// What happens to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake { generation: u64 },
    Arrive { packet_number: u64, is_marked: bool },
    Ack,
}

/// The whole arrangement.
pub struct Bottleneck {
    pub link: Link,
    pub flows: Vec<Flow>,
    pub queue_drops: u64,
    pub wire_losses: u64,
    /// Queueing delay met by packets: sum and count.
    queue_seconds: f64,
    queued_packets: u64,
    pub queue_seconds_max: f64,
    busy_until: Instant,
    draws: Draws,
    now: Instant,
    sequence: u64,
    events: BinaryHeap<Reverse<(Instant, u64, usize, Event)>>,
    /// Print a line per this interval.
    pub trace: Option<Duration>,
}

impl Bottleneck {
    pub fn new(link: Link, seed: u64) -> Self {
        Self {
            link,
            flows: Vec::new(),
            queue_drops: 0,
            wire_losses: 0,
            queue_seconds: 0.0,
            queued_packets: 0,
            queue_seconds_max: 0.0,
            busy_until: Instant::ZERO,
            draws: Draws::new(seed),
            now: Instant::ZERO,
            sequence: 0,
            events: BinaryHeap::new(),
            trace: None,
        }
    }

    pub fn add(&mut self, controller: Box<dyn CongestionController>, start: Duration, app: App) {
        self.flows.push(Flow::new(controller, Instant::ZERO + start, app));
    }

    /// Mean queueing delay as a share of the round trip.
    pub fn queue_share(&self) -> f64 {
        self.queue_seconds / self.queued_packets.max(1) as f64 / self.link.rtt.as_secs_f64()
    }

    fn push(&mut self, at: Instant, flow: usize, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, flow, event)));
    }

    /// Lets time pass until `end`.
    pub fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        let mut traced_at = self.now;
        if self.sequence == 0 {
            for flow in 0..self.flows.len() {
                let at = self.flows[flow].start;
                self.push(at, flow, Event::Wake { generation: 0 });
            }
        }
        while let Some(&Reverse((at, _, flow, event))) = self.events.peek() {
            if at > end {
                break;
            }
            self.events.pop();
            self.now = at;
            self.step(flow, event);
            if let Some(interval) = self.trace
                && self.now >= traced_at + interval
            {
                traced_at = self.now;
                self.print();
            }
        }
        self.now = end;
    }

    fn step(&mut self, flow: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Wake { generation } if generation != self.flows[flow].generation => return,
            Event::Wake { .. } => self.flows[flow].on_wake(now),
            Event::Arrive { packet_number, is_marked } => {
                // ACKs carry ranges: one that is lost costs time, not knowledge.
                self.flows[flow].on_arrival(packet_number, is_marked);
                if !self.link.is_black(now) && !self.link.ack_loss.draw(&mut self.draws) {
                    self.flows[flow].acknowledge();
                    let at = now + self.link.rtt / 2;
                    let bunch = (self.link.bunch.as_nanos() as u64).max(1);
                    let at = Instant::from_nanos(at.as_nanos().div_ceil(bunch) * bunch);
                    self.push(at, flow, Event::Ack);
                }
                return;
            }
            Event::Ack => self.flows[flow].on_ack(now),
        }
        while let Some((packet_number, bytes)) = self.flows[flow].poll_send(now) {
            self.forward(flow, packet_number, bytes);
        }
        let generation = self.flows[flow].next_generation();
        if let Some(at) = self.flows[flow].poll_timeout() {
            self.push(at.max(now), flow, Event::Wake { generation });
        }
    }

    fn forward(&mut self, flow: usize, packet_number: u64, bytes: u32) {
        if let Some((at, bits)) = self.link.change
            && self.now >= at
        {
            self.link.bits_per_second = bits;
            self.link.change = None;
        }
        let waiting = self.busy_until - self.now;
        let queued_bytes = waiting.as_secs_f64() * self.link.bits_per_second as f64 / 8.0;
        let limit_bytes = (self.link.queue_bdp * self.link.bdp_bytes()).max(2.0 * f64::from(MTU));
        if queued_bytes + f64::from(bytes) > limit_bytes {
            self.queue_drops += 1;
            return;
        }
        let is_marked = queued_bytes > self.link.mark_above * limit_bytes;
        self.queue_seconds += waiting.as_secs_f64();
        self.queued_packets += 1;
        self.queue_seconds_max = self.queue_seconds_max.max(waiting.as_secs_f64());
        let lasts = Duration::from_nanos(u64::from(bytes) * 8_000_000_000 / self.link.bits_per_second);
        self.busy_until = self.busy_until.max(self.now) + lasts;
        if self.link.is_black(self.now) || self.link.loss.draw(&mut self.draws) {
            self.wire_losses += 1;
            return;
        }
        let at = self.busy_until + self.link.rtt / 2;
        self.push(at, flow, Event::Arrive { packet_number, is_marked });
    }

    fn print(&self) {
        let waiting = self.busy_until - self.now;
        print!("{:8.3} queue {:6.2} ms", self.now.as_nanos() as f64 / 1e9, waiting.as_secs_f64() * 1e3);
        for flow in &self.flows {
            print!(" | {}", flow.line());
        }
        println!();
    }
}
