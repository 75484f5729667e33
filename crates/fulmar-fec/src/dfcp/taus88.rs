//! L'Ecuyer's combined Tausworthe generator taus88 ("Maximally equidistributed combined Tausworthe generators", 1996), the
//! generator of Linux in DFCP's time.
//!
//! Each component is linear over GF(2), so it can be advanced by 256 steps with one 32x32 bit matrix. [`Draws`] uses that: it
//! runs eight generators 256 steps apart side by side, and yields what one would have yielded.

use alloc::boxed::Box;

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
    /// A state from a header. Components below their minimum (2, 8, 16) would stay at zero for ever, so they are raised.
    pub fn from_parts(s1: u32, s2: u32, s3: u32) -> Self {
        let raise = |s: u32, min: u32| if s < min { s + min } else { s };
        Self { s1: raise(s1, 2), s2: raise(s2, 8), s3: raise(s3, 16) }
    }

    /// (S1, S2, S3).
    pub fn parts(self) -> (u32, u32, u32) {
        (self.s1, self.s2, self.s3)
    }

    /// A state from one number, as Linux and GSL seed it: a multiplicative generator, then six draws to warm up.
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

    /// The state 256 draws on.
    fn jump(self) -> Self {
        Self { s1: apply(&JUMP[0], self.s1), s2: apply(&JUMP[1], self.s2), s3: apply(&JUMP[2], self.s3) }
    }
}

#[inline(always)]
const fn step(state: Taus88) -> Taus88 {
    let Taus88 { s1, s2, s3 } = state;
    Taus88 {
        s1: ((s1 & 0xFFFF_FFFE) << 12) ^ (((s1 << 13) ^ s1) >> 19),
        s2: ((s2 & 0xFFFF_FFF8) << 4) ^ (((s2 << 2) ^ s2) >> 25),
        s3: ((s3 & 0xFFFF_FFF0) << 17) ^ (((s3 << 3) ^ s3) >> 11),
    }
}

/// Steps between neighbouring lanes.
const JUMP_STEPS: usize = 256;
const LANES: usize = 8;
/// Draws made together.
const DRAWS: usize = JUMP_STEPS * LANES;

/// For each component, the images of the 32 unit vectors after `JUMP_STEPS` steps.
static JUMP: [[u32; 32]; 3] = jumps();

const fn jumps() -> [[u32; 32]; 3] {
    let mut images = [[0; 32]; 3];
    let mut bit = 0;
    while bit < 32 {
        let mut state = Taus88 { s1: 1 << bit, s2: 1 << bit, s3: 1 << bit };
        let mut steps = 0;
        while steps < JUMP_STEPS {
            state = step(state);
            steps += 1;
        }
        images[0][bit] = state.s1;
        images[1][bit] = state.s2;
        images[2][bit] = state.s3;
        bit += 1;
    }
    images
}

fn apply(matrix: &[u32; 32], s: u32) -> u32 {
    matrix.iter().enumerate().fold(0, |sum, (bit, image)| sum ^ (image & 0u32.wrapping_sub(s >> bit & 1)))
}

/// The draws of one generator, 2048 at a time.
#[derive(Debug)]
pub(super) struct Draws {
    state: Taus88,
    buffer: Box<[u32; DRAWS]>,
    at: usize,
    /// The draws of all lanes, step by step, on their way to the buffer.
    by_step: Box<[[u32; LANES]; JUMP_STEPS]>,
}

impl Draws {
    pub(super) fn new(state: Taus88) -> Self {
        Self { state, buffer: Box::new([0; DRAWS]), at: DRAWS, by_step: Box::new([[0; LANES]; JUMP_STEPS]) }
    }

    /// Goes on from another state.
    pub(super) fn restart(&mut self, state: Taus88) {
        self.state = state;
        self.at = self.buffer.len();
    }

    #[inline(always)]
    pub(super) fn draw(&mut self) -> u32 {
        if self.at >= self.buffer.len() {
            self.refill();
        }
        let draw = self.buffer[self.at];
        self.at += 1;
        draw
    }

    /// The next draws without taking them; fewer than `N` are left only near the end of a buffer.
    #[inline(always)]
    pub(super) fn peek<const N: usize>(&self) -> Option<&[u32; N]> {
        self.buffer.get(self.at..)?.first_chunk()
    }

    /// Takes draws that were peeked at.
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) {
        self.at += count;
    }

    #[inline(never)]
    fn refill(&mut self) {
        let mut lanes = [self.state; LANES];
        for lane in 1..LANES {
            lanes[lane] = lanes[lane - 1].jump();
        }
        let (mut s1, mut s2, mut s3) = (lanes.map(|l| l.s1), lanes.map(|l| l.s2), lanes.map(|l| l.s3));
        // First by step, which the compiler does in vectors, then each lane in one piece.
        for draws in self.by_step.iter_mut() {
            for (lane, draw) in draws.iter_mut().enumerate() {
                let next = step(Taus88 { s1: s1[lane], s2: s2[lane], s3: s3[lane] });
                (s1[lane], s2[lane], s3[lane]) = (next.s1, next.s2, next.s3);
                *draw = next.s1 ^ next.s2 ^ next.s3;
            }
        }
        for (lane, draws) in self.buffer.as_chunks_mut::<JUMP_STEPS>().0.iter_mut().enumerate() {
            for (draw, of_step) in draws.iter_mut().zip(self.by_step.iter()) {
                *draw = of_step[lane];
            }
        }
        self.state = Taus88 { s1: s1[LANES - 1], s2: s2[LANES - 1], s3: s3[LANES - 1] };
        self.at = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        2 * self.buffer.len() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sequence() {
        // GNU Scientific Library, rng/test.c: gsl_rng_taus2 with seed 1 yields 2733957125 as its 10,000th draw.
        let mut state = Taus88::seeded(1);
        (1..10_000).for_each(|_| {
            state.draw();
        });
        assert_eq!(state.draw(), 2_733_957_125);
    }

    #[test]
    fn lanes_yield_what_one_generator_yields() {
        let mut one = Taus88::seeded(77);
        let mut draws = Draws::new(one);
        assert!((0..10_000).all(|_| draws.draw() == one.draw()));
    }
}
