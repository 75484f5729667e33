//! From values to modules.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control as control;
use fulmar_control::{LossEstimator, RedundancyPolicy, Sizing};
use fulmar_fec::{
    Code, CodeError, DfcpRaptor, NoCode, RaptorQ, ReedSolomon, RlcBlock, RlcWindow, XorGroups, dfcp::Taus88,
};

use super::values::{ProfileError, Values};
use super::{Make, WINDOW_SYMBOLS};
use crate::recovery::{RecoveryConfig, Timeout};

/// Block length of codes that have no longest of their own.
const BLOCK_SYMBOLS: u32 = 128;
/// Longest group of the XOR code.
const GROUP_SYMBOLS: u32 = 256;
/// Before DFCP's states are exchanged they must come from somewhere; any that is not degenerate will do.
const DFCP_SEED: u32 = 1;

/// The longest block that `values` ask for.
pub(super) fn block_symbols_max(values: &Values) -> u32 {
    match values.word("sizing") {
        "fixed" => values.integer_u32("k"),
        "window" => values.integer_u32("kmax"),
        _ => BLOCK_SYMBOLS,
    }
}

pub(super) fn code(values: &Values) -> Result<Arc<dyn Code>, ProfileError> {
    let len = block_symbols_max(values);
    let made = || -> Result<Arc<dyn Code>, CodeError> {
        Ok(match values.word("code") {
            "xor" => {
                let groups = u16::try_from(values.integer("g").max(1)).unwrap_or(u16::MAX);
                Arc::new(XorGroups::new(groups, GROUP_SYMBOLS)?)
            }
            "reed-solomon" => {
                let sources = len as usize;
                Arc::new(ReedSolomon::new(sources, ReedSolomon::SYMBOLS_MAX.saturating_sub(sources))?)
            }
            "rlc-block" => Arc::new(RlcBlock::new(len)?),
            "rlc-window" => Arc::new(RlcWindow::new(WINDOW_SYMBOLS)?),
            "dfcp" => Arc::new(DfcpRaptor::new(Taus88::seeded(DFCP_SEED))),
            "raptorq" => Arc::new(RaptorQ::new(len)?),
            _ => Arc::new(NoCode),
        })
    };
    made().map_err(|error| ProfileError::Conflict(format!("code={}: {error}", values.word("code"))))
}

pub(super) fn loss(values: &Values) -> Make<dyn LossEstimator> {
    let (gain, rate, burst) = (values.number("alpha"), values.number("p"), values.number("E"));
    let mut config = control::AutoregressiveConfig::default();
    (config.order, config.forgetting) = (values.integer_u32("order"), values.number("forgetting"));
    match values.word("loss") {
        "static-ewma" => Arc::new(move |_| Box::new(control::Ewma::with_gain(gain))),
        "dynamic-ewma" => Arc::new(|_| Box::new(control::Ewma::dynamic())),
        "autoregressive" => Arc::new(move |_| Box::new(control::Autoregressive::new(config))),
        "oracle" => Arc::new(move |_| Box::new(control::Oracle::new(rate, burst))),
        _ => Arc::new(|_| Box::new(control::Pooled::new())),
    }
}

pub(super) fn redundancy(values: &Values) -> Make<dyn RedundancyPolicy> {
    let ratio = values.number("ratio");
    let proactive = values.number("proactive");
    match values.word("policy") {
        "auto" => {
            let favor = control::Favor::parse(values.word("favor")).unwrap_or_default();
            Arc::new(move |_| Box::new(control::AutoRedundancy::favoring(favor)))
        }
        "fixed" => Arc::new(move |_| Box::new(control::FixedRate::new(ratio, WINDOW_SYMBOLS))),
        "lt-tcp" => {
            let mut config = control::LtTcpConfig::default();
            (config.target, config.has_bursts) = (values.number("target"), values.flag("bursts"));
            if values.word("code") == "reed-solomon" {
                let repairs = ReedSolomon::SYMBOLS_MAX.saturating_sub(block_symbols_max(values) as usize);
                config.repairs_max = u32::try_from(repairs).unwrap_or(u32::MAX);
            }
            Arc::new(move |_| Box::new(control::LtTcp::new(config)))
        }
        "ctcp" => Arc::new(move |_| Box::new(control::CtcpHybrid::new(proactive))),
        "tcp-fec" => {
            let size = group_size(values);
            Arc::new(move |_| Box::new(control::TcpFecGroups::new(size)))
        }
        "tcp-nc" | "tcp-nc-adaptive" => combinations(values),
        "fountain" => {
            let mut config = control::FountainConfig::default();
            config.window_blocks = values.integer_u32("window");
            config.is_persistent = values.flag("persistent");
            config.redundancy_bytes = values.integer_u32("redundancy");
            Arc::new(move |_| Box::new(control::Fountain::new(config)))
        }
        _ => Arc::new(|_| Box::new(control::Arq::new())),
    }
}

fn group_size(values: &Values) -> control::GroupSize {
    use control::GroupSize;
    match values.word("group") {
        "window" => GroupSize::Window,
        "static" => GroupSize::Static(values.integer_u32("n")),
        "interleaved" => GroupSize::Interleaved {
            groups: u16::try_from(values.integer("g")).unwrap_or(u16::MAX),
            limit: values.integer_u32("l"),
        },
        _ => GroupSize::Bounded { fmax: values.integer_u32("fmax") },
    }
}

fn combinations(values: &Values) -> Make<dyn RedundancyPolicy> {
    let mut config = control::TcpNcConfig::default();
    (config.window_packets, config.is_systematic) = (values.integer_u32("W"), values.flag("systematic"));
    let redundancy = values.number("R");
    if values.word("policy") == "tcp-nc" {
        return Arc::new(move |_| Box::new(control::TcpNcCombinations::new(config, redundancy)));
    }
    let mut adaptive = control::AdaptiveConfig::default();
    adaptive.initial = redundancy;
    (adaptive.alpha, adaptive.beta) = (values.number("vegas_alpha"), values.number("vegas_beta"));
    (adaptive.step, adaptive.redundancy_max) = (values.number("step"), values.number("rmax"));
    adaptive.reading = match values.word("reading") {
        "text" => control::Reading::Text,
        _ => control::Reading::Printed,
    };
    Arc::new(move |_| Box::new(control::TcpNcCombinations::adaptive(config, adaptive)))
}

pub(super) fn sizing(values: &Values) -> Make<dyn Sizing> {
    let k = values.integer_u32("k");
    let [blocks, min, max] = ["blocks", "kmin", "kmax"].map(|name| values.integer_u32(name));
    match values.word("sizing") {
        "fixed" => Arc::new(move |_| Box::new(control::FixedSizing::new(k))),
        "window" => Arc::new(move |_| Box::new(control::WindowSizing::new(blocks, min, max))),
        _ => Arc::new(|_| Box::new(control::FixedSizing::longest())),
    }
}

pub(super) fn recovery(values: &Values) -> RecoveryConfig {
    let seconds = |name| Duration::from_secs_f64(values.number(name));
    let timeout = match values.word("timeout") {
        "rto" => Timeout::Retransmission {
            initial: seconds("rto_initial"),
            min: seconds("rto_min"),
            max: seconds("rto_max"),
        },
        _ => Timeout::Probe,
    };
    RecoveryConfig { reordering_packets: values.integer_u32("reordering"), timeout }
}
