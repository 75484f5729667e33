//! The program `fulmar`: everything it does is in the library beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    fulmar_cli::closed_pipe::end_quietly();
    fulmar_cli::args::Cli::parse().run()
}
