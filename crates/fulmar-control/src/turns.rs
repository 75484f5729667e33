//! A rate that several senders keep together.
//!
//! A [`Pacer`](crate::Pacer) tells one sender when it may go on. Here everybody who asks gets a turn of its
//! own, behind those that were given before: no two are told the same time, so nobody comes in vain, and the
//! rate is divided among those who want it, as many bytes for each (the virtual scheduling of ITU-T I.371,
//! with a queue in place of the verdict "does not conform"). Constant time and space.
//!
//! Invariant: over any interval the turns that begin in it have at most `rate * (interval + LATENESS_MAX)`
//! bytes and one turn.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

/// So much of the time that nobody used is made up for: whoever has a turn may come late, as timers do.
const LATENESS_MAX: Duration = Duration::from_millis(20);

/// A turn is at least as long as this, or fast rates would need a timer for each packet.
const TURN_MIN: Duration = Duration::from_millis(1);

/// No turn is longer: what one system call takes.
const TURN_BYTES_MAX: u64 = 64 << 10;

/// Turns at a rate.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    rate: Option<Rate>,
    /// When all turns that were given are over.
    free_at: Instant,
}

impl Turns {
    /// As many bytes as they like, if there is no `rate`.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, free_at: Instant::ZERO }
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Another, from the next turn on.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
    }

    /// How much to take at once, of which at least `bytes` are needed.
    pub fn turn_bytes(&self, bytes: u64) -> u64 {
        self.rate.map_or(bytes, |rate| rate.bytes_in(TURN_MIN).min(TURN_BYTES_MAX).max(bytes))
    }

    /// A turn of so many bytes: when it begins, which may have been.
    pub fn take(&mut self, now: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.rate else { return now };
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(LATENESS_MAX.as_nanos() as u64));
        let from = self.free_at.max(late);
        self.free_at = from + rate.time_for(bytes);
        from
    }

    /// So much of what was taken is not used.
    pub fn give_back(&mut self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let time = u64::try_from(rate.time_for(bytes).as_nanos()).unwrap_or(u64::MAX);
        self.free_at = Instant::from_nanos(self.free_at.as_nanos().saturating_sub(time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS * 1000 + Duration::from_millis(ms)
    }

    /// A kilobyte takes a millisecond.
    fn turns() -> Turns {
        Turns::new(Some(Rate::from_bytes_per_second(1_000_000)))
    }

    #[test]
    fn everybody_is_told_another_time_and_the_rate_holds() {
        let mut turns = turns();
        let given: [Instant; 24] = core::array::from_fn(|_| turns.take(at(0), 1000));
        // What was not used before is there at once, as much as a late timer leaves.
        let expected: [Instant; 24] = core::array::from_fn(|n| at(0) + MS * n as u32 - MS * 20);
        assert_eq!(given, expected);
    }

    #[test]
    fn what_is_not_used_is_another_s() {
        let mut turns = turns();
        turns.take(at(0), 20_000);
        assert_eq!(turns.take(at(0), 4000), at(0));
        assert_eq!(turns.take(at(0), 1000), at(4));
        turns.give_back(3000);
        assert_eq!(turns.take(at(0), 1000), at(2));
    }

    #[test]
    fn a_pause_is_followed_by_no_flood() {
        let mut turns = turns();
        turns.take(at(0), 1000);
        let now = at(3_600_000);
        let count = (0..).take_while(|_| turns.take(now, 1000) <= now).count();
        assert_eq!(count, 21);
    }

    #[test]
    fn turns_are_as_long_as_timers_can_follow() {
        assert_eq!(turns().turn_bytes(1472), 1472);
        let fast = Turns::new(Some(Rate::from_bytes_per_second(10_000_000)));
        assert_eq!(fast.turn_bytes(1472), 10_000);
        assert_eq!(Turns::new(Some(Rate::from_bits_per_second(100_000_000_000))).turn_bytes(1472), 64 << 10);
        assert_eq!(Turns::new(None).turn_bytes(1472), 1472);
    }

    #[test]
    fn a_limit_that_is_lifted_makes_nobody_wait() {
        let mut turns = turns();
        turns.take(at(0), 1_000_000);
        turns.set_rate(None);
        assert_eq!(turns.take(at(1), 1000), at(1));
    }
}
