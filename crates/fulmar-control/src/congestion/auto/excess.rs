//! Loss beyond the floor that single rounds are too short to show.
//!
//! A round of forty packets at a floor of 10 % may lose a quarter of them by chance, so a round alone shows
//! gross congestion only. Several flows in a shallow queue lose less than that in every round, for ever. So
//! rounds that met a queue although they were sent no faster than the rate are pooled until there are enough
//! packets: what they lose in excess is the queue's.
//!
//! And where a queue stands the link is busy: what it carried of ours is all that is ours, however much a
//! maximum filter remembers. More only keeps the queue, or takes it from others.

use fulmar_units::Rate;

use super::floor::Floor;
use super::tally::Tally;
use crate::LossView;

/// Packets pooled before anything is said.
const PACKETS_MIN: u32 = 256;
/// Losses beyond the floor's explanation: standard deviations, and a share of the packets on top.
const SIGMAS: f64 = 2.5;
const SHARE: f64 = 0.01;
/// Rounds of which the fastest says what the link carries of ours.
const RATE_ROUNDS: u32 = 3;

/// Packets and losses of rounds in a row that met a queue.
#[derive(Copy, Clone, Debug)]
pub(super) struct Excess {
    packets: u32,
    lost_packets: u32,
    rounds: u32,
    link_rate: Rate,
}

impl Excess {
    pub(super) fn new() -> Self {
        Self { packets: 0, lost_packets: 0, rounds: 0, link_rate: Rate::ZERO }
    }

    /// A round of cruising that met a queue; true if too much was lost since the last time.
    pub(super) fn on_queued_round(&mut self, tally: &Tally, floor: &Floor, loss: &LossView) -> bool {
        self.packets = self.packets.saturating_add(tally.packets());
        self.lost_packets = self.lost_packets.saturating_add(tally.lost_packets);
        if self.packets < PACKETS_MIN {
            return false;
        }
        let explained = floor.explained_packets(self.packets, loss, SIGMAS);
        let is_excess = f64::from(self.lost_packets) > explained + SHARE * f64::from(self.packets);
        (self.packets, self.lost_packets) = (0, 0);
        is_excess
    }

    /// The same round: what the link carried at most, once there are enough of them.
    pub(super) fn carried(&mut self, tally: &Tally) -> Option<Rate> {
        self.rounds += 1;
        self.link_rate = self.link_rate.max(tally.link_rate);
        if self.rounds < RATE_ROUNDS {
            return None;
        }
        self.rounds = 0;
        Some(core::mem::replace(&mut self.link_rate, Rate::ZERO)).filter(|rate| *rate > Rate::ZERO)
    }

    /// A round without a queue.
    pub(super) fn forget(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_round_hides_many_rounds_show() {
        let loss = LossView { rate: 0.0, burst_packets: 1.0, weight_packets: 1000.0 };
        let mut round = Tally::new();
        (round.acked_packets, round.lost_packets) = (38, 2);
        let mut excess = Excess::new();
        let found = (0..7).map(|_| excess.on_queued_round(&round, &Floor::new(), &loss));
        assert_eq!(found.collect::<alloc::vec::Vec<_>>(), [false, false, false, false, false, false, true]);
        round.lost_packets = 0;
        assert!((0..20).all(|_| !excess.on_queued_round(&round, &Floor::new(), &loss)));
    }
}
