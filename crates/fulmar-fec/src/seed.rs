//! Coefficients from a cover and a key: both ends compute them from what the packet says, and from nothing
//! else.
//!
//! The state is started from the key, then takes in the first id and the length of a window, or every id of a
//! set. From there on SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
//! OOPSLA 2014) yields 64-bit draws. Each draw, lowest bits first, makes four coefficients of 16 bits each: 1
//! + floor(x * 255 / 2^16), never zero.
//!
//! RFC 8681 does the same with TinyMT32, one draw per coefficient; SplitMix64 costs a quarter of that.

use crate::{Cover, RepairKey};

/// The golden ratio: the step of SplitMix64.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// What distinguishes the two kinds of cover, so that a set of consecutive ids does not repeat a window's
/// symbols.
const WINDOW: u64 = 1;
const SET: u64 = 2;

/// Draws taken together.
const DRAWS: usize = 16;

/// A generator of 64-bit draws.
#[derive(Debug, Clone)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// The generator of one repair symbol.
    fn for_repair(cover: Cover<'_>, key: RepairKey) -> Self {
        let mut state = u64::from(key.0);
        let mut take_in = |word: u64| state = mix(state.wrapping_add(STEP) ^ word);
        match cover {
            Cover::Window(window) => {
                [WINDOW, window.first.0, u64::from(window.len)].into_iter().for_each(&mut take_in)
            }
            Cover::Set(ids) => {
                take_in(SET);
                ids.iter().for_each(|id| take_in(id.0));
            }
        }
        Self::new(state)
    }
}

/// The output function of SplitMix64.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Share of the symbols of a cover that a repair symbol combines, in 256ths; RFC 8681's DT + 1 in 16ths,
/// finer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Density(u16);

impl Density {
    /// Every symbol has a coefficient other than zero.
    pub const FULL: Self = Self(256);

    /// A share of 1..=256 in 256ths.
    pub const fn of_256(share: u16) -> Option<Self> {
        if share >= 1 && share <= 256 { Some(Self(share)) } else { None }
    }

    /// The share, in 256ths.
    pub const fn share_of_256(self) -> u32 {
        self.0 as u32
    }
}

/// Writes the coefficient of each of the `out.len()` symbols of the cover.
///
/// Below full density a second run of draws, eight symbols each, decides which symbols take part: symbol i
/// does if its byte is below the density. If none does, the first one does.
pub(crate) fn coefficients(cover: Cover<'_>, key: RepairKey, density: Density, out: &mut [u8]) {
    let mut generator = SplitMix64::for_repair(cover, key);
    for some in out.chunks_mut(4 * DRAWS) {
        // In two steps, of which the compiler makes vectors.
        let mut draws = [0u16; 4 * DRAWS];
        for four in draws[..some.len().next_multiple_of(4)].chunks_exact_mut(4) {
            let draw = generator.next_u64();
            four.copy_from_slice(&[
                draw as u16,
                (draw >> 16) as u16,
                (draw >> 32) as u16,
                (draw >> 48) as u16,
            ]);
        }
        for (coefficient, draw) in some.iter_mut().zip(draws) {
            *coefficient = 1 + ((u32::from(draw) * 255) >> 16) as u8;
        }
    }
    if density == Density::FULL {
        return;
    }
    let first = out.first().copied();
    for eight in out.chunks_mut(8) {
        let mut draw = generator.next_u64();
        for coefficient in eight {
            if (draw & 0xFF) as u16 >= density.0 {
                *coefficient = 0;
            }
            draw >>= 8;
        }
    }
    if let (Some(first), true) = (first, out.iter().all(|c| *c == 0)) {
        out[0] = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SymbolId, Window};

    #[test]
    fn the_published_sequence() {
        // The first outputs of SplitMix64 for seed 1234567, as in the test vectors of Rosetta Code and of
        // Java's generator.
        let mut generator = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected, core::array::from_fn(|_| generator.next_u64()));
    }

    fn window(first: u64, len: u32) -> Cover<'static> {
        Cover::Window(Window { first: SymbolId(first), len })
    }

    #[test]
    fn cover_and_key_all_matter() {
        let ids: [SymbolId; 40] = core::array::from_fn(|i| SymbolId(3 + i as u64));
        let rows = [
            (window(3, 40), 0),
            (window(3, 40), 1),
            (window(4, 40), 0),
            (window(3, 41), 0),
            (Cover::Set(&ids), 0),
            (Cover::Set(&ids[..39]), 0),
        ]
        .map(|(cover, key)| {
            let mut row = [0; 39];
            coefficients(cover, RepairKey(key), Density::FULL, &mut row);
            row
        });
        for (i, a) in rows.iter().enumerate() {
            assert!(rows[..i].iter().all(|b| a.iter().zip(b).filter(|(a, b)| a == b).count() < 10));
        }
    }

    #[test]
    fn full_density_has_no_zeros_and_all_values() {
        let mut row = vec![0; 20_000];
        coefficients(window(0, 20_000), RepairKey(5), Density::FULL, &mut row);
        let mut counts = [0; 256];
        row.iter().for_each(|c| counts[usize::from(*c)] += 1);
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|n| (40..120).contains(n)), "78 each, and no value out of line");
    }

    #[test]
    fn density_is_kept_and_no_row_is_empty() {
        let mut row = vec![0; 20_000];
        coefficients(window(0, 20_000), RepairKey(5), Density::of_256(64).unwrap(), &mut row);
        let share = row.iter().filter(|c| **c != 0).count();
        assert!((4700..5300).contains(&share), "a quarter of 20,000, not {share}");
        for key in 0..2000 {
            coefficients(window(9, 4), RepairKey(key), Density::of_256(1).unwrap(), &mut row[..4]);
            assert!(row[..4].iter().any(|c| *c != 0));
        }
    }
}
