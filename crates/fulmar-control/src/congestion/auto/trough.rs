//! The trough that BBR leaves in a queue.
//!
//! Who takes no loss for congestion gives himself away every ten seconds: then BBR keeps four packets under way for
//! 200 ms, or a round, to see the shortest round trip (draft-cardwell-iccrg-bbr-congestion-control 4.3.5). A queue
//! that stood for long is gone at once, nothing at all waits, and soon it stands again, while we send no faster and
//! no slower. Those who obey, and our own kind when it looks for the shortest round trip, leave something to wait for
//! or are back sooner; a flow that ends does not come back.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::windowed::WindowedMin;

/// Rounds in a row for which the queue stood before.
const STANDING_ROUNDS_MIN: u32 = 16;
/// For so long, and so many rounds, nothing waits: a little less than BBR's 200 ms.
const FLAT_MIN: Duration = Duration::from_millis(120);
const FLAT_ROUNDS_MIN: u32 = 2;
/// After so long, and so many rounds, what comes is another queue.
const TIME_MAX: Duration = Duration::from_millis(350);
const ROUNDS_MAX: u32 = 4;
/// The shortest round trip counts for so long: longer than it takes them to show it again.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(30);

/// What a round saw.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sight {
    pub(super) began: Instant,
    pub(super) ended: Instant,
    pub(super) rtt_min: Duration,
    pub(super) rtt_mean: Duration,
    /// How much longer than the shortest a round trip may be without a queue.
    pub(super) slack: Duration,
    /// We sent slower than the rate.
    pub(super) is_slow: bool,
    pub(super) is_startup: bool,
    /// We look for more.
    pub(super) is_probe: bool,
    pub(super) packets: u32,
    pub(super) lost_packets: u32,
}

/// A queue that stands: for how many rounds, and what came of our packets.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Standing {
    rounds: u32,
    pub(super) packets: u32,
    pub(super) lost_packets: u32,
}

#[derive(Copy, Clone, Debug)]
enum State {
    Standing(Standing),
    /// It stood, and is gone since then.
    Gone {
        stood: Standing,
        since: Instant,
        flat: Flat,
    },
}

/// Rounds in which nothing waited.
#[derive(Copy, Clone, Debug, Default)]
struct Flat {
    rounds: u32,
    time: Duration,
}

/// Watches for it, round by round.
#[derive(Clone, Debug)]
pub(super) struct Troughs {
    state: State,
    rtt_min: WindowedMin,
    was_slow: bool,
}

impl Troughs {
    pub(super) fn new() -> Self {
        Self {
            state: State::Standing(Standing::default()),
            rtt_min: WindowedMin::new(whole_nanos(RTT_MIN_WINDOW)),
            was_slow: false,
        }
    }

    /// There may be one: whoever looks for more now would not know whose queue comes back.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Gone { .. })
    }

    /// Adds a round. Returns what stood before the trough that ended in it, if one did.
    pub(super) fn on_round(&mut self, sight: &Sight) -> Option<Standing> {
        self.rtt_min.update(sight.ended.as_nanos(), whole_nanos(sight.rtt_min));
        let shortest = self.rtt_min.value().map_or(sight.rtt_min, Duration::from_nanos);
        let stands = sight.rtt_min > shortest + sight.slack;
        let is_flat = sight.rtt_mean < shortest + sight.slack / 4;
        let is_ours = sight.is_slow || self.was_slow;
        self.was_slow = sight.is_slow;
        let elapsed = sight.ended - sight.began;
        let mut found = None;
        self.state = match self.state {
            State::Standing(standing) if stands => State::Standing(standing.and(sight)),
            State::Standing(stood) if stood.rounds >= STANDING_ROUNDS_MIN && !is_ours => {
                State::Gone { stood, since: sight.began, flat: Flat::default() }
            }
            State::Gone { stood, flat, .. } if stands && !sight.is_probe => {
                found = (flat.rounds >= FLAT_ROUNDS_MIN && flat.time >= FLAT_MIN).then_some(stood);
                State::Standing(Standing::default())
            }
            State::Gone { stood, since, flat }
                if !sight.is_probe && sight.ended - since < TIME_MAX + elapsed * ROUNDS_MAX =>
            {
                State::Gone { stood, since, flat: flat.and(is_flat, elapsed) }
            }
            _ => State::Standing(Standing::default()),
        };
        found
    }
}

impl Standing {
    /// What start-up lost is its own doing.
    fn and(self, sight: &Sight) -> Self {
        if sight.is_startup {
            return Self::default();
        }
        Self {
            rounds: self.rounds.saturating_add(1),
            packets: self.packets.saturating_add(sight.packets),
            lost_packets: self.lost_packets.saturating_add(sight.lost_packets),
        }
    }
}

impl Flat {
    fn and(self, is_flat: bool, elapsed: Duration) -> Self {
        if is_flat { Self { rounds: self.rounds + 1, time: self.time + elapsed } } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: u64 = 30;

    /// Rounds of 30 ms above a shortest round trip of 20 ms: so many milliseconds waited for in each, and what else
    /// there is to say. In which of them a trough is found.
    fn found_in(rounds: impl IntoIterator<Item = u64>, with: impl Fn(usize, &mut Sight)) -> Option<usize> {
        let mut troughs = Troughs::new();
        let mut now = Instant::ZERO;
        rounds.into_iter().enumerate().position(|(round, waited)| {
            let began = now;
            now += Duration::from_millis(ROUND);
            let rtt = Duration::from_millis(20 + waited);
            let mut sight = Sight {
                began,
                ended: now,
                rtt_min: rtt,
                rtt_mean: rtt,
                slack: Duration::from_micros(2500),
                is_slow: false,
                is_startup: false,
                is_probe: false,
                packets: 50,
                lost_packets: 0,
            };
            with(round, &mut sight);
            troughs.on_round(&sight).is_some()
        })
    }

    /// The shortest round trip, a queue for so many rounds, none for so many, and one again.
    fn trough(standing: usize, gone: usize) -> impl Iterator<Item = u64> {
        let queue = |rounds| core::iter::repeat_n(15, rounds);
        core::iter::once(0).chain(queue(standing)).chain(core::iter::repeat_n(0, gone)).chain(queue(20))
    }

    #[test]
    fn a_standing_queue_that_is_gone_for_two_hundred_milliseconds_is_bbr_s() {
        assert_eq!(found_in(trough(16, 7), |_, _| ()), Some(24));
        assert_eq!(found_in(trough(15, 7), |_, _| ()), None, "it did not stand");
    }

    #[test]
    fn one_that_comes_back_sooner_or_later_is_not() {
        assert_eq!(found_in(trough(30, 4), |_, _| ()), None);
        assert_eq!(found_in(trough(30, 16), |_, _| ()), None);
    }

    #[test]
    fn nor_one_in_which_something_waited() {
        let valley = trough(30, 0).take(31).chain([2; 7]).chain([15; 20]);
        assert_eq!(found_in(valley, |_, _| ()), None);
    }

    #[test]
    fn nor_one_that_we_made_or_filled() {
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_slow = round == 30), None);
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_probe = round == 36), None);
    }

    #[test]
    fn what_was_lost_while_it_stood_is_told_but_for_start_up() {
        let mut troughs = Troughs::new();
        let mut now = Instant::ZERO;
        let stood = trough(30, 7).enumerate().find_map(|(round, waited)| {
            let began = now;
            now += Duration::from_millis(ROUND);
            let rtt = Duration::from_millis(20 + waited);
            troughs.on_round(&Sight {
                began,
                ended: now,
                rtt_min: rtt,
                rtt_mean: rtt,
                slack: Duration::from_micros(2500),
                is_slow: false,
                is_startup: round < 5,
                is_probe: false,
                packets: 50,
                lost_packets: 1,
            })
        });
        assert_eq!(stood.map(|stood| (stood.packets, stood.lost_packets)), Some((26 * 50, 26)));
    }
}
