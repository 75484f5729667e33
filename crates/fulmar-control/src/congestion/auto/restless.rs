//! Round trips too restless for a full queue.
//!
//! Who comes when a queue is full takes it for the path, and its drops for the path's losses. But a queue
//! that drops a tenth is full whenever a packet comes: round trips move by a packet or two of the link's,
//! which is less than one of ours takes where several share it, and if they move by more they are far above
//! the shortest. Where they go up and down in each round, by more than that and down to the shortest, the
//! packets that are lost were not dropped by a queue. Of rounds that lost a tenth 80 to 100 % are so on links
//! with jitter, 3 to 33 % in crowds of 4 to 50 flows, and less than a tenth in crowds of wide flows on links
//! with jitter.

use core::time::Duration;

use super::tally::{TURNS_MIN, Tally};

/// Round trips of a restless round range over more than so many of our packets take, and than what hosts
/// usually add ..
const RANGE_PACKETS: u32 = 2;
const NOISE: Duration = Duration::from_micros(500);
/// Rounds of fewer packets have no shape.
const PACKETS_MIN: u32 = 6;

/// Whether a round on a path whose shortest round trip is `rtt_min` was so: its round trips range that far,
/// go up and down, and their mean is no farther from the shortest than that range. At our pace there is one
/// packet in every `packet_time`. `None`: it has no shape.
pub(super) fn is_restless(tally: &Tally, rtt_min: Duration, packet_time: Duration) -> Option<bool> {
    let mean = tally.rtt_mean().filter(|_| tally.has_shape() && tally.packets() >= PACKETS_MIN)?;
    let range = tally.rtt_range();
    let is_wide = range > packet_time.saturating_mul(RANGE_PACKETS).max(NOISE);
    Some(is_wide && tally.rtt_turns() >= TURNS_MIN && mean < rtt_min.saturating_add(range))
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::super::streak::Streak;
    use super::*;
    use crate::Feedback;

    /// Rounds of these round trips in milliseconds, where the shortest is 100 and a packet takes one.
    fn is_known_after(rounds: &[&[u64]]) -> bool {
        let mut restless = Streak::default();
        for rtts in rounds {
            let mut tally = Tally::new();
            tally.lost_packets = PACKETS_MIN;
            for &rtt in *rtts {
                let mut feedback = Feedback::at(Instant::ZERO);
                feedback.rtt = Some(Duration::from_millis(rtt));
                tally.add(&feedback, Duration::from_millis(100));
            }
            restless.on_round(is_restless(&tally, Duration::from_millis(100), Duration::from_millis(1)));
        }
        restless.is_known()
    }

    const RESTLESS: &[u64] = &[101, 104, 100, 103, 101];
    const FEW: &[u64] = &[101, 104, 100];
    const STEADY: &[u64] = &[101, 101, 102, 101, 102];
    const GROWING: &[u64] = &[100, 102, 104, 106, 108];
    const FAR: &[u64] = &[131, 134, 130, 133, 131];

    #[test]
    fn three_rounds_that_go_up_and_down_to_the_shortest() {
        assert!(!is_known_after(&[RESTLESS; 2]));
        assert!(is_known_after(&[RESTLESS; 3]));
        assert!(!is_known_after(&[FEW; 3]), "too few to tell");
    }

    #[test]
    fn a_full_queue_is_steady_or_far_from_the_shortest() {
        for rounds in [STEADY, GROWING, FAR] {
            assert!(!is_known_after(&[rounds; 9]), "{rounds:?}");
        }
        assert!(!is_known_after(&[RESTLESS, RESTLESS, RESTLESS, STEADY]), "no more");
    }
}
