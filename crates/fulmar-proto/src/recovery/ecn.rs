//! ECN codepoints and the validation of a path's ECN support (RFC 9000 13.4.2).

use crate::wire::frame::EcnCounts;

/// An ECN codepoint other than Not-ECT (RFC 3168).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// ECN-capable transport, codepoint 0: what this implementation sends.
    Ect0,
    /// ECN-capable transport, codepoint 1.
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// Packets sent with ECT(0) on a new path before any of them must have been reported.
const TESTING_PACKETS: u32 = 10;

/// Whether ECN works on the path.
#[derive(Debug)]
pub struct EcnState {
    phase: Phase,
    counts: EcnCounts,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Marks packets and waits for the first reports.
    Testing { sent: u32, lost: u32 },
    /// Reports agree with what was sent.
    Capable,
    /// The path or the peer does not do ECN.
    Failed,
    /// Switched off here.
    Disabled,
}

impl EcnState {
    /// A path of which nothing is known.
    pub fn new(is_enabled: bool) -> Self {
        let phase = if is_enabled { Phase::Testing { sent: 0, lost: 0 } } else { Phase::Disabled };
        Self { phase, counts: EcnCounts::default() }
    }

    /// The codepoint the next packet leaves with.
    pub fn mark(&self) -> Option<Ecn> {
        matches!(self.phase, Phase::Testing { .. } | Phase::Capable).then_some(Ecn::Ect0)
    }

    /// Whether reports of marks can be believed.
    pub fn is_capable(&self) -> bool {
        self.phase == Phase::Capable
    }

    /// A packet left with ECT(0).
    pub fn on_sent(&mut self) {
        if let Phase::Testing { sent, .. } = &mut self.phase {
            *sent += 1;
        }
    }

    /// Packets sent with ECT(0) were lost. If all of the first ones are, the path may be dropping marked
    /// packets.
    pub fn on_lost(&mut self, packets: u32) {
        if let Phase::Testing { sent, lost } = &mut self.phase {
            *lost += packets;
            if *sent >= TESTING_PACKETS && *lost >= *sent {
                self.phase = Phase::Failed;
            }
        }
    }

    /// An ACK that raised the largest acknowledged newly acknowledges `newly_acked_ect0` packets sent with
    /// ECT(0). Returns the packets newly reported as marked CE. RFC 9000 13.4.2.1.
    pub fn on_ack(&mut self, newly_acked_ect0: u64, reported: Option<EcnCounts>) -> u64 {
        if self.mark().is_none() {
            return 0;
        }
        let Some(counts) = reported else {
            if newly_acked_ect0 > 0 {
                self.phase = Phase::Failed;
            }
            return 0;
        };
        let deltas = (
            counts.ect0.checked_sub(self.counts.ect0),
            counts.ect1.checked_sub(self.counts.ect1),
            counts.ce.checked_sub(self.counts.ce),
        );
        let (Some(ect0), Some(0), Some(ce)) = deltas else {
            self.phase = Phase::Failed;
            return 0;
        };
        if ect0 + ce < newly_acked_ect0 {
            self.phase = Phase::Failed;
            return 0;
        }
        self.counts = counts;
        self.phase = Phase::Capable;
        ce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1: 0, ce })
    }

    #[test]
    fn agreeing_reports_make_the_path_capable() {
        let mut ecn = EcnState::new(true);
        (0..4).for_each(|_| ecn.on_sent());
        assert_eq!(ecn.on_ack(2, counts(2, 0)), 0);
        assert!(ecn.is_capable());
        assert_eq!(ecn.on_ack(2, counts(3, 1)), 1);
    }

    #[test]
    fn rfc_9000_13_4_2_1_missing_or_shrinking_counts_fail() {
        let cases = [(2, None), (2, counts(1, 0)), (0, Some(EcnCounts { ect0: 2, ect1: 1, ce: 0 }))];
        for (acked, reported) in cases {
            let mut ecn = EcnState::new(true);
            ecn.on_ack(acked, reported);
            assert_eq!(ecn.mark(), None);
        }
        let mut ecn = EcnState::new(true);
        ecn.on_ack(5, counts(5, 0));
        ecn.on_ack(1, counts(4, 0));
        assert_eq!(ecn.mark(), None);
    }

    #[test]
    fn a_path_that_loses_all_marked_packets_gets_unmarked_ones() {
        let mut ecn = EcnState::new(true);
        for _ in 0..TESTING_PACKETS {
            ecn.on_sent();
            ecn.on_lost(1);
        }
        assert_eq!(ecn.mark(), None);
        assert_eq!(EcnState::new(false).mark(), None);
    }
}
