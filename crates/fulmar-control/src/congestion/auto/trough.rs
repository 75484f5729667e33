//! The trough that BBR leaves in a queue.
//!
//! Who takes no loss for congestion gives himself away every ten seconds: then BBR keeps four packets under way for
//! 200 ms, or a round, to see the shortest round trip (draft-cardwell-iccrg-bbr-congestion-control 4.3.5). A queue
//! that stood for long is gone at once, for just so long nothing at all waits, and then something does again, while we
//! send no faster and no slower. Those who obey, and our own kind when it looks for the shortest round trip, leave
//! something to wait for or are back sooner or later; a flow that ends does not come back.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::windowed::WindowedMin;

/// Rounds in a row for which the queue stood before, and packets that tell what it lost.
const STANDING_ROUNDS_MIN: u32 = 16;
const STANDING_PACKETS_MIN: u32 = 256;
/// It is gone within so many more.
const FALLING_ROUNDS_MAX: u32 = 4;
/// BBR's 200 ms; and so many rounds longer or shorter, for they begin and end within a round.
const FLAT: Duration = Duration::from_millis(200);
const FLAT_ROUNDS_MARGIN: u32 = 2;
const FLAT_ROUNDS_MIN: u32 = 2;
/// It comes back if something waits for so many rounds in a row: where packets get lost it comes slowly.
const RISING_ROUNDS_MIN: u32 = 4;
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

/// What that means beside the shortest round trip.
#[derive(Copy, Clone, Debug)]
struct Queue {
    stands: bool,
    /// Nothing waits.
    is_flat: bool,
    /// We sent slower, now or in the round before.
    is_ours: bool,
}

#[derive(Copy, Clone, Debug)]
enum State {
    Standing(Standing),
    Falling {
        stood: Standing,
        rounds: u32,
    },
    Gone {
        stood: Standing,
        flat: Flat,
    },
    /// Something waits again.
    Rising {
        stood: Standing,
        flat: Flat,
        rounds: u32,
    },
}

/// Rounds in a row in which nothing waited.
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
            state: State::default(),
            rtt_min: WindowedMin::new(whole_nanos(RTT_MIN_WINDOW)),
            was_slow: false,
        }
    }

    /// There may be one: whoever looks for more now would not know whose queue comes back.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Standing(_))
    }

    /// Adds a round. Returns what stood before the trough that ended in it, if one did.
    pub(super) fn on_round(&mut self, sight: &Sight) -> Option<Standing> {
        self.rtt_min.update(sight.ended.as_nanos(), whole_nanos(sight.rtt_min));
        let shortest = self.rtt_min.value().map_or(sight.rtt_min, Duration::from_nanos);
        let queue = Queue {
            stands: sight.rtt_min > shortest + sight.slack / 2,
            is_flat: sight.rtt_mean < shortest + sight.slack / 8
                && sight.rtt_mean < sight.rtt_min + sight.slack / 16,
            is_ours: sight.is_slow || self.was_slow,
        };
        self.was_slow = sight.is_slow;
        self.state = self.state.after(sight, queue);
        match self.state {
            State::Rising { stood, rounds, .. } if queue.stands || rounds >= RISING_ROUNDS_MIN => {
                self.state = State::default();
                Some(stood)
            }
            _ => None,
        }
    }
}

impl State {
    fn after(self, sight: &Sight, queue: Queue) -> Self {
        let elapsed = sight.ended - sight.began;
        match self {
            Self::Standing(standing) if queue.stands => Self::Standing(standing.and(sight)),
            _ if queue.is_ours => Self::default(),
            Self::Standing(stood) if stood.is_long() => Self::Falling { stood, rounds: 0 },
            Self::Falling { stood, .. } if queue.is_flat => {
                Self::Gone { stood, flat: Flat::default().and(elapsed) }
            }
            Self::Falling { stood, rounds } if rounds < FALLING_ROUNDS_MAX && !queue.stands => {
                Self::Falling { stood, rounds: rounds + 1 }
            }
            Self::Gone { stood, flat } | Self::Rising { stood, flat, .. } if queue.is_flat => {
                let flat = flat.and(elapsed);
                if flat.is_too_long(elapsed) { Self::default() } else { Self::Gone { stood, flat } }
            }
            _ if sight.is_probe => Self::default(),
            Self::Gone { stood, flat } if flat.is_long(elapsed) => Self::Rising { stood, flat, rounds: 1 },
            Self::Rising { stood, flat, rounds } => Self::Rising { stood, flat, rounds: rounds + 1 },
            _ => Self::default(),
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Standing(Standing::default())
    }
}

impl Standing {
    fn is_long(&self) -> bool {
        self.rounds >= STANDING_ROUNDS_MIN && self.packets >= STANDING_PACKETS_MIN
    }

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
    fn and(self, elapsed: Duration) -> Self {
        Self { rounds: self.rounds + 1, time: self.time + elapsed }
    }

    /// As long as BBR's, in rounds of that length.
    fn is_long(self, elapsed: Duration) -> bool {
        self.rounds >= FLAT_ROUNDS_MIN && self.time + elapsed * FLAT_ROUNDS_MARGIN >= FLAT
    }

    fn is_too_long(self, elapsed: Duration) -> bool {
        self.time > FLAT + elapsed * FLAT_ROUNDS_MARGIN
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
        assert_eq!(found_in(trough(16, 7), |_, sight| sight.packets = 15), None, "too few to tell");
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
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_slow = round == 33), None);
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_probe = round >= 38), None);
        assert_eq!(
            found_in(trough(30, 7), |round, sight| sight.is_probe = round <= 36),
            Some(38),
            "nothing waited"
        );
    }

    #[test]
    fn it_may_come_back_slowly() {
        let slowly = trough(30, 7).take(38).chain([1, 1, 1, 1]);
        assert_eq!(found_in(slowly, |_, _| ()), Some(41));
        let but_once = trough(30, 7).take(38).chain([1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(found_in(but_once, |_, _| ()), None, "somebody left");
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
