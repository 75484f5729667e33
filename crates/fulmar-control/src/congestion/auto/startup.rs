//! Start-up: doubling until the delivery rate stops growing.
//!
//! Loss alone, which may be random, proves nothing; a queue does. Source: BBRv3 (draft-ietf-ccwg-bbr 4.3.1).

use fulmar_units::Rate;

use super::tally::Tally;

/// It is over when the delivery rate did not grow by this factor (BBR: 1.25) ..
const FULL_GROWTH: f64 = 1.25;
/// .. for so many rounds, or for fewer if there is a queue. Once there is a queue the pace is that of a
/// probe: if it was only noise the rate grows on, if not the queue grows little.
const FULL_ROUNDS: u32 = 3;
const FULL_ROUNDS_QUEUE: u32 = 2;
/// A round that lost more than this share did not grow because of a burst; a few of them are passed over.
const BURST_SHARE: f64 = 0.3;
const SKIPPED_ROUNDS_MAX: u32 = 3;
/// Rounds of fewer packets say nothing about it.
const PACKETS_MIN: u32 = 8;

/// The queue that a round met.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    None,
    Some,
    /// It stretches every round trip so far that it leaves no doubt.
    Long,
}

/// What a round means.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The rate grew: the pipe was not full.
    Grew,
    Undecided,
    Full,
}

/// Where start-up stands.
#[derive(Copy, Clone, Debug)]
pub(super) struct Startup {
    /// Largest delivery rate seen to grow, and rounds without growth since.
    full_rate: Rate,
    full_rounds: u32,
    /// Rounds passed over because of a burst of losses.
    skipped_rounds: u32,
    /// The last round did not grow and met a queue.
    is_nearly_full: bool,
    /// Packets and losses of the last round that still grew.
    pub(super) newest_round: Option<(u32, u32)>,
    /// The initial window per round trip: start-up is never slower, whatever its first samples say.
    pub(super) initial_rate: Rate,
}

impl Startup {
    /// Doubling from a delivery rate of `full_rate`.
    pub(super) fn new(full_rate: Rate, initial_rate: Rate) -> Self {
        Self {
            full_rate,
            full_rounds: 0,
            skipped_rounds: 0,
            is_nearly_full: false,
            newest_round: None,
            initial_rate,
        }
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.is_nearly_full
    }

    /// A round ends.
    pub(super) fn judge(&mut self, tally: &Tally, queue: Queue) -> Verdict {
        // Too few packets measure nothing but their own loss.
        let is_measured = tally.delivery_rate > Rate::ZERO && tally.packets() >= PACKETS_MIN;
        if !is_measured || tally.is_blackout {
            return Verdict::Undecided;
        }
        if tally.delivery_rate >= self.full_rate.scaled(FULL_GROWTH) {
            self.full_rate = tally.delivery_rate;
            self.full_rounds = 0;
            self.is_nearly_full = false;
            return Verdict::Grew;
        }
        if tally.is_app_limited && queue != Queue::Long {
            return Verdict::Undecided;
        }
        let is_burst = f64::from(tally.lost_packets) > BURST_SHARE * f64::from(tally.packets());
        if is_burst && queue == Queue::None && self.skipped_rounds < SKIPPED_ROUNDS_MAX {
            self.skipped_rounds += 1;
            return Verdict::Undecided;
        }
        self.full_rounds += 1;
        self.is_nearly_full = queue != Queue::None;
        let rounds_needed = match queue {
            Queue::None => FULL_ROUNDS,
            Queue::Some => FULL_ROUNDS_QUEUE,
            Queue::Long => 1,
        };
        if self.full_rounds >= rounds_needed { Verdict::Full } else { Verdict::Undecided }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(delivered: u64, lost_packets: u32) -> Tally {
        let mut tally = Tally::new();
        tally.delivery_rate = Rate::from_bytes_per_second(delivered);
        (tally.acked_packets, tally.lost_packets) = (100, lost_packets);
        tally
    }

    fn after(rounds: &[(u64, Queue)]) -> Verdict {
        let mut startup = Startup::new(Rate::ZERO, Rate::ZERO);
        let mut judge = |&(delivered, queue): &(u64, Queue)| startup.judge(&round(delivered, 0), queue);
        rounds.iter().map(&mut judge).last().expect("a round")
    }

    #[test]
    fn it_is_over_when_the_rate_stands_still_sooner_with_a_queue() {
        let grown = (1000, Queue::None);
        assert_eq!(after(&[grown]), Verdict::Grew);
        assert_eq!(after(&[grown, (1250, Queue::Long)]), Verdict::Grew);
        assert_eq!(after(&[grown, (1249, Queue::Long)]), Verdict::Full);
        assert_eq!(after(&[grown, (1249, Queue::Some)]), Verdict::Undecided);
        assert_eq!(after(&[grown, (1249, Queue::Some), (1249, Queue::Some)]), Verdict::Full);
        assert_eq!(after(&[grown, grown, grown]), Verdict::Undecided);
        assert_eq!(after(&[grown, grown, grown, grown]), Verdict::Full);
    }

    #[test]
    fn bursts_are_passed_over_a_few_times() {
        let mut startup = Startup::new(Rate::from_bytes_per_second(1000), Rate::ZERO);
        for _ in 0..SKIPPED_ROUNDS_MAX + FULL_ROUNDS - 1 {
            assert_eq!(startup.judge(&round(1000, 80), Queue::None), Verdict::Undecided);
        }
        assert_eq!(startup.judge(&round(1000, 80), Queue::None), Verdict::Full);
    }

    #[test]
    fn what_measures_nothing_decides_nothing() {
        let mut startup = Startup::new(Rate::from_bytes_per_second(1000), Rate::ZERO);
        let mut blackout = round(900, 0);
        blackout.is_blackout = true;
        let mut idle = round(900, 0);
        idle.is_app_limited = true;
        for _ in 0..10 {
            assert_eq!(startup.judge(&blackout, Queue::Long), Verdict::Undecided);
            assert_eq!(startup.judge(&idle, Queue::Some), Verdict::Undecided);
        }
    }
}
