//! ECN codepoints and the validation of a path's ECN support (RFC 9000 13.4.2).

use std::time::Duration;

use crate::wire::frame::EcnCounts;
use crate::{Instant, PacketNumber};

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
/// After so many probe timeouts without an answer the marks are doubted: some paths drop every packet that
/// has them.
const DOUBTED_AFTER_TIMEOUTS: u32 = 2;
/// From then on a packet with a mark, and nothing else in it, is sent after so many batches that are answered
/// ..
const TRIAL_AFTER_BATCHES: u32 = 32;
/// .. and no sooner after the one before: what drops marks may be gone in a while.
const TRIAL_AFTER: Duration = Duration::from_secs(1);

/// Whether ECN works on the path.
#[derive(Debug)]
pub struct EcnState {
    phase: Phase,
    counts: EcnCounts,
    batch: Batch,
}

/// How the packets of the batch that is being made leave.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Batch {
    /// As the phase says.
    Usual,
    /// All with a mark, or all without.
    Marked(bool),
}

/// When marks are tried again.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Trial {
    batches: u32,
    last_at: Instant,
    is_due: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Marks packets and waits for the first reports.
    Testing { sent: u32, lost: u32 },
    /// Reports agree with what was sent.
    Capable,
    /// Nothing was answered as long as packets were marked. Tried again with single packets; what was sent
    /// before
    /// `from` says nothing.
    Doubted { from: PacketNumber, trial: Trial, sent: u32, lost: u32 },
    /// The path or the peer does not do ECN.
    Failed,
    /// Switched off here.
    Disabled,
}

impl EcnState {
    /// A path of which nothing is known.
    pub fn new(is_enabled: bool) -> Self {
        let phase = if is_enabled { Phase::Testing { sent: 0, lost: 0 } } else { Phase::Disabled };
        Self { phase, counts: EcnCounts::default(), batch: Batch::Usual }
    }

    /// The codepoint the next packet leaves with.
    pub fn mark(&self) -> Option<Ecn> {
        let is_marked = match self.batch {
            Batch::Marked(is_marked) => is_marked,
            Batch::Usual => matches!(self.phase, Phase::Testing { .. } | Phase::Capable),
        };
        is_marked.then_some(Ecn::Ect0)
    }

    /// Another batch begins, whose packets leave with one codepoint. `first`: its first packet is made
    /// already, with a mark or without.
    pub fn begin_batch(&mut self, first: Option<bool>) {
        self.batch = first.map_or(Batch::Usual, Batch::Marked);
    }

    /// A batch left that asks for an answer.
    pub fn on_batch_sent(&mut self, now: Instant) {
        if let Phase::Doubted { trial, .. } = &mut self.phase {
            trial.batches += 1;
            trial.is_due |= trial.batches >= TRIAL_AFTER_BATCHES && now - trial.last_at >= TRIAL_AFTER;
        }
    }

    /// True if a packet with a mark and nothing else is to be tried now: it is a batch of its own.
    pub fn take_trial(&mut self, now: Instant) -> bool {
        let Phase::Doubted { trial, .. } = &mut self.phase else { return false };
        let is_due = trial.is_due;
        if is_due {
            *trial = Trial { batches: 0, last_at: now, is_due: false };
            self.batch = Batch::Marked(true);
        }
        is_due
    }

    /// The rest of this batch leaves without marks.
    pub fn leave_batch_unmarked(&mut self) {
        self.batch = Batch::Marked(false);
    }

    /// Whether reports of marks can be believed.
    pub fn is_capable(&self) -> bool {
        self.phase == Phase::Capable
    }

    /// A packet left with ECT(0).
    pub fn on_sent(&mut self) {
        if let Phase::Testing { sent, .. } | Phase::Doubted { sent, .. } = &mut self.phase {
            *sent += 1;
        }
    }

    /// Nothing was answered for so many probe timeouts; the next packet has this number.
    pub fn on_silence(&mut self, now: Instant, timeouts: u32, next: PacketNumber) {
        if timeouts >= DOUBTED_AFTER_TIMEOUTS && matches!(self.phase, Phase::Testing { .. } | Phase::Capable)
        {
            let trial = Trial { last_at: now, ..Trial::default() };
            self.phase = Phase::Doubted { from: next, trial, sent: 0, lost: 0 };
        }
    }

    /// A packet sent with ECT(0) was lost. If all of the first ones are, the path may be dropping marked
    /// packets.
    pub fn on_lost(&mut self, number: PacketNumber) {
        let from = if let Phase::Doubted { from, .. } = self.phase { from } else { PacketNumber(0) };
        if let Phase::Testing { sent, lost } | Phase::Doubted { sent, lost, .. } = &mut self.phase
            && number >= from
        {
            *lost += 1;
            if *sent >= TESTING_PACKETS && *lost >= *sent {
                self.phase = Phase::Failed;
            }
        }
    }

    /// An ACK that raised the largest acknowledged newly acknowledges `newly_acked_ect0` packets sent with
    /// ECT(0), the newest of which is `newest_ect0`. Returns the packets newly reported as marked CE. RFC
    /// 9000 13.4.2.1.
    pub fn on_ack(
        &mut self,
        newly_acked_ect0: u64,
        newest_ect0: Option<PacketNumber>,
        reported: Option<EcnCounts>,
    ) -> u64 {
        if matches!(self.phase, Phase::Failed | Phase::Disabled) {
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
        let is_old = matches!(self.phase, Phase::Doubted { from, .. } if newest_ect0.is_none_or(|newest| newest < from));
        if !is_old {
            self.phase = Phase::Capable;
        }
        ce
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1: 0, ce })
    }

    fn at(number: u64) -> Option<PacketNumber> {
        Some(PacketNumber(number))
    }

    /// A path that drops marked packets leaves nothing that a report could come of.
    #[test]
    fn silence_takes_the_marks_off_and_single_packets_bring_them_back_or_not() {
        for was_capable in [false, true] {
            let doubted = || {
                let mut ecn = EcnState::new(true);
                ecn.on_sent();
                if was_capable {
                    ecn.on_ack(1, at(0), counts(1, 0));
                }
                ecn.on_silence(Instant::ZERO, DOUBTED_AFTER_TIMEOUTS - 1, PacketNumber(50));
                assert_eq!(ecn.mark(), Some(Ecn::Ect0));
                ecn.on_silence(Instant::ZERO, DOUBTED_AFTER_TIMEOUTS, PacketNumber(50));
                assert_eq!(ecn.mark(), None);
                ecn
            };
            // A hundred batches in each second.
            let trials = |ecn: &mut EcnState, batches: u32| {
                let sent_at = |n: u32| Instant::ZERO + TRIAL_AFTER / 100 * n;
                let is_tried = |n: &u32| {
                    ecn.begin_batch(None);
                    ecn.on_batch_sent(sent_at(*n));
                    let is_tried = ecn.take_trial(sent_at(*n));
                    assert_eq!(ecn.mark().is_some(), is_tried);
                    ecn.begin_batch(None);
                    is_tried
                };
                (1..=batches).filter(is_tried).count()
            };
            // Those from before tell nothing, whatever becomes of them.
            let mut ecn = doubted();
            ecn.on_lost(PacketNumber(49));
            ecn.on_ack(1, at(49), counts(2, 0));
            assert!(!ecn.is_capable() && ecn.mark().is_none());
            assert_eq!(trials(&mut ecn, 1000), 10);
            ecn.on_sent();
            ecn.on_ack(1, at(60), counts(3, 0));
            assert!(ecn.is_capable());
            let mut ecn = doubted();
            for number in 0..u64::from(TESTING_PACKETS) {
                ecn.on_sent();
                ecn.on_lost(PacketNumber(60 + number));
            }
            assert_eq!(trials(&mut ecn, 1000), 0, "never again");
        }
    }

    #[test]
    fn a_batch_goes_on_as_its_first_packet_was_made() {
        let mut ecn = EcnState::new(true);
        ecn.begin_batch(Some(false));
        assert_eq!(ecn.mark(), None);
        ecn.begin_batch(None);
        assert_eq!(ecn.mark(), Some(Ecn::Ect0));
        ecn.leave_batch_unmarked();
        assert_eq!(ecn.mark(), None);
    }

    #[test]
    fn agreeing_reports_make_the_path_capable() {
        let mut ecn = EcnState::new(true);
        (0..4).for_each(|_| ecn.on_sent());
        assert_eq!(ecn.on_ack(2, at(2), counts(2, 0)), 0);
        assert!(ecn.is_capable());
        assert_eq!(ecn.on_ack(2, at(4), counts(3, 1)), 1);
    }

    #[test]
    fn rfc_9000_13_4_2_1_missing_or_shrinking_counts_fail() {
        let cases = [(2, None), (2, counts(1, 0)), (0, Some(EcnCounts { ect0: 2, ect1: 1, ce: 0 }))];
        for (acked, reported) in cases {
            let mut ecn = EcnState::new(true);
            ecn.on_ack(acked, at(1), reported);
            assert_eq!(ecn.mark(), None);
        }
        let mut ecn = EcnState::new(true);
        ecn.on_ack(5, at(5), counts(5, 0));
        ecn.on_ack(1, at(6), counts(4, 0));
        assert_eq!(ecn.mark(), None);
    }

    #[test]
    fn a_path_that_loses_all_marked_packets_gets_unmarked_ones() {
        let mut ecn = EcnState::new(true);
        for _ in 0..TESTING_PACKETS {
            ecn.on_sent();
            ecn.on_lost(PacketNumber(1));
        }
        assert_eq!(ecn.mark(), None);
        assert_eq!(EcnState::new(false).mark(), None);
    }
}
