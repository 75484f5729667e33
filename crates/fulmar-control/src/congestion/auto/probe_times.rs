//! Moments that all flows know without having spoken: multiples of a period on the clock that their hosts
//! share.
//!
//! Where flows keep a queue full none of them sees the shortest round trip, and what one leaves when it looks
//! for it alone the others fill. If all drain in the same moment the queue is gone, and all know the path.
//! Hosts' clocks agree within some hundredths of a second (NTP); flows whose clocks are 0.1 s apart still
//! find each other, and a second apart it is as if there were no moments (notebook/auto/crowds.md).
//! Periods are a second times a power of two, so that the moments of a longer period belong to every shorter
//! one.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

/// Whose shortest round trip is old looks for it in a moment of this period.
pub(super) const PERIOD: Duration = Duration::from_secs(4);
/// A drain costs a round trip and a half: who may be blind gives no more than three hundredths of the time to
/// it.
const BLIND_ROUNDS: u32 = 50;
/// The shortest period, and the longest in such steps: 64 s.
const STEP: Duration = Duration::from_micros(15_625);
const STEPS_MAX: u64 = 4096;
/// A queue that comes back so long before or after a moment was drained by those who keep it: a few round
/// trips, and the distance of clocks.
const BEFORE: Duration = Duration::from_millis(300);
const AFTER: Duration = Duration::from_millis(700);

/// The period of a flow that may be blind, on a path that it takes for one of this round trip.
pub(super) fn blind_period(rtt: Duration) -> Duration {
    let steps = whole_nanos(rtt.saturating_mul(BLIND_ROUNDS)).div_ceil(whole_nanos(STEP));
    STEP.saturating_mul(steps.clamp(1, STEPS_MAX).next_power_of_two() as u32)
}

/// A moment of this period has come since `earlier`.
pub(super) fn has_come(earlier: Instant, now: Instant, period: Duration) -> bool {
    let periods = |at: Instant| at.as_nanos() / whole_nanos(period);
    periods(now) > periods(earlier)
}

/// Those who keep a queue may have drained it just now.
pub(super) fn is_near(now: Instant) -> bool {
    let since = Duration::from_nanos(now.as_nanos() % whole_nanos(PERIOD));
    since < AFTER || since > PERIOD - BEFORE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn moments_of_a_longer_period_belong_to_every_shorter_one() {
        let periods = [0, 20, 21, 40, 100, 250, 5_000].map(|rtt| blind_period(Duration::from_millis(rtt)));
        assert_eq!(
            periods.map(|period| period.as_micros()),
            [15_625, 1_000_000, 2_000_000, 2_000_000, 8_000_000, 16_000_000, 64_000_000]
        );
        assert!(periods.windows(2).all(|pair| pair[1].as_nanos() % pair[0].as_nanos() == 0));
        assert_eq!(blind_period(Duration::MAX), blind_period(Duration::from_secs(5)));
    }

    #[test]
    fn a_moment_comes_once_and_its_neighbourhood_lasts() {
        assert!(has_come(at(3_999), at(4_000), PERIOD));
        assert!(!has_come(at(4_000), at(7_999), PERIOD) && has_come(at(4_000), at(12_500), PERIOD));
        assert_eq!(
            [3_699, 3_701, 4_000, 4_699, 4_700].map(|millis| is_near(at(millis))),
            [false, true, true, true, false]
        );
    }
}
