//! A fixed code rate: so many repair symbols per source symbol, each over the newest symbols.
//!
//! Source: TCP/NC's NUM += R (Medina-Ruiz et al. 2012; R counts the source symbol there, so its R is ours plus one) and
//! TCP-FEC's static variants 1/1, 1/10, 1/40. Repair that was asked for goes first, for data are never given up.
//! Inputs: symbols sent and unacknowledged. Invariant: repair sent proactively <= rate x sources sent + 1.

use super::arq::asked_or_source;
use super::{Choice, RedundancyPolicy, RepairReason, Slot};
use crate::{Feedback, PathView};

/// `repairs_per_source` repair symbols for each source symbol.
#[derive(Clone, Debug)]
pub struct FixedRate {
    repairs_per_source: f64,
    window_symbols: u32,
    sources_sent: u64,
    due: f64,
}

impl FixedRate {
    /// `repairs_per_source` (not negative) repair symbols for each source symbol, each over at most `window_symbols`.
    pub fn new(repairs_per_source: f64, window_symbols: u32) -> Self {
        let is_sound = repairs_per_source.is_finite() && repairs_per_source > 0.0;
        Self {
            repairs_per_source: if is_sound { repairs_per_source } else { 0.0 },
            window_symbols: window_symbols.max(1),
            sources_sent: 0,
            due: 0.0,
        }
    }
}

impl RedundancyPolicy for FixedRate {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&mut self, slot: &Slot, _path: &PathView) -> Choice {
        let new_sources = slot.sources_sent.saturating_sub(self.sources_sent);
        self.sources_sent = slot.sources_sent;
        self.due += new_sources as f64 * self.repairs_per_source;
        if slot.missing > 0 {
            return Choice::Recover;
        }
        let symbols = self.window_symbols.min(slot.window_max).min(slot.unacked_symbols);
        if self.due >= 1.0 && symbols > 0 {
            self.due -= 1.0;
            return Choice::Repair { symbols, reason: RepairReason::Proactive };
        }
        if symbols == 0 {
            // Everything arrived: repair would protect nothing.
            self.due = self.due.min(1.0);
        }
        asked_or_source(slot)
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
        let mut slot = Slot::idle(Instant::ZERO);
        slot.has_new_data = true;
        slot.window_max = 64;
        let mut line = alloc::string::String::new();
        for _ in 0..15 {
            match policy.choose(&slot, &path) {
                Choice::Source => {
                    slot.sources_sent += 1;
                    slot.unacked_symbols += 1;
                    line.push('s');
                }
                Choice::Repair { symbols, reason: RepairReason::Proactive } => {
                    assert_eq!(symbols, slot.unacked_symbols.min(8));
                    line.push('r');
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(line, "ssssrssssrssssr");
        slot.missing = 1;
        assert_eq!(policy.choose(&slot, &path), Choice::Recover);
    }

    #[test]
    fn nothing_is_protected_when_nothing_is_outstanding() {
        let path = PathView::unknown(1200);
        let mut policy = FixedRate::new(f64::NAN, 0);
        assert_eq!(policy.choose(&Slot::idle(Instant::ZERO), &path), Choice::Wait(None));
        let mut policy = FixedRate::new(3.0, 4);
        let mut slot = Slot::idle(Instant::ZERO);
        (slot.sources_sent, slot.window_max) = (5, 16);
        assert_eq!(policy.choose(&slot, &path), Choice::Wait(None));
    }
}
