//! Whose turn it is: streams by priority, in turn within a priority; and the small frames that wait to be
//! sent.
//!
//! Both are ordered sets: O(log n), no entry twice, and an entry can be withdrawn exactly, so "is there
//! anything to send" is never answered by a stale entry.

use crate::{Dir, StreamId};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A stream's place in the queue: higher priorities first, then who waits longest.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    priority: Reverse<i32>,
    number: u64,
}

/// The streams that have bytes to send.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    turns: BTreeSet<(Turn, StreamId)>,
    next_number: u64,
}

impl Schedule {
    /// Puts `id` at the end of its priority.
    pub(super) fn enqueue(&mut self, id: StreamId, priority: i32) -> Turn {
        let turn = Turn { priority: Reverse(priority), number: self.next_number };
        self.next_number += 1;
        self.turns.insert((turn, id));
        turn
    }

    /// Takes `id` out.
    pub(super) fn withdraw(&mut self, id: StreamId, turn: Turn) {
        self.turns.remove(&(turn, id));
    }

    /// Puts `id`, which has had its turn, behind the others of its priority.
    pub(super) fn rotate(&mut self, id: StreamId, turn: Turn) -> Turn {
        if self.turns.len() == 1 {
            return turn;
        }
        self.withdraw(id, turn);
        self.enqueue(id, turn.priority.0)
    }

    /// The stream to send from next.
    pub(super) fn first(&self) -> Option<StreamId> {
        self.turns.first().map(|&(_, id)| id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// An empty tree keeps a leaf.
    pub(super) fn release(&mut self) {
        if self.turns.is_empty() {
            self.turns = BTreeSet::new();
        }
    }
}

/// A frame without data that waits to be sent, in the order in which they go. What it says is looked up when
/// it is packed, so it says the latest.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Control {
    MaxData,
    MaxStreamsBi,
    MaxStreamsUni,
    MaxStreamData(StreamId),
    StopSending(StreamId),
    ResetStream(StreamId),
    /// A FIN whose stream has no bytes left to carry it.
    Fin(StreamId),
}

impl Control {
    /// MAX_STREAMS for `dir`.
    pub(super) fn max_streams(dir: Dir) -> Self {
        match dir {
            Dir::Bi => Self::MaxStreamsBi,
            Dir::Uni => Self::MaxStreamsUni,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priorities_first_and_in_turn_within_one() {
        let mut schedule = Schedule::default();
        let ids = [StreamId(0), StreamId(4), StreamId(8), StreamId(12)];
        let mut turns: Vec<_> =
            ids.iter().zip([0, 5, 5, -5]).map(|(&id, p)| schedule.enqueue(id, p)).collect();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let id = schedule.first().unwrap();
            seen.push(id);
            let i = ids.iter().position(|&x| x == id).unwrap();
            turns[i] = schedule.rotate(id, turns[i]);
        }
        assert_eq!(seen, [ids[1], ids[2], ids[1], ids[2]]);
        schedule.withdraw(ids[1], turns[1]);
        schedule.withdraw(ids[2], turns[2]);
        assert_eq!(schedule.first(), Some(ids[0]));
        schedule.withdraw(ids[0], turns[0]);
        assert_eq!(schedule.rotate(ids[3], turns[3]), turns[3]);
        schedule.withdraw(ids[3], turns[3]);
        assert!(schedule.is_empty());
    }
}
