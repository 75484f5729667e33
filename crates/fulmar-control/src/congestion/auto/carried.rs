//! What the link carries of ours while a queue stands.
//!
//! Where packets wait, the link is busy: what it carried of ours in the last rounds is all that is ours,
//! however much a maximum filter remembers of a lucky round. Several flows in a shallow queue, each with the
//! rate of its luckiest round, would keep it full for ever, and take what it drops for the path's loss.

use core::time::Duration;

use fulmar_units::Rate;

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
/// Then the rate becomes so much of what the link carried: all who fill it come down together, below what it
/// carries (AIMD; RFC 9438 4.6). Who is alone meets no queue then, and makes up for all
/// of the loss again.
const LOSS_HEAVY_FACTOR: f64 = 0.92;

/// Rounds of cruising, one after another but for probes, that met a queue, or may have, although they were
/// sent no faster than the rate.
#[derive(Copy, Clone, Debug)]
pub(super) struct Carried {
    rounds: u32,
    pub(super) packets: u32,
    lost_packets: u32,
    /// Fastest sample of the link's rate.
    link_rate: Rate,
    acked_bytes: u64,
    /// The rounds' time: probes may have come between.
    elapsed: Duration,
}

impl Carried {
    pub(super) fn new() -> Self {
        Self {
            rounds: 0,
            packets: 0,
            lost_packets: 0,
            link_rate: Rate::ZERO,
            acked_bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Adds a round that took so long.
    pub(super) fn on_round(&mut self, tally: &Tally, elapsed: Duration) {
        self.rounds += 1;
        self.elapsed += elapsed;
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

    /// What the link carried in the mean, with `compensated` of the loss made up for.
    pub(super) fn mean(&self, compensated: f64) -> Option<Rate> {
        self.part_of_mean(1.0, compensated)
    }

    fn part_of_mean(&self, part: f64, compensated: f64) -> Option<Rate> {
        let rate = Rate::from_bytes_in(self.acked_bytes, self.elapsed)?;
        (rate > Rate::ZERO).then(|| rate.scaled(part / (1.0 - self.lost_share().min(compensated))))
    }

    /// The rounds met a queue: the most that the link carried, once they are enough and if they lost, and
    /// more than `tolerated_packets`.
    pub(super) fn with_queue(&self, tolerated_packets: f64) -> Option<Rate> {
        let has_lost = self.lost_share() > LOSS_MIN && f64::from(self.lost_packets) > tolerated_packets;
        (self.rounds >= ROUNDS && has_lost && self.link_rate > Rate::ZERO).then_some(self.link_rate)
    }

    /// The rounds may have met one that is always full: what the link carried in the mean, with `compensated`
    /// of the loss made up for; less where the loss is heavy.
    pub(super) fn without_queue(&self, compensated: f64) -> Option<Rate> {
        let is_enough =
            self.rounds >= ROUNDS_UNSEEN || (self.rounds >= ROUNDS && self.packets >= PACKETS_UNSEEN);
        let is_telling = is_enough && self.lost_share() > LOSS_MIN;
        let factor = if self.has_heavy_loss() { LOSS_HEAVY_FACTOR } else { 1.0 };
        self.part_of_mean(factor, compensated).filter(|_| is_telling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many rounds of 100 ms, each of which carried 10,000 bytes, with samples of 1, 2, 3 .. times 100
    /// kB/s.
    fn after(rounds: u32, lost_packets: u32) -> Carried {
        let mut carried = Carried::new();
        for round in 1..=rounds {
            let mut tally = Tally::new();
            (tally.acked_packets, tally.acked_bytes, tally.lost_packets) =
                (100 - lost_packets, 10_000, lost_packets);
            tally.link_rate = Rate::from_bytes_per_second(100_000 * u64::from(round));
            carried.on_round(&tally, Duration::from_millis(100));
        }
        carried
    }

    #[test]
    fn with_a_queue_the_fastest_of_two_rounds_is_ours() {
        assert_eq!(after(1, 10).with_queue(0.0), None);
        assert_eq!(after(2, 10).with_queue(0.0), Some(Rate::from_bytes_per_second(200_000)));
        assert_eq!(after(2, 10).with_queue(20.0), None, "the path's");
    }

    #[test]
    fn where_none_is_seen_it_is_the_mean_of_six_with_a_part_of_the_loss_made_up_for() {
        let found = |rounds, lost, compensated| {
            after(rounds, lost).without_queue(compensated).map(Rate::bytes_per_second)
        };
        assert_eq!(found(5, 12, 0.0), None);
        assert_eq!(found(6, 12, 0.0), Some(100_000));
        assert_eq!(found(6, 12, 0.06), Some(106_382));
        assert_eq!(found(6, 12, 0.5), Some(113_636), "never more than was lost");
        assert_eq!(found(6, 20, 0.2), Some(114_999), "less where the loss is heavy");
    }

    #[test]
    fn a_queue_that_loses_nothing_belongs_to_flows_that_obey() {
        let carried = after(6, 2);
        assert_eq!((carried.with_queue(0.0), carried.without_queue(0.0)), (None, None));
    }
}
