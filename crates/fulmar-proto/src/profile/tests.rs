//! Profiles by text: what is accepted, what is refused and why.

use std::time::Duration;

use fulmar_control::{Feedback, PathView};

use super::table::ENGINE_ALONE;
use super::*;
use crate::Instant;
use crate::recovery::Timeout;

fn refused(spec: &str) -> String {
    Profile::parse(spec).expect_err(spec).to_string()
}

fn value(spec: &str, setting: &str) -> Option<String> {
    ProfileBuilder::parse(spec).unwrap().values().unwrap().of(setting).map(|value| value.to_string())
}

#[test]
fn every_name_is_a_profile_and_no_other() {
    for name in profile_names() {
        let profile = Profile::parse(name).unwrap();
        assert_eq!(profile.name, name);
        let context = MakeContext::new(1200, 1);
        assert!((profile.congestion)(&context).budget().window_bytes >= 2400);
    }
    assert!(refused("vegas").contains("tcp-fec-interleave"));
}

#[test]
fn every_setting_has_a_sound_default_and_an_owner_that_stands_before_it() {
    for (index, setting) in settings().iter().enumerate() {
        let before = &settings()[..index];
        assert!(setting.kind.read(setting.default).is_some(), "{}", setting.name);
        assert!(before.iter().all(|before| before.name != setting.name), "{} twice", setting.name);
        if let Some((selector, words)) = setting.belongs_to {
            let owner = before.iter().find(|before| before.name == selector).expect(setting.name);
            assert!(words.iter().all(|word| owner.kind.read(word).is_some()), "{}", setting.name);
            assert!(!words.is_empty(), "{} belongs to nothing", setting.name);
        }
    }
    for family in families() {
        for (setting, expected) in family.values {
            assert_eq!(value(family.name, setting).as_deref(), Some(*expected), "{}: {setting}", family.name);
        }
    }
}

#[test]
fn modules_are_those_of_the_sources() {
    let rows = [
        ("auto", "auto", "pooled", "auto"),
        ("newreno", "newreno", "pooled", "arq"),
        ("bbr", "bbr", "pooled", "arq"),
        ("lt-tcp", "ecn-only", "static-ewma", "lt-tcp"),
        ("dfcp", "unlimited", "pooled", "fountain"),
        ("tcp-fec", "tcp-fec", "pooled", "tcp-fec"),
        ("ctcp", "ctcp", "pooled", "ctcp"),
        ("tcp-nc", "reno", "pooled", "tcp-nc"),
        ("tcp-nc-adaptive", "reno", "pooled", "tcp-nc-adaptive"),
        ("no-cc", "grow-only", "pooled", "arq"),
        ("lt-tcp:loss=autoregressive,cc=cubic", "cubic", "autoregressive", "lt-tcp"),
    ];
    let context = MakeContext::new(1200, 1);
    for (spec, congestion, loss, redundancy) in rows {
        let profile = Profile::parse(spec).unwrap();
        assert_eq!((profile.congestion)(&context).name(), congestion, "{spec}");
        assert_eq!((profile.loss)(&context).name(), loss, "{spec}");
        assert_eq!((profile.redundancy)(&context).name(), redundancy, "{spec}");
    }
}

#[test]
fn settings_reach_their_modules() {
    let context = MakeContext::new(1200, 1);
    let view = |spec: &str| (Profile::parse(spec).unwrap().loss)(&context).view();
    assert_eq!(view("lt-tcp:loss=oracle,p=0.05,E=5").rate, 0.05);
    assert_eq!(view("lt-tcp:loss=oracle,p=0.05,E=5").burst_packets, 5.0);
    let budget = |spec: &str| (Profile::parse(spec).unwrap().congestion)(&context).budget();
    assert_eq!(budget("tcp-nc").window_bytes, 2 * 1200);
    assert_eq!(budget("tcp-nc:iw=100").window_bytes, 65_535);
    assert_eq!(budget("newreno:iw=4").window_bytes, 4 * 1200);
    // (3.3): 52428 tokens each 4 ms.
    assert_eq!(budget("dfcp:rate=100").pacing.map(|rate| rate.bytes_per_second()), Some(13_107_000));
    assert_eq!(
        budget("dfcp:inctokens=4000,inttokens=2").pacing.map(|rate| rate.bytes_per_second()),
        Some(500_000)
    );
    let path = fulmar_control::PathView::unknown(1200);
    let block = |spec: &str| (Profile::parse(spec).unwrap().sizing)(&context).block_symbols(&path);
    assert_eq!([block("ctcp"), block("ctcp:k=16"), block("lt-tcp")], [32, 16, 10]);
}

/// Solymos 2014, section 3.12.1: offline encoding leaves out the code's time, not the length of blocks.
#[test]
fn offline_encoding_has_blocks_of_the_same_length() {
    let code = |spec: &str| Profile::parse(spec).unwrap().code;
    let length = |spec: &str| code(spec).len_max(fulmar_systems::dfcp::DfcpRaptor::SEGMENT_BYTES);
    assert_eq!(length("dfcp:coding=0"), length("dfcp"));
    assert_ne!(code("dfcp:coding=0").shape().id, code("dfcp").shape().id);
}

/// Medina-Ruiz et al., Table I; RFC 6298; Hourt 2.2: at least 60 s by default.
#[test]
fn timeouts_are_those_of_the_sources() {
    let timeout = |spec: &str| match Profile::parse(spec).unwrap().recovery.timeout {
        Timeout::Retransmission { initial, min, max } => [initial, min, max].map(|time| time.as_secs()),
        Timeout::Probe => [0; 3],
    };
    assert_eq!(timeout("tcp-nc"), [3, 1, 64]);
    assert_eq!(timeout("lt-tcp"), [1, 1, 60]);
    assert_eq!(timeout("lt-tcp:rto_max=5"), [1, 1, 5]);
    assert_eq!(timeout("tcp-fec"), [1, 1, 60]);
    assert_eq!(timeout("ctcp"), [0; 3]);
    let recovery = Profile::parse("lt-tcp:reordering=7,rto_min=0.2").unwrap().recovery;
    assert_eq!(recovery.reordering_packets, 7);
    assert!(
        matches!(recovery.timeout, Timeout::Retransmission { min, .. } if min == Duration::from_millis(200))
    );
}

#[test]
fn the_source_s_defaults() {
    let rows = [
        ("lt-tcp", "alpha", "0.6"),
        ("tcp-fec", "fmax", "10"),
        ("tcp-fec", "r", "1"),
        ("tcp-fec-interleave", "r", "0.7"),
        ("tcp-fec-interleave", "g", "3"),
        ("tcp-fec-interleave", "l", "30"),
        ("ctcp", "k", "32"),
        ("tcp-nc-adaptive", "R", "1.1"),
        ("tcp-nc-adaptive", "vegas_beta", "3"),
        ("tcp-nc", "rwnd", "65535"),
        ("dfcp", "inttokens", "1"),
    ];
    for (profile, setting, expected) in rows {
        assert_eq!(value(profile, setting).as_deref(), Some(expected), "{profile}: {setting}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    for (spec, reason) in [
        ("ctcp:proactive", "no value"),
        ("ctcp:speed=9", "no setting 'speed'"),
        ("ctcp:k=16,k=32", "twice"),
        ("ctcp:k=many", "it takes 1 to 4096"),
        ("tcp-fec-interleave:r=0", "0.01 to 1"),
        ("tcp-fec:g=3", "belongs to group=interleaved, and group is bounded"),
        ("newreno:r=0.7", "belongs to cc=tcp-fec, and cc is newreno"),
        ("newreno:g=2", "group is not chosen"),
        ("lt-tcp:p=0.1", "belongs to loss=oracle"),
        ("lt-tcp:loss=oracle", "give it"),
        ("lt-tcp:code=xor", "policy=lt-tcp needs a code over blocks"),
        ("newreno:policy=auto", "rlc-window"),
        ("dfcp:policy=arq", "dfcp sends only coded ones"),
        ("dfcp:decoding=0", "no setting 'decoding'"),
        ("dfcp-raptorq:coding=0", "needs code=dfcp"),
        ("dfcp:persistent=1", "needs rate="),
        ("lt-tcp:kmin=200", "kmin is larger"),
        ("lt-tcp:kmax=250", "blocks of at most 224 source symbols, not 250: it has 255 symbols"),
        ("lt-tcp:rto_min=90", "rto_max is the largest"),
        ("tcp-fec:masked=1", "hide them twice"),
    ] {
        let refusal = refused(spec);
        assert!(refusal.contains(reason), "{spec}: {refusal}");
    }
    let long = format!("tcp-nc:rwnd={}1", "0".repeat(300));
    assert!(refused(&long).contains("255 fit"), "{}", refused(&long));
}

#[test]
fn text_and_builder_agree() {
    let built =
        ProfileBuilder::new("tcp-fec-interleave").unwrap().set("g", 2).unwrap().set("r", 0.8).unwrap();
    assert_eq!(built.build().unwrap().name, "tcp-fec-interleave:g=2,r=0.8");
    assert_eq!(
        Profile::parse(" tcp-fec-interleave : g = 2 , r=0.8,").unwrap().name,
        "tcp-fec-interleave:g=2,r=0.8"
    );
    assert_eq!("ctcp:".parse::<Profile>().unwrap().name, "ctcp");
}

/// Any text at all, and any settings of the list with any of a few values: a profile or a reason, never a
/// panic, and what is a profile is the same profile when read again.
#[test]
fn random_settings_are_a_profile_or_refused() {
    use proptest::prelude::*;
    let values = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "0.5",
        "7",
        "255",
        "1e9",
        "-1",
        "NaN",
        "inf",
        "",
        "auto",
        "rto",
        "oracle",
        "fixed",
        "window",
        "static",
        "xor",
        "raptorq",
        "rlc-window",
        "tcp-fec",
        "tcp-nc-adaptive",
        "fountain",
        "unlimited",
        "interleaved",
        "ecn-only",
    ]);
    let setting = (prop::sample::select(settings()), values)
        .prop_map(|(setting, value)| format!("{}={value}", setting.name));
    let spec = (prop::sample::select(profile_names()), prop::collection::vec(setting, 0..6))
        .prop_map(|(family, settings)| format!("{family}:{}", settings.join(",")));
    proptest!(|(spec in spec, noise in ".{0,40}")| {
        let _ = Profile::parse(&noise);
        if let Ok(profile) = Profile::parse(&spec) {
            prop_assert_eq!(&Profile::parse(&profile.name).expect("reads itself").name, &profile.name);
            let context = MakeContext::new(1200, 1);
            prop_assert!((profile.congestion)(&context).budget().window_bytes >= 2400);
            let _ = ((profile.loss)(&context), (profile.redundancy)(&context), (profile.sizing)(&context));
        }
    });
}

/// A path with nothing queued on which packets add nothing: the printed algorithm keeps R, the text's raises
/// it.
#[test]
fn both_readings_of_algorithm_1_run() {
    for (reading, expected) in [("printed", 0.1), ("text", 0.3)] {
        let profile = Profile::parse(&format!("tcp-nc-adaptive:reading={reading}")).expect("a profile");
        let mut policy = (profile.redundancy)(&MakeContext::new(1200, 1));
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.rtt = Some(Duration::from_millis(100));
        policy.on_feedback(&feedback, &PathView::unknown(1200));
        feedback.now = Instant::ZERO + Duration::from_millis(100);
        (feedback.round, feedback.coding.dof_delivered, feedback.coding.dof_redundant) = (1, 10, 2);
        feedback.coding.duplicate_acks = 2;
        policy.on_feedback(&feedback, &PathView::unknown(1200));
        assert!((policy.ratio() - expected).abs() < 1e-9, "{reading}: {}", policy.ratio());
    }
}

/// The settings that apply to a profile, as its page lists them.
fn table(profile: &str) -> String {
    let rows = settings().iter().filter_map(|setting| {
        let value = value(profile, setting.name)?;
        let Setting { name, kind, text, source, .. } = setting;
        Some(format!("| `{name}` | {value} | {kind} | {text} | {source} |\n"))
    });
    format!(
        "| setting | value | range | what | source |\n|---|---|---|---|---|\n{}",
        rows.collect::<String>()
    )
}

/// With `FULMAR_WRITE_DOCS` set it writes the tables.
#[test]
fn the_pages_tell_the_settings() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/profiles");
    for name in profile_names() {
        let path = folder.join(name).with_extension("md");
        let page = std::fs::read_to_string(&path).expect(name);
        let (prose, _) = page.split_once("\n## Settings\n").unwrap_or((&page, ""));
        let expected = format!("{}\n\n## Settings\n\n{}", prose.trim_end(), table(name));
        if std::env::var_os("FULMAR_WRITE_DOCS").is_some() {
            std::fs::write(&path, &expected).expect("a folder of ours");
        } else {
            assert_eq!(
                page, expected,
                "{name}: cargo test -p fulmar-proto pages with FULMAR_WRITE_DOCS=1 writes it"
            );
        }
    }
}

fn refused_by_engine_alone(spec: &str) -> String {
    let built = ProfileBuilder::parse_of(&ENGINE_ALONE, spec).and_then(ProfileBuilder::build);
    built.expect_err(spec).to_string()
}

/// Without the feature `systems`, whatever is asked for of them is refused and the refusal says why.
#[test]
fn the_engine_alone_refuses_the_systems_and_says_that_they_are_not_built_in() {
    let own = ["auto", "newreno", "cubic", "bbr", "reno"];
    for name in profile_names() {
        let built = ProfileBuilder::parse_of(&ENGINE_ALONE, name).and_then(ProfileBuilder::build);
        assert_eq!(built.is_ok(), own.contains(&name), "{name}");
    }
    for spec in
        ["lt-tcp", "dfcp:rate=9", "auto:cc=unlimited", "auto:code=raptorq", "reno:policy=tcp-nc", "auto:k=9"]
    {
        let reason = refused_by_engine_alone(spec);
        assert!(reason.contains("not built into this program"), "{spec}: {reason}");
    }
    assert!(!refused_by_engine_alone("cubic:iw=0").contains("not built"));
    assert!(!refused("vegas").contains("not built"), "nothing is left out here");
}

/// What the systems' parts say of the engine's settings: none is lost when parts are put together.
#[test]
fn the_engine_s_settings_are_taken_by_the_systems_rows() {
    let owners = |name: &str| {
        let setting = settings().iter().find(|setting| setting.name == name).expect(name);
        setting.belongs_to.map(|(_, words)| words.join(" ")).unwrap_or_default()
    };
    assert_eq!(owners("iw"), "cubic newreno reno ecn-only grow-only tcp-fec ctcp");
    assert_eq!(owners("sack"), "arq tcp-fec tcp-nc tcp-nc-adaptive");
    assert_eq!(owners("rescue"), "arq tcp-fec");
}

/// The table's names of codes are the registry's, by their numbers on the wire.
#[test]
fn codes_have_the_names_of_their_numbers() {
    let codes = code_ids();
    assert_eq!(codes.len(), fulmar_systems::codes::NAMES.len());
    for id in codes {
        let row = code_numbered(id).expect("listed");
        assert_eq!(row.name, fulmar_systems::codes::NAMES[usize::from(id.0)]);
        let code = fulmar_systems::codes::by_name(row.name, 32).expect("every code");
        let again = (row.from_parameters)(&code.parameters()).expect("its own parameters");
        assert_eq!(again.shape(), code.shape());
    }
}
