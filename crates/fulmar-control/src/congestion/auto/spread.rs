//! By how much round trips vary within a round: jitter.
//!
//! A queue makes every round trip of a round longer, jitter does not; so the distance of a round's mean from
//! its shortest is jitter's, in the steadiest of the last rounds. Of few round trips the shortest is seldom
//! short: in a round of n, evenly spread, the distance is (n - 1) / (n + 1) of what many would show. Rounds
//! of few are added up, each from its own shortest, for a queue may come and go between them. Where a narrow
//! path loses much all rounds are such: not to know of its jitter is to take it for a queue, so that no round
//! is clean and what is lost counts for the path never.

use core::time::Duration;

use fulmar_units::whole_nanos;

use super::tally::Tally;
use crate::windowed::WindowedMin;

/// For so many rounds the least counts.
const ROUNDS: u64 = 24;
/// Rounds of cruising of which it is worth something: a neighbour's probe moves one or two.
const ROUNDS_MIN: u32 = 8;
/// A round of so many round trips counts by itself ..
const SAMPLES_MIN: u32 = 6;
/// .. and those of fewer as soon as together they are worth as many.
const WORTH_MIN: f64 = 6.0;

/// By how much round trips vary.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    /// In nanoseconds.
    least: WindowedMin,
    rounds: u32,
    few: Few,
}

/// Rounds of few round trips.
#[derive(Clone, Debug, Default)]
struct Few {
    rounds: u32,
    /// Sum of what each was longer than the shortest of its round.
    longer: Duration,
    /// As many round trips in one round would show as much.
    worth: f64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self { least: WindowedMin::new(ROUNDS), rounds: 0, few: Few::default() }
    }

    /// The `round`-th ended, after one of cruising: nothing but the path moved its round trips.
    pub(super) fn on_round(&mut self, round: u64, tally: &Tally) {
        let Some(mean) = tally.rtt_mean() else { return };
        let longer = mean - tally.rtt_min;
        if tally.rtt_samples >= SAMPLES_MIN {
            self.learn(round, 1, longer);
            return;
        }
        let samples = f64::from(tally.rtt_samples);
        self.few.rounds += 1;
        self.few.longer += longer * tally.rtt_samples;
        self.few.worth += samples * (samples - 1.0) / (samples + 1.0);
        if self.few.worth >= WORTH_MIN {
            let few = core::mem::take(&mut self.few);
            self.learn(round, few.rounds, few.longer.div_f64(few.worth));
        }
    }

    fn learn(&mut self, round: u64, rounds: u32, longer: Duration) {
        self.rounds = self.rounds.saturating_add(rounds);
        self.least.update(round, whole_nanos(longer));
    }

    /// There were rounds enough.
    pub(super) fn is_known(&self) -> bool {
        self.rounds >= ROUNDS_MIN
    }

    /// Three times the mean distance from the shortest; zero as long as it is not known.
    pub(super) fn duration(&self) -> Duration {
        let least = self.least.value().filter(|_| self.is_known());
        Duration::from_nanos(least.unwrap_or(0)) * 3
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use crate::Feedback;

    /// Rounds of `samples` round trips each, spread evenly from 100 ms to 112, above a queue of `queue_ms`
    /// that changes from round to round.
    fn spread_of(rounds: u32, samples: u32, queue_ms: [u64; 2]) -> Spread {
        let mut spread = Spread::new();
        let mut random = 1_u64;
        for round in 0..rounds {
            let mut tally = Tally::new();
            for _ in 0..samples {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let jitter = Duration::from_micros((random >> 33) % 12_000);
                let mut feedback = Feedback::at(Instant::ZERO);
                feedback.rtt = Some(Duration::from_millis(100 + queue_ms[round as usize % 2]) + jitter);
                tally.add(&feedback, Duration::ZERO);
            }
            spread.on_round(round.into(), &tally);
        }
        spread
    }

    #[test]
    fn few_round_trips_a_round_show_as_much_jitter_as_many() {
        for samples in [2, 3, 5, 100] {
            let spread = spread_of(60, samples, [0, 30]);
            let millis = spread.duration().as_secs_f64() * 1e3;
            // Three halves of the range are 18 ms; of estimates of six round trips the least may be half of
            // it.
            assert!(spread.is_known() && (7.0..19.0).contains(&millis), "{samples}: {millis}");
        }
    }

    #[test]
    fn one_round_trip_a_round_shows_nothing() {
        assert!(!spread_of(100, 1, [0, 30]).is_known());
    }

    #[test]
    fn it_is_not_known_after_a_few_rounds() {
        let spread = spread_of(ROUNDS_MIN - 1, 100, [0, 0]);
        assert!(!spread.is_known() && spread.duration().is_zero());
    }
}
