//! Draining together.
//!
//! Flows that keep a queue full take it for the path: none of them sees the shortest round trip, and what one leaves
//! when it looks for it alone (`probing`) the others fill. So whoever sees the round trip fall below that of the last
//! seconds, though it sent no slower itself, takes it that somebody drains, and joins: then more see it fall, until
//! the queue is gone, all know the path, and know it since the same moment, so that they come to look for it together
//! the next time. A flow that loses much, and never saw that its probing moves the path, may be blind in a crowd: it
//! joins at the least sign, and goes on draining while it finds shorter round trips than any that were known.
//!
//! A queue that stood and is gone when we drain, and the next time again, is filled by flows that drain with us: our
//! own kind, and nobody who takes no loss for congestion.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::windowed::WindowedMin;

/// The round trip is compared with the shortest of the rounds of so long.
const RECENT: Duration = Duration::from_secs(2);
/// Somebody drains if it is shorter by more than this part of the shortest, and by more than the hosts' noise.
const DIP: u32 = 64;
const DIP_MIN: Duration = Duration::from_micros(300);
/// .. or than this, and than the distance of a round's mean from its shortest, for whoever may be blind.
const BLIND_DIP: u32 = 256;
const BLIND_DIP_MIN: Duration = Duration::from_micros(100);
/// So much time passes between two drains, or two flows would go on joining each other.
pub(super) const DRAIN_PAUSE: Duration = Duration::from_millis(2500);
/// A queue is gone so many rounds after we began to drain it, or others fill it.
const DRAIN_ROUNDS: u64 = 5;
/// That they drain when we do is believed for so long after the first of two such drains: beside BBR one empties the
/// queue by chance.
const KIN_MEMORY: Duration = Duration::from_secs(10);

/// A drain of which it is not known yet whether it empties the queue.
#[derive(Copy, Clone, Debug)]
struct Drain {
    began_at: Instant,
    round: u64,
    /// The shortest round trip of the round before.
    rtt: Duration,
}

/// What the drains of a queue show.
#[derive(Clone, Debug)]
pub(super) struct Drains {
    /// Of the last rounds.
    rtt_min: WindowedMin,
    open: Option<Drain>,
    /// When two last emptied a queue, the older first.
    emptied_at: [Option<Instant>; 2],
}

impl Drains {
    pub(super) fn new() -> Self {
        Self { rtt_min: WindowedMin::new(whole_nanos(RECENT)), open: None, emptied_at: [None; 2] }
    }

    /// A drain begins after a round whose shortest round trip was `rtt`.
    pub(super) fn open(&mut self, now: Instant, round: u64, rtt: Duration) {
        self.open = Some(Drain { began_at: now, round, rtt });
    }

    /// When the drain began that is still to be judged.
    pub(super) fn opened_at(&self) -> Option<Instant> {
        self.open.map(|drain| drain.began_at)
    }

    /// A round ends, by which the queue `is_empty` or not yet; a round trip longer than `free` held one. True if the
    /// drain emptied it.
    pub(super) fn on_round(&mut self, now: Instant, round: u64, is_empty: bool, free: Duration) -> bool {
        let Some(drain) = self.open else { return false };
        if !is_empty && round < drain.round + DRAIN_ROUNDS {
            return false;
        }
        self.open = None;
        let has_emptied = is_empty && drain.rtt > free;
        if has_emptied {
            self.emptied_at = [self.emptied_at[1], Some(now)];
        }
        has_emptied
    }

    /// Whoever fills the queue drains it when we do.
    pub(super) fn are_common(&self, now: Instant) -> bool {
        self.emptied_at[0].is_some_and(|at| now - at < KIN_MEMORY)
    }

    /// A round of a shortest round trip of `rtt` ends: is that below the last seconds', by more than `margin`?
    pub(super) fn is_dip(&mut self, now: Instant, rtt: Duration, margin: Duration) -> bool {
        let shortest = self.rtt_min.value().map_or(rtt, Duration::from_nanos);
        self.rtt_min.update(now.as_nanos(), whole_nanos(rtt));
        rtt + margin < shortest
    }
}

/// By how much a round trip must be shorter than `rtt`, where jitter moves it by `spread`, for somebody to have drained.
pub(super) fn dip_margin(rtt: Duration, spread: Duration) -> Duration {
    (rtt / DIP).max(DIP_MIN).max(spread)
}

/// The same for a flow that may be blind.
pub(super) fn blind_dip_margin(rtt: Duration, spread: Duration) -> Duration {
    (rtt / BLIND_DIP).max(BLIND_DIP_MIN).max(spread / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Duration = Duration::from_millis(22);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// A drain in which a queue of 18 ms was found to be gone after so many rounds.
    fn drain(drains: &mut Drains, millis: u64, rounds: u64) -> bool {
        drains.open(at(millis), 100, Duration::from_millis(38));
        (1..=rounds).any(|round| drains.on_round(at(millis + 40 * round), 100 + round, round == rounds, FREE))
    }

    #[test]
    fn two_drains_that_empty_the_queue_tell_our_own_kind() {
        let mut drains = Drains::new();
        assert!(drain(&mut drains, 5_000, 3));
        assert!(!drains.are_common(at(5_200)));
        assert!(drain(&mut drains, 10_000, 2));
        assert!(drains.are_common(at(10_200)) && !drains.are_common(at(15_200)));
    }

    #[test]
    fn a_queue_that_stays_or_never_stood_tells_nothing() {
        let mut drains = Drains::new();
        drains.open(at(0), 100, Duration::from_millis(38));
        for round in 101..=105 {
            assert!(!drains.on_round(at(round), round, false, FREE));
        }
        assert_eq!(drains.opened_at(), None);
        drains.open(at(200), 200, Duration::from_millis(21));
        assert!(!drains.on_round(at(240), 201, true, FREE) && drains.opened_at().is_none());
    }

    #[test]
    fn whoever_may_be_blind_joins_at_less() {
        let margins = |spread: u64| {
            let spread = Duration::from_micros(spread);
            [dip_margin(FREE, spread), blind_dip_margin(FREE, spread)].map(|margin| margin.as_micros())
        };
        assert_eq!(margins(0), [343, 100]);
        assert_eq!(margins(1_200), [1_200, 400]);
        assert_eq!(blind_dip_margin(2 * FREE, Duration::ZERO).as_micros(), 171);
    }

    #[test]
    fn what_falls_below_the_last_two_seconds_is_a_dip() {
        let mut drains = Drains::new();
        let mut is_dip = |millis, micros| {
            let rtt = Duration::from_micros(micros);
            drains.is_dip(at(millis), rtt, dip_margin(rtt, Duration::ZERO))
        };
        assert!(!is_dip(0, 38_000) && !is_dip(40, 39_000) && !is_dip(80, 37_500));
        assert!(is_dip(120, 36_900));
        // What is remembered falls with it, and is forgotten.
        assert!(!is_dip(160, 36_900) && !is_dip(2_400, 39_000) && is_dip(2_440, 38_000));
    }
}
