//! TCP above a coding layer: what the code makes good, TCP does not see.
//!
//! Source: Medina-Ruiz et al. 2012, sections II and IV-B, after Sundararajan et al. 2009. There an unchanged
//! TCP (Reno in the simulations) runs above the coding layer, which acknowledges every degree of freedom, so
//! that a loss shows only when the code could not make it good. Here any controller is wrapped: losses on the
//! wire are hidden, the packets for which repair had to be asked are shown in their place, and marks pass.

use alloc::boxed::Box;

use fulmar_units::{Instant, Rate};

use super::{CongestionController, SendBudget};
use crate::{Feedback, LossEvent, PathView, Sent};

/// A controller that sees the path through a code.
#[derive(Debug)]
pub struct AboveCode(Box<dyn CongestionController>);

impl AboveCode {
    /// `inner` above a code.
    pub fn new(inner: Box<dyn CongestionController>) -> Self {
        Self(inner)
    }
}

/// The record as the layer above a code knows it.
fn above_code(feedback: &Feedback) -> Feedback {
    let packets = feedback.unrepairable_packets;
    let lost = if packets == 0 {
        LossEvent::default()
    } else {
        LossEvent { packets, bursts: 1, newest_sent_at: feedback.unrepairable_dated(), ..feedback.lost }
    };
    Feedback { lost, spurious_packets: 0, ..feedback.clone() }
}

impl CongestionController for AboveCode {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn on_sent(&mut self, sent: &Sent, path: &PathView) {
        self.0.on_sent(sent, path);
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        self.0.on_feedback(&above_code(feedback), path);
    }

    fn on_timeout(&mut self, now: Instant, count: u32, path: &PathView) {
        self.0.on_timeout(now, count, path);
    }

    fn on_path_change(&mut self, now: Instant, path: &PathView) {
        self.0.on_path_change(now, path);
    }

    fn budget(&self) -> SendBudget {
        self.0.budget()
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.0.bandwidth()
    }

    fn recoveries(&self) -> Option<u64> {
        self.0.recoveries()
    }

    fn phase(&self) -> &'static str {
        self.0.phase()
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{MTU, lost, path, window};
    use super::super::{Reno, WindowConfig};
    use super::*;

    #[test]
    fn only_what_the_code_could_not_make_good_is_a_loss() {
        let config = WindowConfig { initial_packets: 40, ..WindowConfig::default() };
        let mut controller = AboveCode::new(Box::new(Reno::new(MTU, config)));
        let mut feedback = lost(200, 150, 3);
        controller.on_feedback(&feedback, &path());
        assert_eq!(window(&controller), 40_000);
        feedback.unrepairable_packets = 1;
        controller.on_feedback(&feedback, &path());
        assert_eq!((window(&controller), controller.name()), (20_000, "reno"));
    }
}
