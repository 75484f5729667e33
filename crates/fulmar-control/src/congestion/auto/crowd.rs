//! Whether a crowd came.
//!
//! Flows that begin one after another, and take the full queue for the path, overfill the link until all have
//! given way: for seconds each loses a tenth and more beyond the path's own. One who comes overfills it for a
//! few round trips.

use core::time::Duration;

use fulmar_units::Instant;

use super::drains::KIN_MEMORY;

/// Every round of so long a time lost too much.
const TIME: Duration = Duration::from_millis(500);

/// Rounds in a row that lost too much.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Crowd {
    since: Option<Instant>,
    at: Option<Instant>,
}

impl Crowd {
    /// A round has ended. What start-up loses is its own doing, and so not `is_overloaded`.
    pub(super) fn on_round(&mut self, began: Instant, ended: Instant, is_overloaded: bool) {
        self.since = is_overloaded.then(|| self.since.unwrap_or(began));
        if self.since.is_some_and(|since| ended - since >= TIME) {
            self.at = Some(ended);
        }
    }

    /// One came lately: it is remembered for as long as what its drains show.
    pub(super) fn has_come(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now - at < KIN_MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(40);

    /// So many rounds that lost too much, then one that did not, three times: has a crowd come, and is that
    /// so 13 and 15 seconds later?
    fn after(rounds: u32) -> [bool; 3] {
        let mut crowd = Crowd::default();
        let mut now = Instant::ZERO;
        for round in 0..3 * (rounds + 1) {
            crowd.on_round(now, now + ROUND, round % (rounds + 1) < rounds);
            now += ROUND;
        }
        [0, 13, 15].map(|seconds| crowd.has_come(now + Duration::from_secs(seconds)))
    }

    #[test]
    fn rounds_in_a_row_for_half_a_second_are_a_crowd() {
        assert_eq!(after(12), [false; 3], "0.48 s, three times");
        assert_eq!(after(13), [true, true, false], "0.52 s");
    }
}
