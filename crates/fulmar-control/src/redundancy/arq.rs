//! No redundancy beyond what was asked for: automatic repeat request.
//!
//! With the code `none` this is retransmission, with any other it repairs on demand. Repair goes before new
//! data, so that a hole is open for as short a time as the window allows.

use super::{Choice, Opportunity, RedundancyPolicy};
use crate::{Feedback, PathView};

/// Repairs what is known missing, and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Arq;

impl Arq {
    /// The policy.
    pub fn new() -> Self {
        Self
    }
}

impl RedundancyPolicy for Arq {
    fn name(&self) -> &'static str {
        "arq"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&self, opportunity: &Opportunity, _path: &PathView) -> Choice {
        asked_or_source(opportunity)
    }
}

/// The order every policy keeps where it has nothing to add.
pub(super) fn asked_or_source(opportunity: &Opportunity) -> Choice {
    if opportunity.missing > 0 {
        Choice::Recover
    } else if opportunity.has_new_data {
        Choice::Source
    } else {
        Choice::Wait(None)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    #[test]
    fn repair_before_data_before_waiting() {
        let path = PathView::unknown(1200);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Wait(None));
        opportunity.has_new_data = true;
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Source);
        (opportunity.missing, opportunity.missing_symbols) = (1, 3);
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Recover);
        // What is missing is already on its way.
        opportunity.missing = 0;
        assert_eq!(Arq::new().choose(&opportunity, &path), Choice::Source);
    }
}
