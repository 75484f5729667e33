//! `fulmar-lab peer`.

use std::path::PathBuf;

use super::bridge::Common;
use super::sim::seconds;
use crate::bridge;
use crate::outcome::Outcome;
use crate::peer::{self, ChosenPeer, Peer, PeerScenario};
use crate::statistics::Summary;

/// Other transports over the link in real time, side by side in one table. Needs root or user namespaces.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Peers: NAME or NAME:CHOICE, such as kcptun or quinn:bbr; without any, a list of them
    #[arg(value_name = "PEER")]
    names: Vec<String>,
    #[command(flatten)]
    common: Common,
    /// Length of a run
    #[arg(short = 't', long = "time", default_value = "15", value_parser = seconds)]
    time: std::time::Duration,
    /// Runs of each, with seeds --seed, --seed + 1 ..; the table shows medians
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Folder of the peers' files
    #[arg(long, default_value = "experiments/peers", value_name = "DIR")]
    peers: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    if args.names.is_empty() {
        return list(&Peer::all(&args.peers)?);
    }
    let peers =
        args.names.iter().map(|name| ChosenPeer::find(&args.peers, name)).collect::<Result<Vec<_>, _>>()?;
    peers.iter().try_for_each(|chosen| chosen.peer.check_installed())?;
    bridge::acquire_rights()?;
    let mut all = Vec::new();
    for chosen in &peers {
        let scenario = PeerScenario {
            peer: chosen.clone(),
            link: args.common.link.clone(),
            duration: args.time,
            settings: args.common.settings(),
            lateness_p99_max: args.common.late_max,
        };
        let seeds = args.common.seed..args.common.seed.saturating_add(args.runs);
        all.push(seeds.map(|seed| peer::run(&scenario, seed)).collect::<Result<Vec<_>, _>>()?);
    }
    if args.common.json {
        let runs: Vec<&Outcome> = all.iter().flatten().collect();
        println!("{}", serde_json::to_string_pretty(&runs).map_err(|error| error.to_string())?);
        return Ok(());
    }
    table(&peers, &all);
    Ok(())
}

/// What there is, whether it is installed, and how it is configured.
fn list(peers: &[Peer]) -> Result<(), String> {
    for peer in peers {
        println!("{}: {}", peer.name, peer.title);
        if !peer.choices.is_empty() {
            println!("  choices: {}", peer.choices.join(", "));
        }
        println!("  configured: {}", peer.configured);
        if let Err(reason) = peer.check_installed() {
            println!("  not installed: {reason}");
        }
    }
    println!("The kernel's TCP is built in: fulmar-lab tcp --cc cubic.");
    Ok(())
}

fn table(peers: &[ChosenPeer], all: &[Vec<Outcome>]) {
    println!(
        "{:16} {:>9} {:>21} {:>6} {:>11} {:>10}  configured",
        "peer", "Mbit/s", "lowest .. highest", "wire", "queue drops", "cpu s / GB"
    );
    for (chosen, outcomes) in peers.iter().zip(all) {
        let summary = |measure: &str| {
            let valid = outcomes.iter().filter(|outcome| outcome.valid);
            Summary::of(&valid.filter_map(|outcome| outcome.measure(measure)).collect::<Vec<_>>())
        };
        let word = |measure: &str, digits: usize| {
            summary(measure).map_or("-".into(), |s| format!("{:.digits$}", s.median))
        };
        let range = summary("goodput_mbps").map_or("-".into(), |s| format!("{:.2} .. {:.2}", s.min, s.max));
        println!(
            "{:16} {:>9} {range:>21} {:>6} {:>11} {:>10}  {}",
            chosen.label(),
            word("goodput_mbps", 2),
            word("wire_ratio", 2),
            word("queue_drops", 0),
            word("processor_s_per_gb", 2),
            chosen.configured()
        );
        for outcome in outcomes.iter().filter(|outcome| !outcome.remarks.is_empty()) {
            let kind = if outcome.valid { "note" } else { "INVALID" };
            println!("  {kind} (seed {}): {}", outcome.seed, outcome.remarks.join("; "));
        }
    }
}
