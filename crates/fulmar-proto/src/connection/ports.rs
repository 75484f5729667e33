//! At which of a server's ports its client speaks to it: a firewall that has closed one, or a network that
//! slows one down, may leave the others alone.

use std::ops::RangeInclusive;

/// The ports of a server, as far as it has told them.
#[derive(Debug, Default)]
pub(super) struct Ports {
    ranges: Vec<RangeInclusive<u16>>,
    /// The last one that something was heard from.
    heard: Option<u16>,
}

impl Ports {
    /// The server has told them.
    pub(super) fn on_told(&mut self, ranges: Vec<RangeInclusive<u16>>) {
        self.ranges = ranges;
    }

    /// All that it has told of.
    pub(super) fn told(&self) -> &[RangeInclusive<u16>] {
        &self.ranges
    }

    /// A packet of the server came from there.
    pub(super) fn on_heard(&mut self, port: u16) {
        self.heard = Some(port);
    }

    /// Where to go on, where `now` is to be left: to the port that was heard last, if that is another one;
    /// else to any other, by `draw`.
    pub(super) fn next(&self, now: u16, draw: u64) -> u16 {
        let others = || self.ranges.iter().cloned().flatten().filter(|port| *port != now);
        let drawn = || others().nth((draw % others().count().max(1) as u64) as usize);
        self.heard.filter(|port| *port != now).or_else(drawn).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_ports_are_tried_and_after_each_that_is_silent_the_one_that_answered() {
        let mut ports = Ports::default();
        assert_eq!(ports.next(4747, 5), 4747, "there is no other");
        ports.on_heard(4747);
        assert_eq!(ports.next(4747, 5), 4747);
        ports.on_told(vec![443..=443, 4747..=4749]);
        let tried: BTreeSet<u16> = (0..100).map(|draw| ports.next(4747, draw)).collect();
        assert_eq!(tried, BTreeSet::from([443, 4748, 4749]));
        assert_eq!(ports.next(443, 7), 4747, "nothing was heard from there");
        ports.on_heard(443);
        let tried: BTreeSet<u16> = (0..100).map(|draw| ports.next(443, draw)).collect();
        assert_eq!(tried, BTreeSet::from([4747, 4748, 4749]));
    }
}
