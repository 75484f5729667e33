//! `fulmar-lab demo`: Fulmar beside the kernel's TCP, before your eyes.

use fulmar_cli::demo::ShowArgs;

use crate::bridge::acquire_rights;
use crate::demo::beside;

/// See a file cross a lossy path on this machine, beside real kernel TCP (needs root or user namespaces)
///
/// What `fulmar demo` shows, with the kernel's TCP in place of a second profile: all at the same time, each
/// over a path of its own that is equal down to the losses.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    show: ShowArgs,
    /// Congestion controls of the kernel, by commas: cubic, bbr, reno
    #[arg(long, value_name = "CC", value_delimiter = ',', default_value = "cubic")]
    tcp: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    // While there is one thread.
    acquire_rights().map_err(|reason| format!("{reason} `fulmar demo` needs nothing."))?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(beside(&args.show, &args.tcp)).map_err(|failure| failure.to_string())
}
