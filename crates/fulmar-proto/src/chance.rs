//! Secret random numbers of one connection, of which it needs few: the numbers that [`ChaCha20Rng`] draws
//! from the same seed, without the blocks that it keeps in advance (40 bytes instead of 320).

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

/// A generator that makes each number when it is asked for.
#[derive(Clone)]
pub(crate) struct Chance {
    seed: [u8; 32],
    /// Words drawn.
    at: u64,
}

impl Chance {
    /// All numbers follow from `seed`.
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self { seed, at: 0 }
    }

    /// Another generator, which follows from this one.
    pub(crate) fn split(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill_bytes(&mut seed);
        Self::new(seed)
    }

    fn draw<T>(&mut self, draw: impl FnOnce(&mut ChaCha20Rng) -> T) -> T {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_word_pos(self.at.into());
        let drawn = draw(&mut rng);
        self.at = rng.get_word_pos() as u64;
        drawn
    }
}

impl RngCore for Chance {
    fn next_u32(&mut self) -> u32 {
        self.draw(RngCore::next_u32)
    }

    fn next_u64(&mut self) -> u64 {
        self.draw(RngCore::next_u64)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.draw(|rng| rng.fill_bytes(bytes));
    }
}

impl std::fmt::Debug for Chance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chance").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_generator_it_stands_for() {
        let (mut chance, mut rng) = (Chance::new([7; 32]), ChaCha20Rng::from_seed([7; 32]));
        for round in 0..200 {
            match round % 3 {
                0 => assert_eq!(chance.next_u32(), rng.next_u32()),
                1 => assert_eq!(chance.next_u64(), rng.next_u64()),
                _ => {
                    let (mut drawn, mut expected) = ([0; 21], [0; 21]);
                    chance.fill_bytes(&mut drawn);
                    rng.fill_bytes(&mut expected);
                    assert_eq!(drawn, expected);
                }
            }
        }
        assert!(size_of::<Chance>() <= 40);
    }
}
