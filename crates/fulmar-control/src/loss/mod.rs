//! Loss-rate estimators: how often packets are lost, and in how long bursts.

use core::fmt::Debug;

use crate::{Feedback, LossEvent};

mod autoregressive;
mod ewma;
mod oracle;
mod pooled;
mod rounds;

pub use autoregressive::{Autoregressive, AutoregressiveConfig};
pub use ewma::{Ewma, STATIC_GAIN};
pub use oracle::Oracle;
pub use pooled::Pooled;

/// What an estimator says of the path.
#[derive(Copy, Clone, Debug, PartialEq, Default)]
pub struct LossView {
    /// Packet loss rate p, 0 to 1: raw loss on the wire, repaired or not.
    pub rate: f64,
    /// Mean length of a loss burst in packets, at least 1 once there was a loss, 0 before.
    pub burst_packets: f64,
    /// Packets the estimate rests on, discounted as the estimator forgets: few packets, little confidence.
    pub weight_packets: f64,
}

/// An estimator of the loss rate. Fed by the same record as everything else.
pub trait LossEstimator: Debug + Send {
    /// The name of the algorithm, for statistics.
    fn name(&self) -> &'static str;

    /// An ACK arrived or losses were detected.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// The current estimate.
    fn view(&self) -> LossView;
}

/// Counts bursts across detection passes: packet-threshold detection finds a burst of five in three pieces, and
/// counting pieces would make every burst look short.
#[derive(Clone, Debug, Default)]
struct BurstCounter {
    newest_packet_number: Option<u64>,
}

impl BurstCounter {
    /// New bursts in `lost`: one less than reported when its first run goes on where the last one ended.
    fn count(&mut self, lost: &LossEvent) -> u32 {
        if lost.packets == 0 {
            return 0;
        }
        let oldest = lost.oldest_packet_number.or_else(|| {
            // A single run names its oldest itself.
            let newest = lost.newest_packet_number.filter(|_| lost.bursts == 1)?;
            newest.checked_sub(u64::from(lost.packets) - 1)
        });
        let is_continued = match (self.newest_packet_number, oldest) {
            (Some(newest), Some(oldest)) => newest.checked_add(1) == Some(oldest),
            _ => false,
        };
        self.newest_packet_number = lost.newest_packet_number;
        lost.bursts.max(1) - u32::from(is_continued)
    }
}
