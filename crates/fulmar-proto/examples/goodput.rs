//! Prints the goodput of profiles over links in virtual time (bytes read in order, from the first to the
//! last), beside the limit (1-p) x capacity x payload share.
//!
//!     cargo run --release -p fulmar-proto --example goodput -- [--profile auto] [--rate 100M] [--rtt 20ms] \
//!         [--loss 0%,1%,5%,10%,20%] [--burst 1] [--queue-bdp 1] [--seconds 20] [--seed 1] [--trace]

use std::time::Duration;

use fulmar_net::{LinkConfig, Loss, Probability, QueueConfig, QueueLimit, TwoState, parse};
use fulmar_proto::stream::Read;
use fulmar_proto::{Dir, Profile, TransportConfig};
use fulmar_world::World;

struct Args {
    profile: String,
    rate: fulmar_proto::Rate,
    rtt: Duration,
    losses: Vec<Probability>,
    burst_milli: u32,
    queue_milli: u32,
    seconds: u64,
    seed: u64,
    trace: bool,
}

fn args() -> Args {
    let mut args = Args {
        profile: "auto".into(),
        rate: fulmar_proto::Rate::from_bits_per_second(100_000_000),
        rtt: Duration::from_millis(20),
        losses: ["0%", "1%", "5%", "10%", "20%"].iter().map(|p| parse::probability(p).unwrap()).collect(),
        burst_milli: 1000,
        queue_milli: 1000,
        seconds: 20,
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
            "--queue-bdp" => args.queue_milli = (value.parse::<f64>().expect("a number") * 1000.0) as u32,
            "--seconds" => args.seconds = value.parse().expect("a number"),
            "--seed" => args.seed = value.parse().expect("a number"),
            _ => panic!("unknown flag {flag}"),
        }
    }
    args
}

fn loss(args: &Args, p: Probability) -> Loss {
    if args.burst_milli > 1000 && !p.is_zero() {
        Loss::TwoState(
            TwoState::new(p, args.burst_milli).expect("a chain with this loss rate and burst length"),
        )
    } else {
        Loss::bernoulli(p)
    }
}

fn main() {
    let args = args();
    println!(
        "profile {}, {:?}, RTT {:?}, queue {} BDP, {} s; share of a 1500-byte packet 0.955",
        args.profile,
        args.rate,
        args.rtt,
        f64::from(args.queue_milli) / 1000.0,
        args.seconds
    );
    println!("   loss  goodput  of limit  sent/(delivered/(1-p))  queue drops  queue ms p50/p99  loss est.");
    for &p in &args.losses {
        run(&args, p);
    }
}

fn run(args: &Args, p: Probability) {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&args.profile).expect("a profile"));
    let queue = QueueLimit::Bdp { milli: args.queue_milli, rtt: Some(args.rtt) };
    let link = LinkConfig::new(args.rate, args.rtt / 2)
        .with_loss(loss(args, p))
        .with_queue(QueueConfig::DropTail(queue));
    let mut world = World::new(args.seed, link, transport.clone(), transport);
    world.connected();
    let begin = world.now;
    let id = world.client.only().open(Dir::Uni).unwrap();
    let data = vec![0x5a; 1 << 20];
    let (mut received, mut first, mut last) = (0u64, None, world.now);
    let mut trace_at = world.now;
    let mut out = vec![0; 1 << 20];
    world.run_until(Duration::from_secs(args.seconds), |w| {
        while w.client.only().write(id, &data).is_ok() {}
        let now = w.now;
        let server = w.server.only();
        server.accept(Dir::Uni);
        while let Ok(Read::Data(n)) = server.read(now, id, &mut out) {
            first.get_or_insert(now);
            last = now;
            received += n as u64;
        }
        if args.trace && now >= trace_at {
            trace_at = now + args.rtt / 4;
            let s = w.client.only().stats();
            println!(
                "{:9.3} {:16} bw {:?} pace {:?} win {} fl {} rtt {:.1}/{:.1} p {:.3} got {} lost {} rep {} ptos {}",
                (now - begin).as_secs_f64(),
                if s.streams.queued_bytes == 0 { "(blocked)" } else { s.phase },
                s.path.bandwidth,
                s.path.pacing,
                s.path.window_bytes,
                s.path.in_flight_bytes,
                s.path.rtt.as_secs_f64() * 1e3,
                s.path.rtt_min.as_secs_f64() * 1e3,
                s.path.loss.rate,
                received,
                s.recovery.lost_packets,
                s.coding_sent.repairs_sent(),
                s.recovery.probe_timeouts,
            );
        }
        false
    });
    let time = last - first.unwrap_or(begin);
    let goodput = received as f64 * 8.0 / time.as_secs_f64();
    let keep = 1.0 - p.as_f64();
    let limit = keep * args.rate.bits_per_second() as f64 * 0.955;
    let stats = world.client.only().stats();
    let decoded = world.server.only().stats().coding_received;
    let delivered = (decoded.sources + decoded.recovered) as f64;
    if std::env::var_os("DEBUG_STATS").is_some() {
        let back = world.path.link(fulmar_net::Direction::Backward).stats();
        println!(
            "server {:?}\nforward {:?}\nbackward {:?}",
            world.server.only().stats(),
            world.path.link(fulmar_net::Direction::Forward).stats().lost,
            (back.offered, back.lost)
        );
    }
    let link = world.path.link(fulmar_net::Direction::Forward).stats();
    println!(
        "{:6.1}%  {:7.2}  {:7.3}   {:7.3}                 {:8}     {:6.1}/{:.1}       {:.2}% E {:.1}",
        p.as_f64() * 100.0,
        goodput / 1e6,
        goodput / limit,
        stats.coding_sent.symbols_sent() as f64 / (delivered / keep),
        link.dropped.packets,
        link.queue_delay.quantile(500).as_secs_f64() * 1e3,
        link.queue_delay.quantile(990).as_secs_f64() * 1e3,
        stats.path.loss.rate * 100.0,
        stats.path.loss.burst_packets,
    );
}
