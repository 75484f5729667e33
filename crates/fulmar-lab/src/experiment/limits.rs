//! How much an experiment may ask for. A file may be anybody's: it is measured before anything of it is
//! multiplied out, so that two kilobytes can take neither all memory nor all time.

use crate::traffic::Traffic;
use std::time::Duration;

/// Cells of a sweep: the largest of this project has some hundred.
pub(super) const CELLS_MAX: usize = 10_000;
/// Flows of a cell, and of a file; the largest published run has a hundred.
pub(super) const FLOWS_MAX: usize = 1_000;
/// Flows of all cells together: each is a profile that is read.
const FLOWS_OF_CELLS_MAX: usize = 200_000;
/// Bottlenecks of a parking lot.
pub(super) const BOTTLENECKS_MAX: usize = 32;
/// Runs of a cell.
pub(super) const REPETITIONS_MAX: u32 = 10_000;
/// Runs in all: each has a place in memory before the first begins.
const RUNS_MAX: usize = 200_000;
/// Runs in real time side by side: each has a thread and two namespaces.
pub(super) const AT_ONCE_MAX: usize = 256;
/// Claims of a file, and published values: each is looked for in the sweep.
pub(super) const LINES_MAX: usize = 2_000;
/// Length of a run.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// Values over time of a run, of all its flows.
const SAMPLES_MAX: u128 = 1_000_000;
/// Messages and short transfers of a run: each is timed, and kept until the end.
const PIECES_MAX: u128 = 10_000_000;

/// The product of the lengths of a sweep.
pub(super) fn cells_of(lengths: impl Iterator<Item = usize>) -> Result<usize, String> {
    let multiplied = |product: usize, length| product.checked_mul(length).filter(|&all| all <= CELLS_MAX);
    let mut lengths = lengths;
    lengths.try_fold(1, multiplied).ok_or_else(|| format!("the sweep has more than {CELLS_MAX} cells"))
}

/// Whether so many cells of so many flows at most, each run so often, may be.
pub(super) fn check_runs(cells: usize, flows: usize, repetitions: u32) -> Result<(), String> {
    if flows > FLOWS_MAX {
        return Err(format!("a run has at most {FLOWS_MAX} flows, not {flows}"));
    }
    if cells.saturating_mul(flows) > FLOWS_OF_CELLS_MAX {
        return Err(format!(
            "{cells} cells of {flows} flows are more than {FLOWS_OF_CELLS_MAX} flows in all"
        ));
    }
    if cells.saturating_mul(repetitions as usize) > RUNS_MAX {
        return Err(format!("{cells} cells, {repetitions} times each, are more than {RUNS_MAX} runs"));
    }
    Ok(())
}

/// Whether a run is not too long, nor has too many values over time.
pub(super) fn check_time(duration: Duration, series: Option<Duration>, flows: usize) -> Result<(), String> {
    if duration > DURATION_MAX {
        return Err("a run takes a day at most".into());
    }
    let samples = series.map_or(0, |series| duration.as_nanos() / series.as_nanos().max(1) * flows as u128);
    if samples > SAMPLES_MAX {
        return Err(format!(
            "{samples} values over time are more than {SAMPLES_MAX}: a longer series, or fewer flows"
        ));
    }
    Ok(())
}

/// Whether the flows of a run do not send too many pieces.
pub(super) fn check_pieces(traffic: impl Iterator<Item = Traffic>, duration: Duration) -> Result<(), String> {
    let of_flow = |traffic: Traffic| match traffic {
        Traffic::Bulk | Traffic::None | Traffic::Fixed { .. } => 0,
        Traffic::Messages { interval, .. } | Traffic::Web { interval, .. } => {
            duration.as_nanos() / interval.as_nanos().max(1)
        }
        Traffic::OnOff { on, off } => duration.as_nanos() / (on + off).as_nanos().max(1),
    };
    let pieces: u128 = traffic.map(of_flow).sum();
    if pieces > PIECES_MAX {
        return Err(format!("{pieces} messages or transfers are more than {PIECES_MAX}"));
    }
    Ok(())
}
