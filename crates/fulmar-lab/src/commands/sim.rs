//! `fulmar-lab sim`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, TypedValueParser};
use fulmar_net::{LinkRate, QueueConfig, parse};
use fulmar_proto::{Profile, ProfileError};

use super::print;
use crate::link::LinkSpec;
use crate::outcome::Outcome;
use crate::scenario::{Access, DecoderSymbols, FlowSpec, Scenario};
use crate::sim::{self, Dropped, Work};
use crate::traffic::{Datagrams, Traffic};

/// Run flows of any profile over a link in virtual time: exact, repeatable, no privileges
///
/// Real protocol cores with real encryption at both ends; only the network and the clock are a model, so a
/// run is a function of its flags, its seed and the program. With several flows, lists given by commas are
/// dealt out in turns.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  fulmar-lab sim --profile auto --rate 100M --rtt 20ms --loss 5% --burst 5 -t 15
  fulmar-lab sim --profile auto,cubic --flow-rtt 20ms,80ms -t 60 --json
  fulmar-lab sim --traffic messages:1200/5ms,web:200ms/30kB --loss 5%
  fulmar-lab sim --traffic none --datagrams 120/16ms/40ms --rtt 60ms --loss 10% --warm-up 5s -t 60
  fulmar-lab sim --rate 1G --rtt 10ms -t 3 --speed              # how fast the simulator is here")]
pub(super) struct Args {
    /// Profile of each flow, by commas: auto,tcp-fec-interleave:g=2,r=0.7,cubic (see `fulmar profiles`)
    #[arg(long, default_value = "auto", value_parser = ProfilesParser, hide_possible_values = true)]
    profile: Profiles,
    /// Traffic of each flow, by commas: bulk, none, fixed:10MB, messages:1200/5ms, cbr:64k, voip,
    /// onoff:1s/2s, web:100ms/30kB
    #[arg(long, default_value = "bulk", value_delimiter = ',')]
    traffic: Vec<Traffic>,
    /// Datagrams that the two ends of each flow send each other on its connection, beside its traffic: bytes,
    /// interval, deadline beyond the path's delay [40ms], class: once, repaired, in-order [repaired]
    #[arg(long, value_name = "BYTES/INTERVAL[/DEADLINE[/CLASS]]")]
    datagrams: Option<Datagrams>,
    /// Number of flows
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Round-trip time of each flow where it is longer than the link's, by commas
    #[arg(long, value_delimiter = ',', value_parser = parse::duration)]
    flow_rtt: Vec<Duration>,
    /// How urgent each flow is to a priority queue, by commas: more is more
    #[arg(long, value_delimiter = ',')]
    priority: Vec<u8>,
    /// Each flow starts so much later than the one before it
    #[arg(long, default_value = "0", value_parser = parse::duration)]
    stagger: Duration,
    /// Seed of every random draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Length of the run: 15, 1.5s, 2min
    #[arg(short = 't', long = "time", default_value = "15", value_parser = seconds)]
    time: Duration,
    /// What arrives before this does not count
    #[arg(long, default_value = "0", value_parser = parse::duration)]
    warm_up: Duration,
    /// No faults until the handshakes are complete
    #[arg(long)]
    loss_free_handshake: bool,
    /// Record values over time at this interval (in the JSON)
    #[arg(long, value_name = "INTERVAL", value_parser = parse::duration)]
    series: Option<Duration>,
    /// Write each packet that did not arrive to this file, as CSV: when, where and why, of which flow, with
    /// which symbol
    #[arg(long, value_name = "FILE")]
    drops: Option<PathBuf>,
    /// Print the whole outcome as JSON
    #[arg(long)]
    json: bool,
    /// Say how fast the simulation went
    #[arg(long)]
    speed: bool,
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    link: LinkSpec,
}

/// What each flow has of its own at its ends.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Ends")]
struct Ends {
    /// Rate of a link that each flow has at either end, before it meets the others
    #[arg(long, value_name = "RATE", default_value = "unlimited", value_parser = parse::link_rate)]
    access: LinkRate,
    /// Delay of these links, one way
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse::duration)]
    access_delay: Duration,
    /// Queue of these links [default: endless]
    #[arg(long, value_name = "QUEUE", value_parser = parse::model::queue)]
    access_queue: Option<QueueConfig>,
    /// Symbols that a decoder keeps: a number, or 8bdp for what eight bandwidth-delay products hold [default:
    /// as in the program]
    #[arg(long, value_name = "N")]
    decoder_symbols: Option<DecoderSymbols>,
}

impl Ends {
    fn access(&self) -> Access {
        let queue = self.access_queue.clone().unwrap_or(Access::default().queue);
        Access { rate: self.access.clone(), delay: self.access_delay, queue }
    }
}

/// A length of time; a bare number is seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, parse::ParseError> {
    parse::duration(&format!("{text}s")).or_else(|_| parse::duration(text))
}

/// Profiles by commas, of which there are some in profiles: what has no setting's equals sign begins the next
/// one.
#[derive(Clone, Debug)]
pub(super) struct Profiles(pub(super) Vec<Profile>);

impl FromStr for Profiles {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let mut specs: Vec<String> = Vec::new();
        for part in text.split(',') {
            let begins = !part.split(':').next().unwrap_or_default().contains('=');
            match specs.last_mut() {
                Some(last) if !begins => last.extend([",", part]),
                _ => specs.push(part.into()),
            }
        }
        specs.iter().map(|spec| Profile::parse(spec)).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads profiles, and knows the names of all, for the shell's completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfilesParser;

impl TypedValueParser for ProfilesParser {
    type Value = Profiles;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Profiles, clap::Error> {
        TypedValueParser::parse_ref(&str::parse::<Profiles>, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(fulmar_proto::profile_names().into_iter().map(PossibleValue::new)))
    }
}

impl Args {
    /// What the flags say.
    pub(super) fn scenario(&self) -> Scenario {
        let flows = (0..self
            .flows
            .max(self.profile.0.len())
            .max(self.traffic.len())
            .max(self.flow_rtt.len()))
            .map(|index| {
                let (profile, traffic) =
                    (&self.profile.0[index % self.profile.0.len()], self.traffic[index % self.traffic.len()]);
                let mut flow = FlowSpec::new(profile.clone(), traffic);
                flow.start = self.stagger.saturating_mul(index as u32);
                flow.priority = self.priority.get(index % self.priority.len().max(1)).copied().unwrap_or(0);
                flow.datagrams = self.datagrams;
                flow.access = self.ends.access();
                flow.decoder_symbols = self.ends.decoder_symbols;
                flow.rtt = self.flow_rtt.get(index % self.flow_rtt.len().max(1)).copied();
                flow
            });
        let mut scenario = Scenario::over(self.link.clone(), flows.collect(), self.time);
        scenario.warm_up = self.warm_up;
        scenario.loss_free_handshake = self.loss_free_handshake;
        scenario.sample_interval = self.series;
        scenario
    }
}

#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    crate::sys::process_time()
}

/// Where no such clock is known, all time counts.
#[cfg(not(target_os = "linux"))]
fn processor_time() -> Duration {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(std::time::Instant::now).elapsed()
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let started = processor_time();
    let (outcome, work) = match &args.drops {
        Some(path) => run_and_log(args, path)?,
        None => sim::run(&args.scenario(), args.seed)?,
    };
    let took = (processor_time() - started).as_secs_f64();
    print::outcome(&outcome, args.json)?;
    if args.speed {
        eprintln!(
            "{:.1} s in {took:.2} s of processor time: {} packets, {:.0} per second; {} steps",
            outcome.seconds,
            work.packets,
            work.packets as f64 / took,
            work.steps
        );
    }
    Ok(())
}

/// Runs, and writes a line for each packet that did not arrive.
fn run_and_log(args: &Args, path: &Path) -> Result<(Outcome, Work), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // Before the run, which may be long.
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    let (outcome, work, drops) = sim::run_and_log_drops(&args.scenario(), args.seed)?;
    writeln!(file, "{}", Dropped::HEADER).map_err(failed)?;
    for packet in &drops {
        writeln!(file, "{packet}").map_err(failed)?;
    }
    file.flush().map_err(failed)?;
    Ok((outcome, work))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elsewhere a bare number is milliseconds.
    #[test]
    fn a_bare_time_to_run_is_seconds() {
        for (text, millis) in [("1", 1000), ("0.5", 500), ("20ms", 20), ("2min", 120_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn commas_within_profiles_and_between_them() {
        let profiles: Profiles = "auto,tcp-fec-interleave:g=2,r=0.8,cubic".parse().unwrap();
        let names: Vec<_> = profiles.0.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names, ["auto", "tcp-fec-interleave:g=2,r=0.8", "cubic"]);
        assert!("auto,vegas".parse::<Profiles>().is_err());
    }
}
