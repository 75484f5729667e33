//! That the others take no loss for congestion, as BBR, and for how long that is believed.

use core::time::Duration;

use fulmar_units::Instant;

/// A trough comes again every ten seconds: it is believed for so long, and twice as long if it is seen again
/// before three times that have passed, so that one may be missed if there were two. It may be wrong ..
const TIME_MIN: Duration = Duration::from_millis(12_500);
/// .. and so for no longer than this.
const TIME_MAX: Duration = Duration::from_secs(32);

/// They were seen to be of that kind.
#[derive(Copy, Clone, Debug)]
pub(super) struct Insistent {
    at: Instant,
    believed_for: Duration,
    /// We have taken our share of the link, as one of them that comes would.
    pub(super) has_come: bool,
}

impl Insistent {
    /// They left a trough, or pulses.
    pub(super) fn seen(now: Instant, before: Option<Self>) -> Self {
        let again = before.filter(|before| now - before.at < 3 * before.believed_for);
        let believed_for = again.map_or(TIME_MIN, |again| (2 * again.believed_for).min(TIME_MAX));
        Self { at: now, believed_for, has_come: again.is_some_and(|again| again.has_come) }
    }

    pub(super) fn is_believed(&self, now: Instant) -> bool {
        now - self.at < self.believed_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_again_is_believed_for_longer() {
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        let is_believed = |insistent: &Insistent, after: u64| {
            insistent.is_believed(insistent.at + Duration::from_secs(after))
        };
        let first = Insistent { has_come: true, ..Insistent::seen(at(0), None) };
        let again = Insistent::seen(at(10), Some(first));
        let often = Insistent::seen(at(30), Some(again));
        assert!(is_believed(&first, 12) && !is_believed(&first, 13));
        assert!(is_believed(&again, 24) && !is_believed(&again, 25) && again.has_come);
        assert!(is_believed(&often, 31) && !is_believed(&often, 32), "no longer than half a minute");
        let anew = Insistent::seen(at(40), Some(first));
        assert!(!is_believed(&anew, 13) && !anew.has_come, "forgotten");
    }
}
