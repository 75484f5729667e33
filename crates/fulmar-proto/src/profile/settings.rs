//! Every setting there is: its name, range, default, and where it comes from.

use super::kind::{Kind, Setting};
use super::{codes, controllers, modules, policies};

type Owner = Option<(&'static str, &'static [&'static str])>;

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    belongs_to: Owner,
    text: &'static str,
    source: &'static str,
) -> Setting {
    Setting { name, kind, default, belongs_to, text, source }
}

const ANY: Owner = None;
const WINDOWED: Owner = Some(("cc", &controllers::WINDOWED));
const AUTO: Owner = Some(("cc", &["auto"]));
const UNLIMITED: Owner = Some(("cc", &["unlimited"]));
const ORACLE: Owner = Some(("loss", &["oracle"]));
const AUTOREGRESSIVE: Owner = Some(("loss", &["autoregressive"]));
const LT_TCP: Owner = Some(("policy", &["lt-tcp"]));
const TCP_FEC: Owner = Some(("policy", &["tcp-fec"]));
const TCP_NC: Owner = Some(("policy", &["tcp-nc", "tcp-nc-adaptive"]));
const ADAPTIVE: Owner = Some(("policy", &["tcp-nc-adaptive"]));
const FOUNTAIN: Owner = Some(("policy", &["fountain"]));
const INTERLEAVED: Owner = Some(("group", &["interleaved"]));
const BY_WINDOW: Owner = Some(("sizing", &["window"]));
const RTO: Owner = Some(("timeout", &["rto"]));

const MANY: u64 = u32::MAX as u64;

/// All settings. Those that choose modules stand before those that belong to them.
pub static SETTINGS: [Setting; 60] = {
    use Kind::{Flag, Integer, Number, Word};
    [
        setting("code", Word(&codes::NAMES), "none", ANY, "erasure code", "Hourt 4.2"),
        setting("cc", Word(&controllers::NAMES), "newreno", ANY, "congestion controller", "Hourt 4.2"),
        setting(
            "loss",
            Word(&modules::LOSS_NAMES),
            "pooled",
            ANY,
            "loss-rate estimator",
            "Hourt 3.1, 2.3, 5",
        ),
        setting("policy", Word(&policies::NAMES), "arq", ANY, "redundancy policy", "Hourt 4.2"),
        setting(
            "sizing",
            Word(&modules::SIZING_NAMES),
            "longest",
            ANY,
            "length of blocks: the code's longest, a share of the window, or always the same",
            "Hourt 4.2",
        ),
        setting(
            "timeout",
            Word(&modules::TIMEOUT_NAMES),
            "probe",
            ANY,
            "what silence means: a probe (RFC 9002), or that everything under way is lost (RFC 6298)",
            "Hourt 3.5",
        ),
        setting(
            "reordering",
            Integer(1, 1000),
            "3",
            ANY,
            "packets delivered after a missing one before it counts as lost",
            "Hourt 3.3; Medina-Ruiz Table I",
        ),
        setting(
            "rto_initial",
            Number(0.001, 600.0),
            "1",
            RTO,
            "retransmission timeout before there is an RTT, s",
            "RFC 6298 2.1",
        ),
        setting("rto_min", Number(0.001, 600.0), "1", RTO, "least retransmission timeout, s", "RFC 6298 2.4"),
        setting(
            "rto_max",
            Number(0.001, 600.0),
            "60",
            RTO,
            "largest retransmission timeout, s",
            "RFC 6298 2.5; Hourt 2.2",
        ),
        setting(
            "rtt",
            Word(&modules::VARIATION_NAMES),
            "mean",
            ANY,
            "how the RTT's variation rises: by a filter of 1/4, or at once",
            "Hourt 4.2; RFC 6298",
        ),
        setting(
            "packet",
            Integer(0, 65_507),
            "0",
            ANY,
            "largest UDP payload, bytes; 0 for what the path carries",
            "Hourt 4.2; Sato Table 5.1",
        ),
        setting(
            "sack",
            Flag,
            "1",
            Some(("policy", &["arq", "tcp-fec", "tcp-nc", "tcp-nc-adaptive"])),
            "all holes are repaired at once; 0: one each round trip, as TCP does by partial ACKs",
            "RFC 6675, RFC 6582",
        ),
        // Congestion control.
        setting(
            "iw",
            Integer(1, 1000),
            "10",
            WINDOWED,
            "congestion window at the start, packets",
            "RFC 6928; Medina-Ruiz Table I",
        ),
        setting(
            "wmin",
            Integer(2, 1000),
            "2",
            WINDOWED,
            "congestion window at the least, packets",
            "RFC 9002 7.2; Tickoo 2005",
        ),
        setting(
            "paced",
            Flag,
            "1",
            WINDOWED,
            "spread packets over the round trip rather than send at each ACK",
            "RFC 9002 7.7",
        ),
        setting(
            "without",
            Word(&fulmar_control::Mechanism::NAMES),
            "nothing",
            AUTO,
            "a mechanism of the controller to leave out, to see what it is worth",
            "docs/profiles/auto.md",
        ),
        setting(
            "carried",
            Flag,
            "0",
            AUTO,
            "on trial: where a queue stands, the rate is what the link carried",
            "docs/profiles/auto.md",
        ),
        setting(
            "masked",
            Flag,
            "0",
            ANY,
            "the controller sees only losses that the code could not repair",
            "Medina-Ruiz II",
        ),
        setting(
            "rwnd",
            Integer(0, MANY),
            "0",
            ANY,
            "TCP's receive window, bytes; 0 for none",
            "Medina-Ruiz Table I",
        ),
        setting(
            "r",
            Number(0.01, 1.0),
            "0.7",
            Some(("cc", &["tcp-fec"])),
            "the window times this when a loss was repaired",
            "Sato 5.2 (5.1)",
        ),
        setting(
            "rate",
            Number(0.0, 1e6),
            "0",
            UNLIMITED,
            "sending rate in Mbps of 2^20 bits, for which inctokens is calculated; 0 for the highest",
            "Solymos 3.12.2 (3.3)",
        ),
        setting(
            "maxtokens",
            Integer(0, MANY),
            "0",
            UNLIMITED,
            "most tokens (bytes) that gather; 0 for what one adding brings",
            "Solymos 3.12.2",
        ),
        setting("numtokens", Integer(0, MANY), "0", UNLIMITED, "tokens there are at first", "Solymos 3.12.2"),
        setting(
            "inctokens",
            Integer(0, MANY),
            "0",
            UNLIMITED,
            "tokens added each time; 0 for the rate's",
            "Solymos 3.12.2",
        ),
        setting(
            "inttokens",
            Integer(1, 100_000),
            "1",
            UNLIMITED,
            "ticks of 4 ms between addings",
            "Solymos 3.12.2",
        ),
        // Loss estimators.
        setting(
            "alpha",
            Number(0.001, 1.0),
            "0.6",
            Some(("loss", &["static-ewma"])),
            "weight of the newest sample",
            "Hourt 3.1",
        ),
        setting("p", Number(0.0, 0.99), "0", ORACLE, "the loss rate", "Hourt 2.3"),
        setting(
            "E",
            Number(1.0, 10_000.0),
            "1",
            ORACLE,
            "mean length of a burst of losses, packets",
            "Hourt 2.1",
        ),
        setting("order", Integer(1, 8), "3", AUTOREGRESSIVE, "samples the model looks back", "Hourt 5"),
        setting(
            "forgetting",
            Number(0.5, 1.0),
            "0.98",
            AUTOREGRESSIVE,
            "weight a sample keeps from round to round",
            "Hourt 5",
        ),
        // Redundancy.
        setting(
            "favor",
            Word(&fulmar_control::Favor::NAMES),
            "balanced",
            Some(("policy", &["auto"])),
            "what is favoured: more throughput, sooner repair, or both in measure",
            "ours",
        ),
        setting(
            "ratio",
            Number(0.0, 10.0),
            "0.1",
            Some(("policy", &["fixed"])),
            "repair symbols per source symbol",
            "RFC 8406",
        ),
        setting(
            "target",
            Number(0.0, 0.999_999),
            "0.99",
            LT_TCP,
            "P(block decodable without reactive FEC) to reach",
            "Hourt 3.1",
        ),
        setting(
            "bursts",
            Flag,
            "0",
            LT_TCP,
            "reckon with bursts of the estimated length, not with independent losses",
            "Hourt 2.1",
        ),
        setting(
            "proactive",
            Number(0.0, 10.0),
            "1",
            Some(("policy", &["ctcp"])),
            "throughput against delay: times the repair that replaces the mean loss; 0 is ARQ alone",
            "Leith, hybrid coding",
        ),
        setting(
            "group",
            Word(&policies::GROUPS),
            "bounded",
            TCP_FEC,
            "size of XOR groups: min(cwnd-1,fmax); cwnd; n; or g groups per cwnd",
            "Sato 3.3, 4.2, 5.3",
        ),
        setting(
            "fmax",
            Integer(0, 255),
            "10",
            Some(("group", &["bounded"])),
            "largest group; 0 for no limit",
            "Sato 4.2",
        ),
        setting(
            "n",
            Integer(1, 255),
            "10",
            Some(("group", &["static"])),
            "one repair packet for every n",
            "Sato 3.4",
        ),
        setting(
            "g",
            Integer(1, 64),
            "3",
            INTERLEAVED,
            "interleaved groups per congestion window",
            "Sato 5.3",
        ),
        setting("l", Integer(0, 255), "30", INTERLEAVED, "largest group; 0 for no limit", "Sato 5.4"),
        setting("suppress", Flag, "1", TCP_FEC, "no repair is asked for that a group may make", "Sato 4.3"),
        setting(
            "ask",
            Word(&policies::ASK_NAMES),
            "tcp",
            TCP_NC,
            "what the code lacks comes by TCP's timeout and third duplicate ACK, or is asked for at once",
            "Medina-Ruiz II",
        ),
        setting(
            "R",
            Number(1.0, 10.0),
            "1.1",
            TCP_NC,
            "combinations sent for each packet; where adapted, at first",
            "Medina-Ruiz III, IV",
        ),
        setting("W", Integer(1, 256), "64", TCP_NC, "most packets in a combination", "Medina-Ruiz II"),
        setting(
            "systematic",
            Flag,
            "0",
            TCP_NC,
            "send each packet plain first, combinations only beyond it",
            "RFC 8406",
        ),
        setting(
            "reading",
            Word(&policies::READING_NAMES),
            "printed",
            ADAPTIVE,
            "of Algorithm 1: R is reset where qv < alpha, or grows at duplicate ACKs wherever qv < beta",
            "Medina-Ruiz III-A",
        ),
        setting(
            "vegas_alpha",
            Number(0.0, 1000.0),
            "1",
            ADAPTIVE,
            "alpha of the Vegas loss predictor, packets",
            "Medina-Ruiz III-A",
        ),
        setting(
            "vegas_beta",
            Number(0.0, 1000.0),
            "3",
            ADAPTIVE,
            "beta of the Vegas loss predictor, packets",
            "Medina-Ruiz III-A",
        ),
        setting(
            "step",
            Number(0.0, 1.0),
            "0.1",
            ADAPTIVE,
            "how much R changes for one duplicate ACK",
            "Medina-Ruiz Algorithm 1",
        ),
        setting("rmax", Number(1.0, 10.0), "2", ADAPTIVE, "largest R; the source has none", "ours"),
        setting(
            "window",
            Integer(1, 4096),
            "64",
            FOUNTAIN,
            "window size: blocks unacknowledged at once",
            "Solymos Table 3.2",
        ),
        setting(
            "redundancy",
            Integer(0, 1 << 20),
            "0",
            FOUNTAIN,
            "coded bytes sent at once per block of 65536; 0 counts what is needed",
            "Solymos Table 3.2",
        ),
        setting(
            "coding",
            Flag,
            "1",
            FOUNTAIN,
            "encode; 0 would send the first block's bytes for all and is refused",
            "Solymos Table 3.2",
        ),
        setting(
            "decoding",
            Flag,
            "1",
            FOUNTAIN,
            "decode; 0 would acknowledge without the data and is refused",
            "Solymos Table 3.2",
        ),
        setting(
            "persistent",
            Flag,
            "0",
            FOUNTAIN,
            "go on sending from every block until its ACK, round robin",
            "Solymos 3.8",
        ),
        // Blocks.
        setting(
            "k",
            Integer(1, 4096),
            "32",
            Some(("sizing", &["fixed"])),
            "source symbols per block",
            "Leith, hybrid coding",
        ),
        setting("blocks", Integer(1, 64), "4", BY_WINDOW, "blocks per congestion window", "Hourt 4.2"),
        setting("kmin", Integer(1, 4096), "10", BY_WINDOW, "shortest block, source symbols", "Tickoo 2005"),
        setting("kmax", Integer(1, 4096), "128", BY_WINDOW, "longest block, source symbols", "Hourt 4.2"),
    ]
};
