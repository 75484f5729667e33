//! LT-TCP's redundancy: as much proactive FEC per block as makes reactive FEC unlikely.
//!
//! Source: Hourt 2014, sections 1.1, 3.1, 3.4. A block is n packets, k data then n - k PFEC; n - k comes from
//! the loss estimate "to minimize the probability that RFEC will be needed". If more than n - k of them are
//! known lost, RFEC follows the block's first n packets at once: no idle counter, no timeout. RFEC replaces
//! retransmission altogether.
//!
//! The thesis gives no formula for n - k. Here it is the smallest number with which P(no more than n - k of n
//! packets are lost) reaches a target, 0.99 unless set: binomial for the estimated rate p, or on the
//! two-state channel (p, E) of section 2.1 if bursts are to be reckoned with. At rate 0 there is none.
//!
//! Inputs: the loss estimate, the newest block, what is missing. Invariant: n - k is at most `repairs_max`.

use fulmar_control::{Channel, Choice, Feedback, LossView, Opportunity, PathView, RedundancyPolicy};

use crate::block_repair::BlockRepair;

/// Longest block for which the probability is summed.
const SUMMED_SYMBOLS_MAX: u32 = 512;
/// Where a block would need more repair than so many times itself, loss is an outage, which RFEC sits out
/// more cheaply.
const REPAIRS_PER_SOURCE_MAX: u32 = 4;

/// Settings of LT-TCP's redundancy.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LtTcpConfig {
    /// P(a block can be decoded without RFEC) to reach, 0 to 1. Default: 0.99.
    pub target: f64,
    /// Reckon with bursts of the estimated length rather than with independent losses. Default: no.
    pub has_bursts: bool,
    /// Most proactive repair symbols per block: what the code can make. Default: no bound.
    pub repairs_max: u32,
}

impl Default for LtTcpConfig {
    fn default() -> Self {
        Self { target: 0.99, has_bursts: false, repairs_max: u32::MAX }
    }
}

impl LtTcpConfig {
    /// n - k for a block of `sources` symbols on a path of which the estimator says `loss`.
    pub fn pfec_for(&self, sources: u32, loss: &LossView) -> u32 {
        let burst_packets = if self.has_bursts { loss.burst_packets } else { 1.0 };
        let channel = Channel::new(&LossView { burst_packets, ..*loss });
        let residual = 1.0 - self.target.clamp(0.0, 1.0);
        // The sum is made for blocks as long as blocks are; a longer one gets the same share.
        let summed = sources.clamp(1, SUMMED_SYMBOLS_MAX);
        let repairs = channel.repairs_for(summed, residual, summed * REPAIRS_PER_SOURCE_MAX);
        let share = u64::from(repairs) * u64::from(sources) / u64::from(summed);
        u32::try_from(share).unwrap_or(u32::MAX).min(self.repairs_max)
    }
}

/// PFEC by the loss estimate, RFEC as soon as it is known to be needed.
#[derive(Clone, Debug)]
pub struct LtTcp {
    config: LtTcpConfig,
    block: BlockRepair,
    ratio: f64,
}

impl LtTcp {
    /// The policy.
    pub fn new(config: LtTcpConfig) -> Self {
        Self { config, block: BlockRepair::default(), ratio: 0.0 }
    }
}

impl RedundancyPolicy for LtTcp {
    fn name(&self) -> &'static str {
        "lt-tcp"
    }

    fn on_feedback(&mut self, _feedback: &Feedback, _path: &PathView) {}

    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        self.block.choose(opportunity, path, |sources| self.config.pfec_for(sources, &path.loss))
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, path: &PathView) {
        let (config, ratio) = (self.config, &mut self.ratio);
        self.block.on_emitted(choice, opportunity, |sources| {
            let repairs = config.pfec_for(sources, &path.loss);
            *ratio = f64::from(repairs) / f64::from(sources.max(1));
            repairs
        });
    }

    fn ratio(&self) -> f64 {
        self.ratio
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulmar_units::Instant;

    use super::*;
    use fulmar_control::{BlockView, RepairReason};

    fn loss(rate: f64, burst_packets: f64) -> LossView {
        LossView { rate, burst_packets, weight_packets: 1000.0 }
    }

    fn config(target: f64, has_bursts: bool) -> LtTcpConfig {
        LtTcpConfig { target, has_bursts, ..LtTcpConfig::default() }
    }

    fn policy(target: f64, has_bursts: bool) -> LtTcp {
        LtTcp::new(config(target, has_bursts))
    }

    /// Binomial by hand, p = 0.1, k = 4: n = 5: 0.9^5 + 5 * 0.1 * 0.9^4 = 0.59049 + 0.32805 = 0.91854; n = 6:
    /// 0.531441 + 6 * 0.1 * 0.59049 + 15 * 0.01 * 0.6561 = 0.531441 + 0.354294 + 0.098415 = 0.98415; n = 7:
    /// 0.4782969 + 0.3720087 + 0.1240029 + 35 * 0.001 * 0.6561 = 0.4782969 + 0.3720087 + 0.1240029 +
    /// 0.0229635 = 0.997272.
    #[test]
    fn pfec_is_the_least_that_reaches_the_target() {
        for (target, repairs) in [(0.65, 0), (0.9, 1), (0.95, 2), (0.984, 2), (0.985, 3), (0.99, 3)] {
            assert_eq!(config(target, false).pfec_for(4, &loss(0.1, 9.0)), repairs, "{target}");
        }
        assert_eq!(config(0.99, false).pfec_for(64, &loss(0.0, 0.0)), 0);
    }

    /// Two-state chain by hand, p = 0.2, E = 5: P(lost | lost) = 0.8, P(lost | ok) = 0.05, P(ok | lost) =
    /// 0.2. k = 1, n = 2: P(not both lost) = 1 - 0.2 * 0.8 = 0.84; n = 3: 1 - 0.2 * 0.64 = 0.872;
    /// independent: 0.96 and 0.992.
    #[test]
    fn bursts_are_reckoned_with_if_the_setting_says_so() {
        assert_eq!(config(0.83, true).pfec_for(1, &loss(0.2, 5.0)), 1);
        assert_eq!(config(0.87, true).pfec_for(1, &loss(0.2, 5.0)), 2);
        assert_eq!(config(0.87, false).pfec_for(1, &loss(0.2, 5.0)), 1);
    }

    /// Sends a block and says what left: s source, p PFEC, r RFEC.
    #[test]
    fn a_block_is_data_then_pfec_and_rfec_follows_at_once() {
        let mut path = PathView::unknown(1200);
        path.loss = loss(0.1, 1.0);
        let mut policy = policy(0.9, false);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        opportunity.has_new_data = true;
        opportunity.block = BlockView::default();
        let mut line = String::new();
        for step in 0..14 {
            // Two packets of the second block are known lost while its PFEC is still due.
            opportunity.missing = u32::from(step == 9 || step == 10);
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            match choice {
                Choice::Source => {
                    let begins = !opportunity.block.is_open;
                    opportunity.block.symbols = if begins { 1 } else { opportunity.block.symbols + 1 };
                    opportunity.block.repairs = if begins { 0 } else { opportunity.block.repairs };
                    opportunity.block.is_open = opportunity.block.symbols < 4;
                    opportunity.sources_sent += 1;
                    line.push('s');
                }
                Choice::Repair { symbols, reason: RepairReason::Proactive } => {
                    assert_eq!(symbols, 4);
                    opportunity.block.repairs += 1;
                    line.push('p');
                }
                Choice::Recover => line.push('r'),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(line, "sssspssssprsss");
    }

    #[test]
    fn a_block_ends_when_data_do_and_stays_open_without_loss() {
        let mut path = PathView::unknown(1200);
        path.rtt_smoothed = Duration::from_millis(80);
        path.loss = loss(0.1, 1.0);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.newest_source, opportunity.sources_sent) = (Some(opportunity.now), 2);
        opportunity.block = BlockView { symbols: 2, is_open: true, undecoded: 1, ..BlockView::default() };
        let after = Instant::ZERO + Duration::from_millis(10);
        assert_eq!(policy(0.99, false).choose(&opportunity, &path), Choice::Wait(Some(after)));
        opportunity.now = after;
        // 0.9^2 = 0.81; + 0.162 + ... : 0.972 with one, 0.9963 with two.
        let mut policy = policy(0.99, false);
        let expected = Choice::Repair { symbols: 2, reason: RepairReason::Proactive };
        assert_eq!(policy.choose(&opportunity, &path), expected);
        policy.on_emitted(expected, &opportunity, &path);
        assert_eq!(policy.ratio(), 1.0);
        (opportunity.block.is_open, opportunity.block.repairs) = (false, 1);
        assert_eq!(policy.choose(&opportunity, &path), expected);
        opportunity.block.repairs = 2;
        assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(None));
        path.loss = LossView::default();
        (opportunity.block.is_open, opportunity.block.repairs, opportunity.sources_sent) = (true, 0, 4);
        assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(None));
    }
}
