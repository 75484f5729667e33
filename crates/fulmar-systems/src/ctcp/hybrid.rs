//! Coded TCP's redundancy: FEC at the estimated loss rate, and coded packets on feedback where that failed.
//!
//! Source: Leith, Medard et al., "Coded TCP", slide "Hybrid coding approach with delayed feedback": "FEC
//! based on currently estimated loss rate (from ACKs), i.e. send extra packets in an attempt to preempt loss;
//! use feedback to deal with cases when this fails, send additional coded packets; a throughput-delay
//! trade-off here". Blocks have 32 packets.
//!
//! At loss rate p a block of k packets arrives on average if k p / (1 - p) more are sent. The trade-off is a
//! factor on that: 0 is ARQ alone (the slides' comparison), 1 preempts the mean, above 1 buys delay with
//! throughput. Fractions are carried from block to block, so that at 2 % about one block in two gets a packet
//! more.
//!
//! Inputs: the loss estimate, the newest block, what is missing. Invariant: 0 <= carry < 1.

use fulmar_control::{Choice, Feedback, Opportunity, PathView, RedundancyPolicy};

use crate::block_repair::BlockRepair;

/// More loss than this is not planned for.
const LOSS_MAX: f64 = 0.9;

/// Proactive repair at the estimated loss rate, times a factor.
#[derive(Clone, Debug)]
pub struct CtcpHybrid {
    proactive: f64,
    carry: f64,
    block: BlockRepair,
    ratio: f64,
}

impl CtcpHybrid {
    /// `proactive` times the repair that replaces the mean loss; 0 for ARQ alone. Not negative.
    pub fn new(proactive: f64) -> Self {
        let is_sound = proactive.is_finite() && proactive > 0.0;
        Self {
            proactive: if is_sound { proactive } else { 0.0 },
            carry: 0.0,
            block: BlockRepair::default(),
            ratio: 0.0,
        }
    }

    /// Repair symbols per source symbol at loss rate `loss`.
    fn ratio_at(&self, loss: f64) -> f64 {
        let loss = if loss.is_finite() { loss.clamp(0.0, LOSS_MAX) } else { 0.0 };
        self.proactive * loss / (1.0 - loss)
    }

    /// Repair due for a block of `sources` symbols and what was carried to it.
    fn due(&self, sources: u32, path: &PathView) -> f64 {
        self.carry + f64::from(sources) * self.ratio_at(path.loss.rate)
    }
}

impl RedundancyPolicy for CtcpHybrid {
    fn name(&self) -> &'static str {
        "ctcp"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, path: &PathView) {
        self.ratio = self.ratio_at(path.loss.rate);
    }

    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        self.block.choose(opportunity, path, |sources| self.due(sources, path) as u32)
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, path: &PathView) {
        let due = self.due(opportunity.block.symbols, path);
        let carry = &mut self.carry;
        self.block.on_emitted(choice, opportunity, |_| {
            *carry = due - libm::floor(due);
            due as u32
        });
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;
    use fulmar_control::BlockView;

    /// Repair symbols of each of `blocks` blocks of 32.
    fn repairs(proactive: f64, rate: f64, blocks: usize) -> Vec<u32> {
        let mut path = PathView::unknown(1200);
        path.loss.rate = rate;
        let mut policy = CtcpHybrid::new(proactive);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.has_new_data = true;
        let mut counts = Vec::new();
        while counts.len() <= blocks {
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            match choice {
                Choice::Source => {
                    if !opportunity.block.is_open {
                        opportunity.block = BlockView { is_open: true, ..BlockView::default() };
                        counts.push(0);
                    }
                    opportunity.block.symbols += 1;
                    opportunity.block.is_open = opportunity.block.symbols < 32;
                    opportunity.sources_sent += 1;
                }
                Choice::Repair { .. } => {
                    opportunity.block.repairs += 1;
                    *counts.last_mut().unwrap() += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        counts.truncate(blocks);
        counts
    }

    /// 32 * 0.2 / 0.8 = 8; 32 * 0.05 / 0.95 = 1.684: 1, then 1.684 + 0.684 = 2.368: 2, then 0.368 + 1.684 =
    /// 2.05: 2, then 1.74: 1.
    #[test]
    fn repair_at_the_loss_rate_with_the_fraction_carried() {
        assert_eq!(repairs(1.0, 0.2, 3), [8, 8, 8]);
        assert_eq!(repairs(1.0, 0.05, 4), [1, 2, 2, 1]);
        assert_eq!(repairs(1.5, 0.2, 2), [12, 12]);
    }

    #[test]
    fn without_proactive_repair_it_is_arq() {
        assert_eq!(repairs(0.0, 0.2, 3), [0, 0, 0]);
        assert_eq!(repairs(f64::NAN, 0.2, 1), [0]);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.missing = 1;
        assert_eq!(CtcpHybrid::new(0.0).choose(&opportunity, &PathView::unknown(1200)), Choice::Recover);
    }
}
