//! Loss rate and burst length as estimators see them: the two-state chain through loss detection and the
//! record's contract.

use std::collections::VecDeque;

use fulmar_control::{Feedback, LossEstimator, LossEvent, Pooled};
use fulmar_systems::lt_tcp::{Autoregressive, AutoregressiveConfig, Ewma};
use fulmar_units::Instant;

const PACKETS: u32 = 20_000;
const PACKET_BYTES: u64 = 1200;
/// RFC 9002 6.1.1: kPacketThreshold.
const REORDERING: u32 = 3;
/// Packets under way.
const ROUND_PACKETS: u64 = 100;

/// Loss rate p in bursts of mean length E (`fulmar_net::TwoState`), drawn by Numerical Recipes' generator.
struct Chain {
    enter: f64,
    leave: f64,
    is_lost: bool,
    state: u64,
}

impl Chain {
    fn new(rate: f64, burst_packets: f64, seed: u64) -> Self {
        Self {
            enter: rate / (burst_packets * (1.0 - rate)),
            leave: 1.0 / burst_packets,
            is_lost: false,
            state: seed,
        }
    }

    fn loses_next(&mut self) -> bool {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        self.is_lost = if self.is_lost { draw >= self.leave } else { draw < self.enter };
        self.is_lost
    }
}

/// What became of all packets: how many were lost, and in how many runs.
#[derive(Default)]
struct Truth {
    lost: u32,
    bursts: u32,
}

/// Sends [`PACKETS`] packets and reports every `ack_every` arrivals, as an engine does that keeps the
/// contract.
fn run(estimator: &mut dyn LossEstimator, mut chain: Chain, ack_every: u32) -> Truth {
    let mut truth = Truth::default();
    let (mut unresolved, mut was_lost, mut is_counted) = (VecDeque::new(), false, false);
    let (mut acked, mut resolved) = (0, 0);
    for number in 0..PACKETS {
        let is_lost = chain.loses_next();
        truth.lost += u32::from(is_lost);
        truth.bursts += u32::from(is_lost && !was_lost);
        was_lost = is_lost;
        unresolved.push_back((number, is_lost));
        acked += u32::from(!is_lost);
        if is_lost || !acked.is_multiple_of(ack_every) {
            continue;
        }
        let mut feedback = Feedback::at(Instant::from_nanos(u64::from(number) * 1_000_000));
        let mut lost = LossEvent::default();
        let is_settled = |&(first, is_lost): &(u32, bool)| !is_lost || first + REORDERING <= number;
        while unresolved.front().is_some_and(is_settled) {
            let Some((_, is_lost)) = unresolved.pop_front() else { break };
            feedback.acked_packets += u32::from(!is_lost);
            lost.packets += u32::from(is_lost);
            // A run is counted when its first packet is declared; only arrivals divide runs.
            lost.bursts += u32::from(is_lost && !is_counted);
            is_counted = is_lost;
        }
        feedback.acked_bytes = PACKET_BYTES * u64::from(feedback.acked_packets);
        feedback.newest_acked_sent_at = (feedback.acked_packets > 0).then_some(Instant::ZERO);
        lost.bytes = PACKET_BYTES * u64::from(lost.packets);
        lost.newest_sent_at = (lost.packets > 0).then_some(Instant::ZERO);
        feedback.in_flight_bytes_before = feedback.acked_bytes + lost.bytes;
        feedback.lost = lost;
        feedback.check();
        resolved += u64::from(feedback.acked_packets + feedback.lost.packets);
        feedback.round = resolved / ROUND_PACKETS;
        estimator.on_feedback(&feedback);
    }
    truth
}

fn estimators() -> Vec<Box<dyn LossEstimator>> {
    vec![
        Box::new(Pooled::new()),
        Box::new(Ewma::fixed()),
        Box::new(Ewma::dynamic()),
        Box::new(Autoregressive::new(AutoregressiveConfig::default())),
    ]
}

/// Against the bursts there were: 20,000 packets at p = 5 % and E = 10 hold a hundred, whose own mean
/// scatters by 9.5 %.
#[test]
fn the_burst_length_is_right_however_the_losses_are_reported() {
    for (rate, burst_packets) in [0.05, 0.2].into_iter().flat_map(|p| [1.0, 2.0, 5.0, 10.0].map(|e| (p, e))) {
        for ack_every in [1, 2, 8, 32] {
            for seed in 1..=3 {
                for mut estimator in estimators() {
                    let truth = run(&mut *estimator, Chain::new(rate, burst_packets, seed), ack_every);
                    let expected = f64::from(truth.lost) / f64::from(truth.bursts);
                    let found = estimator.view().burst_packets;
                    assert!(
                        (found / expected - 1.0).abs() < 0.1,
                        "{}, p {rate}, E {burst_packets}, ACK every {ack_every}, seed {seed}: \
                         {found} for {expected}",
                        estimator.name()
                    );
                }
            }
        }
    }
}

/// Against the chain itself, many runs together.
#[test]
fn the_burst_length_is_that_of_the_channel() {
    const SEEDS: u64 = 40;
    for (rate, burst_packets) in [0.05, 0.2].into_iter().flat_map(|p| [1.0, 2.0, 5.0, 10.0].map(|e| (p, e))) {
        let (mut burst_sum, mut rate_sum) = (0.0, 0.0);
        for seed in 0..SEEDS {
            let mut pooled = Pooled::new();
            run(&mut pooled, Chain::new(rate, burst_packets, seed), 2);
            burst_sum += pooled.view().burst_packets / SEEDS as f64;
            rate_sum += pooled.view().rate / SEEDS as f64;
        }
        assert!((burst_sum / burst_packets - 1.0).abs() < 0.05, "p {rate}, E {burst_packets}: {burst_sum}");
        // Its memory is a thousand packets, which at E = 10 scatter by a fifth of p and more.
        assert!((rate_sum / rate - 1.0).abs() < 0.2, "p {rate}, E {burst_packets}: {rate_sum}");
    }
}
