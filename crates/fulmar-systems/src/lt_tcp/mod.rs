//! LT-TCP, the loss-tolerant TCP (Hourt, RPI 2014): proactive and reactive FEC per block, congestion by ECN
//! alone, four estimators of the loss rate. `no-cc` is the TCP without congestion control of its section 2.3.

mod autoregressive;
mod ecn_only;
mod ewma;
mod grow_only;
mod oracle;
mod policy;
mod rounds;
mod sizing;

pub use autoregressive::{Autoregressive, AutoregressiveConfig};
pub use ecn_only::{EcnOnly, OnMarks};
pub use ewma::{Ewma, STATIC_GAIN};
pub use grow_only::{GrowOnly, Never};
pub use oracle::Oracle;
pub use policy::{LtTcp, LtTcpConfig};
pub use sizing::WindowSizing;

use std::sync::Arc;

use fulmar_control::RedundancyPolicy;
use fulmar_fec::ReedSolomon;
use fulmar_profile::{
    CodeRow, ControllerRow, Cover, EstimatorRow, Family, Kind, Make, PolicyRow, ProfileError, Setting,
    SizingRow, System, Values, WINDOW_SETTINGS, block_symbols_max, window,
};

/// Room that a Reed-Solomon block of the greatest length leaves to repair.
const REED_SOLOMON_REPAIRS_MIN: usize = 31;
/// The name of that code.
const REED_SOLOMON: &str = "reed-solomon";

pub(crate) static LT_TCP: System = System {
    families: FAMILIES,
    settings: SETTINGS,
    codes: &[CodeRow {
        id: ReedSolomon::ID,
        name: REED_SOLOMON,
        cover: Cover::Block,
        block_max: Some((
            (ReedSolomon::SYMBOLS_MAX - REED_SOLOMON_REPAIRS_MIN) as u32,
            "it has 255 symbols in a block, repair included",
        )),
        make: |values| {
            let sources = block_symbols_max(values) as usize;
            Ok(Arc::new(ReedSolomon::new(sources, ReedSolomon::SYMBOLS_MAX.saturating_sub(sources))?))
        },
        from_parameters: |parameters| fulmar_fec::from_parameters(ReedSolomon::ID, parameters),
    }],
    controllers: CONTROLLERS,
    estimators: ESTIMATORS,
    policies: &[PolicyRow {
        name: "lt-tcp",
        covers: &[Cover::Block],
        needs: crate::needs::BLOCKS,
        takes: &[],
        is_asked_by_tcp: |_| false,
        make: make_policy,
    }],
    sizings: &[SizingRow {
        name: "window",
        make: |values| {
            let [blocks, min, max] = ["blocks", "kmin", "kmax"].map(|name| values.integer_u32(name));
            Arc::new(move |_| Box::new(WindowSizing::new(blocks, min, max)))
        },
    }],
    check,
    ..System::NOTHING
};

const FAMILIES: &[Family] = &[
    Family {
        name: "no-cc",
        summary: "TCP without congestion control, only retransmission (Hourt 2014, section 2.3)",
        values: &[("cc", "grow-only"), ("timeout", "rto"), ("rwnd", "4194304")],
    },
    Family {
        name: "lt-tcp",
        summary: "Loss-Tolerant TCP (Hourt 2014): proactive and reactive FEC per block, congestion by ECN only",
        values: &[
            ("code", REED_SOLOMON),
            ("cc", "ecn-only"),
            ("loss", "static-ewma"),
            ("policy", "lt-tcp"),
            ("sizing", "window"),
            ("timeout", "rto"),
        ],
    },
];

const CONTROLLERS: &[ControllerRow] = &[
    ControllerRow {
        name: "ecn-only",
        obeys: false,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(OnMarks::controller(context.mtu_bytes, window)))
        },
    },
    ControllerRow {
        name: "grow-only",
        obeys: false,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(Never::controller(context.mtu_bytes, window)))
        },
    },
];

const ESTIMATORS: &[EstimatorRow] = &[
    EstimatorRow {
        name: "static-ewma",
        make: |values| {
            let gain = values.number("alpha");
            Arc::new(move |_| Box::new(Ewma::with_gain(gain)))
        },
    },
    EstimatorRow { name: "dynamic-ewma", make: |_| Arc::new(|_| Box::new(Ewma::dynamic())) },
    EstimatorRow {
        name: "autoregressive",
        make: |values| {
            let config = AutoregressiveConfig {
                order: values.integer_u32("order"),
                forgetting: values.number("forgetting"),
            };
            Arc::new(move |_| Box::new(Autoregressive::new(config)))
        },
    },
    EstimatorRow {
        name: "oracle",
        make: |values| {
            let (rate, burst) = (values.number("p"), values.number("E"));
            Arc::new(move |_| Box::new(Oracle::new(rate, burst)))
        },
    },
];

const SETTINGS: &[Setting] = &[
    Setting::new("alpha", Kind::Number(0.001, 1.0), "0.6", "weight of the newest sample", "Hourt 3.1")
        .of("loss", &["static-ewma"]),
    Setting::new("p", Kind::Number(0.0, 0.99), "0", "the loss rate", "Hourt 2.3").of("loss", &["oracle"]),
    Setting::new(
        "E",
        Kind::Number(1.0, 10_000.0),
        "1",
        "mean length of a burst of losses, packets",
        "Hourt 2.1",
    )
    .of("loss", &["oracle"]),
    Setting::new("order", Kind::Integer(1, 8), "3", "samples the model looks back", "Hourt 5")
        .of("loss", &["autoregressive"]),
    Setting::new(
        "forgetting",
        Kind::Number(0.5, 1.0),
        "0.98",
        "weight a sample keeps from round to round",
        "Hourt 5",
    )
    .of("loss", &["autoregressive"]),
    Setting::new(
        "target",
        Kind::Number(0.0, 0.999_999),
        "0.99",
        "P(block decodable without reactive FEC) to reach",
        "Hourt 3.1",
    )
    .of("policy", &["lt-tcp"]),
    Setting::new(
        "bursts",
        Kind::Flag,
        "0",
        "reckon with bursts of the estimated length, not with independent losses",
        "Hourt 2.1",
    )
    .of("policy", &["lt-tcp"]),
    Setting::new("blocks", Kind::Integer(1, 64), "4", "blocks per congestion window", "Hourt 4.2")
        .of("sizing", &["window"]),
    Setting::new("kmin", Kind::Integer(1, 4096), "10", "shortest block, source symbols", "Tickoo 2005")
        .of("sizing", &["window"]),
    Setting::new("kmax", Kind::Integer(1, 4096), "128", "longest block, source symbols", "Hourt 4.2")
        .of("sizing", &["window"]),
];

fn check(values: &Values) -> Result<(), ProfileError> {
    let refuse = |reason: &str| Err(ProfileError::Conflict(reason.into()));
    if values.word("sizing") == "window" && values.integer("kmin") > values.integer("kmax") {
        return refuse("kmin is the shortest block and kmax the longest: kmin is larger");
    }
    if values.word("loss") == "oracle" && values.number("p") == 0.0 && values.word("policy") != "arq" {
        return refuse("loss=oracle is told the loss rate: give it, for example p=0.05");
    }
    Ok(())
}

fn make_policy(values: &Values) -> Make<dyn RedundancyPolicy> {
    let mut config = LtTcpConfig {
        target: values.number("target"),
        has_bursts: values.flag("bursts"),
        ..LtTcpConfig::default()
    };
    if values.word("code") == REED_SOLOMON {
        let repairs = ReedSolomon::SYMBOLS_MAX.saturating_sub(block_symbols_max(values) as usize);
        config.repairs_max = u32::try_from(repairs).unwrap_or(u32::MAX);
    }
    Arc::new(move |_| Box::new(LtTcp::new(config)))
}
