//! What the path back does to packets: seen in the numbers of those that arrive here.
//!
//! A sender learns nothing while its ACKs are lost, and a burst takes them by number, not by time: on a path
//! whose ACKs are few, ten lost in a row are a long silence. How often and for how long that happens, the
//! gaps in the packet numbers tell.
//!
//! Not every gap is a loss: a sender leaves numbers out on purpose, one at a time, each after a packet that
//! elicits an ACK (docs/internals/wire.md 1.4.4). Which they were nobody tells. But it is known how many are
//! due on average, so as many of the gaps that may be such are taken for what they are; all of them where
//! there are no more than chance makes of that.

use fulmar_control::{Channel, LossView};

use super::skips;
use crate::PacketNumber;

/// Packets after which what was seen has faded to a third.
const MEMORY_PACKETS: f32 = 2048.0;
/// What is left of what was seen after one packet more: `exp(-1 / MEMORY_PACKETS)`, which almost every packet
/// needs.
const KEPT_BY_ONE: f32 = 0.999_511_84;
/// Fewer packets say nothing.
const WEIGHT_MIN: f64 = 20.0;
/// Until so many came the worst is assumed that what was seen allows: where none of n was lost 3 / n may be,
/// with a certainty of 95 % (the rule of three; Hanley and Lippman-Hand 1983) ..
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
    packets: f32,
    lost: f32,
    bursts: f32,
    /// Gaps of one number after a packet that elicits an ACK, in `lost` and `bursts` as well.
    maybe_skipped: f32,
    /// So many numbers were left out, on average, of a sender that leaves out as many as this end.
    skips_due: f32,
    eliciting_packets: u32,
    is_largest_eliciting: bool,
}

impl WayBack {
    /// A packet arrived that had not been seen before; `is_eliciting`: one that elicits an ACK. Returns how
    /// many are missing before it; `None`: it came late.
    pub fn on_packet(&mut self, number: PacketNumber, is_eliciting: bool) -> Option<f32> {
        let Some(largest) = self.largest else {
            (self.largest, self.is_largest_eliciting) = (Some(number), is_eliciting);
            return Some(0.0);
        };
        if number < largest {
            // It was only late: no loss after all. Which burst it was part of is not known any more.
            self.lost = (self.lost - 1.0).max(0.0);
            self.bursts = self.bursts.min(self.lost);
            self.maybe_skipped = self.maybe_skipped.min(self.bursts);
            return None;
        }
        self.largest = Some(number);
        let gap = (number.0 - largest.0).saturating_sub(1) as f32;
        let kept = if gap == 0.0 { KEPT_BY_ONE } else { libm::expf(-(gap + 1.0) / MEMORY_PACKETS) };
        self.packets = self.packets * kept + gap + 1.0;
        self.lost = self.lost * kept + gap;
        self.bursts = self.bursts * kept + f32::from(u8::from(gap > 0.0));
        let may_be_skipped = gap == 1.0 && self.is_largest_eliciting;
        self.maybe_skipped = self.maybe_skipped * kept + f32::from(u8::from(may_be_skipped));
        self.skips_due *= kept;
        if is_eliciting {
            self.skips_due += skips::share(self.eliciting_packets);
            self.eliciting_packets = self.eliciting_packets.saturating_add(1);
        }
        self.is_largest_eliciting = is_eliciting;
        Some(gap)
    }

    /// What was lost so far was dropped by a queue that is full of ACKs: it says nothing of the path.
    pub fn forget_losses(&mut self) {
        (self.lost, self.bursts, self.maybe_skipped, self.skips_due) = (0.0, 0.0, 0.0, 0.0);
    }

    /// How many of the gaps were left out on purpose: all that may be, if there are no more of them than two
    /// standard deviations above what is due, and else what is due. The count is at most as uneven as
    /// Poisson's, and what fades exponentially has half its variance.
    fn skipped(&self) -> f32 {
        let likely_max = self.skips_due + libm::sqrtf(2.0 * self.skips_due);
        if self.maybe_skipped <= likely_max { self.maybe_skipped } else { self.skips_due }
    }

    /// What is known of it.
    pub fn view(&self) -> LossView {
        let skipped = self.skipped();
        let (lost, bursts) = ((self.lost - skipped).max(0.0), (self.bursts - skipped).max(0.0));
        let rate = if self.packets() >= WEIGHT_MIN { lost / self.packets } else { 0.0 };
        let burst_packets = if bursts > 0.0 { (lost / bursts).max(1.0) } else { 0.0 };
        LossView { rate: rate.into(), burst_packets: burst_packets.into(), weight_packets: self.packets() }
    }

    fn packets(&self) -> f64 {
        self.packets.into()
    }

    /// What is known of it, while of the way forth, by this estimate, it is not. Whoever sends little, such
    /// as credit for what arrives, hears of few losses of its own; and a path that loses one way most often
    /// loses the other way too.
    pub fn in_place_of(&self, forth: LossView) -> LossView {
        let is_better = forth.weight_packets < WEIGHT_MIN && self.packets() >= WEIGHT_MIN;
        if is_better { self.view() } else { forth }
    }

    /// The same as a channel.
    pub fn channel(&self) -> Channel {
        Channel::new(&self.view())
    }

    /// The same, but the worst that it may be while few packets came.
    pub fn at_worst(&self) -> Channel {
        if self.packets() >= YOUNG_PACKETS {
            return self.channel();
        }
        let seen = self.view();
        let unseen_rate = (UNSEEN_LOSSES / self.packets().max(1.0)).min(UNSEEN_RATE_MAX);
        Channel::new(&LossView {
            rate: seen.rate.max(unseen_rate),
            burst_packets: seen.burst_packets.max(UNSEEN_BURST_PACKETS),
            ..seen
        })
    }
}

#[cfg(test)]
mod tests {
    use rand_core::RngCore;

    use super::*;
    use crate::chance::Chance;

    #[test]
    fn the_constant_is_what_would_be_calculated() {
        assert_eq!(KEPT_BY_ONE.to_bits(), libm::expf(-1.0 / MEMORY_PACKETS).to_bits());
    }

    #[test]
    fn gaps_are_losses_and_late_packets_are_not() {
        let mut way = WayBack::default();
        // Of each hundred packets ten are lost, in two runs of five.
        for number in (0..2000).filter(|n| !(40..45).contains(&(n % 100)) && !(70..75).contains(&(n % 100))) {
            way.on_packet(PacketNumber(number), false);
        }
        let view = way.view();
        assert!((view.rate - 0.1).abs() < 0.01 && (view.burst_packets - 5.0).abs() < 0.01, "{view:?}");
        let mut swapped = WayBack::default();
        for number in (0..1000).map(|n| n ^ 1) {
            swapped.on_packet(PacketNumber(number), false);
        }
        assert!(swapped.view().rate < 0.01, "{:?}", swapped.view());
    }

    #[test]
    fn it_stands_for_the_way_forth_until_that_is_known() {
        let mut way = WayBack::default();
        let forth = |weight_packets| LossView { rate: 0.01, burst_packets: 1.0, weight_packets };
        (0..WEIGHT_MIN as u64).step_by(2).for_each(|number| _ = way.on_packet(PacketNumber(number), false));
        assert_eq!(way.in_place_of(forth(0.0)), forth(0.0), "too few came");
        (20..200).step_by(2).for_each(|number| _ = way.on_packet(PacketNumber(number), false));
        assert_eq!(way.in_place_of(forth(0.0)), way.view());
        assert!(way.view().rate > 0.4);
        assert_eq!(way.in_place_of(forth(WEIGHT_MIN)), forth(WEIGHT_MIN), "what was seen itself");
    }

    #[test]
    fn a_young_way_back_may_lose_what_was_not_seen_yet() {
        let after = |packets: u64| {
            let mut way = WayBack::default();
            (0..=packets).for_each(|number| _ = way.on_packet(PacketNumber(number), false));
            (way.channel().loss(), way.at_worst().loss())
        };
        assert_eq!(after(0), (0.0, UNSEEN_RATE_MAX));
        let (seen, worst) = after(60);
        assert!(seen == 0.0 && (worst - 0.05).abs() < 0.001, "{worst}");
        assert_eq!(after(700), (0.0, 0.0), "of so many a loss would have been seen");
    }

    /// A sender that leaves out numbers, over a path that loses one in `one_in`, or none. What is seen of it
    /// after each of so many packets.
    fn seen_of_a_skipping_sender(seed: u8, one_in: Option<u32>) -> Vec<f64> {
        let mut rng = Chance::new([seed; 32]);
        let mut skips = skips::Skips::new(rng.split());
        let (mut way, mut number, mut seen) = (WayBack::default(), 0, Vec::new());
        for _ in 0..12_000 {
            if one_in.is_none_or(|one_in| !rng.next_u32().is_multiple_of(one_in)) {
                way.on_packet(PacketNumber(number), true);
            }
            seen.push(way.channel().loss());
            number += 1;
            if skips.on_sent() {
                skips.on_skipped(PacketNumber(number));
                number += 1;
            }
        }
        seen
    }

    #[test]
    fn numbers_left_out_on_purpose_are_no_losses() {
        const RARE: f64 = 0.002;
        let (mut lossy, mut all) = (0, 0);
        for seed in 0..100 {
            let seen = seen_of_a_skipping_sender(seed, None);
            lossy += seen.iter().filter(|&&rate| rate >= RARE).count();
            all += seen.len();
        }
        // Counted as losses they held it lossy for half of the time.
        assert!(lossy * 50 < all, "{lossy} of {all} times a path that loses nothing is held lossy");
    }

    #[test]
    fn losses_are_seen_beside_numbers_left_out() {
        for one_in in [100, 10] {
            let after_first = |seed| seen_of_a_skipping_sender(seed, Some(one_in)).split_off(4000);
            let seen: Vec<f64> = (0..20).flat_map(after_first).collect();
            let mean = seen.iter().sum::<f64>() / seen.len() as f64;
            assert!((0.85..1.15).contains(&(mean * f64::from(one_in))), "1 / {one_in}: {mean}");
        }
    }

    /// Where nothing elicits an ACK nothing is left out either.
    #[test]
    fn a_gap_after_an_ack_alone_is_a_loss() {
        let mut way = WayBack::default();
        (0..4000).filter(|n| n % 200 > 0).for_each(|n| _ = way.on_packet(PacketNumber(n), false));
        assert!((way.view().rate - 0.005).abs() < 0.0005, "{:?}", way.view());
    }
}
