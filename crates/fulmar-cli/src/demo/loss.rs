//! How packets get lost on the course.

use fulmar_net::{Loss, Probability, TwoState};

use crate::exit::Failure;

/// Losses alone, or in bursts.
pub(super) fn loss(ppm: u32, burst_milli: u32) -> Result<Loss, Failure> {
    let share = Probability::from_ppm(ppm);
    if share.is_zero() || burst_milli <= 1000 {
        return Ok(Loss::bernoulli(share));
    }
    TwoState::new(share, burst_milli).map(Loss::TwoState).map_err(|e| Failure::Usage(e.to_string()))
}
