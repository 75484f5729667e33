//! Who is taken to share the bottleneck, in a word, for traces. The modules that find it act on it.

use super::Auto;
use super::phase::Phase;
use crate::congestion::Company;

impl Auto {
    /// As of the beginning of the round.
    pub(super) fn belief(&self) -> Option<Company> {
        let now = self.round_started_at;
        let is_competing = matches!(&self.phase, Phase::Compete(_) | Phase::Slow { paused: Some(_), .. });
        match &self.phase {
            Phase::Startup(_) => None,
            _ if self.policer.is_known() => Some(Company::Policer),
            _ if self.is_beside_bbr(now) => Some(Company::Insisting),
            _ if is_competing => Some(Company::Yielding),
            _ if self.may_be_kin(now) => Some(Company::Kin),
            _ if self.is_alone(now) => Some(Company::Nobody),
            _ => None,
        }
    }
}
