//! TCP above a coding layer: what the code makes good, TCP does not see.
//!
//! Source: Medina-Ruiz et al. 2012, sections II and IV-B, after Sundararajan et al. 2009. There an unchanged
//! TCP (Reno in the simulations) runs above the coding layer, which acknowledges every degree of freedom, so
//! that a loss shows only when the code could not make it good. Here any controller is wrapped: losses on the
//! wire are hidden, the packets for which repair had to be asked are shown in their place, and marks pass.

use alloc::boxed::Box;

use fulmar_units::{Instant, Rate};

use super::{Company, CongestionController, SendBudget};
use crate::{Feedback, LossEvent, PathView};

/// RFC 5681 3.2: so many duplicate ACKs are a loss.
pub const DUPLICATE_ACKS_OF_LOSS: u32 = 3;

/// A controller that sees the path through a code.
#[derive(Debug)]
pub struct AboveCode {
    inner: Box<dyn CongestionController>,
    /// Duplicate ACKs since one advanced, where they are TCP's only sign of a loss.
    duplicate_acks: Option<u32>,
}

impl AboveCode {
    /// `inner` above a code.
    pub fn new(inner: Box<dyn CongestionController>) -> Self {
        Self { inner, duplicate_acks: None }
    }

    /// `inner` above a code, where the third duplicate ACK is the sign of a loss and nothing is asked for
    /// before it.
    pub fn by_duplicate_acks(inner: Box<dyn CongestionController>) -> Self {
        Self { inner, duplicate_acks: Some(0) }
    }

    /// The record as the layer above a code knows it.
    fn above_code(&mut self, feedback: &Feedback) -> Feedback {
        let Some(count) = &mut self.duplicate_acks else { return told_by_verdicts(feedback) };
        if feedback.advances_seen() {
            *count = 0;
        }
        let before = *count;
        *count = before.saturating_add(feedback.coding.duplicate_acks);
        let is_third = before < DUPLICATE_ACKS_OF_LOSS && *count >= DUPLICATE_ACKS_OF_LOSS;
        let newest_sent_at = feedback.newest_acked_sent_at;
        let lost = match newest_sent_at {
            Some(_) if is_third => LossEvent { bytes: 1, packets: 1, bursts: 1, newest_sent_at },
            _ => LossEvent::default(),
        };
        Feedback { lost, spurious_packets: 0, ..feedback.clone() }
    }
}

/// The record where losses show by what the code could not make good.
fn told_by_verdicts(feedback: &Feedback) -> Feedback {
    let packets = feedback.coding.unrepairable_packets;
    let lost = if packets == 0 {
        LossEvent::default()
    } else {
        LossEvent { packets, bursts: 1, newest_sent_at: feedback.unrepairable_dated(), ..feedback.lost }
    };
    Feedback { lost, spurious_packets: 0, ..feedback.clone() }
}

impl CongestionController for AboveCode {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_flight_begun(&mut self) {
        self.inner.on_flight_begun();
    }

    fn on_handshake_rtt(&mut self, path: &PathView) {
        self.inner.on_handshake_rtt(path);
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        let seen = self.above_code(feedback);
        self.inner.on_feedback(&seen, path);
    }

    fn on_timeout(&mut self, now: Instant, count: u32, path: &PathView) {
        self.inner.on_timeout(now, count, path);
    }

    fn on_path_change(&mut self, now: Instant, path: &PathView) {
        self.inner.on_path_change(now, path);
    }

    fn budget(&self) -> SendBudget {
        self.inner.budget()
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.inner.bandwidth()
    }

    fn recoveries(&self) -> Option<u64> {
        self.inner.recoveries()
    }

    fn phase(&self) -> &'static str {
        self.inner.phase()
    }

    fn company(&self) -> Option<Company> {
        self.inner.company()
    }
}

#[cfg(test)]
mod tests {
    use super::super::told::{MTU, acked, lost, path, window};
    use super::super::{Reno, WindowConfig};
    use super::*;

    /// RFC 5681 3.2. What the code could not make good is none, as long as packets advance.
    #[test]
    fn where_tcp_asks_the_third_duplicate_ack_is_a_loss() {
        let config = WindowConfig { initial_packets: 40, ..WindowConfig::default() };
        let mut controller = AboveCode::by_duplicate_acks(Box::new(Reno::new(MTU, config)));
        let mut feedback = acked(200, 150, 1000);
        (feedback.is_window_limited, feedback.coding.unrepairable_packets) = (false, 1);
        (feedback.coding.dof_redundant, feedback.coding.duplicate_acks) = (1, 1);
        for expected in [40_000, 40_000, 20_000, 20_000] {
            controller.on_feedback(&feedback, &path());
            assert_eq!(window(&controller), expected);
        }
    }

    #[test]
    fn only_what_the_code_could_not_make_good_is_a_loss() {
        let config = WindowConfig { initial_packets: 40, ..WindowConfig::default() };
        let mut controller = AboveCode::new(Box::new(Reno::new(MTU, config)));
        let mut feedback = lost(200, 150, 3);
        controller.on_feedback(&feedback, &path());
        assert_eq!(window(&controller), 40_000);
        feedback.coding.unrepairable_packets = 1;
        controller.on_feedback(&feedback, &path());
        assert_eq!((window(&controller), controller.name()), (20_000, "reno"));
    }
}
