//! Filling the trough that BBR leaves (`trough`).
//!
//! While it looks for the shortest round trip the link is ours alone: sending half as much again with each round finds
//! its whole rate, and nobody pays. Up to half of that is ours from then on, for BBR is back with the rate that it had.
//! (Where the queue is full both send what their windows allow, and each its share for good: its own search for more, an
//! eighth of the time, wins nothing there.)

use fulmar_units::{Instant, Rate};

use super::phase::Phase;
use super::share::Stubborn;
use super::{Auto, Mechanism};
use crate::PathView;

/// Pace as a multiple of the rate while it grows: a queue is seen a round trip later, and is then no longer than a half
/// of one. And of what we had, at the most: several may have left the trough.
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
    /// What was ours before.
    had: Rate,
    /// Whole rounds of it, and the rate after the last of them.
    rounds: u32,
    rate: Rate,
    /// The rate is found: whole rounds since, of what was sent to find it.
    settled: Option<u32>,
}

impl Fill {
    /// Pace as a multiple of the rate.
    pub(super) fn gain(&self) -> f64 {
        if self.settled.is_some() { HALF } else { FILL_GAIN }
    }

    /// What is ours of a link of this rate: no less than it was.
    fn share(&self, rate: Rate) -> Rate {
        rate.scaled(HALF).min(self.had.scaled(FILL_GAIN)).max(self.had)
    }

    /// Pace where the link carries `rate`.
    pub(super) fn pace(&self, rate: Rate) -> Rate {
        if self.settled.is_some() { self.share(rate) } else { rate.scaled(FILL_GAIN) }
    }
}

impl Auto {
    /// Beside BBR the queue is gone without us.
    pub(super) fn may_fill(&self, now: Instant) -> bool {
        let is_steady = matches!(self.phase, Phase::Cruise { .. } | Phase::Up(_) | Phase::Compete(_));
        is_steady && self.is_beside_bbr(now) && self.troughs.is_free() && self.has(Mechanism::Stubborn)
    }

    /// A trough that was to be expected: no need to see it end.
    pub(super) fn enter_fill(&mut self, now: Instant) {
        let had = self.model.rate().unwrap_or(Rate::ZERO);
        self.stubborn = Some(Stubborn::seen(now, self.stubborn));
        self.model.unbound_rate();
        self.bound_bytes = None;
        self.enter(Phase::Fill(Fill { had, rounds: 0, rate: had, settled: None }));
    }

    /// Over at once when there is a queue, or loss.
    pub(super) fn watch_fill(&mut self, path: &PathView) {
        let Phase::Fill(fill) = self.phase else { return };
        let has_queue = self.tally.rtt_samples >= 4 && self.has_queue(self.tally.rtt_min);
        if fill.settled.is_none() && (has_queue || self.is_congested(path)) {
            self.enter(Phase::Fill(Fill { settled: Some(0), ..fill }));
        }
    }

    /// After the last round there is one that is sent at what is ours, and one that tells of it.
    pub(super) fn judge_fill(&mut self, now: Instant, fill: Fill, path: &PathView) {
        let rate = self.model.rate().unwrap_or(fill.had);
        match fill.settled {
            None => {
                let rounds = fill.rounds + 1;
                // The first round's ACKs are of packets sent before.
                let has_grown = rounds < 2 || rate >= fill.rate.scaled(FILL_GROWTH);
                let settled = (!has_grown || rounds >= FILL_ROUNDS_MAX).then_some(0);
                self.enter(Phase::Fill(Fill { rounds, rate, settled, ..fill }));
            }
            // Entered in the middle of a round.
            Some(_) if self.round_gain > fill.gain() => {}
            Some(rounds) if rounds + 1 < SETTLING_ROUNDS => {
                self.enter(Phase::Fill(Fill { settled: Some(rounds + 1), ..fill }));
            }
            Some(_) => {
                self.model.next_cycle();
                self.model.lower(fill.share(rate));
                self.enter_compete(now, path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_link_is_ours_but_no_more_than_half_as_much_again() {
        let megabits = |rate: u64| Rate::from_bits_per_second(rate * 1_000_000);
        let share = |had| {
            let had = megabits(had);
            Fill { had, rounds: 3, rate: had, settled: Some(0) }.pace(megabits(96))
        };
        assert_eq!([12, 40, 60].map(share), [18, 48, 60].map(megabits));
    }
}
