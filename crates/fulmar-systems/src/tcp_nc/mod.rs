//! TCP/NC (Medina-Ruiz, Kieffer, Pesquet-Popescu, NetCod 2012): R combinations per packet below Reno, with R
//! as it is set or adapted by their Algorithm 1.

mod combinations;
mod vegas;

pub use combinations::{TcpNcCombinations, TcpNcConfig};
pub use vegas::{AdaptiveConfig, AdaptiveRedundancy, Reading};

use std::sync::Arc;

use fulmar_control::RedundancyPolicy;
use fulmar_profile::{Cover, Family, Kind, Make, PolicyRow, Setting, System, Values, retransmissions};

pub(crate) static TCP_NC: System =
    System { families: FAMILIES, settings: SETTINGS, policies: POLICIES, ..System::NOTHING };

/// Table I of Medina-Ruiz et al.: slow start at 2 packets, 65535 bytes, timeouts of 3, 1 and 64 s.
macro_rules! table_1 {
    ($policy:literal) => {
        &[
            ("policy", $policy),
            ("code", "rlc-window"),
            ("cc", "reno"),
            ("masked", "1"),
            ("rwnd", "65535"),
            ("iw", "2"),
            ("timeout", "rto"),
            ("rto_initial", "3"),
            ("rto_max", "64"),
        ]
    };
}

const FAMILIES: &[Family] = &[
    Family {
        name: "tcp-nc",
        summary: "TCP/NC (Medina-Ruiz et al. 2012): R combinations per packet, Reno above the code",
        values: table_1!("tcp-nc"),
    },
    Family {
        name: "tcp-nc-adaptive",
        summary: "TCP/NC with adaptive redundancy (Medina-Ruiz et al. 2012, Algorithm 1)",
        values: table_1!("tcp-nc-adaptive"),
    },
];

const NEEDS: &str = "a code whose combinations stand for packets: rlc-window";

const POLICIES: &[PolicyRow] = &[
    PolicyRow {
        name: "tcp-nc",
        covers: &[Cover::Window],
        needs: NEEDS,
        takes: &["sack"],
        is_asked_by_tcp,
        make: |values| {
            let (config, redundancy) = (combinations(values), values.number("R"));
            Arc::new(move |_| Box::new(TcpNcCombinations::new(config, redundancy)))
        },
    },
    PolicyRow {
        name: "tcp-nc-adaptive",
        covers: &[Cover::Window],
        needs: NEEDS,
        takes: &["sack"],
        is_asked_by_tcp,
        make: adaptive,
    },
];

const BOTH: &[&str] = &["tcp-nc", "tcp-nc-adaptive"];
const ADAPTIVE: &[&str] = &["tcp-nc-adaptive"];

const SETTINGS: &[Setting] = &[
    Setting::new(
        "ask",
        Kind::Word(&["tcp", "code"]),
        "tcp",
        "what the code lacks comes by TCP's timeout and third duplicate ACK, or is asked for at once",
        "Medina-Ruiz II",
    )
    .of("policy", BOTH),
    Setting::new(
        "R",
        Kind::Number(1.0, 10.0),
        "1.1",
        "combinations sent for each packet; where adapted, at first",
        "Medina-Ruiz III, IV",
    )
    .of("policy", BOTH),
    Setting::new("W", Kind::Integer(1, 256), "64", "most packets in a combination", "Medina-Ruiz II")
        .of("policy", BOTH),
    Setting::new(
        "systematic",
        Kind::Flag,
        "0",
        "send each packet plain first, combinations only beyond it",
        "RFC 8406",
    )
    .of("policy", BOTH),
    Setting::new(
        "reading",
        Kind::Word(&["printed", "text"]),
        "printed",
        "of Algorithm 1: R is reset where qv < alpha, or grows at duplicate ACKs wherever qv < beta",
        "Medina-Ruiz III-A",
    )
    .of("policy", ADAPTIVE),
    Setting::new(
        "vegas_alpha",
        Kind::Number(0.0, 1000.0),
        "1",
        "alpha of the Vegas loss predictor, packets",
        "Medina-Ruiz III-A",
    )
    .of("policy", ADAPTIVE),
    Setting::new(
        "vegas_beta",
        Kind::Number(0.0, 1000.0),
        "3",
        "beta of the Vegas loss predictor, packets",
        "Medina-Ruiz III-A",
    )
    .of("policy", ADAPTIVE),
    Setting::new(
        "step",
        Kind::Number(0.0, 1.0),
        "0.1",
        "how much R changes for one duplicate ACK",
        "Medina-Ruiz Algorithm 1",
    )
    .of("policy", ADAPTIVE),
    Setting::new("rmax", Kind::Number(1.0, 10.0), "2", "largest R; the source has none", "ours")
        .of("policy", ADAPTIVE),
];

/// Who asks for what the code lacks: TCP above it, by its timeout and duplicate ACKs, or the code itself.
fn is_asked_by_tcp(values: &Values) -> bool {
    values.word("ask") == "tcp"
}

fn combinations(values: &Values) -> TcpNcConfig {
    TcpNcConfig {
        window_packets: values.integer_u32("W"),
        is_systematic: values.flag("systematic"),
        asks_by_tcp: is_asked_by_tcp(values),
        retransmissions: retransmissions(values),
    }
}

fn adaptive(values: &Values) -> Make<dyn RedundancyPolicy> {
    let config = combinations(values);
    let adaptive = AdaptiveConfig {
        initial: values.number("R"),
        alpha: values.number("vegas_alpha"),
        beta: values.number("vegas_beta"),
        step: values.number("step"),
        redundancy_max: values.number("rmax"),
        reading: if values.word("reading") == "text" { Reading::Text } else { Reading::Printed },
    };
    Arc::new(move |_| Box::new(TcpNcCombinations::adaptive(config, adaptive)))
}
