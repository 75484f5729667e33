//! Counts of what coding sent.

use fulmar_control::RepairReason;

/// Counts of what was sent, and what became of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Source symbols sent.
    pub sources: u64,
    /// Copies of source symbols sent.
    pub copies: u64,
    /// Combinations over symbols known missing.
    pub repairs_asked: u64,
    /// Combinations sent before any loss was known.
    pub repairs_proactive: u64,
    /// Combinations that protect the end of a flight.
    pub repairs_tail: u64,
    /// Combinations and copies sent by the probe timeout.
    pub probes: u64,
    /// Source symbols whose packet was lost at least once.
    pub lost: u64,
    /// Of these, the ones that repair restored without a copy arriving.
    pub repaired: u64,
    /// Of these, the ones for which repair had to be asked for.
    pub unrepaired: u64,
}

impl SenderStats {
    /// A repair symbol leaves.
    pub(super) fn count_repair(&mut self, reason: RepairReason) {
        match reason {
            RepairReason::Asked => self.repairs_asked += 1,
            RepairReason::Proactive => self.repairs_proactive += 1,
            RepairReason::Tail => self.repairs_tail += 1,
            RepairReason::Probe => self.probes += 1,
        }
    }

    /// A copy leaves, or a piece of one. It counts under its reason, and as a copy where it was asked for.
    pub(super) fn count_copy(&mut self, reason: RepairReason) {
        match reason {
            RepairReason::Asked => self.copies += 1,
            _ => self.count_repair(reason),
        }
    }

    /// Everything sent that carried a symbol.
    pub fn symbols_sent(&self) -> u64 {
        self.sources + self.repairs_sent()
    }

    /// Copies and combinations sent.
    pub fn repairs_sent(&self) -> u64 {
        self.copies + self.repairs_asked + self.repairs_proactive + self.repairs_tail
    }
}
