//! The program `fulmar-lab`: everything it does is in the library beside it.

use std::process::ExitCode;

use clap::Parser;
use fulmar_lab::commands::{Cli, closed_pipe};

fn main() -> ExitCode {
    closed_pipe::end_quietly();
    Cli::parse().run()
}
