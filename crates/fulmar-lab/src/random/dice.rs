//! Numbers drawn at random, integers only.

use fulmar_net::Rng;

/// Over octaves, then uniform within.
pub(super) fn octaves(rng: &mut Rng, (low, high): (u64, u64)) -> u64 {
    let count = u64::from((high / low.max(1)).max(1).ilog2()) + 1;
    loop {
        let base = low << rng.below(count);
        let value = base + rng.below(base.max(1));
        if value <= high {
            return value;
        }
    }
}

/// Three digits are enough for anybody to type.
pub(super) fn three_digits(value: u64) -> u64 {
    let step = 10u64.pow(value.max(1).ilog10().saturating_sub(2));
    (value / step).max(1) * step
}

pub(super) fn percent(rng: &mut Rng, chance: u64) -> bool {
    rng.below(100) < chance
}
