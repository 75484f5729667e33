//! The engine's own part of the table: the default, the yardsticks, and the settings that all profiles have.

use std::sync::Arc;

use fulmar_control as control;
use fulmar_control::Variation;
use fulmar_fec::{NoCode, RlcWindow};
use fulmar_profile::{
    CodeRow, ControllerRow, Cover, EstimatorRow, Family, Kind, PolicyRow, ProfileError, Setting, SizingRow,
    System, Values, WINDOW_SETTINGS, misses_by_packets, retransmissions, window,
};

/// Longest window that the sliding-window code of this implementation covers.
pub(crate) const WINDOW_SYMBOLS: u32 = 256;
/// Shortest packets that may be asked for.
const PACKET_BYTES_MIN: u64 = 600;

pub(super) static ENGINE: System = System {
    families: FAMILIES,
    settings: SETTINGS,
    codes: CODES,
    controllers: CONTROLLERS,
    estimators: &[EstimatorRow { name: "pooled", make: |_| Arc::new(|_| Box::new(control::Pooled::new())) }],
    policies: POLICIES,
    sizings: &[SizingRow {
        name: "longest",
        make: |_| Arc::new(|_| Box::new(control::FixedSizing::longest())),
    }],
    check,
    ..System::NOTHING
};

const FAMILIES: &[Family] = &[
    Family {
        name: "auto",
        summary: "the default: tells loss from congestion, repairs where it buys time",
        values: &[("code", "rlc-window"), ("cc", "auto"), ("policy", "auto")],
    },
    Family { name: "newreno", summary: "TCP NewReno (RFC 6582): a yardstick", values: &[] },
    Family { name: "cubic", summary: "TCP CUBIC (RFC 9438): a yardstick", values: &[("cc", "cubic")] },
    Family {
        name: "bbr",
        summary: "BBR version 1, the kernel's (draft-cardwell-iccrg-bbr): a yardstick",
        values: &[("cc", "bbr")],
    },
    Family {
        name: "reno",
        summary: "TCP Reno (RFC 5681) with its timeouts: a yardstick",
        values: &[("cc", "reno"), ("timeout", "rto")],
    },
];

const CODES: &[CodeRow] = &[
    CodeRow {
        id: NoCode::ID,
        name: "none",
        cover: Cover::Nothing,
        block_max: None,
        make: |_| Ok(Arc::new(NoCode)),
        from_parameters: |parameters| fulmar_fec::from_parameters(NoCode::ID, parameters),
    },
    CodeRow {
        id: RlcWindow::ID,
        name: "rlc-window",
        cover: Cover::Window,
        block_max: None,
        make: |_| Ok(Arc::new(RlcWindow::new(WINDOW_SYMBOLS)?)),
        from_parameters: |parameters| fulmar_fec::from_parameters(RlcWindow::ID, parameters),
    },
];

const CONTROLLERS: &[ControllerRow] = &[
    ControllerRow {
        name: "auto",
        obeys: true,
        takes: &[],
        make: |values| {
            let without = control::Mechanism::named(values.word("without"));
            Arc::new(move |context| Box::new(control::Auto::new(context.mtu_bytes).without(without)))
        },
    },
    ControllerRow {
        name: "cubic",
        obeys: true,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| {
                let mut config = control::CubicConfig::default();
                config.window = window;
                Box::new(control::Cubic::new(context.mtu_bytes, config))
            })
        },
    },
    ControllerRow {
        name: "bbr",
        // Version 1 takes no loss for congestion.
        obeys: false,
        takes: &[],
        make: |_| Arc::new(|context| Box::new(control::Bbr::new(context.mtu_bytes))),
    },
    ControllerRow {
        name: "newreno",
        obeys: true,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::NewReno::new(context.mtu_bytes, window)))
        },
    },
    ControllerRow {
        name: "reno",
        obeys: true,
        takes: WINDOW_SETTINGS,
        make: |values| {
            let window = window(values);
            Arc::new(move |context| Box::new(control::Reno::new(context.mtu_bytes, window)))
        },
    },
];

const POLICIES: &[PolicyRow] = &[
    PolicyRow {
        name: "arq",
        covers: &[Cover::Nothing, Cover::Groups, Cover::Window, Cover::Block],
        needs: "a code that sends its source symbols: dfcp sends only coded ones",
        takes: &["sack", "rescue"],
        is_asked_by_tcp: |_| false,
        make: |values| {
            let pace = retransmissions(values);
            Arc::new(move |_| Box::new(control::Arq::with(pace)))
        },
    },
    PolicyRow {
        name: "auto",
        covers: &[Cover::Window],
        needs: "a code over any window: rlc-window",
        takes: &[],
        is_asked_by_tcp: |_| false,
        make: |values| {
            let favor = control::Favor::parse(values.word("favor")).unwrap_or_default();
            Arc::new(move |_| Box::new(control::AutoRedundancy::favoring(favor)))
        },
    },
    PolicyRow {
        name: "fixed",
        covers: &[Cover::Groups, Cover::Window],
        needs: "a code over windows: xor or rlc-window",
        takes: &[],
        is_asked_by_tcp: |_| false,
        make: |values| {
            let ratio = values.number("ratio");
            Arc::new(move |_| Box::new(control::FixedRate::new(ratio, WINDOW_SYMBOLS)))
        },
    },
];

/// The words of the setting `timeout`, the first of which is the default.
pub(super) const TIMEOUTS: [&str; 2] = ["probe", "rto"];

/// The words of the setting `rtt`, and what they stand for.
pub(super) const VARIATIONS: [(&str, Variation); 2] = [("mean", Variation::Mean), ("peak", Variation::Peak)];

const SETTINGS: &[Setting] = &[
    // Those that choose modules: each part's rows have the words.
    Setting::new("code", Kind::Word(&[]), "none", "erasure code", "Hourt 4.2"),
    Setting::new("cc", Kind::Word(&[]), "newreno", "congestion controller", "Hourt 4.2"),
    Setting::new("loss", Kind::Word(&[]), "pooled", "loss-rate estimator", "Hourt 3.1, 2.3, 5"),
    Setting::new("policy", Kind::Word(&[]), "arq", "redundancy policy", "Hourt 4.2"),
    Setting::new(
        "sizing",
        Kind::Word(&[]),
        "longest",
        "length of blocks: the code's longest, a share of the window, or always the same",
        "Hourt 4.2",
    ),
    Setting::new(
        "timeout",
        Kind::Word(&TIMEOUTS),
        "probe",
        "what silence means: a probe (RFC 9002), or that everything under way is lost (RFC 6298)",
        "Hourt 3.5",
    ),
    Setting::new(
        "reordering",
        Kind::Integer(1, 1000),
        "3",
        "packets delivered after a missing one before it counts as lost",
        "Hourt 3.3; Medina-Ruiz Table I",
    ),
    Setting::new(
        "rto_initial",
        Kind::Number(0.001, 600.0),
        "1",
        "retransmission timeout before there is an RTT, s",
        "RFC 6298 2.1",
    )
    .of("timeout", &["rto"]),
    Setting::new(
        "rto_min",
        Kind::Number(0.001, 600.0),
        "1",
        "least retransmission timeout, s",
        "RFC 6298 2.4",
    )
    .of("timeout", &["rto"]),
    Setting::new(
        "rto_max",
        Kind::Number(0.001, 600.0),
        "60",
        "largest retransmission timeout, s",
        "RFC 6298 2.5; Hourt 2.2",
    )
    .of("timeout", &["rto"]),
    Setting::new(
        "rtt",
        Kind::Word(&[VARIATIONS[0].0, VARIATIONS[1].0]),
        "mean",
        "how the RTT's variation rises: by a filter of 1/4, or at once",
        "Hourt 4.2; RFC 6298",
    ),
    Setting::new(
        "packet",
        Kind::Integer(0, 65_507),
        "0",
        "largest UDP payload, bytes; 0 for what the path carries",
        "Hourt 4.2; Sato Table 5.1",
    ),
    Setting::new(
        "sack",
        Kind::Flag,
        "1",
        "all holes are repaired at once; 0: one each round trip, as TCP does by partial ACKs",
        "RFC 6675, RFC 6582",
    )
    .of("policy", &[]),
    Setting::new(
        "rescue",
        Kind::Word(&["1", "0", "acks"]),
        "1",
        "losses show by time too, and those of copies by ACKs; acks: no time; 0: nor ACKs of copies",
        "RFC 8985; RFC 6675; Linux 2.6",
    )
    .of("policy", &[]),
    Setting::new(
        "acks",
        Kind::Integer(0, 64),
        "0",
        "packets that an ACK of the other end waits for; 0: as the path and its losses make it useful",
        "RFC 1122 4.2.3.2; ns-2",
    )
    .of("timeout", &["rto"]),
    Setting::new(
        "ack_delay",
        Kind::Number(0.001, 0.5),
        "0.04",
        "longest that such an ACK waits for the next packet, s (with acks)",
        "RFC 1122 4.2.3.2",
    )
    .of("timeout", &["rto"]),
    // Congestion control.
    Setting::new(
        "iw",
        Kind::Integer(1, 1000),
        "10",
        "congestion window at the start, packets",
        "RFC 6928; Medina-Ruiz Table I",
    )
    .of("cc", &[]),
    Setting::new(
        "wmin",
        Kind::Integer(2, 1000),
        "2",
        "congestion window at the least, packets",
        "RFC 9002 7.2; Tickoo 2005",
    )
    .of("cc", &[]),
    Setting::new(
        "lw",
        Kind::Integer(0, 1000),
        "0",
        "congestion window after a timeout (rto), packets; 0: wmin",
        "RFC 5681 3.1",
    )
    .of("cc", &[]),
    Setting::new(
        "growth",
        Kind::Word(&["bytes", "acks"]),
        "bytes",
        "what slow start and TCP's increase count: bytes, or an ACK as a packet whatever it acknowledges",
        "RFC 3465; RFC 5681 3.1",
    )
    .of("cc", &[]),
    Setting::new(
        "paced",
        Kind::Flag,
        "1",
        "spread packets over the round trip rather than send at each ACK",
        "RFC 9002 7.7",
    )
    .of("cc", &[]),
    Setting::new(
        "without",
        Kind::Word(&control::Mechanism::NAMES),
        "nothing",
        "a mechanism of the controller to leave out, to see what it is worth",
        "docs/profiles/auto.md",
    )
    .of("cc", &["auto"]),
    Setting::new(
        "masked",
        Kind::Flag,
        "0",
        "the controller sees only losses that the code could not repair",
        "Medina-Ruiz II",
    ),
    Setting::new(
        "rwnd",
        Kind::Integer(0, u32::MAX as u64),
        "0",
        "TCP's receive window, bytes; 0 for none",
        "Medina-Ruiz Table I",
    ),
    // Redundancy.
    Setting::new(
        "favor",
        Kind::Word(&control::Favor::NAMES),
        "balanced",
        "what is favoured: more throughput, sooner repair, or both in measure",
        "ours",
    )
    .of("policy", &["auto"]),
    Setting::new("ratio", Kind::Number(0.0, 10.0), "0.1", "repair symbols per source symbol", "RFC 8406")
        .of("policy", &["fixed"]),
];

/// An error with its reason where `values` cannot work.
fn check(values: &Values) -> Result<(), ProfileError> {
    let refuse = |reason: &str| Err(ProfileError::Conflict(reason.into()));
    if values.word("timeout") == "rto" {
        let [initial, min, max] = ["rto_initial", "rto_min", "rto_max"].map(|name| values.number(name));
        if min > max || initial > max {
            return refuse("rto_max is the largest timeout: rto_initial and rto_min cannot be above it");
        }
    }
    if misses_by_packets(values) && values.word("timeout") != "rto" {
        return refuse(
            "rescue=0 and rescue=acks leave a loss at the end to TCP's timeout: they need timeout=rto",
        );
    }
    if (1..PACKET_BYTES_MIN).contains(&values.integer("packet")) {
        return refuse(
            "packet: a packet of less than 600 bytes is mostly header; 0 is what the path carries",
        );
    }
    Ok(())
}
