//! Prints the delay of in-order delivery of messages sent at a steady pace, less the one-way delay, in
//! virtual time.
//!
//!     cargo run --release -p fulmar-proto --example messages -- [--profile auto] [--rate 10M] [--rtt 50ms] \
//!         [--loss 0%,1%,5%,10%,20%] [--burst 1] [--size 1200] [--interval 5ms] [--seconds 60] [--seed 1] [--trace]

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_net::{LinkConfig, Loss, Probability, TwoState, parse};
use fulmar_proto::stream::Read;
use fulmar_proto::{Dir, Instant, Profile, Rate, TransportConfig};
use fulmar_world::World;

struct Args {
    profile: String,
    rate: Rate,
    rtt: Duration,
    losses: Vec<Probability>,
    burst_milli: u32,
    size: usize,
    interval: Duration,
    seconds: u64,
    seed: u64,
    trace: bool,
}

fn args() -> Args {
    let mut args = Args {
        profile: "auto".into(),
        rate: Rate::from_bits_per_second(10_000_000),
        rtt: Duration::from_millis(50),
        losses: ["0%", "1%", "5%", "10%", "20%"].iter().map(|p| parse::probability(p).unwrap()).collect(),
        burst_milli: 1000,
        size: 1200,
        interval: Duration::from_millis(5),
        seconds: 60,
        seed: 1,
        trace: false,
    };
    let mut list = std::env::args().skip(1);
    while let Some(flag) = list.next() {
        if flag == "--trace" {
            args.trace = true;
            continue;
        }
        let value = list.next().unwrap_or_else(|| panic!("{flag} needs a value"));
        match flag.as_str() {
            "--profile" => args.profile = value,
            "--rate" => args.rate = parse::rate(&value).expect("a rate"),
            "--rtt" => args.rtt = parse::duration(&value).expect("a duration"),
            "--loss" => {
                args.losses =
                    value.split(',').map(|p| parse::probability(p).expect("a probability")).collect()
            }
            "--burst" => args.burst_milli = (value.parse::<f64>().expect("a number") * 1000.0) as u32,
            "--size" => args.size = value.parse().expect("a number"),
            "--interval" => args.interval = parse::duration(&value).expect("a duration"),
            "--seconds" => args.seconds = value.parse().expect("a number"),
            "--seed" => args.seed = value.parse().expect("a number"),
            _ => panic!("unknown flag {flag}"),
        }
    }
    args
}

fn main() {
    let args = args();
    println!(
        "profile {}, {:?}, RTT {:?}, {} bytes each {:?}, {} s; delay of in-order delivery less one way, ms",
        args.profile, args.rate, args.rtt, args.size, args.interval, args.seconds
    );
    println!(
        "   loss    p50    p90    p99  p99.9    max   symbols sent per message   of these asked for, proactive, tail"
    );
    for &p in &args.losses {
        run(&args, p);
    }
}

fn run(args: &Args, p: Probability) {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&args.profile).expect("a profile"));
    let loss = if args.burst_milli > 1000 && !p.is_zero() {
        Loss::TwoState(TwoState::new(p, args.burst_milli).expect("a chain"))
    } else {
        Loss::bernoulli(p)
    };
    let link = LinkConfig::new(args.rate, args.rtt / 2).with_loss(loss);
    let mut world = World::new(args.seed, link, transport.clone(), transport);
    world.connected();
    let id = world.client.only().open(Dir::Uni).unwrap();
    let mut sent: VecDeque<Instant> = VecDeque::new();
    let mut delays = Vec::new();
    let (mut pending, mut count) = (0usize, 0u64);
    let mut out = vec![0; 1 << 16];
    let end = world.now + Duration::from_secs(args.seconds);
    while world.now < end {
        sent.push_back(world.now);
        count += 1;
        let _ = world.client.only().write(id, &vec![count as u8; args.size]);
        world.run_until(args.interval, |w| {
            let now = w.now;
            let server = w.server.only();
            server.accept(Dir::Uni);
            while let Ok(Read::Data(n)) = server.read(now, id, &mut out) {
                pending += n;
                while pending >= args.size {
                    pending -= args.size;
                    let delay = (now - sent.pop_front().expect("sent")).saturating_sub(args.rtt / 2);
                    if args.trace && delay > args.rtt {
                        println!("{now:?} late by {delay:?}");
                    }
                    delays.push(delay);
                }
            }
            false
        });
        if args.trace && count % 50 == 0 {
            let s = world.client.only().stats();
            println!(
                "{:?} {} bw {:?} pace {:?} win {} fl {} rtt {:?} var {:?} p {:.3} E {:.1} red {:.2} {:?}",
                world.now,
                s.phase,
                s.path.bandwidth,
                s.path.pacing,
                s.path.window_bytes,
                s.path.in_flight_bytes,
                s.path.rtt,
                s.path.rtt_var,
                s.path.loss.rate,
                s.path.loss.burst_packets,
                s.redundancy,
                s.coding_sent
            );
        }
    }
    delays.extend(sent.iter().map(|&at| world.now - at).filter(|d| *d > args.rtt));
    delays.sort();
    let at = |q: f64| delays[((delays.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e3;
    let s = world.client.only().stats().coding_sent;
    println!(
        "{:6.1}% {:6.1} {:6.1} {:6.1} {:6.1} {:6.1}   {:.3}    {:.3} {:.3} {:.3}",
        p.as_f64() * 100.0,
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0),
        (s.symbols_sent() + s.probes) as f64 / count as f64,
        (s.copies + s.repairs_asked) as f64 / count as f64,
        s.repairs_proactive as f64 / count as f64,
        (s.repairs_tail + s.probes) as f64 / count as f64,
    );
}
