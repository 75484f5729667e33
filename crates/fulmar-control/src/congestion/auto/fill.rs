//! Filling the trough that BBR leaves (`trough`).
//!
//! While it looks for the shortest round trip the link is ours alone: sending half as much again with each
//! round finds its whole rate, and nobody pays. Up to half of that is ours from then on, for BBR is back with
//! the rate that it had. (Where the queue is full both send what their windows allow, and each its share for
//! good: its own search for more, an eighth of the time, wins nothing there.)

use fulmar_units::{Instant, Rate};

use super::trough::FLAT;

/// Pace as a multiple of the rate while it grows: a queue is seen a round trip later, and is then no longer
/// than a half of one. And of what we had, at the most: several may have left the trough.
const FILL_GAIN: f64 = 1.5;
/// It grows by so much with a round, or the whole rate is found.
const FILL_GROWTH: f64 = 1.1;
/// What BBR leaves lasts 200 ms: no more rounds than that.
const FILL_ROUNDS_MAX: u32 = 8;
/// Whole rounds after which no sample is of what was sent to find it.
const SETTLING_ROUNDS: u32 = 2;
/// What is ours of a link that we share with one who does not obey.
const HALF: f64 = 0.5;

/// The link is free for as long as a trough lasts.
#[derive(Copy, Clone, Debug)]
pub(super) struct Fill {
    began: Instant,
    /// What was ours before.
    had: Rate,
    /// Whole rounds of it, and the rate after the last of them.
    rounds: u32,
    rate: Rate,
    /// The rate is found: whole rounds since, of what was sent to find it.
    settled: Option<u32>,
}

impl Fill {
    /// It begins at the rate that is ours.
    pub(super) fn new(now: Instant, had: Rate) -> Self {
        Self { began: now, had, rounds: 0, rate: had, settled: None }
    }

    /// Pace as a multiple of the rate.
    pub(super) fn gain(&self) -> f64 {
        if self.settled.is_some() { HALF } else { FILL_GAIN }
    }

    /// There is a queue, or loss: faster than this the link is not.
    pub(super) fn found(self) -> Self {
        Self { settled: self.settled.or(Some(0)), ..self }
    }

    /// A round has ended in which the link carried `rate`, and nothing was sent at more than this gain if it
    /// `is_whole`. `None` when it is over: after the last fast round there is one that is sent at what is
    /// ours, and one that tells of it, and then `is_back` what filled the queue, or should be.
    pub(super) fn after_round(self, now: Instant, rate: Rate, is_whole: bool, is_back: bool) -> Option<Self> {
        let Some(settled) = self.settled else {
            let rounds = self.rounds + 1;
            // The first round's ACKs are of packets sent before.
            let has_grown = rounds < 2 || rate >= self.rate.scaled(FILL_GROWTH);
            let next = Self { rounds, rate, ..self };
            return Some(if has_grown && rounds < FILL_ROUNDS_MAX { next } else { next.found() });
        };
        let settled = settled + u32::from(is_whole);
        // Whoever grows while the trough lasts grows into BBR's place.
        let is_over = settled >= SETTLING_ROUNDS && (is_back || now - self.began >= FLAT);
        (!is_over).then_some(Self { settled: Some(settled), ..self })
    }

    /// What is ours of a link of this rate.
    pub(super) fn share(&self, rate: Rate) -> Rate {
        rate.scaled(HALF).min(self.had.scaled(FILL_GAIN))
    }

    /// Pace where the link carries `rate`.
    pub(super) fn pace(&self, rate: Rate) -> Rate {
        if self.settled.is_some() { self.share(rate) } else { rate.scaled(FILL_GAIN) }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn megabits(rate: u64) -> Rate {
        Rate::from_bits_per_second(rate * 1_000_000)
    }

    #[test]
    fn half_of_the_link_is_ours_but_no_more_than_half_as_much_again() {
        let share = |had| Fill::new(Instant::ZERO, megabits(had)).found().pace(megabits(96));
        assert_eq!([12, 40, 60].map(share), [18, 48, 48].map(megabits));
    }

    #[test]
    fn it_grows_until_the_rate_is_found_and_settles_until_the_others_are_back() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut fill = Fill::new(at(0), megabits(30));
        for rate in [30, 45, 68, 95] {
            fill = fill.after_round(at(80), megabits(rate), false, false).expect("not over");
            assert_eq!(fill.gain(), FILL_GAIN);
        }
        let after = |millis, is_whole, is_back| fill.after_round(at(millis), megabits(96), is_whole, is_back);
        let found = after(100, false, true).expect("it no longer grows");
        assert_eq!((found.gain(), found.pace(megabits(96))), (HALF, megabits(45)));
        let settled = |millis, is_back| {
            let after = |fill: Fill, is_whole| fill.after_round(at(millis), megabits(96), is_whole, is_back);
            let fill = after(found, false).expect("it was found within the round");
            after(after(fill, true).expect("sent at what is ours"), true)
        };
        assert!(settled(140, true).is_none(), "they are back");
        assert!(settled(199, false).is_some() && settled(200, false).is_none(), "they should be");
    }
}
