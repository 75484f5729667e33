//! What the link carries of ours while a queue stands.
//!
//! Where packets wait, the link is busy: what it carried of ours in the last rounds is all that is ours,
//! however much a maximum filter remembers of a lucky round. Several flows in a shallow queue, each with the
//! rate of its luckiest round, would keep it full for ever, and take what it drops for the path's loss.

use fulmar_units::Rate;

/// Rounds of which the fastest says what the link carries of ours.
const ROUNDS: u32 = 3;

/// The link's rate over rounds in a row that met a queue although they were sent no faster than the rate.
#[derive(Copy, Clone, Debug)]
pub(super) struct Carried {
    rounds: u32,
    link_rate: Rate,
}

impl Carried {
    pub(super) fn new() -> Self {
        Self { rounds: 0, link_rate: Rate::ZERO }
    }

    /// A round met a queue; the most that the link carried, once there are enough of them.
    pub(super) fn on_queued_round(&mut self, link_rate: Rate) -> Option<Rate> {
        self.rounds += 1;
        self.link_rate = self.link_rate.max(link_rate);
        if self.rounds < ROUNDS {
            return None;
        }
        let fastest = self.link_rate;
        *self = Self::new();
        (fastest > Rate::ZERO).then_some(fastest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_of_three_rounds_is_ours() {
        let mut carried = Carried::new();
        let rate = Rate::from_bytes_per_second;
        let found = [5, 7, 6, 3, 4, 2, 0, 0, 0].map(|bytes| carried.on_queued_round(rate(bytes)));
        let none = None;
        assert_eq!(found, [none, none, Some(rate(7)), none, none, Some(rate(4)), none, none, none]);
    }
}
