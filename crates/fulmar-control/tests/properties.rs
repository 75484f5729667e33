//! What holds for every controller, estimator and policy, whatever they are told. Each case is a seed.

use std::time::Duration;

use fulmar_control::{
    AboveCode, Arq, Auto, AutoRedundancy, Bbr, BlockView, Choice, CongestionController, Cubic, CubicConfig,
    Feedback, FixedRate, FixedSizing, LossEstimator, LossEvent, LossView, NewReno, OftenLost, Opportunity,
    Pacer, PathView, Pooled, ProtectedSet, RateSample, ReceiveWindow, RedundancyPolicy, Reno, Sizing,
    WindowConfig,
};
use fulmar_systems::ctcp::{ByQueue, CtcpHybrid};
use fulmar_systems::dfcp::{Fountain, FountainConfig, TokenBucket, Unlimited, UnlimitedConfig};
use fulmar_systems::lt_tcp::{
    Autoregressive, AutoregressiveConfig, Ewma, LtTcp, LtTcpConfig, Never, OnMarks, Oracle, WindowSizing,
};
use fulmar_systems::tcp_fec::{Gently, GroupSize, TcpFecGroups};
use fulmar_systems::tcp_nc::{AdaptiveConfig, TcpNcCombinations, TcpNcConfig};
use fulmar_units::{Instant, Rate};

const MTU: u32 = 1200;
const SEEDS: u64 = 60;
const STEPS: u32 = 600;

/// xorshift64*: enough for draws of what may be told.
#[derive(Clone, Debug)]
struct Draws(u64);

impl Draws {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// True with probability `share`.
    fn chance(&mut self, share: f64) -> bool {
        (self.next() >> 11) < (share * (1_u64 << 53) as f64) as u64
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

fn controllers() -> Vec<Box<dyn CongestionController>> {
    vec![
        Box::new(Reno::new(MTU, WindowConfig::default())),
        Box::new(NewReno::new(MTU, WindowConfig::default())),
        Box::new(Cubic::new(MTU, CubicConfig::default())),
        Box::new(Unlimited::new(MTU, UnlimitedConfig::default())),
        Box::new(Unlimited::at_rate(MTU, Rate::ZERO)),
        Box::new(Auto::new(MTU)),
        Box::new(Bbr::new(MTU)),
        Box::new(OnMarks::controller(MTU, WindowConfig::default())),
        Box::new(ByQueue::controller(MTU, WindowConfig::default())),
        Box::new(Gently::controller(MTU, WindowConfig::default(), 0.7)),
        Box::new(Never::controller(MTU, WindowConfig::default())),
        Box::new(AboveCode::new(Box::new(Reno::new(MTU, WindowConfig::default())))),
        Box::new(ReceiveWindow::new(MTU, Box::new(Cubic::new(MTU, CubicConfig::default())), 65_535)),
        Box::new(Unlimited::with_tokens(
            MTU,
            TokenBucket { maxtokens: 0, numtokens: 9, inctokens: u64::MAX, inttokens: 0 },
        )),
    ]
}

fn estimators() -> Vec<Box<dyn LossEstimator>> {
    vec![
        Box::new(Ewma::fixed()),
        Box::new(Ewma::dynamic()),
        Box::new(Pooled::new()),
        Box::new(Oracle::new(0.3, 4.0)),
        Box::new(Autoregressive::new(AutoregressiveConfig::default())),
    ]
}

fn policies() -> Vec<Box<dyn RedundancyPolicy>> {
    let fountain = |is_persistent| {
        let mut config = FountainConfig::default();
        (config.is_persistent, config.redundancy_bytes) = (is_persistent, 70_000);
        Fountain::new(config)
    };
    vec![
        Box::new(Arq::new()),
        Box::new(FixedRate::new(0.25, 16)),
        Box::new(AutoRedundancy::new()),
        Box::new(LtTcp::new(LtTcpConfig::default())),
        Box::new(CtcpHybrid::new(1.0)),
        Box::new(TcpFecGroups::new(GroupSize::Window)),
        Box::new(TcpFecGroups::new(GroupSize::Static(10))),
        Box::new(TcpFecGroups::new(GroupSize::Bounded { fmax: 10 })),
        Box::new(TcpFecGroups::new(GroupSize::Interleaved { groups: 3, limit: 0 })),
        Box::new(TcpNcCombinations::new(TcpNcConfig::default(), 1.1)),
        Box::new(TcpNcCombinations::adaptive(TcpNcConfig::default(), AdaptiveConfig::default())),
        Box::new(fountain(false)),
        Box::new(fountain(true)),
    ]
}

/// Mostly small, sometimes zero, sometimes absurd.
fn number(draws: &mut Draws) -> u64 {
    match draws.below(12) {
        0 | 1 => 0,
        2 => u64::MAX >> draws.below(40),
        3..=5 => draws.below(1_000_000),
        _ => draws.below(200),
    }
}

fn small(draws: &mut Draws) -> u32 {
    u32::try_from(number(draws).min(u64::from(u32::MAX))).expect("bounded")
}

fn duration(draws: &mut Draws) -> Duration {
    Duration::from_nanos(number(draws).saturating_mul(draws.below(1_000_000)))
}

fn path(draws: &mut Draws) -> PathView {
    let mut path = PathView::unknown([1200, 1452, 9000, 65_000][draws.below(4) as usize]);
    path.has_rtt_sample = draws.chance(0.9);
    path.rtt_smoothed = duration(draws);
    path.rtt_var = duration(draws);
    path.rtt_min = duration(draws);
    path.rtt_latest = duration(draws);
    path.in_flight_bytes = number(draws);
    path.window_bytes = number(draws);
    path.loss = LossView {
        rate: draws.below(101) as f64 / 100.0,
        burst_packets: number(draws) as f64,
        weight_packets: number(draws) as f64,
    };
    path
}

fn feedback(now: Instant, round: u64, draws: &mut Draws) -> Feedback {
    let mut feedback = Feedback::at(now);
    feedback.acked_bytes = number(draws);
    feedback.acked_packets = small(draws);
    let sent_at = Some(now - duration(draws)).filter(|_| draws.chance(0.8));
    feedback.newest_acked_sent_at = sent_at;
    feedback.rtt = Some(duration(draws)).filter(|_| draws.chance(0.7));
    if draws.chance(0.5) {
        let mut lost = LossEvent::default();
        lost.bytes = number(draws);
        lost.packets = small(draws);
        lost.bursts = small(draws).min(lost.packets);
        lost.newest_sent_at = Some(now - duration(draws)).filter(|_| draws.chance(0.8));
        feedback.lost = lost;
    }
    feedback.spurious_packets = if draws.chance(0.1) { small(draws) } else { 0 };
    feedback.ecn_ce_packets = if draws.chance(0.1) { small(draws) } else { 0 };
    if draws.chance(0.7) {
        let mut sample = RateSample::new(number(draws), duration(draws));
        sample.lost_bytes = number(draws);
        sample.is_app_limited = draws.chance(0.3);
        feedback.rate_sample = Some(sample);
    }
    feedback.coding.repaired_packets = if draws.chance(0.2) { small(draws) } else { 0 };
    feedback.coding.unrepairable_packets = if draws.chance(0.2) { small(draws) } else { 0 };
    feedback.coding.dof_delivered = small(draws);
    feedback.coding.dof_redundant = if draws.chance(0.3) { small(draws) } else { 0 };
    feedback.round = round;
    feedback.in_flight_bytes_before = number(draws);
    feedback.is_window_limited = draws.chance(0.6);
    feedback
}

#[test]
fn controllers_keep_a_window_and_a_pace_whatever_happens() {
    for seed in 0..SEEDS {
        let mut draws = Draws::new(seed + 1);
        for mut controller in controllers() {
            let (mut now, mut round) = (Instant::ZERO, 0);
            let mut pacer = Pacer::new(now, controller.budget());
            for _ in 0..STEPS {
                now += Duration::from_nanos(draws.below(50_000_000));
                round += u64::from(draws.chance(0.2));
                let path = path(&mut draws);
                match draws.below(20) {
                    0 => controller.on_timeout(now, small(&mut draws) % 8, &path),
                    1 if draws.chance(0.1) => controller.on_path_change(now, &path),
                    2..=5 => controller.on_flight_begun(),
                    _ => controller.on_feedback(&feedback(now, round, &mut draws), &path),
                }
                let budget = controller.budget();
                let name = controller.name();
                assert!(budget.window_bytes >= 2 * u64::from(MTU), "{name} seed {seed}: {budget:?}");
                assert!(budget.pacing.is_none_or(|pace| pace > Rate::ZERO), "{name} seed {seed}: {budget:?}");
                assert!(budget.burst_bytes >= u64::from(MTU), "{name} seed {seed}: {budget:?}");
                pacer.on_budget(now, budget);
                if let Err(at) = pacer.poll(now, u64::from(MTU)) {
                    assert!(at > now, "{name} seed {seed}: the pacer spins");
                } else {
                    pacer.on_sent(now, u64::from(MTU));
                }
            }
        }
    }
}

#[test]
fn estimators_stay_probabilities_whatever_they_are_told() {
    for seed in 0..SEEDS {
        let mut draws = Draws::new(seed + 1000);
        for mut estimator in estimators() {
            let mut round = 0;
            for step in 0..STEPS {
                round += u64::from(draws.chance(0.2));
                let now = Instant::from_nanos(u64::from(step) * 1_000_000);
                estimator.on_feedback(&feedback(now, round, &mut draws));
                let view = estimator.view();
                let name = estimator.name();
                assert!((0.0..=1.0).contains(&view.rate), "{name} seed {seed}: {view:?}");
                let is_burst = view.burst_packets == 0.0 || view.burst_packets >= 1.0;
                assert!(is_burst && view.burst_packets.is_finite(), "{name} seed {seed}: {view:?}");
                assert!(
                    view.weight_packets >= 0.0 && view.weight_packets.is_finite(),
                    "{name} seed {seed}: {view:?}"
                );
            }
        }
    }
}

/// A opportunity that a coding layer could show.
fn opportunity(now: Instant, before: &Opportunity, draws: &mut Draws) -> Opportunity {
    let mut opportunity = Opportunity::idle(now);
    opportunity.has_new_data = draws.chance(0.5);
    opportunity.missing_symbols = small(draws);
    opportunity.missing = opportunity.missing_symbols.saturating_sub(small(draws));
    opportunity.recovering_symbols = small(draws);
    opportunity.newest_copy = Some(now - duration(draws)).filter(|_| draws.chance(0.8));
    opportunity.protected = draws
        .chance(0.3)
        .then(|| ProtectedSet { symbols: small(draws).max(1), combinations: small(draws).max(1) });
    opportunity.out_of_reach_symbols = small(draws);
    opportunity.often_lost =
        draws.chance(0.3).then(|| OftenLost { losses: small(draws).max(1), copies: small(draws).max(1) });
    opportunity.unacked_symbols = small(draws);
    opportunity.sources_since_repair = small(draws);
    opportunity.newest_source = Some(now - duration(draws)).filter(|_| draws.chance(0.8));
    opportunity.repairs_since_source = small(draws);
    opportunity.window_max = before.window_max;
    opportunity.sources_sent = before.sources_sent.saturating_add(number(draws) >> 8);
    opportunity.repairs_sent = before.repairs_sent;
    if draws.chance(0.7) {
        let undecoded = small(draws);
        opportunity.block = BlockView {
            symbols: small(draws).max(1),
            repairs: small(draws),
            is_open: draws.chance(0.4),
            undecoded,
            is_last_in_reach: undecoded > 0 && draws.chance(0.2),
        };
    }
    opportunity
}

#[test]
fn policies_never_choose_what_is_not_there() {
    for seed in 0..SEEDS {
        let mut draws = Draws::new(seed + 2000);
        for mut policy in policies() {
            let (mut now, mut before) = (Instant::ZERO, Opportunity::idle(Instant::ZERO));
            before.window_max = small(&mut draws);
            for step in 0..STEPS {
                now += Duration::from_nanos(draws.below(20_000_000));
                let path = path(&mut draws);
                policy.on_feedback(&feedback(now, u64::from(step), &mut draws), &path);
                let opportunity = opportunity(now, &before, &mut draws);
                let choice = policy.choose(&opportunity, &path);
                // Not every choice leaves.
                if !matches!(choice, Choice::Wait(_)) && draws.chance(0.7) {
                    policy.on_emitted(choice, &opportunity, &path);
                }
                let is_sound = match choice {
                    Choice::Source => opportunity.has_new_data,
                    Choice::Recover => opportunity.missing > 0 || opportunity.block.undecoded > 0,
                    Choice::Protect => opportunity.recovering_symbols > 0,
                    Choice::ProtectAgain => opportunity.protected.is_some(),
                    Choice::SecondCopy => opportunity.out_of_reach_symbols > 0,
                    Choice::CopyAgain => opportunity.often_lost.is_some(),
                    // Over the newest symbols, or of the newest block.
                    Choice::Repair { symbols, .. } => {
                        symbols > 0
                            && (symbols <= opportunity.window_max.max(1)
                                || symbols == opportunity.block.symbols)
                    }
                    Choice::Group { symbols, groups, group } => {
                        group < groups
                            && u32::from(groups) <= symbols
                            && symbols <= opportunity.window_max.max(1)
                    }
                    Choice::Combine { symbols } => {
                        opportunity.has_new_data && symbols > 0 && symbols <= opportunity.window_max
                    }
                    // Only a window of blocks holds data back.
                    Choice::Wait(until) => {
                        (!opportunity.has_new_data
                            || (policy.name() == "fountain" && opportunity.block.undecoded > 0))
                            && until.is_none_or(|until| until > now)
                    }
                };
                assert!(is_sound, "{} seed {seed}: {choice:?} for {opportunity:?}", policy.name());
                assert!(policy.ratio().is_finite() && policy.ratio() >= 0.0);
                before = opportunity;
            }
        }
    }
}

#[test]
fn policies_stop_when_the_path_is_idle() {
    for mut policy in policies() {
        let mut draws = Draws::new(9);
        let mut path = path(&mut draws);
        path.rtt_smoothed = Duration::from_millis(50);
        path.loss = LossView { rate: 0.5, burst_packets: 3.0, weight_packets: 1e6 };
        let mut opportunity = Opportunity::idle(Instant::ZERO);
        (opportunity.sources_sent, opportunity.unacked_symbols, opportunity.window_max) = (100, 100, 128);
        opportunity.newest_source = Some(Instant::ZERO);
        let mut repairs = 0;
        for millis in 0..10_000 {
            opportunity.now = Instant::ZERO + Duration::from_millis(millis);
            if let repair @ Choice::Repair { .. } = policy.choose(&opportunity, &path) {
                policy.on_emitted(repair, &opportunity, &path);
                repairs += 1;
                opportunity.repairs_since_source += 1;
            }
        }
        assert!(repairs <= 140, "{}: {repairs} for 100 symbols at 50 % loss", policy.name());
    }
}

#[test]
fn blocks_have_at_least_one_symbol() {
    let mut draws = Draws::new(17);
    for _ in 0..STEPS {
        let path = path(&mut draws);
        let (blocks, min, max) = (small(&mut draws), small(&mut draws), small(&mut draws));
        assert!(WindowSizing::new(blocks, min, max).block_symbols(&path) >= 1);
        assert!(FixedSizing::new(min).block_symbols(&path) >= 1);
    }
}
