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
/// 20, some one way only, some with jitter or traffic beside; each for 10 s and 40 round trips, start-up
/// included, in virtual time on all cores. The worst are shown with the command that repeats each. `compare A
/// B --random N` does it for two commits.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab random --paths 200 --quick                         # slow and short paths only: seconds
  fulmar-lab random --rough --against bbr,cubic                 # worse paths; where are others faster?
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
    /// Paths of 64 kb/s to 64 Mb/s, each with two faults more: a thin way back; a rate that falls, rises or
    /// wobbles; stalls of the link or of a host; a black-out; packets twice; flipped bits; jitter or loss of
    /// the way back
    #[arg(long, conflicts_with = "quick")]
    rough: bool,
    /// Run these profiles over the same paths too, and say where one of them has more
    #[arg(long, value_name = "PROFILES", value_delimiter = ',', value_parser = ProfileParser)]
    #[arg(hide_possible_values = true)]
    against: Vec<String>,
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
    let all = paths(args, &args.profile)?;
    if let Some(folder) = &args.out {
        keep(folder, &all, &args.profile).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    let others = args.against.iter().map(|other| paths(args, other)).collect::<Result<Vec<_>, _>>()?;
    let against = (!others.is_empty()).then(|| Against::new(args, &all, &others));
    if let Some(path) = &args.page {
        let page = page(args, &all) + &against.as_ref().map_or_else(String::new, Against::page);
        std::fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print(&all, &args.profile);
    if let Some(against) = &against {
        against.print();
    }
    let complaints = random::outside(&all, &Bounds::default());
    complaints.iter().for_each(|line| println!("missed: {line}"));
    if args.strict && !complaints.is_empty() {
        return Err(format!("{} aims are missed", complaints.len()));
    }
    Ok(())
}

/// Runs a profile over all paths.
fn paths(args: &Args, profile: &str) -> Result<Vec<Judged>, String> {
    let ranges = match args {
        Args { rough: true, .. } => Ranges::rough(),
        Args { quick: true, .. } => Ranges::quick(),
        _ => Ranges::default(),
    };
    let bar = Mutex::new(Bar::new(profile));
    let lock = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    let profile = Profile::parse(profile).map_err(|error| error.to_string())?;
    let all = random::run(&profile, args.seed, args.paths, &ranges, &|done| {
        lock().show(done as u64, args.paths, "")
    })?;
    lock().end();
    Ok(all)
}

/// How a profile fares where others run too.
struct Against {
    /// In words.
    others: String,
    /// Its share of the most that another one has, from the least on: a tenth and a hundredth have less.
    quantiles: [f64; 3],
    /// How many paths tell something.
    paths: usize,
    /// Where it has least: the share of the most, all shares, and the command.
    worst: Vec<(f64, String, String)>,
}

impl Against {
    fn new(args: &Args, own: &[Judged], others: &[Vec<Judged>]) -> Self {
        let mut found = random::against(own, others);
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let at = |q: f64| found.get((found.len() as f64 * q) as usize).map_or(0.0, |(_, ratio)| *ratio);
        let shares = |index: usize| {
            let all = std::iter::once(own).chain(others.iter().map(Vec::as_slice));
            all.map(|runs| format!("{:.3}", runs[index].share)).collect::<Vec<_>>().join(" ")
        };
        let worst = found.iter().take(WORST_MAX);
        let worst =
            worst.map(|&(index, ratio)| (ratio, shares(index), own[index].path.command(&args.profile)));
        Self {
            others: args.against.join(", "),
            quantiles: [at(0.5), at(0.1), at(0.01)],
            paths: found.len(),
            worst: worst.collect(),
        }
    }

    fn page(&self) -> String {
        let [median, tenth, hundredth] = self.quantiles;
        let mut page = format!(
            "\n## Against {}\n\nShare of the most that another one has, on {} paths where that is a \
             twentieth of the limit or more: median {median:.3}, 10th percentile {tenth:.3}, \
             1st {hundredth:.3}. Where it has least:\n\n\
             | of the most | shares, its own first | repeat |\n|---|---|---|\n",
            self.others, self.paths
        );
        for (ratio, shares, command) in &self.worst {
            page.push_str(&format!("| {ratio:.2} | {shares} | `{command}` |\n"));
        }
        page
    }

    fn print(&self) {
        let [median, tenth, hundredth] = self.quantiles;
        println!(
            "of the most that {} have, on {} paths: median {median:.3}, 10 % {tenth:.3}, 1 % {hundredth:.3}; \
             the worst:",
            self.others, self.paths
        );
        for (ratio, shares, command) in &self.worst {
            println!("{ratio:6.2}  {shares}  {command}");
        }
    }
}

fn keep(folder: &std::path::Path, all: &[Judged], profile: &str) -> std::io::Result<()> {
    let mut results = Results::open(folder.to_owned(), "")?;
    all.iter().try_for_each(|judged| results.add(judged.record(profile)))
}

/// The table, and what it was made with.
fn page(args: &Args, all: &[Judged]) -> String {
    let mut which = if args.quick { " --quick" } else { "" }.to_owned();
    which.push_str(if args.rough { " --rough" } else { "" });
    if !args.against.is_empty() {
        which.push_str(&format!(" --against {}", args.against.join(",")));
    }
    let (title, note) = if args.rough {
        ("Rough paths drawn at random", " Stalls and black-outs take nothing from the capacity.")
    } else {
        ("Paths drawn at random", "")
    };
    let mut page = format!(
        "# {title}\n\n`fulmar-lab random --profile {} --paths {} --seed {}{which}`, \
         commit {COMMIT}: share of (1-p) x capacity x {}, start-up included.{note}\n\n",
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
