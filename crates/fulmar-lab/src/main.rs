//! The program `fulmar-lab`: everything it does is in the library beside it.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    fulmar_lab::commands::Cli::parse().run()
}
