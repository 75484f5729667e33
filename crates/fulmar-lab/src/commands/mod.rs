//! The command line.

#[cfg(target_os = "linux")]
mod bridge;
mod compare;
mod print;
mod progress;
mod report;
mod run;
mod sim;
mod swarm;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The laboratory of Fulmar: transports over the same lossy links, in virtual time and in real time.
#[derive(Parser, Debug)]
#[command(name = "fulmar-lab", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run flows over a link in virtual time: exact, repeatable, no privileges
    Sim(sim::Args),
    /// Run an experiment: every cell of its sweep, resumable
    Run(run::Args),
    /// Compare two profiles seed by seed, with a paired test
    Compare(compare::Args),
    /// Hunt for seeds that break the protocol's rules, on all cores
    Swarm(swarm::Args),
    /// Make tables, plots and one page of results
    Report(report::Args),
    /// Run the kernel's TCP over the same link in real time
    #[cfg(target_os = "linux")]
    Tcp(bridge::TcpArgs),
    /// Run any two programs over the same link in real time
    #[cfg(target_os = "linux")]
    Bridge(bridge::BridgeArgs),
}

impl Cli {
    /// Does what was asked for. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Sim(args) => sim::run(&args),
            Command::Run(args) => run::run(&args),
            Command::Compare(args) => compare::run(&args),
            Command::Swarm(args) => swarm::run(&args),
            Command::Report(args) => report::run(&args),
            #[cfg(target_os = "linux")]
            Command::Tcp(args) => bridge::run_tcp(&args),
            #[cfg(target_os = "linux")]
            Command::Bridge(args) => bridge::run_bridge(&args),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("fulmar-lab: {message}");
                ExitCode::FAILURE
            }
        }
    }
}
