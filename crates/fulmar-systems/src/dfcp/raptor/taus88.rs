//! L'Ecuyer's combined Tausworthe generator taus88 ("Maximally equidistributed combined Tausworthe
//! generators", 1996), the generator of Linux in DFCP's time.
//!
//! One draw takes from the draw before it, so a processor has nothing to do side by side. But each component
//! is linear over GF(2): its words also satisfy recurrences that reach far back, of which many steps can be
//! taken at once ([`LAGS`]).

use fulmar_gf as gf;

/// State of the generator: what a DFCP header carries as S1, S2 and S3 (thesis, section 3.8.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taus88 {
    /// At least 2.
    s1: u32,
    /// At least 8.
    s2: u32,
    /// At least 16.
    s3: u32,
}

impl Taus88 {
    /// A state from a header. Components below their minimum (2, 8, 16) would stay at zero for ever, so they
    /// are raised.
    pub fn from_parts(s1: u32, s2: u32, s3: u32) -> Self {
        let raise = |s: u32, min: u32| if s < min { s + min } else { s };
        Self { s1: raise(s1, 2), s2: raise(s2, 8), s3: raise(s3, 16) }
    }

    /// (S1, S2, S3).
    pub fn parts(self) -> (u32, u32, u32) {
        (self.s1, self.s2, self.s3)
    }

    /// A state from one number, as Linux and GSL seed it: a multiplicative generator, then six draws to warm
    /// up.
    pub fn seeded(seed: u32) -> Self {
        let multiply = |x: u32| x.wrapping_mul(69069);
        let s1 = Self::from_parts(multiply(seed), 8, 16).s1;
        let s2 = Self::from_parts(s1, multiply(s1), 16).s2;
        let mut state = Self::from_parts(s1, s2, multiply(s2));
        (0..6).for_each(|_| {
            state.draw();
        });
        state
    }

    /// The next 32 bits.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        *self = step(*self);
        self.s1 ^ self.s2 ^ self.s3
    }
}

#[inline(always)]
fn step(state: Taus88) -> Taus88 {
    let Taus88 { s1, s2, s3 } = state;
    Taus88 {
        s1: ((s1 & 0xFFFF_FFFE) << 12) ^ (((s1 << 13) ^ s1) >> 19),
        s2: ((s2 & 0xFFFF_FFF8) << 4) ^ (((s2 << 2) ^ s2) >> 25),
        s3: ((s3 & 0xFFFF_FFF0) << 17) ^ (((s3 << 3) ^ s3) >> 11),
    }
}

/// For each component: every word is the XOR of the words so far back.
///
/// The bits of the first satisfy x^31 + x^13 + 1, and a word is 12 bits further than the one before. With A =
/// x^31 and B = x^13, (A + B)^3 + 1 = A^3 + A^2 B + A B^2 + B^3 + 1 is a multiple whose exponents are all
/// multiples of 3, and squaring multiplies the exponents by 2: squared five times, they are 12 times 248,
/// 200, 152, 104 and 0. The second has x^29 + x^2 + 1 and 4 bits a word: squared five times, 4 times 232, 16
/// and 0. For the third, x^28 + x^3 + 1 and 17 bits, a search over all multiples of five terms found the
/// shortest of which no lag is short.
const LAGS: [&[usize]; 3] = [&[48, 96, 144, 248], &[216, 232], &[124, 230, 287, 289]];

/// Words kept from before: the longest lag, and more than the longest run of draws looked at together.
const PAST: usize = 304;
/// Draws made together.
const NEW: usize = 20 * 48;
const LEN: usize = PAST + NEW;

/// The draws of one generator, many at a time.
#[derive(Debug)]
pub(super) struct Draws {
    /// The words of each component.
    words: Box<[[u32; LEN]; 3]>,
    /// Their XOR.
    draws: Box<[u32; LEN]>,
    /// The next draw, and the end of those made.
    at: usize,
    end: usize,
}

impl Draws {
    pub(super) fn new(state: Taus88) -> Self {
        let mut draws = Self { words: Box::new([[0; LEN]; 3]), draws: Box::new([0; LEN]), at: 0, end: 0 };
        draws.restart(state);
        draws
    }

    /// Goes on from another state.
    pub(super) fn restart(&mut self, mut state: Taus88) {
        let [s1, s2, s3] = &mut *self.words;
        for i in 0..PAST {
            state = step(state);
            (s1[i], s2[i], s3[i]) = (state.s1, state.s2, state.s3);
            self.draws[i] = state.s1 ^ state.s2 ^ state.s3;
        }
        (self.at, self.end) = (0, PAST);
    }

    pub(super) fn draw(&mut self) -> u32 {
        let draw = self.ready::<1>()[0];
        self.take(1);
        draw
    }

    /// The next draws without taking them, at least `N`.
    pub(super) fn ready<const N: usize>(&mut self) -> &[u32] {
        const { assert!(N <= PAST) };
        if self.end - self.at < N {
            self.refill();
        }
        &self.draws[self.at..self.end]
    }

    /// Takes draws that were looked at.
    pub(super) fn take(&mut self, count: usize) {
        self.at += count;
    }

    #[inline(never)]
    fn refill(&mut self) {
        if self.end == LEN {
            self.words.iter_mut().for_each(|words| words.copy_within(NEW.., 0));
            self.draws.copy_within(NEW.., 0);
            self.at -= NEW;
        }
        for (words, lags) in self.words.iter_mut().zip(LAGS) {
            gf::recur(words, PAST, lags);
        }
        let [s1, s2, s3] = &*self.words;
        for i in PAST..LEN {
            self.draws[i] = s1[i] ^ s2[i] ^ s3[i];
        }
        self.end = LEN;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        4 * LEN * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // GNU Scientific Library, rng/test.c: gsl_rng_taus2 with seed 1 yields 2733957125 as its 10,000th
        // draw.
        let mut state = Taus88::seeded(1);
        (1..10_000).for_each(|_| {
            state.draw();
        });
        assert_eq!(state.draw(), 2_733_957_125);
    }

    #[test]
    fn far_recurrences_yield_what_one_step_after_the_other_yields() {
        let mut one = Taus88::seeded(77);
        let mut draws = Draws::new(one);
        assert!((0..10_000).all(|_| draws.draw() == one.draw()));
    }
}
