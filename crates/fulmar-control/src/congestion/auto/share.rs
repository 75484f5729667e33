//! What others leave us of the link, whether they go on taking, and for how long that is believed.
//!
//! Whoever obeys loss as CUBIC does takes a share soon after it came, and then little more: each loss sends it back
//! as it does us. One that takes no loss for congestion, as BBR, takes whatever we give up at each, until CUBIC keeps
//! a tenth in a queue of a bandwidth-delay product (Ware, Mukerjee, Seshan, Sherry: Modeling BBR's interactions with
//! loss-based congestion control, IMC 2019).

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use super::tally::Tally;
use crate::windowed::WindowedMax;

/// What the link carries of ours settles within so many rounds ..
const SETTLING_ROUNDS: u32 = 16;
/// .. and if so much of it is left before that time is over, though not sooner than after so many rounds, which
/// would be somebody who came, the others do not obey.
const TAKEN: f64 = 0.6;
const TAKING_TIME: Duration = Duration::from_secs(8);
const TAKING_ROUNDS: u32 = 32;
/// In longer pauses of competing what we give up is ours to give.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// More lost than this beyond the floor is a crowd, which takes by coming, one after another; and of the floor no more
/// than so much counts, for a crowd's own loss may be taken for it.
const CROWD_LOSS: f64 = 0.01;
const CROWD_FLOOR_MAX: f64 = 0.04;
/// Rounds of fewer packets settle nothing.
const PACKETS_MIN: u32 = 16;
/// Rounds of which the fastest counts.
const FASTEST_ROUNDS: u64 = 8;
/// That others take no loss for congestion is believed for so long, and for twice as long if it is found again
/// before three times that have passed, up to this: it may be wrong.
const STUBBORN_MIN: Duration = Duration::from_secs(4);
const STUBBORN_MAX: Duration = Duration::from_secs(32);
/// A trough leaves less doubt, and comes again every ten seconds: once that may be missed if there were two.
const STUBBORN_SEEN: Duration = Duration::from_millis(12_500);

/// What the link carried of ours since we compete.
#[derive(Clone, Debug)]
pub(super) struct Share {
    rounds: u32,
    /// What the link carried of ours in each of the last rounds, bytes per second: the most.
    carried: WindowedMax,
    settled: Option<Settled>,
    last_at: Option<Instant>,
}

/// What they left when it had settled, and what came of the packets since.
#[derive(Copy, Clone, Debug)]
struct Settled {
    rate: Rate,
    at: Instant,
    round: u32,
    packets: u32,
    lost_packets: u32,
}

/// Rates before and after.
#[derive(Copy, Clone, Debug)]
pub(super) struct Taken {
    pub(super) had: Rate,
    pub(super) left: Rate,
}

impl Share {
    pub(super) fn new() -> Self {
        Self { rounds: 0, carried: WindowedMax::new(FASTEST_ROUNDS), settled: None, last_at: None }
    }

    /// We competed until lately: a probe for the shortest round trip came between.
    pub(super) fn is_from_before(&self, now: Instant) -> bool {
        self.last_at.is_some_and(|at| now - at < PAUSE_MAX)
    }

    /// Adds a round that took so long. Returns what was ours, and what is left, if it is being taken.
    /// `floor`: the loss that does not depend on us.
    pub(super) fn on_round(
        &mut self,
        now: Instant,
        elapsed: Duration,
        tally: &Tally,
        floor: f64,
    ) -> Option<Taken> {
        let rate = Rate::from_bytes_in(tally.acked_bytes, elapsed)?;
        self.rounds += 1;
        self.last_at = Some(now);
        self.carried.update(u64::from(self.rounds), rate.bytes_per_second());
        let rate = Rate::from_bytes_per_second(self.carried.value().unwrap_or(0));
        let is_told = self.rounds >= SETTLING_ROUNDS && tally.packets() >= PACKETS_MIN;
        let known = self.settled.filter(|known| rate < known.rate && now - known.at < TAKING_TIME);
        let Some(mut known) = known else {
            let round = self.rounds;
            self.settled = is_told.then_some(Settled { rate, at: now, round, packets: 0, lost_packets: 0 });
            return None;
        };
        known.packets = known.packets.saturating_add(tally.packets());
        known.lost_packets = known.lost_packets.saturating_add(tally.lost_packets);
        self.settled = Some(known);
        let is_taken = rate <= known.rate.scaled(TAKEN);
        if is_taken && self.rounds - known.round < TAKING_ROUNDS {
            // At once: somebody came.
            self.settled = None;
            return None;
        }
        (is_calm(known.packets, known.lost_packets, floor, CROWD_LOSS) && is_taken)
            .then_some(Taken { had: known.rate, left: rate })
    }
}

/// So little was lost beyond the floor that there is no crowd, which would lose `crowd_loss`.
pub(super) fn is_calm(packets: u32, lost_packets: u32, floor: f64, crowd_loss: f64) -> bool {
    f64::from(lost_packets) <= f64::from(packets) * (crowd_loss + floor.min(CROWD_FLOOR_MAX))
}

/// The others were found to take no loss for congestion.
#[derive(Copy, Clone, Debug)]
pub(super) struct Stubborn {
    at: Instant,
    believed_for: Duration,
    /// We have taken our share of the link, as one of them that comes would.
    pub(super) has_come: bool,
}

impl Stubborn {
    /// They go on taking.
    pub(super) fn found(now: Instant, before: Option<Self>) -> Self {
        Self::believed(now, before, STUBBORN_MIN)
    }

    /// They left a trough.
    pub(super) fn seen(now: Instant, before: Option<Self>) -> Self {
        Self::believed(now, before, STUBBORN_SEEN)
    }

    fn believed(now: Instant, before: Option<Self>, least: Duration) -> Self {
        let again = before.filter(|before| now - before.at < 3 * before.believed_for);
        let believed_for = again.map_or(least, |again| (2 * again.believed_for).clamp(least, STUBBORN_MAX));
        Self { at: now, believed_for, has_come: again.is_some_and(|again| again.has_come) }
    }

    pub(super) fn is_confirmed(&self) -> bool {
        self.believed_for > STUBBORN_MIN
    }

    /// They left a trough, or were found again and again.
    pub(super) fn is_certain(&self) -> bool {
        self.believed_for >= STUBBORN_SEEN
    }

    pub(super) fn is_believed(&self, now: Instant) -> bool {
        now - self.at < self.believed_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(30);

    /// Rounds of 100 packets in which so much of the link is ours, with so many lost in each: in which of them it
    /// is found to be taken.
    fn taken_in(kilobytes: impl Iterator<Item = u64>, lost_packets: u32) -> Option<usize> {
        let mut share = Share::new();
        let mut now = Instant::ZERO;
        kilobytes.into_iter().position(|kilobytes| {
            now += ROUND;
            let mut tally = Tally::new();
            (tally.acked_packets, tally.acked_bytes, tally.lost_packets) =
                (100 - lost_packets, kilobytes * 1000, lost_packets);
            share.on_round(now, ROUND, &tally, 0.0).is_some()
        })
    }

    #[test]
    fn what_falls_from_round_to_round_is_taken() {
        let falling = || (0..120).map(|round| 1000 - 8 * round);
        // It settles in the 16th round at what the 9th last carried, 936, and eight rounds see the fastest of them.
        assert_eq!(taken_in(falling(), 1), Some(63));
        assert_eq!(taken_in(falling(), 6), None, "a crowd");
    }

    #[test]
    fn what_falls_at_once_or_slowly_is_not() {
        let at_once = (0..120).map(|round| if round < 40 { 1000 } else { 500 });
        assert_eq!(taken_in(at_once, 1), None, "somebody came");
        let slowly = (0..900).map(|round| 2000 - round);
        assert_eq!(taken_in(slowly, 1), None, "eight seconds are 266 rounds");
        let sawtooth = (0..900).map(|round| 1000 - 3 * (round % 100));
        assert_eq!(taken_in(sawtooth, 1), None, "CUBIC beside CUBIC");
    }
}
