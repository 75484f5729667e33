//! `fulmar-lab swarm`.

use std::ops::{ControlFlow, Range};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_net::parse;
use fulmar_world::swarm::enemy::{Worst, besiege};
use fulmar_world::swarm::{Failure, Plan, Tally, hunt_with, run as run_plan};

use super::progress::Bar;

/// Hunt for seeds that break the protocol's rules, on all cores
///
/// Each seed draws a path, its faults, both ends' settings and all that their applications do. First with
/// faults: bytes arrive equal and in order, bounds hold, nothing panics. Then without: everything finishes in
/// bounded time. A seed that fails is printed with the command that repeats it, and with its plan.
///
/// With --enemy each seed draws instead hostile ends with valid keys, strangers and observers against honest
/// ends, whose memory and work must stay within bounds; what cost most is told at the end.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  fulmar-lab swarm                       # 10,000 seeds\n  fulmar-lab swarm --seeds 1000000..2000000 --for 1h\n  fulmar-lab swarm --seed 4711           # one run again, with its plan\n  fulmar-lab swarm --enemy --seeds 1000000"
)]
pub(super) struct Args {
    /// Seeds, FIRST..END; a single number means that many from 0
    #[arg(long, value_name = "RANGE", default_value = "10000", value_parser = range)]
    seeds: Range<u64>,
    /// Begin no further seed after this time: 10min, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = parse::duration)]
    time_max: Option<Duration>,
    /// Run this seed alone; print its plan, and all that a failure has to say
    #[arg(long, conflicts_with_all = ["seeds", "time_max"])]
    seed: Option<u64>,
    /// Hostile ends instead of bad networks
    #[arg(long)]
    enemy: bool,
    /// Stop when so many seeds have failed
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    failures_max: u64,
}

/// `FIRST..END`, or so many from 0.
fn range(text: &str) -> Result<Range<u64>, String> {
    let error = || format!("'{text}' is not a range of seeds such as 10000 or 5000..6000");
    let (first, end) = text.split_once("..").unwrap_or(("0", text));
    let number = |text: &str| text.replace('_', "").parse::<u64>().map_err(|_| error());
    let range = number(first)?..number(end)?;
    if range.is_empty() { Err(error()) } else { Ok(range) }
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    if let Some(seed) = args.seed.filter(|_| args.enemy) {
        println!("{}", told(&besiege(seed, worked)));
        return Ok(());
    }
    if let Some(seed) = args.seed {
        let plan = Plan::draw(seed);
        println!("{plan:#?}");
        println!("{}", run_plan(&plan));
        return Ok(());
    }
    let began = Instant::now();
    let mut bar = Bar::new("swarm");
    let mut known = 0;
    let total = args.seeds.end - args.seeds.start;
    let worst = Mutex::new(Worst::default());
    let run_one = |seed| match args.enemy {
        true => {
            let cost = besiege(seed, worked);
            worst.lock().unwrap_or_else(PoisonError::into_inner).merge(&cost);
        }
        false => drop(run_plan(&Plan::draw(seed))),
    };
    let tally = hunt_with(args.seeds.clone(), args.time_max, &run_one, |tally| {
        for failure in &tally.failures[known..] {
            bar.say(&describe(failure, args.enemy));
        }
        known = tally.failures.len();
        bar.show(tally.done, total, &format!("{known} failed"));
        if known as u64 >= args.failures_max { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.end();
    let took = began.elapsed().as_secs_f64();
    let Tally { done, failures } = &tally;
    println!("{done} of {total} seeds in {took:.1} s, {:.0} per second", *done as f64 / took);
    if args.enemy {
        println!("{}", told(&worst.into_inner().unwrap_or_else(PoisonError::into_inner)));
    }
    match &failures[..] {
        [] => Ok(()),
        [first, ..] => Err(format!(
            "{} seeds failed; to repeat the first: {}",
            failures.len(),
            command(first.seed, args.enemy)
        )),
    }
}

/// How long this thread has worked, whatever else the machine does.
#[cfg(target_os = "linux")]
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Not known here.
#[cfg(not(target_os = "linux"))]
fn worked() -> Duration {
    Duration::ZERO
}

/// What the enemy has cost.
fn told(worst: &Worst) -> String {
    let Worst { time_by_code, work, settled, memory_bytes, datagrams } = worst;
    let times = time_by_code.iter().map(|(code, (time, seed))| {
        format!("\n  {code:>16}: {:.3} ms, seed {seed}", time.as_secs_f64() * 1e3)
    });
    format!(
        "{datagrams} datagrams; the worst: {work} units of work, {settled} fates settled, {memory_bytes} bytes held, and \
         in processor time by the code that the other end named{}",
        times.collect::<String>()
    )
}

fn command(seed: u64, has_enemy: bool) -> String {
    format!("fulmar-lab swarm {}--seed {seed}", if has_enemy { "--enemy " } else { "" })
}

/// The place and the first words of what broke, and how to see the rest.
fn describe(failure: &Failure, has_enemy: bool) -> String {
    const CHARS_MAX: usize = 300;
    let reason: String = failure.reason.chars().take(CHARS_MAX).collect();
    let more = if reason.len() < failure.reason.len() { " .." } else { "" };
    let Failure { seed, .. } = failure;
    format!("seed {seed} failed: {reason}{more}\n  repeat: {}", command(*seed, has_enemy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(range("1_000"), Ok(0..1000));
        assert_eq!(range("5000..6000"), Ok(5000..6000));
        for text in ["", "0", "6..5", "a", "1..", "-3", "1..2..3"] {
            assert!(range(text).unwrap_err().contains("range of seeds"), "{text}");
        }
    }

    #[test]
    fn a_failure_says_how_to_repeat_it_and_is_short() {
        let failure = Failure { seed: 17, reason: "\u{fc}".repeat(5000) };
        assert!(describe(&failure, true).contains("swarm --enemy --seed 17"));
        let words = describe(&failure, false);
        assert!(words.contains("swarm --seed 17") && words.len() < 800, "{words}");
    }
}
