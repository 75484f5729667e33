//! Two links, one per direction.

use fulmar_units::Instant;

use crate::{Link, LinkConfig, Payload};

/// Which way a packet goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the first end (by custom the client) to the second.
    Forward,
    /// Back.
    Backward,
}

impl Direction {
    /// Both, forward first.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    /// The other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// A link in each direction, with draws that have nothing to do with each other.
#[derive(Clone, Debug)]
pub struct Path<P> {
    forward: Link<P>,
    backward: Link<P>,
}

impl<P: Payload> Path<P> {
    /// A path from the configuration of each direction.
    pub fn new(forward: LinkConfig, backward: LinkConfig, seed: u64) -> Self {
        // The second seed only has to differ; `Rng::new` separates neighbours.
        Self { forward: Link::new(forward, seed), backward: Link::new(backward, !seed) }
    }

    /// A path that treats both directions alike.
    pub fn symmetric(config: LinkConfig, seed: u64) -> Self {
        Self::new(config.clone(), config, seed)
    }

    /// One of the links.
    pub const fn link(&self, direction: Direction) -> &Link<P> {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        }
    }

    /// One of the links, for instance to change its configuration.
    pub const fn link_mut(&mut self, direction: Direction) -> &mut Link<P> {
        match direction {
            Direction::Forward => &mut self.forward,
            Direction::Backward => &mut self.backward,
        }
    }

    /// Hands a packet to the link of a direction.
    pub fn send(&mut self, now: Instant, direction: Direction, packet: P) {
        self.link_mut(direction).send(now, packet);
    }

    /// When [`Self::poll_deliver`] should be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.forward.poll_timeout().into_iter().chain(self.backward.poll_timeout()).min()
    }

    /// The next packet that has arrived by `now`, and the direction it went. In order of arrival; forward
    /// first if both arrive at once.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<(Direction, P)> {
        self.poll_arrival(now).map(|(_, direction, packet)| (direction, packet))
    }

    /// As [`Self::poll_deliver`], with the exact time of arrival.
    pub fn poll_arrival(&mut self, now: Instant) -> Option<(Instant, Direction, P)> {
        let direction = match (self.forward.next_due(now), self.backward.next_due(now)) {
            (Some(forward), Some(backward)) if backward < forward => Direction::Backward,
            (Some(_), _) => Direction::Forward,
            (None, Some(_)) => Direction::Backward,
            (None, None) => return None,
        };
        let (at, packet) = self.link_mut(direction).poll_arrival(now)?;
        Some((at, direction, packet))
    }
}
