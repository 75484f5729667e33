//! Repair that follows the source symbols of a block: what LT-TCP and CTCP have in common.
//!
//! A block is its source symbols, then its proactive repair, then the next block begins; repair that was asked for goes
//! before new data. The amount of repair is settled when the last source symbol of the block has been sent. When data end
//! within a block (LT-TCP's FIN block, Hourt 2014, section 3.2) it ends there; because the core cannot know that a writer
//! will not come back, it waits a fraction of a round trip for more.

use core::time::Duration;

use fulmar_units::Instant;

use super::{Choice, RepairReason, Slot};
use crate::PathView;

/// An unfinished block or group waits this share of a round trip for more data before its repair is sent.
const PAUSE_PER_RTT: u32 = 8;
/// And at least this long: writers write in pieces.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// When data have ended for all we can tell: nothing new for a while after the newest source symbol.
pub(super) fn ended_at(slot: &Slot, path: &PathView) -> Instant {
    let newest = slot.newest_source.unwrap_or(slot.now);
    newest + (path.rtt_smoothed / PAUSE_PER_RTT).max(PAUSE_MIN)
}

/// The newest block's proactive repair.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockRepair {
    /// Source symbols sent when the plan was made, and the repair symbols planned.
    planned: Option<(u64, u32)>,
}

impl BlockRepair {
    /// The next packet. `plan` gives the number of proactive repair symbols of a block of so many source symbols; it is
    /// asked once per block.
    pub(super) fn choose(&mut self, slot: &Slot, path: &PathView, plan: impl FnOnce(u32) -> u32) -> Choice {
        if slot.block.is_open || slot.block.symbols == 0 {
            return self.within_block(slot, path, plan);
        }
        if slot.block.repairs < self.planned(slot, plan) {
            return proactive(slot);
        }
        super::arq::asked_or_source(slot)
    }

    fn within_block(&mut self, slot: &Slot, path: &PathView, plan: impl FnOnce(u32) -> u32) -> Choice {
        if slot.missing > 0 {
            return Choice::Recover;
        }
        if slot.has_new_data {
            return Choice::Source;
        }
        if slot.block.symbols == 0 {
            return Choice::Wait(None);
        }
        let ended_at = ended_at(slot, path);
        if ended_at > slot.now {
            return Choice::Wait(Some(ended_at));
        }
        // With nothing to add there is no reason to end the block.
        if self.planned(slot, plan) == 0 { Choice::Wait(None) } else { proactive(slot) }
    }

    /// The plan for the block that ends here. It stands until another source symbol is sent.
    fn planned(&mut self, slot: &Slot, plan: impl FnOnce(u32) -> u32) -> u32 {
        let planned = match self.planned {
            Some((sources_sent, planned)) if sources_sent == slot.sources_sent => planned,
            _ => plan(slot.block.symbols),
        };
        self.planned = Some((slot.sources_sent, planned));
        planned
    }
}

fn proactive(slot: &Slot) -> Choice {
    Choice::Repair { symbols: slot.block.symbols.max(1), reason: RepairReason::Proactive }
}
