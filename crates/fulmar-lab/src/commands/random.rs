//! `fulmar-lab random`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use fulmar_cli::profile_names::ProfileParser;
use fulmar_proto::Profile;

use super::progress::Bar;
use crate::experiment::{COMMIT, Results};
use crate::outcome::PAYLOAD_SHARE;
use crate::random::{self, Bounds, Judged, Ranges, kinds};

/// How many of the worst are shown.
const WORST_MAX: usize = 10;

/// Run a profile over paths drawn at random: what share of the limit it gets, by kind of path, and where it
/// fails
///
/// Rates of 1 Mb/s to 1 Gb/s, round trips of 1 to 600 ms, queues of 0.3 to 4 BDP, losses to 30 % in bursts to
/// 20, some one way only, some with
/// jitter or traffic beside; each for 10 s and 40 round trips, start-up included, in virtual time on all
/// cores. The worst are shown
/// with the command that repeats each. `compare A B --random N` does it for two commits.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab random --paths 200 --quick                         # slow and short paths only: seconds
  fulmar-lab random --paths 2000 --seed 7 --strict              # an error if what is aimed at is missed")]
pub(super) struct Args {
    /// How many paths
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    paths: u64,
    /// From which seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Profile of the flow
    #[arg(long, default_value = "auto", value_parser = ProfileParser, hide_possible_values = true)]
    profile: String,
    /// Paths to 16 Mb/s and 100 ms only
    #[arg(long)]
    quick: bool,
    /// Keep every run in this folder (runs.jsonl)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the table to this page (Markdown)
    #[arg(long, value_name = "FILE.md")]
    page: Option<PathBuf>,
    /// End with an error if the median is below 0.96, the 10th percentile below 0.92, the 1st below 0.80, a
    /// path is never connected, or
    /// its queue drops more than 2 %
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let profile = Profile::parse(&args.profile).map_err(|error| error.to_string())?;
    let ranges = if args.quick { Ranges::quick() } else { Ranges::default() };
    let bar = Mutex::new(Bar::new("random"));
    let lock = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    let all = random::run(&profile, args.seed, args.paths, &ranges, &|done| {
        lock().show(done as u64, args.paths, "")
    })?;
    lock().end();
    if let Some(folder) = &args.out {
        keep(folder, &all, &args.profile).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    if let Some(path) = &args.page {
        std::fs::write(path, page(args, &all)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print(&all, &args.profile);
    let complaints = random::outside(&all, &Bounds::default());
    complaints.iter().for_each(|line| println!("missed: {line}"));
    if args.strict && !complaints.is_empty() {
        return Err(format!("{} aims are missed", complaints.len()));
    }
    Ok(())
}

fn keep(folder: &std::path::Path, all: &[Judged], profile: &str) -> std::io::Result<()> {
    let mut results = Results::open(folder.to_owned(), "")?;
    all.iter().try_for_each(|judged| results.add(judged.record(profile)))
}

/// The table, and what it was made with.
fn page(args: &Args, all: &[Judged]) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    let mut page = format!(
        "# Paths drawn at random\n\n`fulmar-lab random --profile {} --paths {} --seed {}{quick}`, commit {COMMIT}: share of \
         (1-p) x capacity x {}, start-up included.\n\n",
        args.profile, args.paths, args.seed, PAYLOAD_SHARE
    );
    page.push_str(
        "| paths | how many | median | 10th percentile | 1st | never connected | queue drops > 2 % |\n",
    );
    page.push_str("|---|---|---|---|---|---|---|\n");
    for kind in kinds(all) {
        page.push_str(&format!(
            "| {} | {} | {:.3} | {:.3} | {:.3} | {} | {} |\n",
            kind.name, kind.paths, kind.median, kind.tenth, kind.hundredth, kind.unconnected, kind.dropping
        ));
    }
    page.push_str("\nThe worst:\n\n| share | repeat |\n|---|---|\n");
    for judged in worst(all) {
        page.push_str(&format!("| {:.3} | `{}` |\n", judged.share, judged.path.command(&args.profile)));
    }
    page
}

fn worst(all: &[Judged]) -> Vec<&Judged> {
    let mut worst: Vec<&Judged> = all.iter().collect();
    worst.sort_by(|a, b| a.share.total_cmp(&b.share));
    worst.truncate(WORST_MAX);
    worst
}

fn print(all: &[Judged], profile: &str) {
    println!("share of (1-p) x capacity x {}", PAYLOAD_SHARE);
    println!(
        "{:26} {:>6} {:>7} {:>7} {:>7} {:>12} {:>12}",
        "paths", "", "median", "10 %", "1 %", "no connection", "queue > 2 %"
    );
    for kind in kinds(all) {
        println!(
            "{:26} {:6} {:7.3} {:7.3} {:7.3} {:>12} {:>12}",
            kind.name, kind.paths, kind.median, kind.tenth, kind.hundredth, kind.unconnected, kind.dropping
        );
    }
    let mut times: Vec<f64> = all.iter().filter_map(|judged| judged.connect_seconds).collect();
    times.sort_by(f64::total_cmp);
    if let Some(longest) = times.last() {
        println!("connecting: median {:.3} s, longest {longest:.3} s", times[times.len() / 2]);
    }
    println!("the worst:");
    for judged in worst(all) {
        println!("{:6.3}  {}", judged.share, judged.path.command(profile));
    }
}
