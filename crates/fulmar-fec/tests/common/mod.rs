//! What the tests of all codes share.
#![allow(dead_code, unreachable_pub)] // Every test file uses its part.

pub mod attacks;
pub mod hostile;
pub mod probe;

use fulmar_fec::*;

/// SplitMix64, so that a run is a function of its seed.
pub struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Symbols of 1 to `len_max` bytes.
pub fn source(draw: &mut Draw, count: usize, len_max: u64) -> Vec<Vec<u8>> {
    (0..count).map(|_| (0..1 + draw.below(len_max)).map(|_| draw.below(256) as u8).collect()).collect()
}

pub fn block(first: u64, len: usize) -> Cover<'static> {
    Cover::Window(Window { first: SymbolId(first), len: len as u32 })
}

/// Everything recovered, by id.
pub fn drain(decoder: &mut dyn Decoder) -> Vec<(SymbolId, Vec<u8>)> {
    let mut symbol = Vec::new();
    let mut all = Vec::new();
    loop {
        all.extend(std::iter::from_fn(|| decoder.poll_recovered(&mut symbol).map(|id| (id, symbol.clone()))));
        if !decoder.is_busy() || decoder.go_on().is_err() {
            break;
        }
    }
    all.sort();
    all
}

/// Whether `padded` is `symbol` and zeros.
pub fn is_padded(padded: &[u8], symbol: &[u8]) -> bool {
    padded.len() >= symbol.len()
        && padded.starts_with(symbol)
        && padded[symbol.len()..].iter().all(|byte| *byte == 0)
}
