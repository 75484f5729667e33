//! `fulmar-lab run`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::available::Machine;
use super::ending::Failure;
use super::progress::Bar;
use crate::experiment::{self, Experiment, Mode, Results, Shard, digits, interval_digits};
use crate::statistics::Summary;

/// Run experiment files: every cell of their sweeps that has no result yet
///
/// Runs in virtual time use all cores. An interrupted run goes on where it was when it is given again. What a
/// file may say is
/// in docs/lab.md; the experiments that come with Fulmar are in experiments/.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab run experiments/profiles-loss.toml && fulmar-lab report
  fulmar-lab run experiments/*.toml --quick                     # does everything work?
  fulmar-lab run experiments/*.toml --shard 0/8                 # an eighth of the work; `merge` puts parts together
  fulmar-lab run experiments/*.toml --check                     # only look for mistakes")]
pub(super) struct Args {
    /// Experiment files
    #[arg(required = true, value_name = "FILE.toml")]
    files: Vec<PathBuf>,
    /// A quarter of the time, one repetition; kept apart from full results
    #[arg(long)]
    quick: bool,
    /// The cells of each file's first claim, once: do results still hold? Kept apart from full results
    #[arg(long, conflicts_with = "quick")]
    sample: bool,
    /// One part of the runs: 0/8 is the first of eight; auto (or auto/8) by the variables of a Slurm array or
    /// a Kubernetes indexed job
    #[arg(long, value_name = "I/N", conflicts_with = "again")]
    shard: Option<Shard>,
    /// Leave out what cannot run here, and name it: peers that are not installed, real time without the right
    /// to make namespaces
    #[arg(long)]
    skip_missing: bool,
    /// Folder of results
    #[arg(long, default_value = "results", value_name = "DIR")]
    out: PathBuf,
    /// Begin anew: forget results that are there, of an older program for example
    #[arg(long)]
    again: bool,
    /// Only say what is wrong with the files
    #[arg(long)]
    check: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut experiments = read(&args.files).map_err(Failure::Never)?;
    if args.check {
        return Ok(());
    }
    if args.skip_missing {
        leave_out(&mut experiments);
    }
    #[cfg(target_os = "linux")]
    if experiments.iter().any(|(experiment, _)| needs_rights(experiment)) {
        crate::bridge::acquire_rights().map_err(Failure::Never)?;
    }
    super::ending::end_in_order();
    let mode = match (args.quick, args.sample) {
        (true, _) => Mode::Quick,
        (_, true) => Mode::Sample,
        _ => Mode::Full,
    };
    let shard = args.shard.unwrap_or(Shard::WHOLE);
    for (experiment, text) in &experiments {
        let folder = args.out.join(format!("{}{}", experiment.name, mode.suffix()));
        let disk = |error: std::io::Error| Failure::Again(format!("{}: {error}", experiment.name));
        if args.again {
            Results::forget(&folder).map_err(disk)?;
        }
        let mut results = Results::open(folder, text).and_then(|all| all.of_shard(shard)).map_err(disk)?;
        #[cfg(target_os = "linux")]
        keep_peers(experiment, results.folder()).map_err(Failure::Never)?;
        let bar = Mutex::new(Bar::new(&experiment.name));
        let lock = || bar.lock().unwrap_or_else(PoisonError::into_inner);
        experiment::run(experiment, mode, shard, &mut results, &|progress| {
            lock().show(progress.done as u64, progress.total as u64, &progress.label);
        })
        .map_err(|stopped| {
            let words = format!("{}: {stopped}", experiment.name);
            if stopped.may_go_on() { Failure::Again(words) } else { Failure::Never(words) }
        })?;
        lock().end();
        table(experiment, mode, &results)?;
    }
    Ok(())
}

/// The experiments of these files, with their texts.
fn read(files: &[PathBuf]) -> Result<Vec<(Experiment, String)>, String> {
    let experiment = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = Experiment::parse(&path.display().to_string(), &text);
        parsed.map(|experiment| (experiment, text)).map_err(|mistake| mistake.to_string())
    };
    files.iter().map(experiment).collect()
}

/// What was measured of each cell: means, and half the 95 % interval.
fn table(experiment: &Experiment, mode: Mode, results: &Results) -> Result<(), String> {
    println!("{}: {}", experiment.name, experiment.measures.join(", "));
    for cell in mode.cells(experiment)? {
        let hash = experiment::task(experiment, &cell, mode.duration(experiment))?.hash();
        let of = |measure: &String| results.summary(experiment, &cell, &hash, measure);
        let words = |found: Option<Summary>| match found {
            Some(s) if s.n > 1 => format!("{} ±{}", digits(s.mean), interval_digits(s.ci95, s.mean)),
            Some(s) => digits(s.mean),
            None => "-".into(),
        };
        let runs = experiment.measures.first().and_then(of).map_or(0, |summary| summary.n);
        let values: Vec<String> = experiment.measures.iter().map(of).map(words).collect();
        let label = if cell.settings.is_empty() { "all".into() } else { cell.label() };
        println!("  {label}: {} ({runs} runs)", values.join(", "));
    }
    Ok(())
}

/// Keeps what this machine can run.
fn leave_out(experiments: &mut Vec<(Experiment, String)>) {
    let machine = Machine::look();
    experiments.retain_mut(|(experiment, _)| match machine.leave_out(experiment) {
        Some(missing) if missing.is_empty() => true,
        Some(missing) => {
            eprintln!("{}: left out, because they cannot run here: {}", experiment.name, missing.join(", "));
            true
        }
        None => {
            eprintln!("{}: cannot run here", experiment.name);
            false
        }
    });
}

/// Keeps the files of the peers an experiment uses with its results, so that they say what was run.
#[cfg(target_os = "linux")]
fn keep_peers(experiment: &Experiment, folder: &std::path::Path) -> Result<(), String> {
    let senders = experiment.flows.iter().map(|flow| &flow.sender);
    for name in senders
        .chain(experiment.sweep.get("sender").into_iter().flatten())
        .filter_map(|s| experiment::peer_name(s))
    {
        let peer = crate::peer::ChosenPeer::find(&experiment.peers, name)?;
        peer.peer.check_installed()?;
        peer.keep(&folder.join("peers")).map_err(|error| format!("peer '{name}': {error}"))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn needs_rights(experiment: &Experiment) -> bool {
    let cells = experiment::cells(experiment).unwrap_or_default();
    let tasks = cells.iter().filter_map(|cell| experiment::task(experiment, cell, experiment.duration).ok());
    tasks.into_iter().any(|task| task.is_real_time())
}
