//! Jitter that keeps the order, told from a queue.
//!
//! A packet that was held up holds up those behind it. Where packets are many, nearly every one waits for the
//! one that was held longest: round trips then are longer than the shortest that a few packets ever met,
//! whatever the sender does, and look like a queue that never drains. But a queue grows and drains smoothly,
//! and what jitter does shows in each round as round trips that go up and down many times. In rounds of
//! cruising on a link with order-keeping jitter their range is 0.14 to 0.5 of the shortest and the way they
//! go 2 to 5 times that range; with 5 to 50 flows in one queue the range is 0.004 to 0.13.
//!
//! So after a few such rounds the mean round trip of the round that met least is that of the empty path.

use core::time::Duration;

use fulmar_units::whole_nanos;

use super::evidence::FLAT_MIN;
use super::moves::Moves;
use super::still::Still;
use super::streak::Streak;
use super::tally::{TURNS_MIN, Tally};
use crate::windowed::WindowedMin;

/// Round trips of a rough round range over this share of the shortest, and over more than packets that left
/// close together differ by ([`FLAT_MIN`]) ..
const RANGE_MIN: f64 = 0.1;
/// .. and over this share of its own shortest: in a queue of several bandwidth-delay products a round is
/// long, and its round trips go up and down with the bursts of those who fill it ..
const OWN_RANGE_MIN: f64 = 0.08;
/// .. none is this near to the shortest: there ACKs came aggregated, or nothing is hidden; and they go so
/// many times that range ([`TURNS_MIN`]).
const SHORTEST_MIN: f64 = 1.03;
/// So rough a round does not take back what is known.
const TURNS_KEPT: f64 = 1.5;
/// Rounds of which the one that met least counts.
const MEAN_ROUNDS: u64 = 24;

/// Watches the rounds of a connection.
#[derive(Clone, Debug)]
pub(super) struct Jitter {
    rough: Streak,
    /// Mean round trips of the last rounds, in nanoseconds.
    means: WindowedMin,
    pub(super) moves: Moves,
    pub(super) still: Still,
}

impl Jitter {
    pub(super) fn new() -> Self {
        Self {
            rough: Streak::default(),
            means: WindowedMin::new(MEAN_ROUNDS),
            moves: Moves::default(),
            still: Still::default(),
        }
    }

    /// A round has ended on a path whose shortest round trip is `rtt_min`.
    pub(super) fn on_round(&mut self, round: u64, tally: &Tally, rtt_min: Duration) {
        let Some(mean) = tally.rtt_mean().filter(|_| tally.has_shape()) else { return };
        self.means.update(round, whole_nanos(mean));
        self.rough.on_round(is_rough(tally, rtt_min));
    }

    /// A round was rough, and none has taken that back.
    pub(super) fn has_begun(&self) -> bool {
        self.rough.has_begun()
    }

    /// What a round trip takes where many packets meet the jitter and nothing else; `None` without jitter.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.means.value().filter(|_| self.rough.is_known()).map(Duration::from_nanos)
    }
}

/// Whether the way of these round trips is jitter's, on a path whose shortest is `rtt_min`; `None`: it might
/// be.
fn is_rough(tally: &Tally, rtt_min: Duration) -> Option<bool> {
    let range_min = rtt_min.mul_f64(RANGE_MIN).max(tally.rtt_min.mul_f64(OWN_RANGE_MIN)).max(FLAT_MIN);
    let is_wide = tally.rtt_range() > range_min;
    let is_off = tally.rtt_min > rtt_min.mul_f64(SHORTEST_MIN);
    match if is_wide && is_off { tally.rtt_turns() } else { 0.0 } {
        turns if turns >= TURNS_MIN => Some(true),
        turns if turns >= TURNS_KEPT => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use fulmar_units::Instant;

    use super::*;
    use crate::Feedback;

    const RTT_MIN: Duration = Duration::from_millis(100);

    /// Rounds of these round trips, in milliseconds.
    fn after(rounds: &[&[u64]]) -> Option<Duration> {
        watched(rounds).rtt()
    }

    fn watched(rounds: &[&[u64]]) -> Jitter {
        let mut jitter = Jitter::new();
        for (round, rtts) in (0..).zip(rounds) {
            let mut tally = Tally::new();
            for &rtt in *rtts {
                let mut feedback = Feedback::at(Instant::ZERO);
                feedback.rtt = Some(Duration::from_millis(rtt));
                tally.add(&feedback, RTT_MIN);
            }
            jitter.on_round(round, &tally, RTT_MIN);
        }
        jitter
    }

    const ROUGH: &[u64] = &[120, 140, 118, 139, 125, 138];
    const SMOOTH: &[u64] = &[120, 124, 130, 140, 138, 136];
    const NARROW: &[u64] = &[120, 126, 119, 127, 121, 125];

    #[test]
    fn round_trips_that_go_up_and_down_in_each_round_are_jitter() {
        assert_eq!(after(&[ROUGH, ROUGH]), None);
        assert_eq!(after(&[ROUGH, ROUGH, ROUGH]), Some(Duration::from_millis(130)));
        assert_eq!(after(&[&[120, 140, 118], &[120, 140, 118], &[120, 140, 118]]), None, "too few to tell");
    }

    #[test]
    fn a_queue_that_grows_and_drains_is_not() {
        assert_eq!(after(&[SMOOTH; 9]), None);
        assert_eq!(after(&[NARROW; 9]), None);
        assert_eq!(after(&[ROUGH, ROUGH, SMOOTH, ROUGH, ROUGH]), None, "in a row");
        assert_eq!(after(&[ROUGH, ROUGH, ROUGH, SMOOTH]), None);
        assert!(after(&[ROUGH, ROUGH, ROUGH, ROUGH, ROUGH, ROUGH, SMOOTH]).is_some());
    }

    #[test]
    fn nor_is_what_moves_little_in_a_long_queue() {
        let behind = |queued: u64| ROUGH.iter().map(|rtt| rtt + queued).collect::<Vec<_>>();
        assert!(after(&[&behind(140)[..]; 9]).is_some(), "22 of 258 ms");
        assert_eq!(after(&[&behind(180)[..]; 9]), None, "22 of 298");
    }

    #[test]
    fn what_the_round_that_met_least_took_is_the_empty_path() {
        let queued: Vec<u64> = ROUGH.iter().map(|rtt| rtt + 40).collect();
        assert_eq!(after(&[&queued, ROUGH, &queued, &queued]), Some(Duration::from_millis(130)));
        let long: Vec<&[u64]> = [ROUGH].into_iter().chain([&queued[..]; 30]).collect();
        assert_eq!(after(&long), Some(Duration::from_millis(170)), "of late");
    }
}
