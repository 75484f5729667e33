//! DFCP, the Digital Fountain based Communication Protocol (Solymos, BME 2014): its Raptor code, no
//! congestion control, a token bucket. `dfcp-raptorq` is the same with RaptorQ (RFC 6330) over packets.

mod fountain;
mod raptor;
mod unlimited;

pub use fountain::{DFCP_BLOCK_BYTES, Fountain, FountainConfig};
pub use raptor::{CHECK_BYTES, DfcpBlock, DfcpRaptor, DfcpReceiver, MESSAGE_BYTES, Taus88, ldpc_state};
pub use unlimited::{TokenBucket, Unlimited, UnlimitedConfig};

use std::sync::Arc;

use fulmar_control::{CongestionController, RedundancyPolicy};
use fulmar_fec::{RaptorQ, RlcBlock};
use fulmar_profile::{
    CodeRow, ControllerRow, Cover, Family, HandshakeTimer, Kind, MadeCode, Make, PolicyRow, ProfileError,
    Setting, System, Values, block_symbols_max,
};

/// Each connection draws its own state; until then any that is not degenerate will do.
const SEED: u32 = 1;
/// Packets in which segments of one length fit, to any id.
const PACKET_BYTES_MIN: u64 = 1200;

pub(crate) static DFCP: System = System {
    families: FAMILIES,
    settings: SETTINGS,
    codes: &[
        CodeRow {
            id: DfcpRaptor::ID,
            name: "dfcp",
            cover: Cover::Fountain,
            block_max: None,
            make: make_code,
            from_parameters: |parameters| Ok(Arc::new(DfcpRaptor::from_parameters(parameters)?)),
        },
        CodeRow {
            id: RaptorQ::ID,
            name: "raptorq",
            cover: Cover::Block,
            block_max: None,
            make: |values| Ok(Arc::new(RaptorQ::new(block_symbols_max(values))?)),
            from_parameters: |parameters| fulmar_fec::from_parameters(RaptorQ::ID, parameters),
        },
    ],
    controllers: &[ControllerRow { name: "unlimited", obeys: false, takes: &[], make: make_controller }],
    policies: &[PolicyRow {
        name: "fountain",
        covers: &[Cover::Block, Cover::Fountain],
        needs: "a code over blocks: dfcp, raptorq, rlc-block or reed-solomon",
        takes: &[],
        is_asked_by_tcp: |_| false,
        make: make_policy,
    }],
    check,
    handshake_timer: |values| {
        let first = std::time::Duration::from_secs_f64(values.number("syn"));
        (!first.is_zero()).then(|| HandshakeTimer { first, retries: values.integer_u32("retries") })
    },
    ..System::NOTHING
};

const FAMILIES: &[Family] = &[
    Family {
        name: "dfcp",
        summary: "Digital Fountain based protocol (Solymos 2014): its Raptor code, no congestion control",
        values: &[("code", "dfcp"), ("cc", "unlimited"), ("policy", "fountain")],
    },
    Family {
        name: "dfcp-raptorq",
        summary: "the same with RaptorQ (RFC 6330) over packets",
        values: &[
            ("code", "raptorq"),
            ("cc", "unlimited"),
            ("policy", "fountain"),
            ("sizing", "fixed"),
            ("k", "256"),
            ("window", "16"),
        ],
    },
];

const MANY: u64 = u32::MAX as u64;

const SETTINGS: &[Setting] = &[
    Setting::new(
        "rate",
        Kind::Number(0.0, 1e6),
        "0",
        "sending rate in Mbps of 2^20 bits, for which inctokens is calculated; 0 for the highest",
        "Solymos 3.12.2 (3.3)",
    )
    .of("cc", &["unlimited"]),
    Setting::new(
        "maxtokens",
        Kind::Integer(0, MANY),
        "0",
        "most tokens (bytes) that gather; 0 for what one adding brings",
        "Solymos 3.12.2",
    )
    .of("cc", &["unlimited"]),
    Setting::new("numtokens", Kind::Integer(0, MANY), "0", "tokens there are at first", "Solymos 3.12.2")
        .of("cc", &["unlimited"]),
    Setting::new(
        "inctokens",
        Kind::Integer(0, MANY),
        "0",
        "tokens added each time; 0 for the rate's",
        "Solymos 3.12.2",
    )
    .of("cc", &["unlimited"]),
    Setting::new(
        "inttokens",
        Kind::Integer(1, 100_000),
        "1",
        "ticks of 4 ms between addings",
        "Solymos 3.12.2",
    )
    .of("cc", &["unlimited"]),
    Setting::new(
        "window",
        Kind::Integer(1, 4096),
        "64",
        "window size: blocks unacknowledged at once",
        "Solymos Table 3.2",
    )
    .of("policy", &["fountain"]),
    Setting::new(
        "redundancy",
        Kind::Integer(0, 1 << 20),
        "0",
        "coded bytes sent at once per block of 65536; 0 counts what is needed",
        "Solymos Table 3.2",
    )
    .of("policy", &["fountain"]),
    Setting::new(
        "coding",
        Kind::Flag,
        "1",
        "DFCP's code, at both ends; 0 leaves its time out of a measurement",
        "Solymos Table 3.2",
    )
    .of("policy", &["fountain"]),
    Setting::new(
        "persistent",
        Kind::Flag,
        "0",
        "go on sending from every block until its ACK, round robin",
        "Solymos 3.8",
    )
    .of("policy", &["fountain"]),
    Setting::new(
        "syn",
        Kind::Number(0.0, 600.0),
        "0",
        "a flight of the handshake is repeated after so long, s, then twice as long; 0: early and evenly",
        "Solymos 3.6",
    )
    .of("policy", &["fountain"]),
    Setting::new(
        "retries",
        Kind::Integer(1, 20),
        "5",
        "with syn: so often; then the connection is given up",
        "Solymos 3.6",
    )
    .of("policy", &["fountain"]),
];

fn check(values: &Values) -> Result<(), ProfileError> {
    let refuse = |reason: &str| Err(ProfileError::Conflict(reason.into()));
    let has_its_code = values.word("code") == "dfcp";
    if has_its_code && (1..PACKET_BYTES_MIN).contains(&values.integer("packet")) {
        return refuse("code=dfcp: its segments have one length, which needs packets of 1200 bytes");
    }
    if values.word("policy") != "fountain" {
        return Ok(());
    }
    if !values.flag("coding") && !has_its_code {
        return refuse("coding=0 leaves out the time of DFCP's code: it needs code=dfcp");
    }
    let is_unlimited =
        values.word("cc") == "unlimited" && values.number("rate") == 0.0 && values.integer("inctokens") == 0;
    if values.flag("persistent") && is_unlimited {
        return refuse(
            "persistent=1 sends until an ACK comes: it needs rate= (or inctokens=), or another cc=",
        );
    }
    Ok(())
}

/// DFCP's offline encoding, `coding=0` (Solymos 2014, section 3.12.1): a measurement without the code's time.
/// There two parameters, of the sender and the receiver, say so, and with one alone no data would arrive.
/// There every block carries the bytes of the first, and what comes is counted and dropped. Here blocks of
/// the same length go by a code that costs next to nothing as long as nothing is lost, so that the data
/// arrive.
fn is_offline(values: &Values) -> bool {
    values.word("policy") == "fountain" && !values.flag("coding")
}

fn make_code(values: &Values) -> MadeCode {
    if is_offline(values) {
        let sources = DfcpRaptor::len_max(DfcpRaptor::SEGMENT_BYTES);
        return Ok(Arc::new(RlcBlock::new(sources)?));
    }
    Ok(Arc::new(DfcpRaptor::new(Taus88::seeded(SEED))))
}

/// Its token bucket, or none.
fn make_controller(values: &Values) -> Make<dyn CongestionController> {
    let by_rate = TokenBucket::inctokens_for(values.number("rate"));
    let inctokens = match values.integer("inctokens") {
        0 => by_rate,
        inctokens => inctokens,
    };
    if inctokens == 0 {
        return Arc::new(|context| Box::new(Unlimited::new(context.mtu_bytes, Default::default())));
    }
    let maxtokens = match values.integer("maxtokens") {
        0 => inctokens,
        maxtokens => maxtokens,
    };
    let inttokens = values.integer_u32("inttokens");
    let bucket = TokenBucket { maxtokens, numtokens: values.integer("numtokens"), inctokens, inttokens };
    Arc::new(move |context| Box::new(Unlimited::with_tokens(context.mtu_bytes, bucket)))
}

fn make_policy(values: &Values) -> Make<dyn RedundancyPolicy> {
    let config = FountainConfig {
        window_blocks: values.integer_u32("window"),
        is_persistent: values.flag("persistent"),
        redundancy_bytes: values.integer_u32("redundancy"),
    };
    Arc::new(move |_| Box::new(Fountain::new(config)))
}
