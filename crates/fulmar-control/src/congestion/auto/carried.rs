//! What the link carries of ours while a queue stands.
//!
//! Where packets wait, the link is busy: what it carried of ours in the last rounds is all that is ours,
//! however much a maximum filter remembers of a lucky round. Several flows in a shallow queue, each with the
//! rate of its luckiest round, would keep it full for ever, and take what it drops for the path's loss.

use fulmar_units::{Instant, Rate};

use super::floor::FLOOR_MAX;
use super::tally::Tally;

/// Rounds that say what the link carries of ours: where we see the queue ..
const ROUNDS: u32 = 2;
/// .. and where one that is always full may hide behind the shortest round trip.
const ROUNDS_UNSEEN: u32 = 6;
/// Fewer will do if they have so many packets.
const PACKETS_UNSEEN: u32 = 1000;
/// A queue that loses no more than this share of our packets is not full: those who fill it obey (CUBIC), and
/// giving way to them is no help to anybody.
const LOSS_MIN: f64 = 0.02;

/// More than this is seldom the path's.
const LOSS_HEAVY: f64 = 0.16;

/// Once the rate has fallen to this share of what it was ..
const FALL: f64 = 0.5;
/// .. and the loss has not, to this share of it, it has nothing to do with the rate.
const UNMOVED: f64 = 0.8;

/// Rate and loss when the rate began to fall.
#[derive(Copy, Clone, Debug)]
pub(super) struct Fall {
    pub(super) rate: Rate,
    pub(super) lost_share: f64,
}

/// Rounds in a row that met a queue, or may have, although they were sent no faster than the rate.
#[derive(Copy, Clone, Debug)]
pub(super) struct Carried {
    rounds: u32,
    packets: u32,
    lost_packets: u32,
    /// Fastest sample of the link's rate.
    link_rate: Rate,
    acked_bytes: u64,
    since: Instant,
}

impl Carried {
    pub(super) fn new() -> Self {
        Self {
            rounds: 0,
            packets: 0,
            lost_packets: 0,
            link_rate: Rate::ZERO,
            acked_bytes: 0,
            since: Instant::ZERO,
        }
    }

    /// Adds a round that began at `started_at`.
    pub(super) fn on_round(&mut self, tally: &Tally, started_at: Instant) {
        if self.rounds == 0 {
            self.since = started_at;
        }
        self.rounds += 1;
        self.packets = self.packets.saturating_add(tally.packets());
        self.lost_packets = self.lost_packets.saturating_add(tally.lost_packets);
        self.link_rate = self.link_rate.max(tally.link_rate);
        self.acked_bytes = self.acked_bytes.saturating_add(tally.acked_bytes);
    }

    pub(super) fn lost_share(&self) -> f64 {
        f64::from(self.lost_packets) / f64::from(self.packets.max(1))
    }

    /// So much was lost that the lucky samples of all who share the link may be what fills it.
    pub(super) fn has_heavy_loss(&self) -> bool {
        self.lost_share() > LOSS_HEAVY
    }

    /// Slower and slower, and as much is lost as before: then it is not we who lose it, and slower helps nobody.
    pub(super) fn moves_nothing(&self, fall: &Fall, rate: Rate) -> bool {
        let is_slower = rate <= fall.rate.scaled(FALL);
        is_slower && self.lost_share() >= fall.lost_share * UNMOVED && self.lost_share() <= FLOOR_MAX
    }

    /// The rounds met a queue: the most that the link carried, once they are enough and if they lost.
    pub(super) fn with_queue(&self) -> Option<Rate> {
        let is_telling = self.rounds >= ROUNDS && self.lost_share() > LOSS_MIN && self.link_rate > Rate::ZERO;
        is_telling.then_some(self.link_rate)
    }

    /// The rounds may have met one that is always full: what the link carried in the mean, with `compensated`
    /// of the loss made up for.
    pub(super) fn without_queue(&self, now: Instant, compensated: f64) -> Option<Rate> {
        let is_enough =
            self.rounds >= ROUNDS_UNSEEN || (self.rounds >= ROUNDS && self.packets >= PACKETS_UNSEEN);
        let is_telling = is_enough && self.lost_share() > LOSS_MIN;
        let rate = Rate::from_bytes_in(self.acked_bytes, now - self.since)?;
        let link_rate = rate.scaled(1.0 / (1.0 - self.lost_share().min(compensated)));
        (is_telling && rate > Rate::ZERO).then_some(link_rate)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// So many rounds of 100 ms, each of which carried 10,000 bytes, with samples of 1, 2, 3 .. times 100 kB/s.
    fn after(rounds: u32, lost_packets: u32) -> (Carried, Instant) {
        let mut carried = Carried::new();
        let mut now = Instant::ZERO;
        for round in 1..=rounds {
            let mut tally = Tally::new();
            (tally.acked_packets, tally.acked_bytes, tally.lost_packets) =
                (100 - lost_packets, 10_000, lost_packets);
            tally.link_rate = Rate::from_bytes_per_second(100_000 * u64::from(round));
            carried.on_round(&tally, now);
            now += Duration::from_millis(100);
        }
        (carried, now)
    }

    #[test]
    fn with_a_queue_the_fastest_of_two_rounds_is_ours() {
        assert_eq!(after(1, 10).0.with_queue(), None);
        assert_eq!(after(2, 10).0.with_queue(), Some(Rate::from_bytes_per_second(200_000)));
    }

    #[test]
    fn where_none_is_seen_it_is_the_mean_of_six_with_a_part_of_the_loss_made_up_for() {
        let found = |rounds, compensated| {
            let (carried, now) = after(rounds, 20);
            carried.without_queue(now, compensated).map(Rate::bytes_per_second)
        };
        assert_eq!(found(5, 0.0), None);
        assert_eq!(found(6, 0.0), Some(100_000));
        assert_eq!(found(6, 0.2), Some(125_000));
        assert_eq!(found(6, 0.5), Some(125_000), "never more than was lost");
    }

    #[test]
    fn loss_that_stays_as_the_rate_falls_is_not_ours() {
        let fall = Fall { rate: Rate::from_bytes_per_second(100_000), lost_share: 0.25 };
        let is_unmoved =
            |lost, rate| after(6, lost).0.moves_nothing(&fall, Rate::from_bytes_per_second(rate));
        assert!(is_unmoved(25, 50_000) && is_unmoved(20, 50_000) && is_unmoved(50, 10_000));
        assert!(!is_unmoved(25, 50_001), "it has not fallen far");
        assert!(!is_unmoved(19, 50_000), "less is lost");
        assert!(!is_unmoved(51, 50_000), "no path loses that much");
    }

    #[test]
    fn a_queue_that_loses_nothing_belongs_to_flows_that_obey() {
        let (carried, now) = after(6, 2);
        assert_eq!((carried.with_queue(), carried.without_queue(now, 0.0)), (None, None));
    }
}
