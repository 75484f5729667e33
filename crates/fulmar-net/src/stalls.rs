//! Times in which nothing gets on: a busy host, a hypervisor that has taken the processor away, a radio that
//! sleeps. What
//! comes meanwhile is held, and released in a clump at the end.

use core::time::Duration;

use fulmar_units::Instant;

use crate::{Intervals, Rng};

/// When something stands still.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Stalls {
    /// Never.
    #[default]
    None,
    /// At random: Poisson while it is not standing still, lengths uniform.
    Random {
        /// Mean time from the end of a stall to the start of the next; taken as at least 1 us.
        interval_mean: Duration,
        /// The shortest.
        shortest: Duration,
        /// The longest; taken as no shorter than the shortest.
        longest: Duration,
    },
    /// At these times.
    At(Intervals),
}

/// Stalls at work. Questions should not go back in time: a stall that is over is forgotten.
#[derive(Clone, Debug)]
pub struct StallProcess {
    stalls: Stalls,
    rng: Rng,
    /// The stall that is going on or comes next.
    start: Instant,
    end: Instant,
}

impl StallProcess {
    /// From time zero.
    pub fn new(stalls: Stalls, rng: Rng) -> Self {
        let mut process = Self { stalls, rng, start: Instant::ZERO, end: Instant::ZERO };
        process.draw_after(Instant::ZERO);
        process
    }

    /// When what is due at `at` gets on: then, or at the end of the stall that `at` falls into.
    pub fn release(&mut self, at: Instant) -> Instant {
        match &self.stalls {
            Stalls::None => at,
            Stalls::At(intervals) => intervals.end_of(at).unwrap_or(at),
            Stalls::Random { interval_mean, .. } => {
                // A Poisson process has no memory: what nobody saw need not be drawn.
                let long = interval_mean.saturating_mul(1_000_000).max(Duration::from_secs(1));
                if at - self.end > long {
                    self.draw_after(at);
                }
                while self.end <= at && self.end < Instant::from_nanos(u64::MAX) {
                    self.draw_after(self.end);
                }
                if self.start <= at { self.end.max(at) } else { at }
            }
        }
    }

    /// Takes other stalls; the generator goes on.
    pub(crate) fn replace(&mut self, now: Instant, stalls: Stalls) {
        if stalls != self.stalls {
            self.stalls = stalls;
            self.draw_after(now);
        }
    }

    fn draw_after(&mut self, at: Instant) {
        if let Stalls::Random { interval_mean, shortest, longest } = self.stalls {
            self.start = at + self.rng.exponential(interval_mean.max(Duration::from_micros(1)));
            self.end = self.start + shortest + self.rng.up_to(longest.saturating_sub(shortest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant::ZERO + MS * ms
    }

    #[test]
    fn what_comes_in_a_stall_is_released_at_its_end() {
        let intervals = Intervals::new([(at(10), at(30))]);
        let mut process = StallProcess::new(Stalls::At(intervals), Rng::new(1, 0));
        let released = [9, 10, 29, 30].map(|ms| process.release(at(ms)));
        assert_eq!(released, [at(9), at(30), at(30), at(30)]);
        assert_eq!(StallProcess::new(Stalls::None, Rng::new(1, 0)).release(at(7)), at(7));
    }

    /// Of the time, E(length) / (E(length) + interval) is stalled: 10 of 110 ms here.
    #[test]
    fn stalls_at_random_take_their_share_of_the_time() {
        let stalls = Stalls::Random { interval_mean: MS * 100, shortest: MS * 5, longest: MS * 15 };
        let mut process = StallProcess::new(stalls, Rng::new(3, 0));
        let (mut held, mut ends) = (0u32, alloc::collections::BTreeSet::new());
        for ms in 0..1_000_000 {
            let released = process.release(at(ms));
            if released > at(ms) {
                held += 1;
                ends.insert(released);
                assert!(released - at(ms) <= MS * 15);
            }
        }
        // 9,091 stalls expected; lengths and gaps vary by their own mean: 4 standard errors are 4 %.
        assert!((8700..9500).contains(&ends.len()), "{} stalls", ends.len());
        assert!((86_000..96_000).contains(&held), "{held} ms");
        assert!(process.release(at(u32::MAX)) - at(u32::MAX) <= MS * 15);
    }
}
