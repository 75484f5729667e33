//! Algorithm 1 of TCP/NC: R by the Vegas loss predictor and by duplicate ACKs.
//!
//! Source: Medina-Ruiz et al. 2012, section III. On each ACK, qv = (window / BaseRTT - windowAcked / RTT) *
//! BaseRTT (1): the packets queued at the bottleneck. With alpha = 1 and beta = 3:
//!
//! - **as printed** (Algorithm 1): qv >= beta: R = 1.1. alpha <= qv < beta: R + 0.2 with two duplicate ACKs
//!   or more, R + 0.1 with one, R - 0.1 with none. qv < alpha: R = 1.1.
//! - **as described** (the text before it): "if the value of (1) is below the threshold that indicates a
//!   congested network and some DUPACKS have been received, it is because packets are being dropped by the
//!   noisy channel [..] In these situations the correct approach is to increase R". So every qv < beta is
//!   treated as the printed alpha <= qv < beta.
//!
//! The first is the default. Random loss with an empty queue, the paper's whole subject, has qv near 0: as
//! printed R would then stay 1.1 whatever is lost, and its figure 7 shows R rising at duplicate ACKs. By the
//! text R never falls below its initial value, to which even congestion brings it back; as printed it may
//! fall to 1, for fewer combinations than packets never decode. Above it is bounded by a setting: the source
//! has no bound.
//!
//! BaseRTT is the least RTT since the last timeout, after which Vegas measures it anew: a route that became
//! longer would look congested for ever.
//!
//! Terms: `window`, "the difference between newest and oldest byte in transit", is source packets sent less
//! degrees of freedom delivered; `windowAcked / RTT`, "seen during the last RTT", is the degrees of freedom
//! delivered in the last whole round by its length. All in packets, as Vegas' thresholds are. A duplicate ACK
//! is a packet that did not move the first symbol not seen, or one the code could not make good; they are
//! counted from ACK to ACK until one advances.

use std::time::Duration;

use fulmar_units::Instant;

use fulmar_control::Feedback;

/// Which of its two descriptions of the algorithm to follow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As the text describes it: R grows on duplicate ACKs wherever the path is not congested.
    Text,
    /// As the pseudo-code is printed: R is reset where qv < alpha.
    Printed,
}

/// Settings of Algorithm 1.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdaptiveConfig {
    /// R at first, and under congestion. Default: 1.1.
    pub initial: f64,
    /// Below it the path has too little queued to be congested, in packets. Default: 1.
    pub alpha: f64,
    /// From it on the path is congested, in packets. Default: 3.
    pub beta: f64,
    /// R changes by this for one duplicate ACK, by twice this for more, and back by this for none. Default:
    /// 0.1.
    pub step: f64,
    /// Largest R. Default: 2.
    pub redundancy_max: f64,
    /// Default: as printed.
    pub reading: Reading,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        Self {
            initial: 1.1,
            alpha: 1.0,
            beta: 3.0,
            step: 0.1,
            redundancy_max: 2.0,
            reading: Reading::Printed,
        }
    }
}

/// R, adapted.
#[derive(Clone, Debug)]
pub struct AdaptiveRedundancy {
    config: AdaptiveConfig,
    redundancy: f64,
    duplicate_acks: u32,
    /// Degrees of freedom delivered since the beginning.
    delivered: u64,
    round: u64,
    round_began: Option<(Instant, u64)>,
    /// windowAcked / RTT, in packets per second.
    acked_rate: Option<f64>,
    /// BaseRTT.
    base_rtt: Option<Duration>,
}

impl AdaptiveRedundancy {
    /// R at its initial value.
    pub fn new(config: AdaptiveConfig) -> Self {
        Self {
            config,
            redundancy: config.initial,
            duplicate_acks: 0,
            delivered: 0,
            round: 0,
            round_began: None,
            acked_rate: None,
            base_rtt: None,
        }
    }

    /// R.
    pub fn redundancy(&self) -> f64 {
        self.redundancy
    }

    /// An ACK, of which TCP had sent `sources_sent` packets before.
    pub fn on_feedback(&mut self, feedback: &Feedback, sources_sent: u64) {
        self.delivered = self.delivered.saturating_add(u64::from(feedback.coding.dof_delivered));
        self.measure(feedback);
        let duplicates = feedback.coding.duplicate_acks.saturating_add(feedback.coding.unrepairable_packets);
        let carried = if feedback.advances_seen() { 0 } else { self.duplicate_acks };
        self.duplicate_acks = carried.saturating_add(duplicates);
        self.base_rtt = [self.base_rtt, feedback.rtt].into_iter().flatten().min();
        let (Some(acked_rate), Some(base_rtt)) = (self.acked_rate, self.base_rtt) else { return };
        let window = sources_sent.saturating_sub(self.delivered) as f64;
        let base_rtt = base_rtt.as_secs_f64();
        if base_rtt > 0.0 {
            self.update((window / base_rtt - acked_rate) * base_rtt);
        }
    }

    /// A timeout: BaseRTT is measured anew, as Vegas does.
    pub fn on_timeout(&mut self) {
        self.base_rtt = None;
    }

    fn measure(&mut self, feedback: &Feedback) {
        match self.round_began {
            Some(_) if feedback.round == self.round => return,
            Some((began, delivered)) if feedback.now > began => {
                let seconds = (feedback.now - began).as_secs_f64();
                self.acked_rate = Some((self.delivered - delivered) as f64 / seconds);
            }
            _ => {}
        }
        self.round = feedback.round;
        self.round_began = Some((feedback.now, self.delivered));
    }

    /// Algorithm 1, given qv.
    fn update(&mut self, qv: f64) {
        let AdaptiveConfig { initial, alpha, beta, step, redundancy_max, reading } = self.config;
        let is_reset = qv >= beta || (qv < alpha && reading == Reading::Printed);
        self.redundancy = match self.duplicate_acks {
            _ if is_reset => initial,
            0 => self.redundancy - step,
            1 => self.redundancy + step,
            _ => self.redundancy + 2.0 * step,
        };
        let redundancy_min = if reading == Reading::Text { initial.max(1.0) } else { 1.0 };
        self.redundancy = self.redundancy.min(redundancy_max).max(redundancy_min);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adaptive(reading: Reading) -> AdaptiveRedundancy {
        AdaptiveRedundancy::new(AdaptiveConfig { reading, ..AdaptiveConfig::default() })
    }

    fn after(reading: Reading, duplicate_acks: u32, qv: f64) -> f64 {
        let mut adaptive = adaptive(reading);
        adaptive.redundancy = 1.5;
        adaptive.duplicate_acks = duplicate_acks;
        adaptive.update(qv);
        adaptive.redundancy
    }

    /// Algorithm 1, line by line.
    #[test]
    fn the_printed_algorithm() {
        let rows = [(3.0, 2, 1.1), (2.9, 2, 1.7), (2.9, 9, 1.7), (1.0, 1, 1.6), (1.0, 0, 1.4), (0.9, 2, 1.1)];
        for (qv, duplicate_acks, expected) in rows {
            let redundancy = after(Reading::Printed, duplicate_acks, qv);
            assert!((redundancy - expected).abs() < 1e-12, "{qv} {duplicate_acks}: {redundancy}");
        }
    }

    #[test]
    fn by_the_text_r_grows_on_every_path_that_is_not_congested() {
        let rows = [(3.0, 2, 1.1), (2.9, 2, 1.7), (0.9, 2, 1.7), (0.0, 1, 1.6), (-5.0, 0, 1.4)];
        for (qv, duplicate_acks, expected) in rows {
            let redundancy = after(Reading::Text, duplicate_acks, qv);
            assert!((redundancy - expected).abs() < 1e-12, "{qv} {duplicate_acks}: {redundancy}");
        }
    }

    #[test]
    fn r_stays_within_its_bounds() {
        let mut printed = adaptive(Reading::Printed);
        let mut adaptive = adaptive(Reading::Text);
        for _ in 0..20 {
            printed.update(2.0);
            adaptive.update(0.0);
        }
        assert_eq!((printed.redundancy(), adaptive.redundancy()), (1.0, 1.1));
        adaptive.duplicate_acks = 3;
        for _ in 0..20 {
            adaptive.update(0.0);
        }
        assert_eq!(adaptive.redundancy(), 2.0);
    }

    /// (1) by hand: 40 packets in transit, BaseRTT 100 ms, 38 delivered in a round of 100 ms: (400 - 380) *
    /// 0.1 = 2. Delivered in a round of 125 ms: (400 - 304) * 0.1 = 9.6, congested.
    #[test]
    fn qv_from_what_was_sent_and_delivered() {
        for (round_millis, expected) in [(100, 1.0), (125, 1.1)] {
            let mut adaptive = adaptive(Reading::Printed);
            let mut feedback = Feedback::at(Instant::ZERO);
            feedback.rtt = Some(Duration::from_millis(100));
            adaptive.on_feedback(&feedback, 40);
            feedback.now = Instant::ZERO + Duration::from_millis(round_millis);
            (feedback.round, feedback.coding.dof_delivered) = (1, 38);
            adaptive.on_feedback(&feedback, 78);
            assert!((adaptive.redundancy() - expected).abs() < 1e-12, "{round_millis}");
        }
    }

    /// The route became longer, from 100 ms to 200: 80 packets in transit, all delivered in a round, are no
    /// queue.
    #[test]
    fn base_rtt_is_measured_anew_after_a_timeout() {
        for (has_timeout, expected) in [(false, 1.1), (true, 1.0)] {
            let mut adaptive = adaptive(Reading::Printed);
            let mut feedback = Feedback::at(Instant::ZERO);
            feedback.rtt = Some(Duration::from_millis(100));
            adaptive.on_feedback(&feedback, 80);
            if has_timeout {
                adaptive.on_timeout();
            }
            feedback.rtt = Some(Duration::from_millis(200));
            feedback.now = Instant::ZERO + Duration::from_millis(200);
            (feedback.round, feedback.coding.dof_delivered) = (1, 78);
            // Without the timeout: (800 - 390) * 0.1 = 41. With it: (400 - 390) * 0.2 = 2.
            adaptive.on_feedback(&feedback, 158);
            assert!((adaptive.redundancy() - expected).abs() < 1e-12, "{has_timeout}");
        }
    }

    #[test]
    fn duplicate_acks_are_counted_until_one_advances() {
        let mut adaptive = adaptive(Reading::Text);
        let mut feedback = Feedback::at(Instant::ZERO);
        (feedback.coding.dof_redundant, feedback.coding.duplicate_acks) = (1, 1);
        adaptive.on_feedback(&feedback, 1);
        adaptive.on_feedback(&feedback, 1);
        assert_eq!(adaptive.duplicate_acks, 2);
        // Degrees of freedom beyond a symbol that is not seen do not move the ACK.
        (feedback.coding.dof_redundant, feedback.coding.dof_delivered) = (0, 1);
        adaptive.on_feedback(&feedback, 1);
        assert_eq!(adaptive.duplicate_acks, 3);
        (feedback.coding.duplicate_acks, feedback.coding.dof_delivered) = (0, 2);
        adaptive.on_feedback(&feedback, 1);
        assert_eq!(adaptive.duplicate_acks, 0);
    }
}
