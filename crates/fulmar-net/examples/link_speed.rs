//! How many packets per second one core moves through a link:
//! `cargo run --release -p fulmar-net --example link_speed`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, missing_docs)]

use std::time::Duration;

use fulmar_net::parse::model::{loss, queue};
use fulmar_net::topology::Dumbbell;
use fulmar_net::{Datagram, Ecn, Jitter, Link, LinkConfig, Network, Order};
use fulmar_units::{Instant, Rate};

const PACKETS: u32 = 3_000_000;

/// Empty contents: what is measured is the model, not the allocator.
fn packet(serial: u32) -> Datagram {
    Datagram { contents: Vec::new(), ecn: Ecn::Ect0, flow: u64::from(serial % 16) }
}

fn report(name: &str, started: std::time::Instant, delivered: u64) {
    let rate = f64::from(PACKETS) / started.elapsed().as_secs_f64();
    println!("{name:32} {:6.2} M packets/s ({delivered} delivered)", rate / 1e6);
}

/// Each packet takes 10 us, the delay keeps 2,000 of them on the wire; packets come in pairs, at 98 % of the
/// rate.
fn one_link(name: &str, config: LinkConfig) {
    let mut link = Link::new(config, 1);
    let started = std::time::Instant::now();
    let mut now = Instant::ZERO;
    for serial in 0..PACKETS {
        now += Duration::from_nanos(if serial % 2 == 0 { 20_400 } else { 0 });
        link.send(now, packet(serial));
        while link.poll_timeout().is_some_and(|due| due <= now) && link.poll_deliver(now).is_some() {}
    }
    report(name, started, link.stats().delivered.packets);
}

fn dumbbell(name: &str, bottleneck: LinkConfig) {
    let mut network = Network::new(1);
    let access = LinkConfig { delay: Duration::from_millis(5), ..LinkConfig::default() };
    let ends = Dumbbell::build(&mut network, bottleneck.clone(), bottleneck, vec![access; 16]);
    let started = std::time::Instant::now();
    let (mut now, mut delivered) = (Instant::ZERO, 0);
    for serial in 0..PACKETS {
        now += Duration::from_nanos(10_200);
        let pair = ends.pairs[serial as usize % ends.pairs.len()];
        network.send(now, pair.sender, pair.receiver, packet(serial)).expect("a way");
        while network.poll_timeout().is_some_and(|due| due <= now) && network.poll_deliver(now).is_some() {
            delivered += 1;
        }
    }
    report(name, started, delivered);
}

fn main() {
    let plain = LinkConfig::new(Rate::from_bytes_per_second(2_800_000), Duration::from_millis(20));
    one_link("drop-tail", plain.clone());
    one_link("drop-tail, 5 % loss", plain.clone().with_loss(loss("5%").expect("a loss")));
    one_link("drop-tail, 5 % in bursts of 5", plain.clone().with_loss(loss("5%/5").expect("a loss")));
    let reordering = plain.clone().with_jitter(Jitter::Uniform(Duration::from_millis(10)), Order::Free);
    one_link("drop-tail, reordering", reordering);
    for name in ["drr", "sfq", "wfq", "red", "codel", "fq_codel"] {
        one_link(name, plain.clone().with_queue(queue(name).expect("a queue")));
    }
    dumbbell("dumbbell of 16 pairs, 3 links", plain);
}
