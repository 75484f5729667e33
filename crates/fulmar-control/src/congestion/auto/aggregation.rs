//! Whether ACKs come steadily or aggregated, as over Wi-Fi.

use core::time::Duration;

use fulmar_units::Instant;

/// Gaps between ACKs.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    last_ack_at: Option<Instant>,
    /// Longest time between two ACKs of the last rounds, fading by half per round.
    longest_gap: Duration,
}

impl Aggregation {
    /// Packets were acknowledged. The gap before them counts if `is_telling`.
    pub(super) fn on_ack(&mut self, now: Instant, is_telling: bool) {
        if let Some(last) = self.last_ack_at.replace(now)
            && is_telling
        {
            self.longest_gap = self.longest_gap.max(now - last);
        }
    }

    /// Nothing was under way: the time since the last ACK was our silence.
    pub(super) fn on_silence(&mut self) {
        self.last_ack_at = None;
    }

    pub(super) fn end_round(&mut self) {
        self.longest_gap /= 2;
    }

    /// The time between aggregated ACKs; zero if ACKs come steadily.
    pub(super) fn gap(&self, rtt_min: Duration) -> Duration {
        if self.longest_gap > rtt_min * 3 / 8 { self.longest_gap.min(rtt_min * 4) } else { Duration::ZERO }
    }
}
