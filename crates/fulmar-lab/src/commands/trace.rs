//! `fulmar-lab trace`.

use crate::link::traces;

/// Write a trace of a changing path in mahimahi's format, for other emulators
///
/// Here the traces are known by name: --rate trace:lte-walk --loss trace:lte-walk. Files are taken as well,
/// by --rate, --delay and --loss trace:FILE:
///
/// - mahimahi's format: each line is the millisecond at which 1500 bytes may pass; of losses the millisecond
///   in which everything is lost, and the last the length of the trace. Recorded rates are at
///   github.com/ravinet/mahimahi (traces/: LTE and older networks) and github.com/SpaceNetLab/LeoCC
///   (Starlink, *.bw).
///
/// - LeoCC's delays (*.delay): one way in ms, a line for each 10 ms.
///
/// - a time and a rate a line, as in 12.5s 800k.
///
/// - CSV with a head: time_s and any of rate_mbps, delay_ms (one way), loss_percent. Other columns are left
///   out. One file serves all three flags.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Example:\n  fulmar-lab trace starlink > starlink.down && mm-link starlink.down starlink.down"
)]
pub(super) struct Args {
    /// Which; without a name, all there are are listed
    name: Option<String>,
    /// Its losses instead of its rate
    #[arg(long)]
    loss: bool,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let Some(name) = &args.name else {
        traces::all().iter().for_each(|trace| println!("{:12} {}", trace.name, trace.about));
        return Ok(());
    };
    let trace =
        traces::find(name).ok_or_else(|| format!("no trace '{name}': there are {}", traces::names()))?;
    print!("{}", if args.loss { trace.loss_lines() } else { trace.rate_lines() });
    Ok(())
}
