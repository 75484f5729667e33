//! The trough that BBR leaves in a queue.
//!
//! Who takes no loss for congestion gives himself away every ten seconds: then BBR keeps four packets under
//! way for 200 ms, or a round, to see the shortest round trip (draft-cardwell-iccrg-bbr-congestion-control
//! 4.3.5). A queue that stood for long is gone at once, for just so long nothing at all waits, and then
//! something does again, while we send no faster and no slower. Those who obey, and our own kind when it
//! looks for the shortest round trip, leave something to wait for or are back sooner or later; a flow that
//! ends does not come back.

use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

use crate::windowed::WindowedMin;

/// Rounds in a row for which the queue stood before, and packets that tell what it lost.
const STANDING_ROUNDS_MIN: u32 = 16;
const STANDING_PACKETS_MIN: u32 = 256;
/// It is gone within so many more.
const FALLING_ROUNDS_MAX: u32 = 4;
/// BBR's 200 ms; and so many rounds longer or shorter, for they begin and end within a round.
pub(super) const FLAT: Duration = Duration::from_millis(200);
const FLAT_ROUNDS_MARGIN: u32 = 2;
const FLAT_ROUNDS_MIN: u32 = 2;
/// Among them so many may be noisy: a host held a few packets up.
const NOISY_ROUNDS_MAX: u32 = 2;
/// After so many it does not matter that we sent slower in the round before they began: what that drains is
/// back sooner.
const PLAIN_ROUNDS_MIN: u32 = 6;
/// The next follows ten seconds after its end, and as long as it takes BBR to come down.
const PERIOD_MIN: Duration = Duration::from_millis(9_900);
const PERIOD_MAX: Duration = Duration::from_millis(10_900);
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

/// One that ended.
#[derive(Copy, Clone, Debug)]
pub(super) struct Trough {
    pub(super) stood: Standing,
    flat: Flat,
}

/// A queue that stands: for how many rounds, and what came of our packets.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Standing {
    rounds: u32,
    /// We sent slower when it began to go.
    is_ours: bool,
    pub(super) packets: u32,
    pub(super) lost_packets: u32,
}

/// What that means beside the shortest round trip.
#[derive(Copy, Clone, Debug)]
struct Queue {
    stands: bool,
    /// Nothing waits.
    is_flat: bool,
    /// Little does, and not in all packets.
    is_low: bool,
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
    /// Of the time, rounds in which a few packets waited.
    noisy: u32,
}

/// Watches for it, round by round.
#[derive(Clone, Debug)]
pub(super) struct Troughs {
    state: State,
    rtt_min: WindowedMin,
    was_slow: bool,
    /// When the last plain one ended before BBR was known.
    plain_at: Option<Instant>,
}

impl Troughs {
    pub(super) fn new() -> Self {
        Self {
            state: State::default(),
            rtt_min: WindowedMin::new(whole_nanos(RTT_MIN_WINDOW)),
            was_slow: false,
            plain_at: None,
        }
    }

    /// One ended that others may have left: did one before, as long ago as BBR waits?
    pub(super) fn is_again(&mut self, now: Instant) -> bool {
        let before = self.plain_at.replace(now);
        before.is_some_and(|at| (PERIOD_MIN..PERIOD_MAX).contains(&(now - at)))
    }

    /// There may be one: whoever looks for more now would not know whose queue comes back.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Standing(_))
    }

    /// A queue that stood for long is gone, and nothing waits.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Gone { flat, .. } if flat.rounds >= FLAT_ROUNDS_MIN)
    }

    /// Adds a round. Returns the trough that ended in it, if one did.
    pub(super) fn on_round(&mut self, sight: &Sight) -> Option<Trough> {
        self.rtt_min.update(sight.ended.as_nanos(), whole_nanos(sight.rtt_min));
        let shortest = self.rtt_min.value().map_or(sight.rtt_min, Duration::from_nanos);
        let queue = Queue {
            stands: sight.rtt_min > shortest + sight.slack / 2,
            is_flat: sight.rtt_mean < shortest + sight.slack / 8
                && sight.rtt_mean < sight.rtt_min + sight.slack / 16,
            is_low: sight.rtt_mean < shortest + sight.slack / 4
                && sight.rtt_min < shortest + sight.slack / 16,
            is_ours: sight.is_slow || self.was_slow,
        };
        self.was_slow = sight.is_slow;
        self.state = self.state.after(sight, queue);
        match self.state {
            State::Rising { stood, flat, rounds } if queue.stands || rounds >= RISING_ROUNDS_MIN => {
                self.state = State::default();
                Some(Trough { stood, flat })
            }
            _ => None,
        }
    }
}

impl Trough {
    /// Nothing waited for more rounds than what anybody drained takes to be back.
    pub(super) fn is_plain(&self) -> bool {
        self.flat.rounds >= PLAIN_ROUNDS_MIN
    }

    /// Our own sending slower may have left it.
    pub(super) fn may_be_ours(&self) -> bool {
        self.stood.is_ours && !self.is_plain()
    }
}

impl State {
    fn after(self, sight: &Sight, queue: Queue) -> Self {
        let elapsed = sight.ended - sight.began;
        match self {
            Self::Standing(standing) if queue.stands => Self::Standing(standing.and(sight)),
            Self::Standing(stood) if stood.is_long() => {
                Self::Falling { stood: Standing { is_ours: queue.is_ours, ..stood }, rounds: 0 }
            }
            // The slower round was the one before: this one may be what it drained, and does not count.
            Self::Falling { stood, rounds: 0 } if queue.is_ours && !sight.is_slow => {
                Self::Falling { stood: Standing { is_ours: true, ..stood }, rounds: 1 }
            }
            _ if queue.is_ours => Self::default(),
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
            Self::Gone { stood, flat } if queue.is_low && flat.noisy < NOISY_ROUNDS_MAX => {
                Self::Gone { stood, flat: flat.and_noise(elapsed) }
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
            is_ours: false,
            rounds: self.rounds.saturating_add(1),
            packets: self.packets.saturating_add(sight.packets),
            lost_packets: self.lost_packets.saturating_add(sight.lost_packets),
        }
    }
}

impl Flat {
    fn and(self, elapsed: Duration) -> Self {
        Self { rounds: self.rounds + 1, time: self.time + elapsed, ..self }
    }

    fn and_noise(self, elapsed: Duration) -> Self {
        Self { time: self.time + elapsed, noisy: self.noisy + 1, ..self }
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

    /// Rounds of 30 ms above a shortest round trip of 20 ms: so many milliseconds waited for in each.
    fn rounds(waited: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Sight> {
        waited.into_iter().zip(0..).map(|(waited, round)| {
            let began = Instant::ZERO + Duration::from_millis(ROUND) * round;
            let rtt = Duration::from_millis(20 + waited);
            Sight {
                began,
                ended: began + Duration::from_millis(ROUND),
                rtt_min: rtt,
                rtt_mean: rtt,
                slack: Duration::from_micros(2500),
                is_slow: false,
                is_startup: false,
                is_probe: false,
                packets: 50,
                lost_packets: 0,
            }
        })
    }

    /// In which of them a trough is found that is not of our making, with what else there is to say of each.
    fn found_in(waited: impl IntoIterator<Item = u64>, with: impl Fn(usize, &mut Sight)) -> Option<usize> {
        let mut troughs = Troughs::new();
        rounds(waited).enumerate().position(|(round, mut sight)| {
            with(round, &mut sight);
            troughs.on_round(&sight).is_some_and(|trough| !trough.may_be_ours())
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
        let was_slow = |round, sight: &mut Sight| sight.is_slow = round == 30;
        assert_eq!(found_in(trough(30, 6), was_slow), None);
        assert_eq!(found_in(trough(30, 7), was_slow), Some(38), "what we drain is back sooner");
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_slow = round == 33), None);
        assert_eq!(found_in(trough(30, 7), |round, sight| sight.is_probe = round >= 38), None);
        assert_eq!(
            found_in(trough(30, 7), |round, sight| sight.is_probe = round <= 36),
            Some(38),
            "nothing waited"
        );
    }

    #[test]
    fn the_hosts_may_hold_up_a_few_packets_in_it() {
        let held_up = |rounds: u64| {
            found_in(trough(30, 7), move |round, sight| {
                if (33..33 + rounds).contains(&(round as u64)) {
                    sight.rtt_mean += Duration::from_micros(500);
                }
            })
        };
        assert_eq!([1, 2, 3].map(held_up), [Some(38), Some(38), None]);
    }

    #[test]
    fn the_link_is_free_from_its_second_round_on() {
        let mut troughs = Troughs::new();
        let free_in = rounds(trough(30, 7)).position(|sight| {
            troughs.on_round(&sight);
            troughs.is_free()
        });
        assert_eq!(free_in, Some(33), "the first is told from a single low round by the next");
    }

    #[test]
    fn they_come_again_after_ten_seconds() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut troughs = Troughs::new();
        let again = [1_000, 5_000, 15_200, 30_000].map(|millis| troughs.is_again(at(millis)));
        assert_eq!(again, [false, false, true, false]);
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
        let found = rounds(trough(30, 7)).enumerate().find_map(|(round, sight)| {
            troughs.on_round(&Sight { is_startup: round < 5, lost_packets: 1, ..sight })
        });
        assert_eq!(
            found.map(|trough| (trough.stood.packets, trough.stood.lost_packets)),
            Some((26 * 50, 26))
        );
    }
}
