//! Repair that follows the source symbols of a block: what LT-TCP and CTCP have in common.
//!
//! A block is its source symbols, then its proactive repair, then the next block begins; repair that was
//! asked for goes before new data. The amount of repair is settled when the last source symbol of the block
//! has been sent. When data end within a block (LT-TCP's FIN block, Hourt 2014, section 3.2) it ends there;
//! because the core cannot know that a writer will not come back, it waits a fraction of a round trip for
//! more.

use std::time::Duration;

use fulmar_units::Instant;

use fulmar_control::redundancy::asked_or_source;
use fulmar_control::{Choice, Opportunity, PathView, RepairReason};

/// An unfinished block or group waits this share of a round trip for more data before its repair is sent.
const PAUSE_PER_RTT: u32 = 8;
/// And at least this long: writers write in pieces.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// When data have ended for all we can tell: nothing new for a while after the newest source symbol.
pub(crate) fn ended_at(opportunity: &Opportunity, path: &PathView) -> Instant {
    let newest = opportunity.newest_source.unwrap_or(opportunity.now);
    newest + (path.rtt_smoothed / PAUSE_PER_RTT).max(PAUSE_MIN)
}

/// The newest block's proactive repair.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockRepair {
    /// Source symbols sent when the plan was made, and the repair symbols planned.
    planned: Option<(u64, u32)>,
}

impl BlockRepair {
    /// The next packet. `plan` gives the number of proactive repair symbols of a block of so many source
    /// symbols.
    pub(crate) fn choose(
        &self,
        opportunity: &Opportunity,
        path: &PathView,
        plan: impl FnOnce(u32) -> u32,
    ) -> Choice {
        if opportunity.block.is_open || opportunity.block.symbols == 0 {
            return self.within_block(opportunity, path, plan);
        }
        if opportunity.block.repairs < self.planned(opportunity, plan) {
            return proactive(opportunity);
        }
        asked_or_source(opportunity)
    }

    fn within_block(
        &self,
        opportunity: &Opportunity,
        path: &PathView,
        plan: impl FnOnce(u32) -> u32,
    ) -> Choice {
        if opportunity.missing > 0 {
            return Choice::Recover;
        }
        if opportunity.has_new_data {
            return Choice::Source;
        }
        if opportunity.block.symbols == 0 {
            return Choice::Wait(None);
        }
        let ended_at = ended_at(opportunity, path);
        if ended_at > opportunity.now {
            return Choice::Wait(Some(ended_at));
        }
        // With nothing to add there is no reason to end the block.
        if self.planned(opportunity, plan) == 0 { Choice::Wait(None) } else { proactive(opportunity) }
    }

    /// A packet leaves. The first after the newest block's last source symbol settles the plan for it, which
    /// stands until another source symbol is sent. `plan` as above, asked once per block.
    pub(crate) fn on_emitted(
        &mut self,
        choice: Choice,
        opportunity: &Opportunity,
        plan: impl FnOnce(u32) -> u32,
    ) {
        let block = &opportunity.block;
        let has_ended = block.symbols > 0 && (!block.is_open || matches!(choice, Choice::Repair { .. }));
        if has_ended {
            self.planned = Some((opportunity.sources_sent, self.planned(opportunity, plan)));
        }
    }

    /// The plan for the block that ends here.
    fn planned(&self, opportunity: &Opportunity, plan: impl FnOnce(u32) -> u32) -> u32 {
        match self.planned {
            Some((sources_sent, planned)) if sources_sent == opportunity.sources_sent => planned,
            _ => plan(opportunity.block.symbols),
        }
    }
}

fn proactive(opportunity: &Opportunity) -> Choice {
    Choice::Repair { symbols: opportunity.block.symbols.max(1), reason: RepairReason::Proactive }
}
