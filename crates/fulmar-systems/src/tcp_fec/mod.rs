//! TCP-FEC (Sato, Kitakyushu 2019): XOR repair per group of the congestion window, with interleaving and a
//! gentle answer to repaired losses (chapter 5), or with neither (chapters 3 and 4).

mod controller;
mod groups;

pub use controller::{Gently, TcpFec};
pub use groups::{GroupSize, TcpFecGroups};

use std::sync::Arc;

use fulmar_control::CongestionController;
use fulmar_fec::XorGroups;
use fulmar_profile::{
    CodeRow, ControllerRow, Cover, Family, Kind, Make, PolicyRow, ProfileError, Setting, System, Values,
    WINDOW_SETTINGS, retransmissions, window,
};

/// Longest group of the XOR code.
const GROUP_SYMBOLS: u32 = 256;

pub(crate) static TCP_FEC: System = System {
    families: FAMILIES,
    settings: SETTINGS,
    codes: &[CodeRow {
        id: XorGroups::ID,
        name: "xor",
        cover: Cover::Groups,
        block_max: None,
        make: |values| {
            let groups = u16::try_from(values.integer("g").max(1)).unwrap_or(u16::MAX);
            Ok(Arc::new(XorGroups::new(groups, GROUP_SYMBOLS)?))
        },
        from_parameters: |parameters| fulmar_fec::from_parameters(XorGroups::ID, parameters),
    }],
    controllers: &[ControllerRow {
        name: "tcp-fec",
        obeys: true,
        takes: WINDOW_SETTINGS,
        make: make_controller,
    }],
    policies: &[PolicyRow {
        name: "tcp-fec",
        covers: &[Cover::Groups, Cover::Window],
        needs: "a code over groups: xor or rlc-window",
        takes: &["sack", "rescue"],
        is_asked_by_tcp: |_| false,
        make: |values| {
            let (size, suppresses) = (group_size(values), values.word("suppress") != "0");
            let pace = retransmissions(values);
            Arc::new(move |_| Box::new(TcpFecGroups::new(size).asking(suppresses, pace)))
        },
    }],
    check: |values| {
        if values.flag("masked") && values.word("cc") == "tcp-fec" {
            let reason = "cc=tcp-fec hears of repaired losses by itself: masked=1 would hide them twice";
            return Err(ProfileError::Conflict(reason.into()));
        }
        Ok(())
    },
    ..System::NOTHING
};

const FAMILIES: &[Family] = &[
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
];

const SETTINGS: &[Setting] = &[
    Setting::new(
        "r",
        Kind::Number(0.01, 1.0),
        "0.7",
        "the window times this when a loss was repaired",
        "Sato 5.2 (5.1)",
    )
    .of("cc", &["tcp-fec"]),
    Setting::new(
        "group",
        Kind::Word(&["bounded", "window", "static", "interleaved"]),
        "bounded",
        "size of XOR groups: min(cwnd-1,fmax); cwnd; n; or g groups per cwnd",
        "Sato 3.3, 4.2, 5.3",
    )
    .of("policy", &["tcp-fec"]),
    Setting::new("fmax", Kind::Integer(0, 255), "10", "largest group; 0 for no limit", "Sato 4.2")
        .of("group", &["bounded"]),
    Setting::new("n", Kind::Integer(1, 255), "10", "one repair packet for every n", "Sato 3.4")
        .of("group", &["static"]),
    Setting::new("g", Kind::Integer(1, 64), "3", "interleaved groups per congestion window", "Sato 5.3")
        .of("group", &["interleaved"]),
    Setting::new("l", Kind::Integer(0, 255), "30", "largest group; 0 for no limit", "Sato 5.4")
        .of("group", &["interleaved"]),
    Setting::new(
        "suppress",
        Kind::Word(&["1", "0", "receiver"]),
        "1",
        "no repair is asked for that a group may make; receiver: nor is it told of a loss before",
        "Sato 4.3",
    )
    .of("policy", &["tcp-fec"]),
];

/// What the setting `group` chooses.
fn group_size(values: &Values) -> GroupSize {
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

/// Chapters 3 and 4 have groups without interleaving, and no notice of what was repaired.
fn make_controller(values: &Values) -> Make<dyn CongestionController> {
    let (window, reduction) = (window(values), values.number("r"));
    let is_notified = reduction < 1.0 || values.word("group") == "interleaved";
    Arc::new(move |context| {
        let mtu_bytes = context.mtu_bytes;
        Box::new(match is_notified {
            true => Gently::controller(mtu_bytes, window, reduction),
            false => Gently::unnotified(mtu_bytes, window),
        })
    })
}
