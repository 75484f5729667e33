//! A rate that several receivers keep together, by what each asks its sender for.
//!
//! Each says now and then how much it has received of late and hears what its sender may send. Who takes
//! nearly all that it may have wants more; the others leave what they do not take. So all are told one level,
//! the one at which what they will take fills the rate (max-min fairness: Bertsekas and Gallager, *Data
//! Networks*, 6.5.2).
//!
//! Who has taken little may rise to the level at once, and the others hear of it when they tell again: so
//! long more may come than the rate.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use fulmar_units::{Instant, Rate};

/// Who has received so much of what it may have wants more.
const GREEDY_PERCENT: u64 = 85;

/// Who does not is left so much more than it has received, to grow by.
const ROOM_PERCENT: u64 = 125;

/// Who has told nothing for so long receives nothing.
const TELLING_MAX: Duration = Duration::from_millis(500);

/// The rate, and who receives.
#[derive(Debug, Default)]
pub struct Division {
    rate: Option<Rate>,
    members: BTreeMap<u64, Member>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    told_at: Instant,
    /// What it will take, as far as it is let; `None` for as much as there is.
    wants: Option<u64>,
    level: u64,
}

impl Division {
    /// As much as comes, if there is no `rate`.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, ..Self::default() }
    }

    /// The rate.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Another: each hears of it when it tells again.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
    }

    /// Somebody new, who will take all that it gets: its name here.
    pub fn join(&mut self, now: Instant) -> u64 {
        let name = self.next;
        self.next += 1;
        self.members.insert(name, Member { told_at: now, wants: None, level: 0 });
        name
    }

    /// It is gone.
    pub fn leave(&mut self, name: u64) {
        self.members.remove(&name);
    }

    /// It has received at this rate of late.
    pub fn tell(&mut self, now: Instant, name: u64, received: Rate) {
        let received = received.bytes_per_second();
        if let Some(member) = self.members.get_mut(&name) {
            let is_greedy = received.saturating_mul(100) >= member.level.saturating_mul(GREEDY_PERCENT);
            member.wants = (!is_greedy).then(|| received.saturating_mul(ROOM_PERCENT) / 100);
            member.told_at = now;
        }
    }

    /// What its sender may send now; `None`: as much as it likes.
    pub fn share(&mut self, now: Instant, name: u64) -> Option<Rate> {
        let level = self.level(now, self.rate?.bytes_per_second());
        if let Some(member) = self.members.get_mut(&name) {
            member.level = level;
        }
        Some(Rate::from_bytes_per_second(level))
    }

    fn level(&self, now: Instant, rate: u64) -> u64 {
        let receives = |member: &&Member| now.saturating_duration_since(member.told_at) <= TELLING_MAX;
        let mut wants: Vec<u64> =
            self.members.values().filter(receives).map(|member| member.wants.unwrap_or(u64::MAX)).collect();
        wants.sort_unstable();
        let (mut left, count) = (rate, wants.len() as u64);
        for (wanted, others) in wants.into_iter().zip((1..=count).rev()) {
            if wanted > left / others {
                return left / others;
            }
            left -= wanted;
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn rate(bytes: u64) -> Rate {
        Rate::from_bytes_per_second(bytes)
    }

    #[test]
    fn who_wants_more_gets_what_the_others_leave() {
        let mut division = Division::new(Some(rate(1000)));
        let names: [u64; 4] = core::array::from_fn(|_| division.join(at(0)));
        for name in names {
            assert_eq!(division.share(at(0), name), Some(rate(250)));
        }
        // Two take little, two all that they may.
        for (name, received) in names.into_iter().zip([40, 80, 240, 250]) {
            division.tell(at(100), name, rate(received));
        }
        assert_eq!(division.share(at(100), names[2]), Some(rate((1000 - 50 - 100) / 2)));
        // One has nothing to receive any more, one is gone.
        for name in &names[1..] {
            division.tell(at(700), *name, rate(425));
        }
        division.leave(names[3]);
        assert_eq!(division.share(at(700), names[2]), Some(rate(500)));
    }

    #[test]
    fn where_all_take_little_each_may_have_all() {
        let mut division = Division::new(Some(rate(1000)));
        let names: [u64; 2] = core::array::from_fn(|_| division.join(at(0)));
        for name in names {
            division.share(at(0), name);
            division.tell(at(100), name, rate(100));
        }
        assert_eq!(division.share(at(100), names[0]), Some(rate(1000)));
        division.set_rate(None);
        assert_eq!(division.share(at(100), names[0]), None);
    }
}
