//! A fixed code rate: so many repair symbols per source symbol, each over the newest symbols.
//!
//! Source: TCP/NC's NUM += R (Medina-Ruiz et al. 2012; R counts the source symbol there, so its R is ours
//! plus one) and TCP-FEC's static variants 1/1, 1/10, 1/40. Repair that was asked for goes first, for data
//! are never given up. Inputs: symbols sent and unacknowledged. Invariant: repair sent proactively <= rate x
//! sources sent + 1.

use super::arq::asked_or_source;
use super::{Choice, Opportunity, RedundancyPolicy, RepairReason};
use crate::{Feedback, PathView};

/// `repairs_per_source` repair symbols for each source symbol.
#[derive(Clone, Debug)]
pub struct FixedRate {
    repairs_per_source: f64,
    window_symbols: u32,
    /// Repair due when so many source symbols had been sent.
    sources_sent: u64,
    due: f64,
}

impl FixedRate {
    /// `repairs_per_source` (not negative) repair symbols for each source symbol, each over at most
    /// `window_symbols`.
    pub fn new(repairs_per_source: f64, window_symbols: u32) -> Self {
        let is_sound = repairs_per_source.is_finite() && repairs_per_source > 0.0;
        Self {
            repairs_per_source: if is_sound { repairs_per_source } else { 0.0 },
            window_symbols: window_symbols.max(1),
            sources_sent: 0,
            due: 0.0,
        }
    }

    /// Newest symbols that a repair symbol would cover.
    fn covered(&self, opportunity: &Opportunity) -> u32 {
        self.window_symbols.min(opportunity.window_max).min(opportunity.unacked_symbols)
    }

    /// Repair that is due now.
    fn due_at(&self, opportunity: &Opportunity) -> f64 {
        let new_sources = opportunity.sources_sent.saturating_sub(self.sources_sent);
        let due = self.due + new_sources as f64 * self.repairs_per_source;
        // If everything arrived, repair would protect nothing.
        if self.covered(opportunity) == 0 { due.min(1.0) } else { due }
    }
}

impl RedundancyPolicy for FixedRate {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&self, opportunity: &Opportunity, _path: &PathView) -> Choice {
        let symbols = self.covered(opportunity);
        if opportunity.missing == 0 && symbols > 0 && self.due_at(opportunity) >= 1.0 {
            return Choice::Repair { symbols, reason: RepairReason::Proactive };
        }
        asked_or_source(opportunity)
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, _path: &PathView) {
        let spent = if matches!(choice, Choice::Repair { .. }) { 1.0 } else { 0.0 };
        self.due = self.due_at(opportunity) - spent;
        self.sources_sent = opportunity.sources_sent;
    }

    fn ratio(&self) -> f64 {
        self.repairs_per_source
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    #[test]
    fn one_repair_after_every_fourth_source() {
        let path = PathView::unknown(1200);
        let mut policy = FixedRate::new(0.25, 8);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.has_new_data = true;
        opportunity.window_max = 64;
        let mut line = alloc::string::String::new();
        for _ in 0..15 {
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            match choice {
                Choice::Source => {
                    opportunity.sources_sent += 1;
                    opportunity.unacked_symbols += 1;
                    line.push('s');
                }
                Choice::Repair { symbols, reason: RepairReason::Proactive } => {
                    assert_eq!(symbols, opportunity.unacked_symbols.min(8));
                    line.push('r');
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(line, "ssssrssssrssssr");
        opportunity.missing = 1;
        assert_eq!(policy.choose(&opportunity, &path), Choice::Recover);
    }

    #[test]
    fn nothing_is_protected_when_nothing_is_outstanding() {
        let path = PathView::unknown(1200);
        let policy = FixedRate::new(f64::NAN, 0);
        assert_eq!(policy.choose(&Opportunity::idle(Instant::ZERO), &path), Choice::Wait(None));
        let policy = FixedRate::new(3.0, 4);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.sources_sent, opportunity.window_max) = (5, 16);
        assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(None));
    }
}
