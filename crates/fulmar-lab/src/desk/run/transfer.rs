//! A transfer under way: where it is, how it may halt, and what is known of it.

use crate::desk::board::Board;
use crate::desk::types::{Ending, Spec, Transfer};

/// Why a run ended before all was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Stopped,
    Failed(String),
}

impl From<String> for Halt {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

/// Until somebody wants the run stopped.
pub(super) async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await.map(drop);
}

/// Tells the board where a transfer is (LT-TCP, 2.1).
pub(super) fn step(board: &Board, id: &str, steps: u8) {
    board.update(id, |record| record.summary.steps = steps);
    board.tell_run(id);
}

/// A transfer of which nothing is known yet.
pub(super) fn transfer(spec: &Spec, flow: usize, transfer: u32) -> Transfer {
    Transfer {
        flow,
        transfer,
        seed: spec.seed + u64::from(transfer),
        status: Ending::Failed,
        error: None,
        received_bytes: 0,
        time_s: 0.0,
        goodput_mbps: 0.0,
        wire_ratio: None,
        lost_packets: 0,
        offered_packets: 0,
        repair_packets: 0,
    }
}

/// Packets handed to a link that it did not carry, whatever took them.
pub(super) fn gone(link: &crate::outcome::Link) -> u64 {
    link.lost + link.blacked_out + link.dropped + link.policed
}

/// Mbit/s.
pub(super) fn mbps(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}
