//! `fulmar-lab agree`.

use std::path::PathBuf;
use std::time::Duration;

use fulmar_net::{Loss, parse};
use fulmar_proto::Profile;

use super::bridge::Common;
use super::sim::{Profiles, ProfilesParser, seconds};
use crate::bridge;
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::peer::{self, ChosenPeer, PeerScenario};
use crate::scenario::{FlowSpec, Scenario};
use crate::sim;
use crate::statistics::Summary;
use crate::traffic::Traffic;

/// Shows whether virtual and real time agree: profiles in the simulator, and the program `fulmar` with the
/// same profile over the bridge. Needs root or user namespaces.
///
/// Ends with an error if the means differ by more than the bound, and by more than chance explains (the sum
/// of both 95 % confidence intervals).
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// Profiles, by commas
    #[arg(long, default_value = "newreno,cubic,auto", value_parser = ProfilesParser)]
    #[arg(hide_possible_values = true)]
    profile: Profiles,
    /// Loss rates, by commas, in place of --loss
    #[arg(long, value_delimiter = ',', value_name = "LOSS", value_parser = parse::model::loss)]
    at: Vec<Loss>,
    /// Length of a run
    #[arg(short = 't', long = "time", default_value = "15", value_parser = seconds)]
    time: Duration,
    /// Runs in real time of each
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    runs: u64,
    /// Runs in virtual time of each
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    sim_runs: u64,
    /// How much the means may differ
    #[arg(long, default_value = "5%", value_parser = parse::probability)]
    bound: fulmar_net::Probability,
    /// Folder of the peers' files
    #[arg(long, default_value = "experiments/peers", value_name = "DIR")]
    peers: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    bridge::acquire_rights()?;
    let losses = if args.at.is_empty() { vec![args.common.link.loss.clone()] } else { args.at.clone() };
    println!(
        "{:10} {:>8} {:>20} {:>20} {:>8}",
        "profile", "loss", "virtual, Mbit/s", "real, Mbit/s", "ratio"
    );
    let (mut count, mut apart) = (0, 0);
    for profile in &args.profile.0 {
        for loss in &losses {
            let link = LinkSpec { loss: loss.clone(), ..args.common.link.clone() };
            let (virtual_, real) = (simulated(args, &link, profile)?, measured(args, &link, profile)?);
            let ratio = real.mean / virtual_.mean;
            let distance = (real.mean - virtual_.mean).abs();
            let is_beyond = distance > args.bound.as_f64() * virtual_.mean;
            let is_chance = distance <= real.ci95 + virtual_.ci95;
            let verdict = match (is_beyond, is_chance) {
                (false, _) => "",
                (true, true) => "  not shown: more runs would tell",
                (true, false) => "  DIFFERS",
            };
            count += 1;
            apart += usize::from(is_beyond && !is_chance);
            let percent = link.loss_rate().map_or("-".into(), |p| format!("{:.1} %", p * 100.0));
            println!(
                "{:10} {percent:>8} {:>11.2} +- {:5.2} {:>11.2} +- {:5.2} {ratio:8.3}{verdict}",
                profile.name, virtual_.mean, virtual_.ci95, real.mean, real.ci95
            );
        }
    }
    if apart > 0 {
        return Err(format!("virtual and real time differ in {apart} of {count} cells"));
    }
    Ok(())
}

fn simulated(args: &Args, link: &LinkSpec, profile: &Profile) -> Result<Summary, String> {
    let flows = vec![FlowSpec::new(profile.clone(), Traffic::Bulk)];
    let scenario = Scenario::over(link.clone(), flows, args.time);
    let seeds = args.common.seed..args.common.seed.saturating_add(args.sim_runs);
    summary(seeds.map(|seed| sim::run(&scenario, seed).map(|run| run.0)).collect::<Result<_, _>>()?)
}

fn measured(args: &Args, link: &LinkSpec, profile: &Profile) -> Result<Summary, String> {
    let scenario = PeerScenario {
        peer: ChosenPeer::find(&args.peers, &format!("fulmar:{}", profile.name))?,
        link: link.clone(),
        duration: args.time,
        settings: args.common.settings(),
        lateness_p99_max: args.common.late_max,
    };
    let seeds = args.common.seed..args.common.seed.saturating_add(args.runs);
    summary(seeds.map(|seed| peer::run(&scenario, seed)).collect::<Result<_, _>>()?)
}

/// Of the goodput of the valid runs.
fn summary(outcomes: Vec<Outcome>) -> Result<Summary, String> {
    let valid: Vec<f64> = outcomes.iter().filter(|o| o.valid).map(|o| o.goodput_mbps).collect();
    Summary::of(&valid).filter(|summary| summary.n > 1).ok_or_else(|| {
        let remarks: Vec<&str> = outcomes.iter().flat_map(|o| &o.remarks).map(String::as_str).collect();
        format!("fewer than two valid runs: {}", remarks.join("; "))
    })
}
