//! A small packet and the loops every test needs.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use fulmar_net::{Ecn, Link, LinkConfig, Payload};
use fulmar_units::{Instant, Rate};

/// A packet that knows when it was sent and whether it was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub serial: u64,
    pub flow: u64,
    pub bytes: u32,
    pub sent: Instant,
    pub ecn: Ecn,
    pub damaged: bool,
}

impl Probe {
    pub fn new(serial: u64, sent: Instant) -> Self {
        Self { serial, flow: 0, bytes: 1500, sent, ecn: Ecn::Ect0, damaged: false }
    }
}

impl Payload for Probe {
    fn wire_bytes(&self) -> u32 {
        self.bytes
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
    fn priority(&self) -> u8 {
        self.flow as u8
    }
    fn corrupt(&mut self, _random: u64) {
        self.damaged = true;
    }
}

pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

pub const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

pub fn at(after: Duration) -> Instant {
    Instant::ZERO + after
}

/// Takes out everything that is to come, at the times the link asks for.
pub fn drain(link: &mut Link<Probe>) -> Vec<(Instant, Probe)> {
    let mut out = Vec::new();
    while let Some(now) = link.poll_timeout() {
        out.extend(std::iter::from_fn(|| link.poll_deliver(now)).map(|probe| (now, probe)));
    }
    out
}

/// Sends `count` probes, one each `gap`, polling in between as a driver would, and returns what came out.
pub fn run(config: LinkConfig, seed: u64, count: u64, gap: Duration) -> (Link<Probe>, Vec<(Instant, Probe)>) {
    let mut link = Link::new(config, seed);
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    for serial in 0..count {
        while let Some(due) = link.poll_timeout().filter(|&due| due <= now) {
            out.extend(std::iter::from_fn(|| link.poll_deliver(due)).map(|probe| (due, probe)));
        }
        link.send(now, Probe::new(serial, now));
        now += gap;
    }
    out.extend(drain(&mut link));
    (link, out)
}

/// Every packet has one fate.
pub fn assert_conserved(link: &Link<Probe>) {
    let stats = link.stats();
    let mut entered = stats.offered;
    entered += stats.duplicated;
    let mut left = stats.delivered;
    for fate in [stats.oversize, stats.policed, stats.dropped, stats.lost, stats.blacked_out, link.inside()] {
        left += fate;
    }
    assert_eq!(entered, left, "{stats:?}");
}

/// That `hits` of `trials` is what probability `p` would give: within 4 standard deviations, which chance
/// exceeds once in 16,000.
pub fn assert_binomial(hits: u64, trials: u64, p: f64) {
    let expected = trials as f64 * p;
    let deviation = (expected * (1.0 - p)).sqrt();
    assert!(
        (hits as f64 - expected).abs() <= 4.0 * deviation,
        "{hits} of {trials}, expected {expected} +- {deviation}"
    );
}
