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

use std::time::Duration;

use fulmar_units::Instant;

use fulmar_control::congestion::DUPLICATE_ACKS_OF_LOSS;
use fulmar_control::redundancy::Pace;
use fulmar_control::{
    BlockView, Choice, Feedback, Opportunity, PathView, RedundancyPolicy, RepairReason, Retransmissions,
};

use super::vegas::{AdaptiveConfig, AdaptiveRedundancy};

/// Settings of TCP/NC's sender.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpNcConfig {
    /// Most packets in a combination: the source's W, at least 1. Default: 64, more than its receive window
    /// holds.
    pub window_packets: u32,
    /// Send each packet itself first, and combinations only beyond it. Default: no.
    pub is_systematic: bool,
    /// What the receiver lacks beyond R comes as TCP sends it again, and only then. Default: no.
    pub asks_by_tcp: bool,
    /// Otherwise: how fast holes are filled that are asked for.
    pub retransmissions: Retransmissions,
}

impl Default for TcpNcConfig {
    fn default() -> Self {
        Self {
            window_packets: 64,
            is_systematic: false,
            asks_by_tcp: false,
            retransmissions: Retransmissions::default(),
        }
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
    /// Degrees of freedom delivered since the beginning.
    delivered: u64,
    /// Duplicate ACKs since one advanced.
    duplicate_acks: u32,
    /// The third has come, and the packet it asks for has not gone.
    is_third: bool,
    /// A timeout has TCP send everything again, until it sends something new.
    is_resending: bool,
    /// When TCP last saw something new, or began to wait for it.
    waits_since: Instant,
    pace: Pace,
}

/// RFC 6298 2.4.
const RTO_MIN: Duration = Duration::from_secs(1);

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
        let pace = Pace::new(config.retransmissions);
        Self {
            config,
            redundancy,
            sources_sent: 0,
            num: 0,
            delivered: 0,
            duplicate_acks: 0,
            is_third: false,
            is_resending: false,
            waits_since: Instant::ZERO,
            pace,
        }
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

    /// TCP alone asks for more: where combinations cover windows.
    fn is_asked_by_tcp(&self, opportunity: &Opportunity) -> bool {
        self.config.asks_by_tcp && opportunity.window_max > 1 && opportunity.block == BlockView::default()
    }

    /// When what TCP waits for is sent again although no timeout was told: PINGs and datagrams that arrive
    /// keep recovery's timer from expiring, TCP's would (RFC 6298). Twice its time, so that recovery's comes
    /// first where it comes, for only that one closes the window.
    fn timer(&self, path: &PathView) -> Instant {
        self.waits_since + (path.rtt_smoothed + path.rtt_var * 4).max(RTO_MIN) * 2
    }

    fn asks(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        if self.is_asked_by_tcp(opportunity) {
            let is_due = self.is_resending || self.is_third || opportunity.now >= self.timer(path);
            is_due && opportunity.missing_symbols > 0
        } else {
            opportunity.missing > 0 && self.pace.held_until(opportunity, path).is_none()
        }
    }

    /// TCP's window is full of packets that the receiver has not seen. What has left the path leaves room in
    /// it only when it was seen: TCP does not know better.
    fn is_window_full(&self, opportunity: &Opportunity, path: &PathView) -> bool {
        let span = [opportunity.unacked_symbols, opportunity.missing_symbols, opportunity.recovering_symbols]
            .into_iter()
            .fold(0, u32::saturating_add);
        let unseen = opportunity.sources_sent.saturating_sub(self.delivered).min(u64::from(span));
        let window_packets = path.window_bytes / u64::from(path.mtu_bytes.max(1));
        self.is_asked_by_tcp(opportunity) && unseen >= window_packets.max(1)
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
        self.delivered = self.delivered.saturating_add(u64::from(feedback.coding.dof_delivered));
        if feedback.advances_seen() {
            self.waits_since = feedback.now;
            self.duplicate_acks = 0;
        }
        let before = self.duplicate_acks;
        self.duplicate_acks = before.saturating_add(feedback.coding.duplicate_acks);
        self.is_third |= before < DUPLICATE_ACKS_OF_LOSS && self.duplicate_acks >= DUPLICATE_ACKS_OF_LOSS;
        if let Redundancy::Adaptive(adaptive) = &mut self.redundancy {
            adaptive.on_feedback(feedback, self.sources_sent);
        }
    }

    fn on_timeout(&mut self) {
        self.pace.on_timeout();
        (self.is_resending, self.is_third, self.duplicate_acks) = (true, false, 0);
        if let Redundancy::Adaptive(adaptive) = &mut self.redundancy {
            adaptive.on_timeout();
        }
    }

    fn choose(&self, opportunity: &Opportunity, path: &PathView) -> Choice {
        if self.asks(opportunity, path) {
            return Choice::Recover;
        }
        if self.num_at(opportunity) >= UNIT {
            return Choice::Repair { symbols: self.window(opportunity), reason: RepairReason::Proactive };
        }
        if !opportunity.has_new_data || self.is_window_full(opportunity, path) {
            let until = if self.is_asked_by_tcp(opportunity) {
                Some(self.timer(path)).filter(|_| opportunity.missing_symbols > 0)
            } else {
                self.pace.held_until(opportunity, path).filter(|_| opportunity.missing > 0)
            };
            return Choice::Wait(until);
        }
        match self.covered(opportunity.unacked_symbols.saturating_add(1), opportunity) {
            symbols if symbols > 0 && !self.config.is_systematic => Choice::Combine { symbols },
            _ => Choice::Source,
        }
    }

    fn on_emitted(&mut self, choice: Choice, opportunity: &Opportunity, path: &PathView) {
        self.pace.on_emitted(choice, opportunity);
        self.num = self.num_at(opportunity);
        self.sources_sent = opportunity.sources_sent;
        match choice {
            // What TCP sends again passes the coder like anything else.
            Choice::Recover if self.is_asked_by_tcp(opportunity) => {
                self.is_resending |= opportunity.now >= self.timer(path);
                self.waits_since = opportunity.now;
                self.is_third = false;
                self.num = self.num.saturating_add(self.redundancy_units() - UNIT);
            }
            Choice::Repair { .. } => self.num = self.num.saturating_sub(UNIT),
            // Counted at once, for Algorithm 1 reckons in single packets.
            Choice::Source | Choice::Combine { .. } => {
                if self.window(opportunity) == 0 {
                    self.waits_since = opportunity.now;
                }
                self.is_resending = false;
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
    use super::*;

    /// What leaves in `packets` chances: C for a combination in a packet's place, s for a plain packet, r for
    /// one more.
    fn line(redundancy: f64, is_systematic: bool, packets: u32) -> String {
        let config = TcpNcConfig { window_packets: 4, is_systematic, ..TcpNcConfig::default() };
        let (mut policy, path) = (TcpNcCombinations::new(config, redundancy), PathView::unknown(1000));
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max) = (true, 64);
        let mut line = String::new();
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

    /// TCP above the code: packets that were not seen fill its window, and only a timeout or the third
    /// duplicate ACK has one sent again.
    #[test]
    fn what_r_does_not_make_good_waits_for_tcp() {
        let config = TcpNcConfig { asks_by_tcp: true, ..TcpNcConfig::default() };
        let (mut policy, mut path) = (TcpNcCombinations::new(config, 1.0), PathView::unknown(1000));
        path.window_bytes = 4000;
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.has_new_data, opportunity.window_max, opportunity.sources_sent) = (true, 64, 4);
        (opportunity.missing, opportunity.missing_symbols, opportunity.unacked_symbols) = (2, 2, 2);
        let waits = Choice::Wait(Some(Instant::ZERO + RTO_MIN * 2));
        assert_eq!(policy.choose(&opportunity, &path), waits, "four of four are not seen");
        let mut feedback = Feedback::at(Instant::ZERO);
        (feedback.coding.dof_redundant, feedback.coding.duplicate_acks) = (1, 1);
        for _ in 0..2 {
            policy.on_feedback(&feedback, &path);
            assert_eq!(policy.choose(&opportunity, &path), waits);
        }
        policy.on_feedback(&feedback, &path);
        assert_eq!(policy.choose(&opportunity, &path), Choice::Recover, "the third duplicate ACK");
        policy.on_emitted(Choice::Recover, &opportunity, &path);
        (opportunity.missing_symbols, opportunity.recovering_symbols) = (1, 1);
        assert_eq!(policy.choose(&opportunity, &path), waits, "which asks for one packet");
        let (mut later, mut by_timer) = (opportunity, policy.clone());
        later.now += RTO_MIN * 2;
        assert_eq!(by_timer.choose(&later, &path), Choice::Recover, "or TCP's own timer");
        by_timer.on_emitted(Choice::Recover, &later, &path);
        assert_eq!(by_timer.choose(&later, &path), Choice::Recover, "has it send everything again");
        policy.on_timeout();
        assert_eq!(policy.choose(&opportunity, &path), Choice::Recover);
        opportunity.missing_symbols = 0;
        (feedback.coding.dof_delivered, feedback.coding.dof_redundant, feedback.coding.duplicate_acks) =
            (3, 0, 0);
        policy.on_feedback(&feedback, &path);
        assert_eq!(policy.choose(&opportunity, &path), Choice::Combine { symbols: 3 });
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
