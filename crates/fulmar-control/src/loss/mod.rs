//! Loss-rate estimators: how often packets are lost, and in how long bursts.

use core::fmt::Debug;

use crate::Feedback;

mod bursts;
mod pooled;
mod view;

pub use bursts::Bursts;
pub use pooled::Pooled;
pub use view::LossView;

/// An estimator of the loss rate. Fed by the same record as everything else.
pub trait LossEstimator: Debug + Send {
    /// The name of the algorithm, for statistics.
    fn name(&self) -> &'static str;

    /// An ACK arrived or losses were detected.
    fn on_feedback(&mut self, feedback: &Feedback);

    /// The current estimate.
    fn view(&self) -> LossView;
}
