//! The command line.

#[cfg(target_os = "linux")]
mod agree;
#[cfg(target_os = "linux")]
mod applications;
mod available;
#[cfg(target_os = "linux")]
mod bridge;
mod compare;
#[cfg(target_os = "linux")]
mod demo;
#[cfg(target_os = "linux")]
mod desk;
mod ending;
mod merge;
#[cfg(target_os = "linux")]
mod peer;
mod population;
mod print;
mod progress;
mod random;
mod report;
mod run;
mod sim;
mod swarm;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use ending::Failure;

/// Results count for the code that they ran only, so the program says which commits it has of it.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    ", engine ",
    env!("FULMAR_COMMIT"),
    ", of senders other than auto ",
    env!("FULMAR_COMMIT_WITHOUT_AUTO"),
    ", of links alone ",
    env!("FULMAR_COMMIT_OF_LINKS")
);

/// The laboratory of Fulmar: transports over the same lossy links, in virtual time and in real time
///
/// `sim` and `compare` need nothing. `tcp` and `bridge` put the kernel's TCP, or any program, on the same
/// links: they need root or user namespaces. `run` takes an experiment from a file, `report` makes pages and
/// pictures of what was found.
#[derive(Parser, Debug)]
#[command(name = "fulmar-lab", version = VERSION, max_term_width = 110, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  fulmar-lab sim --rate 20M --rtt 100ms --loss 5%               # one flow of the default profile
  fulmar-lab sim --profile auto,cubic --flows 4 --stagger 2s    # four flows, who gets what
  fulmar-lab tcp --cc cubic,bbr --loss 1%                       # the kernel's TCP, same link
  fulmar-lab compare auto cubic --loss 1%                       # is the difference real?
  fulmar-lab run experiments/profiles-loss.toml --quick && fulmar-lab report
  fulmar-lab swarm --for 10min                                  # does the protocol hold?

Values: rates 64k 100M 1.5G, times 250us 20ms 1.5s 2min, shares 5% 0.1%, sizes 30kB 64KiB 10MB.
Bare numbers are Mbit/s, milliseconds and percent.
What everything means: docs/lab.md, docs/internals/network-model.md.";

// What each does is said at its arguments.
#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
enum Command {
    Sim(sim::Args),
    #[cfg(target_os = "linux")]
    Tcp(bridge::TcpArgs),
    #[cfg(target_os = "linux")]
    Bridge(bridge::BridgeArgs),
    #[cfg(target_os = "linux")]
    Peer(peer::Args),
    #[cfg(target_os = "linux")]
    Agree(agree::Args),
    #[cfg(target_os = "linux")]
    Applications(applications::Args),
    #[cfg(target_os = "linux")]
    Demo(demo::Args),
    #[cfg(target_os = "linux")]
    Operator(desk::OperatorArgs),
    #[cfg(target_os = "linux")]
    Controller(desk::ControllerArgs),
    #[cfg(target_os = "linux")]
    Agent(desk::AgentArgs),
    Compare(compare::Args),
    Run(run::Args),
    Merge(merge::Args),
    Report(report::Args),
    Random(random::Args),
    Population(population::Args),
    Trace(trace::Args),
    Swarm(swarm::Args),
    /// Print completions for a shell
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder: fulmar-lab.1, fulmar-lab-sim.1, ..
    Manual {
        /// Folder
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        into: std::path::PathBuf,
    },
}

fn completions(shell: clap_complete::Shell) -> Result<(), String> {
    fulmar_cli::manual::complete(shell, Cli::command());
    Ok(())
}

fn manual(folder: &std::path::Path) -> Result<(), String> {
    fulmar_cli::manual::write_into(folder, Cli::command(), &[])
        .map_err(|e| format!("{}: {e}", folder.display()))
}

impl Cli {
    /// Does what was asked for. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Run(args) => return ending::status(run::run(&args)),
            Command::Merge(args) => return ending::status(merge::run(&args)),
            Command::Sim(args) => sim::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Swarm(args) => swarm::run(&args),
            Command::Report(args) => report::run(&args),
            Command::Random(args) => random::run(&args),
            Command::Population(args) => population::run(&args),
            Command::Trace(args) => trace::run(&args),
            Command::Completions { shell } => completions(shell),
            Command::Manual { into } => manual(&into),
            #[cfg(target_os = "linux")]
            Command::Demo(args) => demo::run(&args),
            #[cfg(target_os = "linux")]
            Command::Operator(args) => desk::run_operator(args),
            #[cfg(target_os = "linux")]
            Command::Controller(args) => desk::run_controller(args),
            #[cfg(target_os = "linux")]
            Command::Agent(args) => desk::run_agent(args),
            #[cfg(target_os = "linux")]
            Command::Tcp(args) => bridge::run_tcp(&args),
            #[cfg(target_os = "linux")]
            Command::Bridge(args) => bridge::run_bridge(&args),
            #[cfg(target_os = "linux")]
            Command::Peer(args) => peer::run(&args),
            #[cfg(target_os = "linux")]
            Command::Agree(args) => agree::run(&args),
            #[cfg(target_os = "linux")]
            Command::Applications(args) => applications::run(&args),
        };
        ending::status(result.map_err(Failure::from))
    }
}
