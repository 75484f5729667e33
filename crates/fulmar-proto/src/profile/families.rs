//! The profiles: what each says of the settings.

/// A profile before its settings are given.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Values of settings where they are not the settings' own defaults.
    pub values: &'static [(&'static str, &'static str)],
}

impl Family {
    pub(super) fn value_of(&self, setting: &str) -> Option<&'static str> {
        self.values.iter().find(|(name, _)| *name == setting).map(|(_, value)| *value)
    }
}

/// All profiles.
pub const FAMILIES: [Family; 14] = [
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
    Family {
        name: "no-cc",
        summary: "TCP without congestion control, only retransmission (Hourt 2014, section 2.3)",
        values: &[("cc", "grow-only"), ("timeout", "rto"), ("rwnd", "4194304")],
    },
    Family {
        name: "lt-tcp",
        summary: "Loss-Tolerant TCP (Hourt 2014): proactive and reactive FEC per block, congestion by ECN only",
        values: &[
            ("code", "reed-solomon"),
            ("cc", "ecn-only"),
            ("loss", "static-ewma"),
            ("policy", "lt-tcp"),
            ("sizing", "window"),
            ("timeout", "rto"),
        ],
    },
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
    Family {
        name: "tcp-fec",
        summary: "TCP-FEC (Sato 2019, chapters 3 and 4): an XOR packet per group of min(cwnd - 1, fmax)",
        values: &[
            ("code", "xor"),
            ("cc", "tcp-fec"),
            ("policy", "tcp-fec"),
            ("timeout", "rto"),
            // Chapter 5 introduces the answer to repaired losses; before it there is none.
            ("r", "1"),
        ],
    },
    Family {
        name: "tcp-fec-interleave",
        summary: "TCP-FEC with interleave (Sato 2019, chapter 5): g groups per window, repaired losses obeyed gently",
        values: &[
            ("code", "xor"),
            ("cc", "tcp-fec"),
            ("policy", "tcp-fec"),
            ("group", "interleaved"),
            ("timeout", "rto"),
        ],
    },
    Family {
        name: "ctcp",
        summary: "Coded TCP (Leith, Medard et al.): blocks of 32, FEC at the loss rate, backoff RTTmin / RTT",
        values: &[("code", "rlc-block"), ("cc", "ctcp"), ("policy", "ctcp"), ("sizing", "fixed")],
    },
    Family {
        name: "tcp-nc",
        summary: "TCP/NC (Medina-Ruiz et al. 2012): R combinations per packet, Reno above the code",
        values: TCP_NC,
    },
    Family {
        name: "tcp-nc-adaptive",
        summary: "TCP/NC with adaptive redundancy (Medina-Ruiz et al. 2012, Algorithm 1)",
        values: TCP_NC_ADAPTIVE,
    },
];

/// The names of all profiles.
pub const PROFILE_NAMES: [&str; FAMILIES.len()] = {
    let mut names = [""; FAMILIES.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = FAMILIES[index].name;
        index += 1;
    }
    names
};

/// Table I of Medina-Ruiz et al.: slow start at 2 packets, 65535 bytes, timeouts of 3, 1 and 64 s.
macro_rules! tcp_nc {
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

const TCP_NC: &[(&str, &str)] = tcp_nc!("tcp-nc");
const TCP_NC_ADAPTIVE: &[(&str, &str)] = tcp_nc!("tcp-nc-adaptive");
