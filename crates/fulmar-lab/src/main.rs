//! The program `fulmar-lab`: everything it does is in the library beside it.

use std::process::ExitCode;

use clap::Parser;
use fulmar_cli::closed_pipe;
use fulmar_lab::commands::Cli;

fn main() -> ExitCode {
    closed_pipe::end_quietly();
    Cli::parse().run()
}
