//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Besiege `fulmar serve`
#[derive(Debug, Parser)]
#[command(name = "fulmar-siege", version)]
pub(crate) struct Args {
    /// How long
    #[arg(long, default_value_t = 1.0)]
    pub(crate) minutes: f64,
    /// Honest clients that copy all the time
    #[arg(long, default_value_t = 50)]
    pub(crate) clients: usize,
    /// Datagrams in a second of each of the two floods: noise, and first packets of handshakes
    #[arg(long, default_value_t = 2000)]
    pub(crate) flood: u64,
    /// Nothing but the flood of first packets, and clients that fetch a small file over a sound network: how
    /// long a copy takes
    #[arg(long)]
    pub(crate) only_hellos: bool,
    /// What happens is drawn from it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The program; by default the one beside this
    #[arg(long)]
    pub(crate) program: Option<PathBuf>,
}
