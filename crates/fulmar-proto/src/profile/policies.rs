//! The redundancy policies: one row each, with the codes it can use and its maker.

use std::sync::Arc;

use fulmar_control as control;
use fulmar_control::{GroupSize, Reading, RedundancyPolicy, Retransmissions};
use fulmar_fec::ReedSolomon;

use super::choice::{Makers, Row, chosen, names, row};
use super::codes::{Cover, WINDOW_SYMBOLS};
use super::make::Make;
use super::modules::{awaits_timeout, block_symbols_max};
use super::values::Values;

/// A redundancy policy that the setting `policy` chooses.
pub(super) struct PolicyRow {
    /// What its code must cover,
    pub(super) covers: &'static [Cover],
    /// and the same in words.
    pub(super) needs: &'static str,
    make: fn(&Values) -> Make<dyn RedundancyPolicy>,
}

const fn policy(
    name: &'static str,
    covers: &'static [Cover],
    needs: &'static str,
    make: fn(&Values) -> Make<dyn RedundancyPolicy>,
) -> Row<PolicyRow> {
    row(name, PolicyRow { covers, needs, make })
}

const POLICIES: [Row<PolicyRow>; 9] = {
    use Cover::{Block, Fountain, Groups, Nothing, Window};
    let block = "a code over blocks that sends its source symbols: reed-solomon, rlc-block or raptorq";
    let groups = "a code over groups: xor or rlc-window";
    let combinations_of = "a code whose combinations stand for packets: rlc-window";
    [
        policy(
            "arq",
            &[Nothing, Groups, Window, Block],
            "a code that sends its source symbols: dfcp sends only coded ones",
            |values| {
                let pace = retransmissions(values);
                Arc::new(move |_| Box::new(control::Arq::with(pace)))
            },
        ),
        policy("auto", &[Window], "a code over any window: rlc-window", |values| {
            let favor = control::Favor::parse(values.word("favor")).unwrap_or_default();
            Arc::new(move |_| Box::new(control::AutoRedundancy::favoring(favor)))
        }),
        policy("fixed", &[Groups, Window], "a code over windows: xor or rlc-window", |values| {
            let ratio = values.number("ratio");
            Arc::new(move |_| Box::new(control::FixedRate::new(ratio, WINDOW_SYMBOLS)))
        }),
        policy("lt-tcp", &[Block], block, lt_tcp),
        policy("ctcp", &[Block], block, |values| {
            let proactive = values.number("proactive");
            Arc::new(move |_| Box::new(control::CtcpHybrid::new(proactive)))
        }),
        policy("tcp-fec", &[Groups, Window], groups, |values| {
            let size = chosen(const { &GROUP_SIZES }, values, "group")(values);
            let (suppresses, pace) = (values.flag("suppress"), retransmissions(values));
            Arc::new(move |_| Box::new(control::TcpFecGroups::new(size).asking(suppresses, pace)))
        }),
        policy("tcp-nc", &[Window], combinations_of, |values| {
            let (config, redundancy) = (combinations(values), values.number("R"));
            Arc::new(move |_| Box::new(control::TcpNcCombinations::new(config, redundancy)))
        }),
        policy("tcp-nc-adaptive", &[Window], combinations_of, adaptive),
        policy(
            "fountain",
            &[Block, Fountain],
            "a code over blocks: dfcp, raptorq, rlc-block or reed-solomon",
            fountain,
        ),
    ]
};

/// The words of the setting `policy`.
pub(super) const NAMES: [&str; POLICIES.len()] = names(&POLICIES);

/// The row that `values` choose.
pub(super) fn chosen_policy(values: &Values) -> &'static PolicyRow {
    chosen(const { &POLICIES }, values, "policy")
}

/// The policy that `values` choose.
pub(super) fn make(values: &Values) -> Make<dyn RedundancyPolicy> {
    (chosen_policy(values).make)(values)
}

const GROUP_SIZES: Makers<GroupSize, 4> = [
    row("bounded", |values| GroupSize::Bounded { fmax: values.integer_u32("fmax") }),
    row("window", |_| GroupSize::Window),
    row("static", |values| GroupSize::Static(values.integer_u32("n"))),
    row("interleaved", |values| GroupSize::Interleaved {
        groups: u16::try_from(values.integer("g")).unwrap_or(u16::MAX),
        limit: values.integer_u32("l"),
    }),
];

/// The words of the setting `group`.
pub(super) const GROUPS: [&str; GROUP_SIZES.len()] = names(&GROUP_SIZES);

const READINGS: [Row<Reading>; 2] = [row("printed", Reading::Printed), row("text", Reading::Text)];

/// The words of the setting `reading`.
pub(super) const READING_NAMES: [&str; READINGS.len()] = names(&READINGS);

/// Who asks for what the code lacks: TCP above it, by its timeout and duplicate ACKs, or the code itself.
const ASKS: [Row<bool>; 2] = [row("tcp", true), row("code", false)];

/// The words of the setting `ask`.
pub(super) const ASK_NAMES: [&str; ASKS.len()] = names(&ASKS);

/// TCP above the code asks for what it lacks. No where the setting does not apply.
pub(super) fn is_asked_by_tcp(values: &Values) -> bool {
    values.of("ask").is_some() && *chosen(const { &ASKS }, values, "ask")
}

fn retransmissions(values: &Values) -> Retransmissions {
    Retransmissions {
        one_each_round: !values.flag("sack"),
        await_timeout: awaits_timeout(values).then(|| values.integer("rwnd")),
    }
}

fn lt_tcp(values: &Values) -> Make<dyn RedundancyPolicy> {
    let mut config = control::LtTcpConfig::default();
    (config.target, config.has_bursts) = (values.number("target"), values.flag("bursts"));
    if values.word("code") == super::codes::REED_SOLOMON {
        let repairs = ReedSolomon::SYMBOLS_MAX.saturating_sub(block_symbols_max(values) as usize);
        config.repairs_max = u32::try_from(repairs).unwrap_or(u32::MAX);
    }
    Arc::new(move |_| Box::new(control::LtTcp::new(config)))
}

fn combinations(values: &Values) -> control::TcpNcConfig {
    let mut config = control::TcpNcConfig::default();
    (config.window_packets, config.is_systematic) = (values.integer_u32("W"), values.flag("systematic"));
    config.retransmissions = retransmissions(values);
    config.asks_by_tcp = is_asked_by_tcp(values);
    config
}

fn adaptive(values: &Values) -> Make<dyn RedundancyPolicy> {
    let config = combinations(values);
    let mut adaptive = control::AdaptiveConfig::default();
    adaptive.initial = values.number("R");
    (adaptive.alpha, adaptive.beta) = (values.number("vegas_alpha"), values.number("vegas_beta"));
    (adaptive.step, adaptive.redundancy_max) = (values.number("step"), values.number("rmax"));
    adaptive.reading = *chosen(const { &READINGS }, values, "reading");
    Arc::new(move |_| Box::new(control::TcpNcCombinations::adaptive(config, adaptive)))
}

fn fountain(values: &Values) -> Make<dyn RedundancyPolicy> {
    let mut config = control::FountainConfig::default();
    config.window_blocks = values.integer_u32("window");
    config.is_persistent = values.flag("persistent");
    config.redundancy_bytes = values.integer_u32("redundancy");
    Arc::new(move |_| Box::new(control::Fountain::new(config)))
}
