//! Loss samples by packet-timed rounds.

use fulmar_control::Feedback;

/// What one round showed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Packets resolved: acknowledged or lost.
    pub(super) packets: f64,
    /// The share of them that was lost.
    pub(super) rate: f64,
}

/// The round in progress. LT-TCP (Hourt 2014, sections 3.1, 3.3): s = unacked / total; a packet that arrives
/// after all takes its loss back.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    round: u64,
    packets: u64,
    lost_packets: i64,
}

impl Rounds {
    /// Counts, and gives the round that ended if it had any packets.
    pub(super) fn count(&mut self, feedback: &Feedback) -> Option<Sample> {
        let ended = (feedback.round != self.round).then(|| self.end()).flatten();
        self.round = feedback.round;
        self.packets += u64::from(feedback.acked_packets) + u64::from(feedback.lost.packets);
        self.lost_packets += i64::from(feedback.lost.packets) - i64::from(feedback.spurious_packets);
        ended
    }

    fn end(&mut self) -> Option<Sample> {
        let (packets, lost) = (self.packets as f64, self.lost_packets.max(0) as f64);
        (self.packets, self.lost_packets) = (0, 0);
        (packets > 0.0).then(|| Sample { packets, rate: (lost / packets).min(1.0) })
    }
}
