//! The inner code: which of the 65536 input bytes are XORed to one coded byte (thesis, section 3.7.3 and Table 3.1).

use alloc::boxed::Box;

use super::taus88::{Draws, Taus88};

/// Input bytes of the inner code.
pub(super) const INPUTS: usize = 65536;
/// The highest degree.
pub(super) const DEGREE_MAX: usize = 66;
/// From this degree on, the decoder puts a byte off until most inputs are known.
pub(super) const DEGREE_HIGH: usize = 19;

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

/// By the highest 8 bits of a draw: the first interval that may hold it.
static GUIDE: [u8; 256] = guide();

const fn guide() -> [u8; 256] {
    let (mut guide, mut high) = ([0; 256], 0);
    while high < 256 {
        let mut i = 0;
        while i < 9 && (high as u32) << 24 >= ENDS[i] {
            i += 1;
        }
        guide[high] = i as u8;
        high += 1;
    }
    guide
}

/// The degree that a draw means.
#[inline(always)]
fn degree(draw: u32) -> usize {
    let mut i = usize::from(GUIDE[(draw >> 24) as usize]);
    while i < 9 && draw >= ENDS[i] {
        i += 1;
    }
    usize::from(OMEGA[i].0)
}

/// The associations of one coded byte after the other.
#[derive(Debug)]
pub(super) struct Associations {
    draws: Draws,
    indices: [u16; DEGREE_MAX],
    /// One bit for each input that the byte at hand has taken.
    taken: Box<[u64; INPUTS / 64]>,
}

impl Associations {
    pub(super) fn new() -> Self {
        Self {
            draws: Draws::new(Taus88::seeded(0)),
            indices: [0; DEGREE_MAX],
            taken: Box::new([0; INPUTS / 64]),
        }
    }

    /// Begins a segment.
    pub(super) fn restart(&mut self, state: Taus88) {
        self.draws.restart(state);
    }

    /// Calls `with` with the input bytes of the next coded byte: a draw for the degree, then draws modulo 65536, repeated
    /// ones dropped.
    ///
    /// `with` is compiled once for each low degree, so that neither it nor the search for repeated indices has a loop that
    /// the processor has to guess the end of: a coded byte costs one jump to its degree.
    #[inline(always)]
    pub(super) fn next<T>(&mut self, mut with: impl FnMut(&[u16]) -> T) -> T {
        let degree = degree(self.draws.draw());
        let found = match degree {
            1 => self.few::<1>().map(|indices| with(&indices)),
            2 => self.few::<2>().map(|indices| with(&indices)),
            3 => self.few::<3>().map(|indices| with(&indices)),
            4 => self.few::<4>().map(|indices| with(&indices)),
            5 => self.few::<5>().map(|indices| with(&indices)),
            8 => self.few::<8>().map(|indices| with(&indices)),
            9 => self.few::<9>().map(|indices| with(&indices)),
            19 => self.lot::<19>().map(|indices| with(&indices)),
            65 => self.lot::<65>().map(|indices| with(&indices)),
            _ => self.lot::<66>().map(|indices| with(&indices)),
        };
        match found {
            Some(result) => result,
            None => {
                self.one_by_one(degree);
                with(&self.indices[..degree])
            }
        }
    }

    /// The usual case: the next `D` draws are at hand and distinct.
    #[inline(always)]
    fn few<const D: usize>(&mut self) -> Option<[u16; D]> {
        let indices = self.draws.peek::<D>()?.map(|draw| draw as u16);
        let mut is_repeated = false;
        for i in 1..D {
            for j in 0..i {
                is_repeated |= indices[i] == indices[j];
            }
        }
        if is_repeated {
            return None;
        }
        self.draws.take(D);
        Some(indices)
    }

    /// As [`Associations::few`], for many: a bitmap finds repeated ones.
    #[inline(never)]
    fn lot<const D: usize>(&mut self) -> Option<[u16; D]> {
        let indices = self.draws.peek::<D>()?.map(|draw| draw as u16);
        let mut is_repeated = false;
        for index in indices {
            let (word, bit) = (&mut self.taken[usize::from(index) / 64], 1 << (index % 64));
            is_repeated |= *word & bit != 0;
            *word |= bit;
        }
        indices.iter().for_each(|index| self.taken[usize::from(*index) / 64] = 0);
        if is_repeated {
            return None;
        }
        self.draws.take(D);
        Some(indices)
    }

    /// The rare case: one draw at a time, repeated ones dropped.
    #[cold]
    fn one_by_one(&mut self, degree: usize) {
        let mut count = 0;
        while count < degree {
            let index = self.draws.draw() as u16;
            if !self.indices[..count].contains(&index) {
                self.indices[count] = index;
                count += 1;
            }
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.draws.memory_bytes() + self.taken.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_those_of_the_intervals() {
        for (i, (expected, _)) in OMEGA.iter().enumerate() {
            let first = if i == 0 { 0 } else { ENDS[i - 1] };
            assert_eq!(
                (degree(first), degree(ENDS[i] - 1)),
                (usize::from(*expected), usize::from(*expected))
            );
        }
        assert_eq!(degree(u32::MAX), 66);
    }

    #[test]
    fn indices_are_distinct_and_those_of_the_plain_description() {
        let mut associations = Associations::new();
        let mut state = Taus88::seeded(5);
        associations.restart(state);
        for _ in 0..5000 {
            let degree = degree(state.draw());
            let mut plain: Vec<u16> = Vec::new();
            while plain.len() < degree {
                let index = (state.draw() % 65536) as u16;
                if !plain.contains(&index) {
                    plain.push(index);
                }
            }
            associations.next(|indices| assert_eq!(indices, plain));
        }
    }
}
