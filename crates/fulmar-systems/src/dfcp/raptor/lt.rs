//! The inner code: which of the 65536 input bytes are XORed to one coded byte (thesis, section 3.7.3 and
//! Table 3.1).

use super::taus88::{Draws, Taus88};

/// Input bytes of the inner code.
pub(super) const INPUTS: usize = 65536;
/// The highest degree.
pub(super) const DEGREE_MAX: usize = 66;

/// Table 3.1: degrees and their shares of 2^32 - 1, "after the conversion".
const OMEGA: [(u8, u32); 10] = [
    (1, 34_226_663),
    (2, 2_119_871_247),
    (3, 713_910_892),
    (4, 312_012_818),
    (5, 354_584_619),
    (8, 240_767_758),
    (9, 159_897_657),
    (19, 238_757_710),
    (65, 107_473_182),
    (66, 13_464_749),
];

/// Upper ends of the intervals; the last one takes the one number left over.
const ENDS: [u32; 10] = ends();

const fn ends() -> [u32; 10] {
    let (mut ends, mut sum, mut i) = ([0; 10], 0u32, 0);
    while i < 10 {
        sum += OMEGA[i].1; // Overflow would not compile.
        ends[i] = sum;
        i += 1;
    }
    assert!(sum == u32::MAX);
    ends
}

/// What a draw means by its highest 8 bits, which is all but when an interval ends among those that share
/// them.
static BY_HIGH_BITS: [Class; 256] = by_high_bits();

const fn by_high_bits() -> [Class; 256] {
    let (mut classes, mut high) = ([UNSURE; 256], 0);
    while high < 256 {
        let (first, last) = (class_of((high as u32) << 24), class_of((high as u32) << 24 | 0xFF_FFFF));
        if first.number == last.number {
            classes[high] = first;
        }
        high += 1;
    }
    classes
}

/// One of the ten degrees.
#[derive(Copy, Clone, Debug)]
struct Class {
    number: u8,
    degree: u8,
}

const UNSURE: Class = Class { number: u8::MAX, degree: 0 };

const fn class_of(draw: u32) -> Class {
    let mut i = 0;
    while i < 9 && draw >= ENDS[i] {
        i += 1;
    }
    Class { number: i as u8, degree: OMEGA[i].0 }
}

#[inline(always)]
fn class(draw: u32) -> Class {
    let class = BY_HIGH_BITS[(draw >> 24) as usize];
    if class.number == UNSURE.number { class_of(draw) } else { class }
}

/// Coded bytes taken together, at most: what the draws at hand are enough for, and seldom more than one to be
/// redrawn.
const BATCH: usize = 512;

/// A coded byte of a batch.
#[derive(Copy, Clone, Debug, Default)]
struct Start {
    /// Its number in the batch.
    byte: u16,
    /// Where its indices are among the draws at hand; the draw before them is its degree.
    at: u16,
}

/// Coded bytes of one degree.
#[derive(Debug)]
struct Batch {
    starts: [Start; BATCH],
    len: usize,
}

impl Batch {
    fn starts(&self) -> &[Start] {
        &self.starts[..self.len]
    }
}

/// What is to be done with a coded byte.
pub(super) trait Visitor {
    /// Coded byte `byte` of a segment is the XOR of the inputs that the lowest 16 bits of the draws mean.
    fn visit(&mut self, byte: usize, draws: &[u32]);
}

/// The associations of the coded bytes of a segment.
///
/// A processor cannot guess a degree, and one wrong guess costs as much as five inputs. So a batch of coded
/// bytes is first walked through and sorted by degree, and what is done then is done for one degree after the
/// other.
#[derive(Debug)]
pub(super) struct Associations {
    draws: Draws,
    batches: Box<[Batch; 10]>,
    taken: Taken,
}

/// Which inputs the byte at hand has taken: those marked with its stamp.
#[derive(Debug)]
struct Taken {
    marks: Box<[u8; INPUTS]>,
    stamp: u8,
}

/// Calls a function for each degree, with the degree as a constant and its number.
macro_rules! for_each_degree {
    ($call:ident, $($arguments:tt)*) => {
        $call::<1>(0, $($arguments)*);
        $call::<2>(1, $($arguments)*);
        $call::<3>(2, $($arguments)*);
        $call::<4>(3, $($arguments)*);
        $call::<5>(4, $($arguments)*);
        $call::<8>(5, $($arguments)*);
        $call::<9>(6, $($arguments)*);
        $call::<19>(7, $($arguments)*);
        $call::<65>(8, $($arguments)*);
        $call::<66>(9, $($arguments)*);
    };
}

impl Associations {
    pub(super) fn new() -> Self {
        Self {
            draws: Draws::new(Taus88::seeded(0)),
            batches: Box::new([const { Batch { starts: [Start { byte: 0, at: 0 }; BATCH], len: 0 } }; 10]),
            taken: Taken { marks: Box::new([0; INPUTS]), stamp: 0 },
        }
    }

    /// Has every one of the `count` coded bytes of a segment visited; `state` is the generator's state before
    /// it.
    ///
    /// A coded byte takes a draw for the degree, then draws modulo 65536, repeated ones dropped.
    #[inline(always)]
    pub(super) fn each(&mut self, state: Taus88, count: usize, visitor: &mut impl Visitor) {
        let Self { draws, batches, taken } = self;
        draws.restart(state);
        let mut done = 0;
        while done < count {
            let ready = draws.ready::<{ 1 + DEGREE_MAX }>();
            let walked = walk(batches, ready, count - done);
            let mut end = walked;
            for_each_degree!(find_repeated, batches, ready, taken, &mut end);
            for_each_degree!(visit_batch, batches, ready, end.byte, done, visitor);
            done += usize::from(end.byte);
            draws.take(usize::from(end.at) - 1);
            if end.byte < walked.byte {
                let (indices, degree) = one_by_one(draws);
                visitor.visit(done, &indices[..degree]);
                done += 1;
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.draws.memory_bytes() + size_of_val(&*self.batches) + INPUTS
    }
}

/// Sorts coded bytes by degree, at most `count`, as long as their draws are certainly there; returns where
/// the next starts.
#[inline(never)]
fn walk(batches: &mut [Batch; 10], draws: &[u32], count: usize) -> Start {
    batches.iter_mut().for_each(|batch| batch.len = 0);
    let last = draws.len() - DEGREE_MAX;
    let (mut byte, mut at) = (0, 1);
    while byte < count.min(BATCH) && at <= last {
        let class = class(draws[at - 1]);
        let batch = &mut batches[usize::from(class.number)];
        batch.starts[batch.len % BATCH] = Start { byte: byte as u16, at: at as u16 };
        batch.len += 1;
        byte += 1;
        at += 1 + usize::from(class.degree);
    }
    Start { byte: byte as u16, at: at as u16 }
}

/// The first coded byte of degree `D` with a repeated index, if it is before `end`, becomes the end.
#[inline(never)]
fn find_repeated<const D: usize>(
    number: usize,
    batches: &[Batch; 10],
    draws: &[u32],
    taken: &mut Taken,
    end: &mut Start,
) {
    for start in batches[number].starts() {
        let Some(draws) = draws_of::<D>(draws, *start) else { return };
        if if D < 16 { are_some_equal(draws) } else { taken.are_repeated(draws) } {
            if start.byte < end.byte {
                *end = *start;
            }
            return;
        }
    }
}

/// Visits those of degree `D` that are before `end`.
#[inline(always)]
fn visit_batch<const D: usize>(
    number: usize,
    batches: &[Batch; 10],
    draws: &[u32],
    end: u16,
    done: usize,
    visitor: &mut impl Visitor,
) {
    for start in batches[number].starts() {
        if let Some(draws) = draws_of::<D>(draws, *start)
            && start.byte < end
        {
            visitor.visit(done + usize::from(start.byte), draws);
        } else {
            return;
        }
    }
}

#[inline(always)]
fn draws_of<const D: usize>(draws: &[u32], start: Start) -> Option<&[u32; D]> {
    draws.get(usize::from(start.at)..)?.first_chunk()
}

/// For few: compares all pairs.
#[inline(always)]
fn are_some_equal<const D: usize>(draws: &[u32; D]) -> bool {
    let mut are_equal = false;
    for i in 1..D {
        for j in 0..i {
            are_equal |= draws[i] as u16 == draws[j] as u16;
        }
    }
    are_equal
}

impl Taken {
    /// For many: marks them.
    #[inline(always)]
    fn are_repeated<const D: usize>(&mut self, draws: &[u32; D]) -> bool {
        if self.stamp == u8::MAX {
            self.marks.fill(0);
            self.stamp = 0;
        }
        self.stamp += 1;
        let mut are_repeated = false;
        for draw in draws {
            let mark = &mut self.marks[usize::from(*draw as u16)];
            are_repeated |= *mark == self.stamp;
            *mark = self.stamp;
        }
        are_repeated
    }
}

/// The rare case: one draw at a time, repeated ones dropped. Returns the indices and how many they are.
#[cold]
fn one_by_one(draws: &mut Draws) -> ([u32; DEGREE_MAX], usize) {
    let degree = usize::from(class(draws.draw()).degree);
    let (mut indices, mut count) = ([0; DEGREE_MAX], 0);
    while count < degree {
        let index = draws.draw() & 0xFFFF;
        if !indices[..count].contains(&index) {
            indices[count] = index;
            count += 1;
        }
    }
    (indices, degree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_those_of_the_intervals() {
        for (i, (expected, _)) in OMEGA.iter().enumerate() {
            let first = if i == 0 { 0 } else { ENDS[i - 1] };
            assert_eq!([class(first), class(ENDS[i] - 1)].map(|class| class.degree), [*expected; 2]);
        }
        assert_eq!(class(u32::MAX).degree, 66);
    }

    struct Collected(Vec<Vec<u16>>);

    impl Visitor for Collected {
        fn visit(&mut self, byte: usize, draws: &[u32]) {
            self.0[byte] = draws.iter().map(|draw| *draw as u16).collect();
        }
    }

    #[test]
    fn indices_are_distinct_and_those_of_the_plain_description() {
        let mut associations = Associations::new();
        for (seed, count) in [(5, 20_000), (6, 0), (7, 1), (8, 1420)] {
            let mut state = Taus88::seeded(seed);
            let mut collected = Collected(vec![Vec::new(); count]);
            associations.each(state, count, &mut collected);
            for indices in collected.0 {
                let degree = usize::from(class(state.draw()).degree);
                let mut plain: Vec<u16> = Vec::new();
                while plain.len() < degree {
                    let index = (state.draw() % 65536) as u16;
                    if !plain.contains(&index) {
                        plain.push(index);
                    }
                }
                assert_eq!(indices, plain);
            }
        }
    }
}
