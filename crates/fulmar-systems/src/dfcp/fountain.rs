//! DFCP's sending: a window of blocks, each a fountain from which symbols are drawn until it is acknowledged.
//!
//! Source: Solymos 2014, sections 3.8, 3.9 and 3.12.1. Every packet is a coded symbol of one block. At most
//! so many blocks are unacknowledged (the window size), served round robin, a segment each. There a block is
//! sent from until its ACK arrives, a round trip after enough was sent; that is the setting `is_persistent`.
//!
//! The default counts instead: as many symbols as the receiver needs, and more as soon as some are known
//! lost, so that at loss rate p a share 1 - p of what is sent is useful, whatever the round trip. The
//! parameter *redundancy*, the coded bytes after which the thesis' receiver decodes a block of 65536, says
//! how many are sent at once rather than after a loss is known: what it is above 65536 is added to what the
//! code is expected to need. 0 leaves all to counting.
//!
//! Where half of all is lost a block takes ten round trips: at high rates the receiver's memory ends before
//! the window does, and no block is begun that would push another out of it.
//!
//! Invariant: never more blocks under way than the window.

use fulmar_control::{Choice, Feedback, Opportunity, PathView, RedundancyPolicy, RepairReason};

/// Bytes of a block after its outer code (Solymos 2014, section 3.7.1): the unit of `redundancy_bytes`.
pub const DFCP_BLOCK_BYTES: u32 = 65_536;

/// Settings of a fountain.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FountainConfig {
    /// Blocks that may be unacknowledged, at least 1: the thesis' *window size*. Default: 64.
    pub window_blocks: u32,
    /// Go on sending from every block until it is acknowledged. Default: no.
    pub is_persistent: bool,
    /// The thesis' *redundancy*: coded bytes to send at once for a block of 65536; 0 for no more than needed.
    /// Default: 0.
    pub redundancy_bytes: u32,
}

impl Default for FountainConfig {
    fn default() -> Self {
        Self { window_blocks: 64, is_persistent: false, redundancy_bytes: 0 }
    }
}

/// Sends from a window of blocks.
#[derive(Clone, Debug)]
pub struct Fountain {
    config: FountainConfig,
}

impl Fountain {
    /// The policy.
    pub fn new(config: FountainConfig) -> Self {
        Self { config }
    }

    /// Coded symbols that are sent of a block of `sources` symbols beyond those it is expected to need,
    /// whatever is known.
    fn at_once(&self, sources: u32) -> u32 {
        let extra_bytes = self.config.redundancy_bytes.saturating_sub(DFCP_BLOCK_BYTES);
        let coded_bytes = u64::from(sources) * u64::from(extra_bytes);
        u32::try_from(coded_bytes.div_ceil(u64::from(DFCP_BLOCK_BYTES))).unwrap_or(u32::MAX)
    }
}

impl RedundancyPolicy for Fountain {
    fn name(&self) -> &'static str {
        "fountain"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&self, opportunity: &Opportunity, _path: &PathView) -> Choice {
        let block = opportunity.block;
        if opportunity.missing > 0 {
            return Choice::Recover;
        }
        if !block.is_open && block.undecoded > 0 && block.repairs < self.at_once(block.symbols) {
            return Choice::Repair { symbols: block.symbols.max(1), reason: RepairReason::Proactive };
        }
        let is_full = block.undecoded >= self.config.window_blocks.max(1) || block.is_last_in_reach;
        let has_room = block.is_open || !is_full;
        if opportunity.has_new_data && has_room {
            return Choice::Source;
        }
        if self.config.is_persistent && block.undecoded > 0 {
            return Choice::Recover;
        }
        Choice::Wait(None)
    }

    fn ratio(&self) -> f64 {
        (f64::from(self.config.redundancy_bytes) / f64::from(DFCP_BLOCK_BYTES) - 1.0).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use fulmar_control::BlockView;

    fn opportunity(undecoded: u32) -> Opportunity {
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.has_new_data = true;
        opportunity.block = BlockView { symbols: 44, undecoded, ..BlockView::default() };
        opportunity
    }

    fn choose(config: FountainConfig, opportunity: &Opportunity) -> Choice {
        Fountain::new(config).choose(opportunity, &PathView::unknown(1454))
    }

    #[test]
    fn blocks_begin_while_the_window_has_room() {
        let config = FountainConfig { window_blocks: 3, ..FountainConfig::default() };
        assert_eq!(choose(config, &opportunity(2)), Choice::Source);
        assert_eq!(choose(config, &opportunity(3)), Choice::Wait(None));
        let mut far = opportunity(2);
        far.block.is_last_in_reach = true;
        assert_eq!(choose(config, &far), Choice::Wait(None));
        let mut lacking = opportunity(2);
        lacking.missing = 1;
        assert_eq!(choose(config, &lacking), Choice::Recover);
        let persistent = FountainConfig { is_persistent: true, ..config };
        assert_eq!(choose(persistent, &opportunity(3)), Choice::Recover);
        assert_eq!(choose(persistent, &Opportunity::idle(Instant::ZERO)), Choice::Wait(None));
    }

    /// 44 symbols, 68813 - 65536 = 3277 bytes of 65536: 44 * 0.05 = 2.2, so three more are sent at once.
    #[test]
    fn redundancy_is_sent_at_once() {
        let config = FountainConfig { redundancy_bytes: 68_813, ..FountainConfig::default() };
        let mut opportunity = opportunity(1);
        for repairs in 0..3 {
            opportunity.block.repairs = repairs;
            assert!(matches!(choose(config, &opportunity), Choice::Repair { symbols: 44, .. }), "{repairs}");
        }
        opportunity.block.repairs = 3;
        assert_eq!(choose(config, &opportunity), Choice::Source);
    }
}
