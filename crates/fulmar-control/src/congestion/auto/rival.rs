//! What we send by in competitive mode: one of those who fill queues, as the others are.

use fulmar_units::Rate;

use crate::congestion::{Bbr, Cubic, SendBudget};
use crate::{CongestionController, Feedback, PathView};

/// What we send by.
#[derive(Clone, Debug)]
pub(super) enum Rival {
    /// Beside those that obey loss.
    Cubic(Cubic),
    /// Beside those that do not.
    Bbr(Bbr),
}

impl Rival {
    pub(super) fn obeys(&self) -> bool {
        matches!(self, Self::Cubic(_))
    }

    /// It has taken its share of the link.
    pub(super) fn has_come(&self) -> bool {
        match self {
            Self::Cubic(_) => true,
            Self::Bbr(bbr) => bbr.is_full(),
        }
    }

    pub(super) fn budget(&self) -> SendBudget {
        match self {
            Self::Cubic(cubic) => cubic.budget(),
            Self::Bbr(bbr) => bbr.budget(),
        }
    }

    /// Its own pace, where it has one.
    pub(super) fn pace(&self) -> Option<Rate> {
        match self {
            Self::Cubic(_) => None,
            Self::Bbr(bbr) => bbr.budget().pacing,
        }
    }

    pub(super) fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        match self {
            Self::Cubic(cubic) => cubic.on_feedback(feedback, path),
            Self::Bbr(bbr) => bbr.on_feedback(feedback, path),
        }
    }
}
