//! Times at which something is on: black-outs, stalls.

use alloc::vec::Vec;

use fulmar_units::Instant;

/// Disjoint intervals of time, in order. Each contains its start and not its end.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Intervals(Vec<(Instant, Instant)>);

impl Intervals {
    /// No interval.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// From `(start, end)` pairs in any order; overlapping ones are merged, empty ones left out.
    pub fn new(pairs: impl IntoIterator<Item = (Instant, Instant)>) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().filter(|(start, end)| start < end).collect();
        pairs.sort_unstable();
        let mut merged: Vec<(Instant, Instant)> = Vec::with_capacity(pairs.len());
        for (start, end) in pairs {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self(merged)
    }

    /// Whether `at` lies in one of them.
    pub fn contains(&self, at: Instant) -> bool {
        self.end_of(at).is_some()
    }

    /// The end of the one that `at` lies in.
    pub fn end_of(&self, at: Instant) -> Option<Instant> {
        let started = self.0.partition_point(|&(start, _)| start <= at);
        let (_, end) = *self.0.get(started.checked_sub(1)?)?;
        (at < end).then_some(end)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The intervals, in order.
    pub fn as_slice(&self) -> &[(Instant, Instant)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_and_finds() {
        let at = Instant::from_nanos;
        let intervals = Intervals::new([
            (at(50), at(60)),
            (at(10), at(20)),
            (at(15), at(30)),
            (at(30), at(31)),
            (at(9), at(9)),
        ]);
        assert_eq!(intervals.as_slice(), [(at(10), at(31)), (at(50), at(60))]);
        let inside: Vec<u64> = (0..70).filter(|&t| intervals.contains(at(t))).collect();
        let expected: Vec<u64> = (10..31).chain(50..60).collect();
        assert_eq!(inside, expected);
        assert!(!Intervals::none().contains(at(0)));
    }
}
