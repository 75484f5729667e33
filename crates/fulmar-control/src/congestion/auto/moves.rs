//! A path whose own delay moves, told from a queue that stands.
//!
//! A satellite sends in slots, a mobile link hands over: round trips are longer than the shortest nearly
//! always, as in a queue that never drains, and what is lost at random passes for its drops. But packets that
//! leave at an even pace come to a queue one after the other, and it falls no faster than it can be drained:
//! by what we and those who share it leave of the link. A path that becomes shorter lets all that is under
//! way arrive at once: the round trip falls by as much as lies between the packets' departures. So a round
//! trip that falls faster than half of that, by more than a small part of what stands, was not in a queue.
//!
//! Of rounds of cruising over a recorded Starlink link every fourth is so, in crowds of four to fifty flows
//! fewer than one of a hundred, and with jitter of 1 ms one of fifty. Others may come and go meanwhile: so it
//! says no more than that what stands may be no queue. Then only losses that the path does not explain are
//! drops, and what is lost of packets that left slowly is the path's, though they do not come soon.

use core::time::Duration;

use super::tally::Tally;

/// It fell by this part of what stands, beyond what half of the time explains ..
const FALL: u32 = 16;
/// .. in as many rounds as are remembered, within so many.
const ROUNDS: u64 = 48;

/// Watches the rounds of a connection.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Moves {
    /// The last rounds in which the round trip fell so, the oldest first.
    fell: [Option<u64>; 3],
}

impl Moves {
    /// A round that was sent at an even pace has ended, where round trips take `empty` without a queue and
    /// chance makes them fall by `noise`.
    pub(super) fn on_round(&mut self, round: u64, tally: &Tally, empty: Duration, noise: Duration) {
        let Some(mean) = tally.rtt_mean() else { return };
        if tally.rtt_fall() > (mean.saturating_sub(empty) / FALL).max(noise) {
            let [_, second, third] = self.fell;
            self.fell = [second, third, Some(round)];
        }
    }

    /// What makes round trips long moves as no queue does.
    pub(super) fn are_known(&self, round: u64) -> bool {
        self.fell[0].is_some_and(|first| round.saturating_sub(first) < ROUNDS)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use crate::Feedback;

    const EMPTY: Duration = Duration::from_millis(18);

    /// After rounds of packets that left 2 ms apart and took these round trips, in tenths of a millisecond.
    fn after(rounds: &[&[u64]]) -> Moves {
        let mut moves = Moves::default();
        for (round, rtts) in (0..).zip(rounds) {
            let mut tally = Tally::new();
            for (packet, &rtt) in (0..).zip(*rtts) {
                let (sent, rtt) = (Duration::from_millis(2 * packet), Duration::from_micros(100 * rtt));
                let mut feedback = Feedback::at(Instant::ZERO + sent + rtt);
                feedback.newest_acked_sent_at = Some(Instant::ZERO + sent);
                feedback.rtt = Some(rtt);
                tally.add(&feedback, EMPTY);
            }
            moves.on_round(round, &tally, EMPTY, Duration::from_micros(250));
        }
        moves
    }

    const SLOTS: &[u64] = &[240, 241, 222, 212, 212, 230];
    /// Half of those who share the link pause.
    const QUEUE: &[u64] = &[240, 241, 231, 221, 211, 202];

    #[test]
    fn a_path_falls_as_fast_as_packets_leave_and_a_queue_does_not() {
        assert!(!after(&[SLOTS; 2]).are_known(2));
        assert!(after(&[SLOTS, QUEUE, SLOTS, QUEUE, QUEUE, SLOTS]).are_known(6));
        assert!(!after(&[QUEUE; 9]).are_known(9));
    }

    #[test]
    fn it_is_forgotten_and_must_be_a_part_of_what_stands() {
        assert!(after(&[SLOTS; 3]).are_known(40) && !after(&[SLOTS; 3]).are_known(60));
        let far: [u64; 6] = [640, 641, 622, 612, 612, 630];
        assert!(!after(&[&far[..]; 9]).are_known(9));
    }
}
