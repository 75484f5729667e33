//! Draining together.
//!
//! Flows that keep a queue full take it for the path: none of them sees the shortest round trip, and what one
//! leaves when it looks for it alone (`probing`) the others fill. So they look for it in moments that all
//! know (`probe_times`). A flow that loses much, and never saw that its probing moves the path, may be blind
//! in a crowd: it drains in such moments, and also when it sees the round trip fall below that of the last
//! seconds, though it sent no slower itself, for then somebody drains; and it goes on draining while it finds
//! shorter round trips than any that were known.
//!
//! A queue that stood and is gone when we drain, three times in a row, is filled by flows that drain with us:
//! our own kind, and nobody who takes no loss for congestion. A queue that nobody saw shows it the first
//! time.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::windowed::{WindowedMax, WindowedMin};

/// The round trip is compared with the shortest of the rounds of so long.
const RECENT: Duration = Duration::from_secs(2);
/// It is shorter if it is by more than this part of the shortest, and by more than the hosts' noise.
const DIP: u32 = 64;
const DIP_MIN: Duration = Duration::from_micros(300);
/// For whoever may be blind this is enough, and more than the distance of a round's mean from its shortest.
const BLIND_DIP: u32 = 256;
const BLIND_DIP_MIN: Duration = Duration::from_micros(100);
/// What a drain finds is compared with the longest of the rounds of so long: others may have begun a little
/// sooner.
const STOOD: Duration = Duration::from_secs(1);
/// So much time passes between two drains, or two flows would go on joining each other.
pub(super) const DRAIN_PAUSE: Duration = Duration::from_millis(2500);
/// A queue is gone so many rounds after we began to drain it, or others fill it.
const DRAIN_ROUNDS: u64 = 5;
/// That they drain when we do is believed for so long after the first of three such drains: beside BBR one
/// empties the queue by chance.
pub(super) const KIN_MEMORY: Duration = Duration::from_secs(14);

/// A drain of which it is not known yet whether it empties the queue.
#[derive(Copy, Clone, Debug)]
struct Drain {
    began_at: Instant,
    round: u64,
    /// Who drained may have been blind.
    is_blind: bool,
    /// The longest of the last rounds' shortest round trips.
    rtt: Duration,
}

/// What the drains of a queue show.
#[derive(Clone, Debug)]
pub(super) struct Drains {
    /// The shortest round trip of the last rounds, and the longest of their shortest.
    rtt_min: WindowedMin,
    stood: WindowedMax,
    open: Option<Drain>,
    /// When three last emptied a queue, the oldest first.
    emptied_at: [Option<Instant>; 3],
}

impl Drains {
    pub(super) fn new() -> Self {
        Self {
            rtt_min: WindowedMin::new(whole_nanos(RECENT)),
            stood: WindowedMax::new(whole_nanos(STOOD)),
            open: None,
            emptied_at: [None; 3],
        }
    }

    /// A drain begins; whoever drains may be blind or not.
    pub(super) fn open(&mut self, now: Instant, round: u64, is_blind: bool) {
        let rtt = Duration::from_nanos(self.stood.value().unwrap_or(0));
        self.open = Some(Drain { began_at: now, round, is_blind, rtt });
    }

    /// When the drain began that is still to be judged.
    pub(super) fn opened_at(&self) -> Option<Instant> {
        self.open.map(|drain| drain.began_at)
    }

    /// A round ends, by which the queue `is_empty` or not yet; a round trip longer than `free` held one.
    pub(super) fn on_round(&mut self, now: Instant, round: u64, is_empty: bool, free: Duration) {
        let Some(drain) = self.open else { return };
        let has_emptied = is_empty && drain.rtt > free;
        if has_emptied {
            let [_, second, third] = self.emptied_at;
            self.emptied_at = if drain.is_blind { [Some(now); 3] } else { [second, third, Some(now)] };
        }
        // A queue that goes shows a shorter round trip in each round, until it is gone.
        if has_emptied || round >= drain.round + DRAIN_ROUNDS {
            self.open = None;
        }
    }

    /// Whoever fills the queue drains it when we do.
    pub(super) fn are_common(&self, now: Instant) -> bool {
        self.emptied_at[0].is_some_and(|at| now - at < KIN_MEMORY)
    }

    /// A round of a shortest round trip of `rtt` ends: is that below the last seconds', by more than
    /// `margin`?
    pub(super) fn is_dip(&mut self, now: Instant, rtt: Duration, margin: Duration) -> bool {
        let shortest = self.rtt_min.value().map_or(rtt, Duration::from_nanos);
        self.rtt_min.update(now.as_nanos(), whole_nanos(rtt));
        self.stood.update(now.as_nanos(), whole_nanos(rtt));
        rtt + margin < shortest
    }
}

/// By how much a round trip must be shorter than `rtt`, where jitter moves it by `spread`, to be another.
pub(super) fn dip_margin(rtt: Duration, spread: Duration) -> Duration {
    (rtt / DIP).max(DIP_MIN).max(spread)
}

/// The same for a flow that may be blind: somebody drained.
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

    /// A drain begins after rounds of these shortest round trips, in milliseconds.
    fn open(drains: &mut Drains, millis: u64, rtts: &[u64]) {
        for &rtt in rtts {
            drains.is_dip(at(millis), Duration::from_millis(rtt), Duration::ZERO);
        }
        drains.open(at(millis), 100, false);
    }

    /// A drain in which a queue of 18 ms, which others had begun to drain, was found to be gone after so many
    /// rounds.
    fn drain(drains: &mut Drains, millis: u64, rounds: u64) {
        open(drains, millis, &[38, 21]);
        for round in 1..=rounds {
            assert_eq!(drains.opened_at(), Some(at(millis)));
            drains.on_round(at(millis + 40 * round), 100 + round, round == rounds, FREE);
        }
        assert_eq!(drains.opened_at(), None);
    }

    #[test]
    fn three_drains_that_empty_the_queue_tell_our_own_kind() {
        let mut drains = Drains::new();
        drain(&mut drains, 4_000, 3);
        drain(&mut drains, 8_000, 1);
        assert!(!drains.are_common(at(8_200)));
        drain(&mut drains, 12_000, 2);
        assert!(drains.are_common(at(12_200)) && !drains.are_common(at(18_200)));
        drains.is_dip(at(20_000), Duration::from_millis(38), Duration::ZERO);
        drains.open(at(20_000), 200, true);
        drains.on_round(at(20_040), 201, true, FREE);
        assert!(drains.are_common(at(20_200)), "of a hidden queue one");
    }

    #[test]
    fn a_queue_that_stays_or_never_stood_tells_nothing() {
        for (rtt, is_empty) in [(38, false), (21, true)] {
            let mut drains = Drains::new();
            for millis in [0, 4_000, 8_000] {
                open(&mut drains, millis, &[rtt]);
                (101..=105).for_each(|round| drains.on_round(at(millis + round), round, is_empty, FREE));
                assert!(drains.opened_at().is_none() && !drains.are_common(at(millis + 200)));
            }
        }
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
