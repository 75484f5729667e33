//! TCP/NC: for every packet from TCP, on average R random combinations of the newest W.
//!
//! Source: Medina-Ruiz et al. 2012, section II and Algorithm 2, after Sundararajan et al. 2009: NUM <- NUM +
//! R for each packet; floor(NUM) combinations of the packets in the coding window are sent, and NUM keeps the
//! fraction. R is fixed here ([`TcpNcCombinations::new`]), or adapted by Algorithm 1
//! ([`AdaptiveRedundancy`]).
//!
//! The first combination for a packet goes in the packet's own place ([`Choice::Combine`]): nothing is sent
//! plain, unless the systematic variant is asked for. R below 1 would send fewer combinations than there are
//! packets and never decode; it is taken for 1. R is counted in thousandths, so that ten packets at R = 1.1
//! are eleven and not ten.
//!
//! Invariant: combinations sent <= R * packets + 1, beside those asked for.

use super::vegas::{AdaptiveConfig, AdaptiveRedundancy};
use super::{Choice, Opportunity, RedundancyPolicy, RepairReason};
use crate::{Feedback, PathView};

/// Settings of TCP/NC's sender.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpNcConfig {
    /// Most packets in a combination: the source's W, at least 1. Default: 64, more than its receive window
    /// holds.
    pub window_packets: u32,
    /// Send each packet itself first, and combinations only beyond it. Default: no.
    pub is_systematic: bool,
}

impl Default for TcpNcConfig {
    fn default() -> Self {
        Self { window_packets: 64, is_systematic: false }
    }
}

/// Where R comes from.
#[derive(Clone, Debug)]
enum Redundancy {
    /// As it was set.
    Fixed(f64),
    /// By Algorithm 1.
    Adaptive(AdaptiveRedundancy),
}

/// NUM and R in units of a thousandth.
const UNIT: u64 = 1000;
/// More combinations per packet than this are a mistake.
const REDUNDANCY_MAX: f64 = 100.0;

/// TCP/NC's sender.
#[derive(Clone, Debug)]
pub struct TcpNcCombinations {
    config: TcpNcConfig,
    redundancy: Redundancy,
    sources_sent: u64,
    /// NUM.
    num: u64,
}

impl TcpNcCombinations {
    /// R fixed at `redundancy`, at least 1.
    pub fn new(config: TcpNcConfig, redundancy: f64) -> Self {
        Self::with(config, Redundancy::Fixed(redundancy))
    }

    /// R adapted by Algorithm 1.
    pub fn adaptive(config: TcpNcConfig, adaptive: AdaptiveConfig) -> Self {
        Self::with(config, Redundancy::Adaptive(AdaptiveRedundancy::new(adaptive)))
    }

    fn with(config: TcpNcConfig, redundancy: Redundancy) -> Self {
        Self { config, redundancy, sources_sent: 0, num: 0 }
    }

    fn redundancy_units(&self) -> u64 {
        let redundancy = match &self.redundancy {
            Redundancy::Fixed(redundancy) => *redundancy,
            Redundancy::Adaptive(adaptive) => adaptive.redundancy(),
        };
        let redundancy = if redundancy.is_nan() { 1.0 } else { redundancy.clamp(1.0, REDUNDANCY_MAX) };
        libm::round(redundancy * UNIT as f64) as u64
    }

    /// NUM now: it has grown with each packet that came from TCP since, less the combination that went in its
    /// place.
    fn num_at(&self, opportunity: &Opportunity) -> u64 {
        let packets = opportunity.sources_sent.saturating_sub(self.sources_sent);
        let num = self.num.saturating_add(packets.saturating_mul(self.redundancy_units() - UNIT));
        // With nothing in the coding window there is nothing to combine.
        if self.window(opportunity) == 0 { num.min(UNIT - 1) } else { num }
    }

    /// Packets in the coding window.
    fn window(&self, opportunity: &Opportunity) -> u32 {
        self.covered(opportunity.unacked_symbols, opportunity)
    }

    fn covered(&self, symbols: u32, opportunity: &Opportunity) -> u32 {
        symbols.min(self.config.window_packets.max(1)).min(opportunity.window_max)
    }
}

impl RedundancyPolicy for TcpNcCombinations {
    fn name(&self) -> &'static str {
        match self.redundancy {
            Redundancy::Fixed(_) => "tcp-nc",
            Redundancy::Adaptive(_) => "tcp-nc-adaptive",
        }
    }

    fn on_feedback(&mut self, feedback: &Feedback, _path: &PathView) {
        if let Redundancy::Adaptive(adaptive) = &mut self.redundancy {
            adaptive.on_feedback(feedback, self.sources_sent);
        }
    }

    fn on_timeout(&mut self) {
        if let Redundancy::Adaptive(adaptive) = &mut self.redundancy {
            adaptive.on_timeout();
        }
    }

    fn choose(&self, opportunity: &Opportunity, _path: &PathView) -> Choice {
        if opportunity.missing > 0 {
            return Choice::Recover;
        }
        if self.num_at(opportunity) >= UNIT {
            return Choice::Repair { symbols: self.window(opportunity), reason: RepairReason::Proactive };
        }
        if !opportunity.has_new_data {
            return Choice::Wait(None);
        }
        match self.covered(opportunity.unacked_symbols.saturating_add(1), opportunity) {
            symbols if symbols > 0 && !self.config.is_systematic => Choice::Combine { symbols },
            _ => Choice::Source,
        }
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, _path: &PathView) {
        self.num = self.num_at(opportunity);
        self.sources_sent = opportunity.sources_sent;
        match choice {
            Choice::Repair { .. } => self.num = self.num.saturating_sub(UNIT),
            // Counted at once, for Algorithm 1 reckons in single packets.
            Choice::Source | Choice::Combine { .. } => {
                self.num = self.num.saturating_add(self.redundancy_units() - UNIT);
                self.sources_sent += 1;
            }
            _ => {}
        }
    }

    fn ratio(&self) -> f64 {
        self.redundancy_units() as f64 / UNIT as f64 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use fulmar_units::Instant;

    use super::*;

    /// What leaves in `packets` chances: C for a combination in a packet's place, s for a plain packet, r for
    /// one more.
    fn line(redundancy: f64, is_systematic: bool, packets: u32) -> alloc::string::String {
        let config = TcpNcConfig { window_packets: 4, is_systematic };
        let (mut policy, path) = (TcpNcCombinations::new(config, redundancy), PathView::unknown(1000));
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max) = (true, 64);
        let mut line = alloc::string::String::new();
        for _ in 0..packets {
            let choice = policy.choose(&opportunity, &path);
            policy.on_emitted(choice, &opportunity, &path);
            let kind = match choice {
                Choice::Combine { symbols } => {
                    assert_eq!(symbols, (opportunity.unacked_symbols + 1).min(4));
                    'C'
                }
                Choice::Source => 's',
                Choice::Repair { symbols, .. } => {
                    assert_eq!(symbols, opportunity.unacked_symbols.min(4));
                    'r'
                }
                other => panic!("{other:?}"),
            };
            opportunity.sources_sent += u64::from(kind != 'r');
            opportunity.unacked_symbols += u32::from(kind != 'r');
            line.push(kind);
        }
        line
    }

    /// Algorithm 2: R = 1.1: NUM is 1.1, 2.2 - 1 = .., the tenth packet makes it 2. R = 1.5: 1, 2, 1, 2. R =
    /// 2.5: 2, 3.
    #[test]
    fn floor_of_num_combinations_for_each_packet() {
        assert_eq!(line(1.1, false, 23), "CCCCCCCCCCrCCCCCCCCCCrC");
        assert_eq!(line(1.5, false, 7), "CCrCCrC");
        assert_eq!(line(2.5, false, 8), "CrCrrCrC");
        assert_eq!(line(1.0, false, 4), "CCCC");
        assert_eq!(line(0.5, false, 3), "CCC", "fewer than one per packet would never decode");
        assert_eq!(line(1.25, true, 6), "ssssrs");
    }

    #[test]
    fn what_the_code_cannot_make_good_goes_first_and_an_empty_window_needs_nothing() {
        let policy = TcpNcCombinations::new(TcpNcConfig::default(), 3.0);
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.window_max, opportunity.sources_sent, opportunity.missing) = (64, 4, 1);
        assert_eq!(policy.choose(&opportunity, &PathView::unknown(1000)), Choice::Recover);
        opportunity.missing = 0;
        assert_eq!(policy.choose(&opportunity, &PathView::unknown(1000)), Choice::Wait(None));
        assert_eq!(policy.ratio(), 2.0);
    }
}
