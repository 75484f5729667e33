//! From values to what has few choices: the loss estimator, the length of blocks, the meaning of silence.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control as control;
use fulmar_control::{LossEstimator, Sizing, Variation};

use super::choice::{Makers, Row, chosen, names, row};
use super::make::Make;
use super::values::Values;
use crate::recovery::{RecoveryConfig, Timeout};

/// Block length of codes that have no longest of their own.
const BLOCK_SYMBOLS: u32 = 128;

const LOSS_ESTIMATORS: Makers<Make<dyn LossEstimator>, 5> = [
    row("pooled", |_| Arc::new(|_| Box::new(control::Pooled::new()))),
    row("static-ewma", |values| {
        let gain = values.number("alpha");
        Arc::new(move |_| Box::new(control::Ewma::with_gain(gain)))
    }),
    row("dynamic-ewma", |_| Arc::new(|_| Box::new(control::Ewma::dynamic()))),
    row("autoregressive", |values| {
        let mut config = control::AutoregressiveConfig::default();
        (config.order, config.forgetting) = (values.integer_u32("order"), values.number("forgetting"));
        Arc::new(move |_| Box::new(control::Autoregressive::new(config)))
    }),
    row("oracle", |values| {
        let (rate, burst) = (values.number("p"), values.number("E"));
        Arc::new(move |_| Box::new(control::Oracle::new(rate, burst)))
    }),
];

/// The words of the setting `loss`.
pub(super) const LOSS_NAMES: [&str; LOSS_ESTIMATORS.len()] = names(&LOSS_ESTIMATORS);

/// The loss estimator that `values` choose.
pub(super) fn loss(values: &Values) -> Make<dyn LossEstimator> {
    chosen(const { &LOSS_ESTIMATORS }, values, "loss")(values)
}

/// A length of blocks that the setting `sizing` chooses.
struct SizingRow {
    symbols_max: fn(&Values) -> u32,
    make: fn(&Values) -> Make<dyn Sizing>,
}

const SIZINGS: [Row<SizingRow>; 3] = [
    row(
        "longest",
        SizingRow {
            symbols_max: |_| BLOCK_SYMBOLS,
            make: |_| Arc::new(|_| Box::new(control::FixedSizing::longest())),
        },
    ),
    row(
        "window",
        SizingRow {
            symbols_max: |values| values.integer_u32("kmax"),
            make: |values| {
                let [blocks, min, max] = ["blocks", "kmin", "kmax"].map(|name| values.integer_u32(name));
                Arc::new(move |_| Box::new(control::WindowSizing::new(blocks, min, max)))
            },
        },
    ),
    row(
        "fixed",
        SizingRow {
            symbols_max: |values| values.integer_u32("k"),
            make: |values| {
                let k = values.integer_u32("k");
                Arc::new(move |_| Box::new(control::FixedSizing::new(k)))
            },
        },
    ),
];

/// The words of the setting `sizing`.
pub(super) const SIZING_NAMES: [&str; SIZINGS.len()] = names(&SIZINGS);

/// The longest block that `values` ask for.
pub(super) fn block_symbols_max(values: &Values) -> u32 {
    (chosen(const { &SIZINGS }, values, "sizing").symbols_max)(values)
}

/// The length of blocks that `values` choose.
pub(super) fn sizing(values: &Values) -> Make<dyn Sizing> {
    (chosen(const { &SIZINGS }, values, "sizing").make)(values)
}

const TIMEOUTS: Makers<Timeout, 2> = [
    row("probe", |_| Timeout::Probe),
    row("rto", |values| {
        let seconds = |name| Duration::from_secs_f64(values.number(name));
        Timeout::Retransmission {
            initial: seconds("rto_initial"),
            min: seconds("rto_min"),
            max: seconds("rto_max"),
        }
    }),
];

/// The words of the setting `timeout`.
pub(super) const TIMEOUT_NAMES: [&str; TIMEOUTS.len()] = names(&TIMEOUTS);

const VARIATIONS: [Row<Variation>; 2] = [row("mean", Variation::Mean), row("peak", Variation::Peak)];

/// The words of the setting `rtt`.
pub(super) const VARIATION_NAMES: [&str; VARIATIONS.len()] = names(&VARIATIONS);

/// What a retransmission timeout is left to find is not found sooner. No where the setting does not apply.
pub(super) fn awaits_timeout(values: &Values) -> bool {
    values.of("rescue").is_some() && !values.flag("rescue")
}

/// Loss detection and timeouts as `values` say.
pub(super) fn recovery(values: &Values) -> RecoveryConfig {
    let timeout = chosen(const { &TIMEOUTS }, values, "timeout")(values);
    let variation = *chosen(const { &VARIATIONS }, values, "rtt");
    let packet_bytes_max = u16::try_from(values.integer("packet")).ok().filter(|bytes| *bytes > 0);
    let reordering_packets = values.integer_u32("reordering");
    let is_by_packets_alone = awaits_timeout(values);
    RecoveryConfig { reordering_packets, is_by_packets_alone, timeout, variation, packet_bytes_max }
}

/// A timer of the handshake that doubles, as TCP's and DFCP's do (Solymos 2014, section 3.6).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HandshakeTimer {
    /// A flight is repeated after so long, then after twice as long, and so on.
    pub first: Duration,
    /// So often; after the last one's time the connection is given up.
    pub retries: u32,
}

/// The timer of the handshake, where `values` set one.
pub(super) fn handshake_timer(values: &Values) -> Option<HandshakeTimer> {
    let first = Duration::from_secs_f64(values.number("syn"));
    (!first.is_zero()).then(|| HandshakeTimer { first, retries: values.integer_u32("retries") })
}
