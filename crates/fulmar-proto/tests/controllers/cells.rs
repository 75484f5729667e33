//! Many small worlds in one table: the quickest way to see what a change of a controller does, and where it
//! does harm. It has no bound and prints only, so it runs when it is asked for:
//!
//! ```sh
//! FULMAR_CELLS=worlds.txt cargo test --workspace --test controllers cells -- --ignored --nocapture
//! ```
//!
//! Each line of the file is a world, in words with values; what is not said is as here:
//!
//! ```text
//! rate=100 rtt=20 queue=1 loss=0 burst=0 jitter=0 flows=1 gap=100 seconds=10 from=0 seeds=6
//! flows=4 loss=0.1 queue=0.25     # megabits, milliseconds, bandwidth-delay products, shares, packets
//! rate=10 rtt=600 fall=8:3 from=18 seconds=40       # to 3 Mb/s after 8 s: the worst second from the 18th on
//! policer=30:100000 flows=3 gap=1000                # bytes
//! flows=2 beside=cubic                              # or bbr: every second flow
//! trace=0.25 seeds=1                                # a line for each quarter of a second instead
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_control::{Auto, Bbr, CongestionController, Cubic, CubicConfig};
use fulmar_net::Policer;
use fulmar_proto::{Instant, Rate};

use crate::bottleneck::{App, Bottleneck, Link, MTU};

/// One world.
struct Cell<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Cell<'a> {
    const KEYS: [&'static str; 16] = [
        "rate", "rtt", "queue", "loss", "burst", "jitter", "flows", "gap", "seconds", "from", "seeds",
        "fall", "policer", "beside", "trace", "first",
    ];

    fn parse(line: &'a str) -> Self {
        let pairs = line.split_whitespace().map(|word| word.split_once('=').expect("WORD=VALUE"));
        let cell: BTreeMap<_, _> = pairs.collect();
        for key in cell.keys() {
            assert!(Self::KEYS.contains(key), "{line}: there is no {key}, but {}", Self::KEYS.join(", "));
        }
        Self(cell)
    }

    fn number(&self, key: &str, otherwise: f64) -> f64 {
        self.0.get(key).map_or(otherwise, |value| value.parse().expect("a number"))
    }

    /// Two numbers, `A:B`.
    fn pair(&self, key: &str) -> Option<(f64, f64)> {
        let (a, b) = self.0.get(key)?.split_once(':').expect("two numbers");
        Some((a.parse().expect("a number"), b.parse().expect("a number")))
    }

    fn link(&self) -> Link {
        let mut link = Link::new(100, 20).lossy(self.number("loss", 0.0), self.number("burst", 0.0));
        link.bits_per_second = bits(self.number("rate", 100.0));
        link.rtt = millis(self.number("rtt", 20.0));
        link.queue_bdp = self.number("queue", 1.0);
        link.jitter = millis(self.number("jitter", 0.0));
        let at = |(seconds, rate)| (Instant::ZERO + Duration::from_secs_f64(seconds), bits(rate));
        link.change = self.pair("fall").map(at);
        link.policer = self.pair("policer").map(|(rate, burst_bytes)| Policer {
            rate: Rate::from_bits_per_second(bits(rate)),
            burst_bytes: burst_bytes as u64,
        });
        link.acks_as_asked()
    }

    fn controller(&self, flow: u32) -> Box<dyn CongestionController> {
        match self.0.get("beside").filter(|_| flow % 2 == 1) {
            None => Box::new(Auto::new(MTU)),
            Some(&"cubic") => Box::new(Cubic::new(MTU, CubicConfig::default())),
            Some(&"bbr") => Box::new(Bbr::new(MTU)),
            Some(other) => panic!("{other} is neither cubic nor bbr"),
        }
    }

    /// What came of it, as numbers with names.
    fn run(&self, seed: u32) -> Vec<(&'static str, f64)> {
        let (link, seconds, from) = (self.link(), self.number("seconds", 10.0), self.number("from", 0.0));
        let (loss, rate) =
            (link.loss, link.policer.map_or(link.bits_per_second, |p| p.rate.bits_per_second()));
        let is_policed = link.policer.is_some();
        let mut run = Bottleneck::new(link, seconds, u64::from(seed));
        for flow in 0..self.number("flows", 1.0) as u32 {
            // Seeds move the starts as well: drains happen at fixed times.
            let start = millis(self.number("gap", 100.0) * f64::from(flow) * (1.0 + 0.013 * f64::from(seed)));
            run.add(self.controller(flow), start, App::Bulk);
        }
        if self.0.contains_key("trace") {
            self.trace(&mut run, seconds);
            return Vec::new();
        }
        run.run(from);
        let share =
            |bytes: u64, seconds: f64, rate: u64| bytes as f64 * 8.0 / seconds / rate as f64 / (1.0 - loss);
        if let Some((_, fallen)) = self.pair("fall") {
            let each = (0..(seconds - from) as u32).map(|_| run.run_and_count(1.0).iter().sum::<u64>());
            let shares: Vec<f64> = each.map(|bytes| share(bytes, 1.0, bits(fallen))).collect();
            let worst = shares.iter().copied().fold(f64::MAX, f64::min);
            let mean = shares.iter().sum::<f64>() / shares.len() as f64;
            return vec![("worst", worst), ("share", mean), ("dropped", run.dropped_share())];
        }
        let bytes = run.run_and_count(seconds - from);
        let all: u64 = bytes.iter().sum();
        let squares: f64 = bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
        let jain = (all as f64).powi(2) / squares / bytes.len() as f64;
        let dropped = if is_policed { run.policed_share() } else { run.dropped_share() };
        let first = share(bytes[0], seconds - from, rate);
        let found = [
            ("share", share(all, seconds - from, rate)),
            ("dropped", dropped),
            ("jain", jain),
            ("first", first),
        ];
        found[..if bytes.len() > 1 { 4 } else { 2 }].to_vec()
    }

    fn trace(&self, run: &mut Bottleneck, seconds: f64) {
        let (step, mut at) = (self.number("trace", 1.0), 0.0);
        while at < seconds {
            let bytes = run.run_and_count(step);
            at += step;
            println!("{at:8.3} s {:8.2} Mb/s  {}", bytes[0] as f64 * 8e-6 / step, run.flows[0].line());
        }
    }
}

fn millis(value: f64) -> Duration {
    Duration::from_secs_f64(value / 1e3)
}

fn bits(megabits: f64) -> u64 {
    (megabits * 1e6) as u64
}

#[test]
#[ignore = "prints what FULMAR_CELLS names"]
fn cells() {
    let path = std::env::var("FULMAR_CELLS").expect("FULMAR_CELLS=FILE");
    let text = std::fs::read_to_string(path).expect("a file");
    for line in text.lines().map(|line| line.split('#').next().unwrap_or("").trim()) {
        if line.is_empty() {
            continue;
        }
        let cell = Cell::parse(line);
        let first = cell.number("first", 1.0) as u32;
        let seeds = first..first + cell.number("seeds", 6.0) as u32;
        let found: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = seeds
                .map(|seed| {
                    scope.spawn({
                        let cell = &cell;
                        move || cell.run(seed)
                    })
                })
                .collect();
            started.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        println!("{line}");
        for place in 0..found[0].len() {
            let values: Vec<f64> = found.iter().map(|run| run[place].1).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let each: Vec<_> = values.iter().map(|value| format!("{value:.3}")).collect();
            println!("    {:8} {mean:.3}  of {}", found[0][place].0, each.join(" "));
        }
    }
}
