//! When the probing cycle goes on.

use core::time::Duration;

use fulmar_units::Instant;

/// The shortest RTT is looked for in the next of the moments that all know (`probe_times`) when not seen for
/// this long ..
pub(super) const RTT_PROBE_AGE: Duration = Duration::from_millis(3400);
/// .. or for this long by those who know that the others do.
pub(super) const KIN_RTT_PROBE_AGE: Duration = Duration::from_secs(1);
/// Beside BBR the queue does not go if we let it, and goes every ten seconds without us.
pub(super) const STUBBORN_RTT_PROBE_AGE: Duration = Duration::from_secs(12);

/// When what is due, in rounds and times.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// The next probe is due in this round ..
    pub(super) probe_round: u64,
    /// .. or at this time.
    pub(super) probe_at: Instant,
    /// The last round that was sent slower as a whole.
    pub(super) slow_round: u64,
    /// When the shortest RTT was last looked for.
    pub(super) rtt_probed_at: Option<Instant>,
    /// Rounds in a row, sent no faster than the rate, in which nobody filled the path; since the last probe.
    pub(super) free_rounds: u64,
    /// A queue stood in a round of cruising since the last probe.
    pub(super) has_waited: bool,
    /// The last probe found more where nothing waited.
    pub(super) has_found_more: bool,
    /// The last probe lost more than the random loss explains.
    pub(super) has_probe_lost: bool,
}

impl Schedule {
    /// A probe begins in this round.
    pub(super) fn on_probe(&mut self, round: u64) {
        self.probe_round = round;
        self.free_rounds = 0;
        self.has_waited = false;
        self.has_found_more = false;
        self.has_probe_lost = false;
    }

    /// The shortest RTT was looked for less than so long ago.
    pub(super) fn was_rtt_probed(&self, now: Instant, within: Duration) -> bool {
        self.rtt_probed_at.is_some_and(|at| now - at < within)
    }

    pub(super) fn new() -> Self {
        Self {
            probe_round: 0,
            probe_at: Instant::ZERO,
            slow_round: 0,
            rtt_probed_at: None,
            free_rounds: 0,
            has_waited: false,
            has_found_more: false,
            has_probe_lost: false,
        }
    }
}
