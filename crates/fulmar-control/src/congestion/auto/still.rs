//! A route that became longer.
//!
//! What is longer than the shortest round trip of ten seconds passes for a queue. But where packets wait the
//! link is busy, and what arrives is all that it carries: if in one round far more arrives than in another
//! while all round trips stand still, nothing waits. A full queue stands still as well, but it loses.

use core::time::Duration;

use super::tally::Tally;

/// Round trips that differ by no more than this part of them stand still ..
const STILL: u32 = 256;
/// .. and so much more arrived in one round than in another.
const MORE: f64 = 1.25;

/// Rounds in a row whose round trips are the same.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Still {
    shortest: Duration,
    longest: Duration,
    /// Packets a second that arrived in the round that had fewest, and most.
    fewest: f64,
    most: f64,
}

impl Still {
    /// A round that took so long, and lost no more than the path does if it `is_calm`. Returns the round trip
    /// of a path in which nothing waits.
    pub(super) fn on_round(&mut self, tally: &Tally, elapsed: Duration, is_calm: bool) -> Option<Duration> {
        if !is_calm || !tally.has_shape() {
            *self = Self::default();
            return None;
        }
        let arrived = f64::from(tally.acked_packets) / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let (shortest, longest) = (tally.rtt_min, tally.rtt_min + tally.rtt_range());
        let newest = Self { shortest, longest, fewest: arrived, most: arrived };
        let both = Self {
            shortest: self.shortest.min(shortest),
            longest: self.longest.max(longest),
            fewest: self.fewest.min(arrived),
            most: self.most.max(arrived),
        };
        *self = if both.is_still() { both } else { newest };
        (self.is_still() && self.most > self.fewest * MORE).then_some(self.shortest)
    }

    fn is_still(&self) -> bool {
        !self.shortest.is_zero() && self.longest - self.shortest <= self.shortest / STILL
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use crate::Feedback;

    const SECOND: Duration = Duration::from_secs(1);

    /// What rounds of a second show in which so many packets arrived, at this round trip in milliseconds.
    fn after(rounds: &[(u32, u64)], is_calm: bool) -> Option<Duration> {
        let mut still = Still::default();
        let round = |&(packets, rtt): &(u32, u64)| {
            let mut tally = Tally::new();
            for _ in 0..4 {
                let mut feedback = Feedback::at(Instant::ZERO);
                feedback.rtt = Some(Duration::from_millis(rtt));
                tally.add(&feedback, Duration::ZERO);
            }
            tally.acked_packets = packets;
            still.on_round(&tally, SECOND, is_calm)
        };
        rounds.iter().filter_map(round).last()
    }

    #[test]
    fn where_more_arrives_and_nothing_waits_longer_it_is_the_path() {
        assert_eq!(after(&[(60, 513), (40, 513)], true), Some(Duration::from_millis(513)));
        assert_eq!(after(&[(60, 513), (50, 513)], true), None, "nearly as much");
        assert_eq!(after(&[(60, 513), (40, 520)], true), None, "it moved");
        assert_eq!(after(&[(60, 513), (40, 513)], false), None, "a full queue loses");
    }
}
