//! Whether the way back is full: of its losses, which come of its own narrowness, and how many packets a
//! second it carries then.
//!
//! A path that loses at random does not care how many ACKs there are: more of them are lost, and more arrive.
//! A way back that is full carries as many as before, whatever is offered, and who answers the losses with
//! more ACKs makes a storm (RFC 3449; RFC 5690 takes every loss of ACKs for congestion, which here would
//! leave a lossy path blind). Both show gaps in the numbers; what tells them apart is time. Lost at random, a
//! gap of g packets takes as long as g + 1 packets take: the time between two arrivals grows with the gap
//! between them. From a full queue they come one behind the other, as fast as the way carries them, however
//! many were dropped in between. So the slope of the times over the gaps is the mean distance of what was
//! sent in the one case, and zero in the other. Which it is is said when three standard errors are below or
//! above the middle.
//!
//! A full way back is offered a little less than it carried, and then more again, step by step.

use std::time::Duration;

use crate::Instant;

/// Arrivals after which it is judged, and again after as many ..
const LOOK_PACKETS: u16 = 64;
/// .. but so many that say nothing are forgotten: one long pause among them hides all the others.
const LOOK_PACKETS_MAX: u16 = 128;
/// The first are not looked at: they come as the handshake and the first few packets went.
const FIRST_PACKETS: u8 = 32;
/// Fewer gaps have no slope.
const GAPS_MIN: u16 = 8;
/// A way back that loses less is not full for long.
const LOSS_MIN: f32 = 0.03;
/// Of what seemed lost so much may come late: more, and gaps are not losses.
const LATE_SHARE_MAX: f32 = 0.1;
/// Standard errors between what is measured and the middle.
const ERRORS: f32 = 3.0;
/// Of what a full way back carried so much is offered, so that its queue, which may be much longer than the
/// round trip, empties before long ..
const SHARE_OFFERED: f32 = 0.6;
/// .. and so much more with each look at which it is not full.
const GROWTH: f32 = 1.05;
/// What was learnt is of no use any more when it allows so many times what is asked for.
const USELESS: f32 = 4.0;

/// What the arrivals since the last judgement add up to: gaps `g` before them, in packets, and times `t`
/// since the one before, in seconds.
#[derive(Copy, Clone, Debug, Default)]
struct Sums {
    packets: u16,
    gaps: u16,
    late: u16,
    g: f32,
    gg: f32,
    t: f32,
    tt: f32,
    gt: f32,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Full,
    /// Losses, if there are any, come by chance.
    Free,
    /// Not to be told yet.
    Open,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct BackRate {
    sums: Sums,
    /// When the newest packet arrived.
    last_at: Instant,
    /// At most so many ACKs a second are to be asked for.
    per_second_max: Option<f32>,
    has_been_full: bool,
    /// How many of the first have come.
    first_packets: u8,
}

impl BackRate {
    /// A packet arrived, `gap` packets after the one before; `None`: it came late. `rtt`: a pause that is
    /// longer, and has no gap, was a pause of the peer. True if the way back is found to be full.
    pub(super) fn on_packet(&mut self, now: Instant, gap: Option<f32>, rtt: Duration) -> bool {
        let Some(gap) = gap else {
            self.sums.late = self.sums.late.saturating_add(1);
            return false;
        };
        let last_at = std::mem::replace(&mut self.last_at, now);
        let took = now - last_at;
        if self.first_packets < FIRST_PACKETS {
            self.first_packets += 1;
            return false;
        }
        if gap == 0.0 && took > rtt {
            return false;
        }
        let (sums, t) = (&mut self.sums, took.as_secs_f32());
        sums.packets += 1;
        sums.t += t;
        sums.tt += t * t;
        if gap > 0.0 {
            sums.gaps += 1;
            sums.g += gap;
            sums.gg += gap * gap;
            sums.gt += gap * t;
        }
        sums.packets % LOOK_PACKETS == 0 && self.look()
    }

    /// This path's way back was found full once.
    pub(super) fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// At most so many ACKs a second are worth asking for.
    pub(super) fn per_second_max(&self) -> Option<f64> {
        self.per_second_max.map(f64::from)
    }

    /// So many ACKs a second would be asked for if there were no bound.
    pub(super) fn on_wanted(&mut self, per_second: f64) {
        self.per_second_max.take_if(|max| *max > per_second as f32 * USELESS);
    }

    fn look(&mut self) -> bool {
        let sums = self.sums;
        let verdict = sums.verdict();
        match verdict {
            Verdict::Full => self.per_second_max = Some(sums.per_second() * SHARE_OFFERED),
            Verdict::Free => self.per_second_max = self.per_second_max.map(|max| max * GROWTH),
            Verdict::Open if sums.packets < LOOK_PACKETS_MAX => return false,
            Verdict::Open => {}
        }
        self.sums = Sums::default();
        self.has_been_full |= verdict == Verdict::Full;
        verdict == Verdict::Full
    }
}

impl Sums {
    fn per_second(&self) -> f32 {
        f32::from(self.packets) / self.t.max(1e-6)
    }

    fn verdict(&self) -> Verdict {
        let n = f32::from(self.packets);
        let sent = n + self.g;
        if self.g < LOSS_MIN * sent {
            return Verdict::Free;
        }
        if self.gaps < GAPS_MIN || f32::from(self.late) > LATE_SHARE_MAX * self.g {
            return Verdict::Open;
        }
        let (mean_g, mean_t) = (self.g / n, self.t / n);
        let variance_g = self.gg / n - mean_g * mean_g;
        // By chance gaps are as uneven as they are long, at least: a geometric distribution's variance is its
        // mean's square and its mean.
        if mean_g >= 1.0 && variance_g < mean_g * mean_g / 4.0 {
            return Verdict::Full;
        }
        let covariance = self.gt / n - mean_g * mean_t;
        let slope = covariance / variance_g;
        let rest = (self.tt / n - mean_t * mean_t - slope * covariance).max(0.0);
        let error = libm::sqrtf(rest / (n * variance_g));
        let middle = self.t / sent / 2.0;
        if slope + ERRORS * error < middle {
            Verdict::Full
        } else if slope - ERRORS * error > middle {
            Verdict::Free
        } else {
            Verdict::Open
        }
    }
}

#[cfg(test)]
impl BackRate {
    /// A way back that carries no more than this.
    pub(super) fn full_at(per_second_max: f64) -> Self {
        Self { per_second_max: Some(per_second_max as f32), has_been_full: true, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rand_core::{RngCore, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const RTT: Duration = Duration::from_secs(10);

    /// Uniform from 0 to 1.
    fn draw(rng: &mut Pcg64Mcg) -> f64 {
        f64::from(rng.next_u32()) / f64::from(u32::MAX)
    }

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// How often a way back that carries a packet a second, and holds so many, is found full where so many a
    /// second are offered, and what it is offered after the last time.
    fn full(rng: &mut Pcg64Mcg, offered: f64, queue: usize) -> (u32, Option<f64>) {
        let (mut rate, mut found) = (BackRate::default(), 0);
        let (mut now, mut gap, mut leaving) = (0.0, 0.0, VecDeque::new());
        let mut last_left = 0.0_f64;
        for _ in 0..20_000 {
            now += (0.9 + 0.2 * draw(rng)) / offered;
            while leaving.front().is_some_and(|&left| left <= now) {
                leaving.pop_front();
            }
            if leaving.len() >= queue {
                gap += 1.0;
                continue;
            }
            last_left = last_left.max(now) + 0.9 + 0.2 * draw(rng);
            leaving.push_back(last_left);
            found += u32::from(rate.on_packet(at(last_left), Some(gap), RTT));
            gap = 0.0;
        }
        (found, rate.per_second_max())
    }

    #[test]
    fn a_way_back_that_is_full_is_found_and_offered_what_it_carries() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for offered in [1.2, 2.0, 5.0, 9.0] {
            for queue in [3, 20] {
                let (found, max) = full(&mut rng, offered, queue);
                assert!(found > 5, "{offered}, {queue}: {found} times");
                assert!(max.is_some_and(|max| (0.55..1.1).contains(&max)), "{offered}, {queue}: {max:?}");
            }
        }
        assert_eq!(full(&mut rng, 0.9, 20), (0, None));
    }

    /// How many looks find a way back full that loses by chance, of how many packets.
    fn by_chance(
        rng: &mut Pcg64Mcg,
        loss: f64,
        burst: f64,
        mut space: impl FnMut(&mut Pcg64Mcg) -> f64,
    ) -> u32 {
        let (again, begins) = (1.0 - 1.0 / burst, loss / (burst * (1.0 - loss)));
        let (mut rate, mut found, mut is_lost) = (BackRate::default(), 0, false);
        let (mut now, mut gap) = (0.0, 0.0);
        for _ in 0..64_000 {
            now += space(rng);
            is_lost = draw(rng) < if is_lost { again } else { begins };
            if is_lost {
                gap += 1.0;
            } else {
                found += u32::from(rate.on_packet(at(now), Some(gap), RTT));
                gap = 0.0;
            }
        }
        found
    }

    #[test]
    fn losses_by_chance_are_not_taken_for_a_full_way_back() {
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        for (loss, burst) in [(0.05, 1.06), (0.2, 1.25), (0.1, 5.0), (0.2, 8.0), (0.3, 20.0), (0.5, 2.0)] {
            let even = by_chance(&mut rng, loss, burst, |_| 1.0);
            let uneven = by_chance(&mut rng, loss, burst, |rng| -libm::log(draw(rng).max(1e-9)));
            // As where a radio gathers what it sends.
            let gathered = by_chance(&mut rng, loss, burst, |rng| if draw(rng) < 0.2 { 5.0 } else { 0.0 });
            // Of up to 1,000 looks.
            assert!(
                even == 0 && uneven <= 2 && gathered <= 5,
                "{loss}, {burst}: {even}, {uneven}, {gathered}"
            );
        }
    }

    #[test]
    fn packets_out_of_order_are_no_losses() {
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let mut rate = BackRate::default();
        for step in 0..10_000 {
            let is_swapped = rng.next_u32() % 4 == 0;
            let gaps: &[Option<f32>] = if is_swapped { &[Some(1.0), None] } else { &[Some(0.0), Some(0.0)] };
            for &gap in gaps {
                assert!(!rate.on_packet(at(f64::from(step)), gap, RTT));
            }
        }
    }

    #[test]
    fn what_was_learnt_is_forgotten_when_it_binds_nobody() {
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        let mut rate = BackRate::full_at(full(&mut rng, 5.0, 20).1.expect("found"));
        rate.on_wanted(5.0);
        assert!(rate.per_second_max().is_some());
        rate.on_wanted(0.1);
        assert_eq!(rate.per_second_max(), None);
    }
}
