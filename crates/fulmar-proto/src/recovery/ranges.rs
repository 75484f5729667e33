//! A set of numbers as few ranges: packet numbers received, handshake bytes acknowledged.

use std::ops::Range;

/// A set of `u64`, held as sorted ranges that neither touch nor overlap.
///
/// Insertion at or near the upper end, the common case, costs constant time; elsewhere it is logarithmic in
/// the number of ranges plus the moving of those above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Ascending.
    ranges: Vec<Range<u64>>,
}

impl RangeSet {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many separate ranges it takes.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Largest member.
    pub fn max(&self) -> Option<u64> {
        self.ranges.last().map(|r| r.end - 1)
    }

    /// The ranges, from the largest down.
    pub fn iter_descending(&self) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        self.ranges.iter().rev().cloned()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + Clone + '_ {
        self.ranges.iter().cloned()
    }

    /// Whether `value` is a member.
    pub fn contains(&self, value: u64) -> bool {
        self.range_of(value).is_some()
    }

    /// The range that `value` is in.
    pub fn range_of(&self, value: u64) -> Option<Range<u64>> {
        let at = self.ranges.partition_point(|r| r.end <= value);
        self.ranges.get(at).filter(|r| r.start <= value).cloned()
    }

    /// Adds one number; false if it was a member.
    pub fn insert(&mut self, value: u64) -> bool {
        if let Some(last) = self.ranges.last_mut()
            && value == last.end
        {
            last.end += 1;
            return true;
        }
        if self.contains(value) {
            return false;
        }
        self.insert_range(value..value + 1);
        true
    }

    /// Adds a range.
    pub fn insert_range(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // All ranges that touch or overlap the new one melt into it.
        let from = self.ranges.partition_point(|r| r.end < range.start);
        let to = self.ranges.partition_point(|r| r.start <= range.end);
        let merged = match self.ranges.get(from..to) {
            Some([first, .., last]) => range.start.min(first.start)..range.end.max(last.end),
            Some([only]) => range.start.min(only.start)..range.end.max(only.end),
            _ => range,
        };
        self.ranges.splice(from..to, [merged]);
    }

    /// Removes everything below `bound`.
    pub fn remove_below(&mut self, bound: u64) {
        let keep = self.ranges.partition_point(|r| r.end <= bound);
        self.ranges.drain(..keep);
        if let Some(first) = self.ranges.first_mut() {
            first.start = first.start.max(bound);
        }
    }

    /// Removes the lowest ranges until at most `count` are left.
    pub fn keep_highest(&mut self, count: usize) {
        let surplus = self.ranges.len().saturating_sub(count);
        self.ranges.drain(..surplus);
    }

    /// The lowest range of numbers from `from` on and below `end` that are not members.
    pub fn first_gap(&self, from: u64, end: u64) -> Option<Range<u64>> {
        let at = self.ranges.partition_point(|r| r.end <= from);
        let (start, next) = match self.ranges.get(at) {
            Some(r) if r.start <= from => (r.end, self.ranges.get(at + 1)),
            other => (from, other),
        };
        let stop = next.map_or(end, |r| r.start.min(end));
        (start < stop).then_some(start..stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_plain_set() {
        let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        for _ in 0..200 {
            let (mut set, mut plain) = (RangeSet::default(), BTreeSet::new());
            for _ in 0..60 {
                let start = u64::from(rng.next_u32() % 50);
                match rng.next_u32() % 4 {
                    0 => assert_eq!(set.insert(start), plain.insert(start)),
                    1 | 2 => {
                        let end = start + u64::from(rng.next_u32() % 6);
                        set.insert_range(start..end);
                        plain.extend(start..end);
                    }
                    _ => {
                        let bound = u64::from(rng.next_u32() % 20);
                        set.remove_below(bound);
                        plain.retain(|&v| v >= bound);
                    }
                }
                let members: BTreeSet<u64> = set.iter().flatten().collect();
                assert_eq!(members, plain);
                assert!((0..60).all(|v| set.contains(v) == plain.contains(&v)));
                assert!(set.ranges.windows(2).all(|w| w[0].end < w[1].start));
                let gap = set.first_gap(10, 40);
                assert_eq!(gap.clone().map(|g| g.start), (10..40).find(|v| !plain.contains(v)));
                assert!(gap.is_none_or(|mut g| g.all(|v| !plain.contains(&v))));
            }
        }
    }
}
