//! `fulmar-lab compare`.

use std::time::Duration;

use fulmar_proto::Profile;

use super::sim::{profile, seconds};
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::scenario::{FlowSpec, Scenario};
use crate::sim;
use crate::statistics::{Summary, paired_t_test};
use crate::traffic::Traffic;

/// Compares two profiles over the same link in virtual time: both meet the same draws seed by seed, so that the paired test
/// sees small differences.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// One profile
    #[arg(value_parser = profile)]
    a: Profile,
    /// The other
    #[arg(value_parser = profile)]
    b: Profile,
    #[command(flatten)]
    link: LinkSpec,
    /// Traffic of the flow
    #[arg(long, default_value = "bulk")]
    traffic: Traffic,
    /// What is compared, by commas
    #[arg(long, default_value = "goodput_mbps,wire_ratio,queue_delay_p99_ms", value_delimiter = ',', value_parser = measure)]
    measure: Vec<String>,
    /// Seeds 1, 2 .. so many
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..))]
    seeds: u64,
    /// Length of each run
    #[arg(short = 't', long = "time", default_value = "10", value_parser = seconds)]
    time: Duration,
}

/// A measure by its name.
fn measure(name: &str) -> Result<String, String> {
    let is_known = Outcome::MEASURES.contains(&name);
    is_known.then(|| name.to_owned()).ok_or_else(|| format!("there are {}", Outcome::MEASURES.join(", ")))
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let outcomes = |profile: &Profile| {
        let flows = vec![FlowSpec::new(profile.clone(), args.traffic)];
        let scenario = Scenario::over(args.link.clone(), flows, args.time);
        (1..=args.seeds).map(|seed| sim::run(&scenario, seed).map(|run| run.0)).collect::<Result<Vec<_>, _>>()
    };
    let (of_a, of_b) = (outcomes(&args.a)?, outcomes(&args.b)?);
    println!("{:22} {:>12} {:>12} {:>24} {:>9}", "", args.a.name, args.b.name, "difference, 95 %", "p");
    for name in &args.measure {
        let pairs: Vec<(f64, f64)> =
            of_a.iter().zip(&of_b).filter_map(|(a, b)| Some((a.measure(name)?, b.measure(name)?))).collect();
        let mean = |values: Vec<f64>| Summary::of(&values).map_or(f64::NAN, |summary| summary.mean);
        let (a, b) = (mean(pairs.iter().map(|p| p.0).collect()), mean(pairs.iter().map(|p| p.1).collect()));
        match paired_t_test(&pairs) {
            Some(test) => println!(
                "{name:22} {a:12.4} {b:12.4} {:+12.4} +- {:8.4} {:9.2e}  {}",
                test.difference.mean,
                test.difference.ci95,
                test.p_value,
                if test.p_value < 0.05 { "differs" } else { "no difference shown" }
            ),
            None => println!("{name:22} is not measured in such runs"),
        }
    }
    Ok(())
}
