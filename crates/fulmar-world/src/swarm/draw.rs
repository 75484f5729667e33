//! What is drawn from a seed, in words.

use std::time::Duration;

use fulmar_net::{Probability, Rng};
use fulmar_proto::Side;

/// Draws, in words.
#[derive(Debug)]
pub(super) struct Draw(Rng);

impl Draw {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self(Rng::new(seed, stream))
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    /// Any number.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.draw()
    }

    /// As many small numbers as large ones: the number of bits is uniform.
    pub(super) fn log_between(&mut self, low: u64, high: u64) -> u64 {
        let bits = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        let floor = 1 << bits;
        self.between(floor, floor * 2 - 1).clamp(low, high)
    }

    /// A moment before this one.
    pub(super) fn before(&mut self, end: Duration) -> Duration {
        Duration::from_nanos(self.0.below(end.as_nanos() as u64))
    }

    pub(super) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.between(low * 1000, high * 1000))
    }

    pub(super) fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.0.below(list.len() as u64) as usize]
    }

    pub(super) fn side(&mut self) -> Side {
        self.of(&[Side::Client, Side::Server])
    }

    pub(super) fn percent(&mut self, max: u64) -> Probability {
        Probability::from_ppm(self.between(0, max * 10_000) as u32)
    }
}
