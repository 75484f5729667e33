//! Datagrams thrown away on purpose
//! ([`EndpointConfig::lose_received_ppm`](super::EndpointConfig::lose_received_ppm)).

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

/// Draws for each datagram whether it is lost. The same fates at each start: what is measured with them can
/// be repeated.
pub(super) struct Loss {
    generator: Pcg32,
    ppm: u32,
}

impl Loss {
    pub(super) fn new(ppm: u32) -> Self {
        Self { generator: Pcg32::seed_from_u64(0), ppm }
    }

    /// Whether the next datagram is lost.
    pub(super) fn takes_next(&mut self) -> bool {
        // Nothing is drawn where nothing is asked for.
        self.ppm > 0 && (u64::from(self.generator.next_u32()) * 1_000_000) >> 32 < u64::from(self.ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lost_as_asked_for() {
        for (ppm, least, most) in [(0, 0, 0), (50_000, 4_500, 5_500), (1_000_000, 100_000, 100_000)] {
            let mut loss = Loss::new(ppm);
            let lost = (0..100_000).filter(|_| loss.takes_next()).count();
            assert!((least..=most).contains(&lost), "{lost} of 100,000 at {ppm} ppm");
        }
    }
}
