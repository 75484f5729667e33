//! Loss-rate estimators: how often packets are lost, and in how long bursts.

use core::fmt::Debug;

use crate::Feedback;

mod autoregressive;
mod bursts;
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
    /// Mean length E of a loss burst in packets, at least 1 once there was one, 0 before.
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
