//! What the path back does to packets: seen in the numbers of those that arrive here.
//!
//! A sender learns nothing while its ACKs are lost, and a burst takes them by number, not by time: on a path
//! whose ACKs are few, ten lost in a row are a long silence. How often and for how long that happens, the
//! gaps in the packet numbers tell.

use fulmar_control::{Channel, LossView};

use crate::PacketNumber;

/// Packets after which what was seen has faded to a third.
const MEMORY_PACKETS: f64 = 2048.0;
/// What is left of what was seen after one packet more: `exp(-1 / MEMORY_PACKETS)`, which almost every packet
/// needs.
const KEPT_BY_ONE: f64 = 0.999_511_837_939_889_4;
/// Fewer packets say nothing.
const WEIGHT_MIN: f64 = 20.0;
/// Until so many came the worst is assumed that what was seen allows: where none of n was lost 3 / n may be, with a
/// certainty of 95 % (the rule of three; Hanley and Lippman-Hand 1983) ..
const YOUNG_PACKETS: f64 = 500.0;
const UNSEEN_LOSSES: f64 = 3.0;
/// .. but no more than this ..
const UNSEEN_RATE_MAX: f64 = 0.2;
/// .. in bursts of this length.
const UNSEEN_BURST_PACKETS: f64 = 4.0;

/// Loss rate and burst length of the packets that come in.
#[derive(Debug, Default)]
pub struct WayBack {
    largest: Option<PacketNumber>,
    packets: f64,
    lost: f64,
    bursts: f64,
}

impl WayBack {
    /// A packet arrived that had not been seen before.
    pub fn on_packet(&mut self, number: PacketNumber) {
        let Some(largest) = self.largest else {
            self.largest = Some(number);
            return;
        };
        if number < largest {
            // It was only late: no loss after all. Which burst it was part of is not known any more.
            self.lost = (self.lost - 1.0).max(0.0);
            self.bursts = self.bursts.min(self.lost);
            return;
        }
        self.largest = Some(number);
        let gap = (number.0 - largest.0).saturating_sub(1) as f64;
        let kept = if gap == 0.0 { KEPT_BY_ONE } else { libm::exp(-(gap + 1.0) / MEMORY_PACKETS) };
        self.packets = self.packets * kept + gap + 1.0;
        self.lost = self.lost * kept + gap;
        self.bursts = self.bursts * kept + f64::from(u8::from(gap > 0.0));
    }

    /// What is known of it.
    pub fn view(&self) -> LossView {
        let rate = if self.packets >= WEIGHT_MIN { self.lost / self.packets } else { 0.0 };
        let burst_packets = if self.bursts > 0.0 { (self.lost / self.bursts).max(1.0) } else { 0.0 };
        LossView { rate, burst_packets, weight_packets: self.packets }
    }

    /// What is known of it, while of the way forth, by this estimate, it is not. Whoever sends little, such as credit for
    /// what arrives, hears of few losses of its own; and a path that loses one way most often loses the other way too.
    pub fn in_place_of(&self, forth: LossView) -> LossView {
        let is_better = forth.weight_packets < WEIGHT_MIN && self.packets >= WEIGHT_MIN;
        if is_better { self.view() } else { forth }
    }

    /// The same as a channel.
    pub fn channel(&self) -> Channel {
        Channel::new(&self.view())
    }

    /// The same, but the worst that it may be while few packets came.
    pub fn at_worst(&self) -> Channel {
        if self.packets >= YOUNG_PACKETS {
            return self.channel();
        }
        let seen = self.view();
        let unseen_rate = (UNSEEN_LOSSES / self.packets.max(1.0)).min(UNSEEN_RATE_MAX);
        Channel::new(&LossView {
            rate: seen.rate.max(unseen_rate),
            burst_packets: seen.burst_packets.max(UNSEEN_BURST_PACKETS),
            ..seen
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_is_what_would_be_calculated() {
        assert_eq!(KEPT_BY_ONE.to_bits(), libm::exp(-1.0 / MEMORY_PACKETS).to_bits());
    }

    #[test]
    fn gaps_are_losses_and_late_packets_are_not() {
        let mut way = WayBack::default();
        // Of each hundred packets ten are lost, in two runs of five.
        for number in (0..2000).filter(|n| !(40..45).contains(&(n % 100)) && !(70..75).contains(&(n % 100))) {
            way.on_packet(PacketNumber(number));
        }
        let view = way.view();
        assert!((view.rate - 0.1).abs() < 0.01 && (view.burst_packets - 5.0).abs() < 0.01, "{view:?}");
        let mut swapped = WayBack::default();
        for number in (0..1000).map(|n| n ^ 1) {
            swapped.on_packet(PacketNumber(number));
        }
        assert!(swapped.view().rate < 0.01, "{:?}", swapped.view());
    }

    #[test]
    fn it_stands_for_the_way_forth_until_that_is_known() {
        let mut way = WayBack::default();
        let forth = |weight_packets| LossView { rate: 0.01, burst_packets: 1.0, weight_packets };
        (0..WEIGHT_MIN as u64).step_by(2).for_each(|number| way.on_packet(PacketNumber(number)));
        assert_eq!(way.in_place_of(forth(0.0)), forth(0.0), "too few came");
        (20..200).step_by(2).for_each(|number| way.on_packet(PacketNumber(number)));
        assert_eq!(way.in_place_of(forth(0.0)), way.view());
        assert!(way.view().rate > 0.4);
        assert_eq!(way.in_place_of(forth(WEIGHT_MIN)), forth(WEIGHT_MIN), "what was seen itself");
    }

    #[test]
    fn a_young_way_back_may_lose_what_was_not_seen_yet() {
        let after = |packets: u64| {
            let mut way = WayBack::default();
            (0..=packets).for_each(|number| way.on_packet(PacketNumber(number)));
            (way.channel().loss(), way.at_worst().loss())
        };
        assert_eq!(after(0), (0.0, UNSEEN_RATE_MAX));
        let (seen, worst) = after(60);
        assert!(seen == 0.0 && (worst - 0.05).abs() < 0.001, "{worst}");
        assert_eq!(after(700), (0.0, 0.0), "of so many a loss would have been seen");
    }
}
