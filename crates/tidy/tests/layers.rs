//! The order of the crates (design: "dependencies point up this list, and never back"), and a core without
//! I/O.

use std::collections::BTreeSet;

use tidy::{Dependencies, files, read};

/// Each crate and all that it may use of the workspace: the list of ARCHITECTURE.md, no more and no less.
const LAYERS: &[(&str, &[&str])] = &[
    ("fulmar-units", &[]),
    ("fulmar-gf", &[]),
    ("fulmar-fec", &["fulmar-gf"]),
    ("fulmar-control", &["fulmar-units"]),
    ("fulmar-carry", &[]),
    ("fulmar-preload", &["fulmar-carry"]),
    ("fulmar-net", &["fulmar-units"]),
    ("fulmar-profile", &["fulmar-control", "fulmar-fec"]),
    ("fulmar-systems", &["fulmar-control", "fulmar-fec", "fulmar-gf", "fulmar-profile", "fulmar-units"]),
    (
        "fulmar-proto",
        &["fulmar-control", "fulmar-fec", "fulmar-gf", "fulmar-profile", "fulmar-systems", "fulmar-units"],
    ),
    (
        "fulmar-world",
        &["fulmar-net", "fulmar-proto", "fulmar-control", "fulmar-fec", "fulmar-systems", "fulmar-units"],
    ),
    ("fulmar", &["fulmar-proto"]),
    ("fulmar-c", &["fulmar", "fulmar-proto"]),
    ("fulmar-relay", &["fulmar-net", "fulmar-units"]),
    ("fulmar-cli", &["fulmar", "fulmar-carry", "fulmar-net", "fulmar-relay", "fulmar-units"]),
    ("fulmar-lab", &["fulmar", "fulmar-cli", "fulmar-net", "fulmar-proto", "fulmar-relay", "fulmar-world"]),
    ("fulmar-siege", &["fulmar", "fulmar-cli", "fulmar-net", "fulmar-units"]),
    ("tidy", &[]),
];

/// No I/O, no clock, no global random numbers, no threads in these.
const CORE: &[&str] = &[
    "fulmar-units",
    "fulmar-gf",
    "fulmar-fec",
    "fulmar-control",
    "fulmar-profile",
    "fulmar-systems",
    "fulmar-net",
    "fulmar-proto",
];

/// Crates that bring sockets, clocks, threads or a global random generator. (aws-lc, ring and rustls are
/// allowed: the engine drives their QUIC interface, which has neither; the keys they make are the one thing
/// that must not be repeatable.)
const NOT_IN_THE_CORE: &[&str] = &[
    "async-io",
    "async-std",
    "chrono",
    "coarsetime",
    "crossbeam",
    "crossbeam-channel",
    "fastrand",
    "futures-timer",
    "instant",
    "libc",
    "mio",
    "nix",
    "num_cpus",
    "parking_lot",
    "polling",
    "quanta",
    "quinn-udp",
    "rand",
    "rayon",
    "rustix",
    "smol",
    "socket2",
    "threadpool",
    "time",
    "tokio",
    "web-time",
    "windows-sys",
];

#[test]
fn crates_depend_only_on_layers_below() {
    let dependencies = Dependencies::of_workspace();
    let known: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for (name, inner) in &dependencies.inner {
        assert!(known.contains(name.as_str()), "{name} has no place in the list of layers");
        let (_, allowed) = LAYERS.iter().find(|(n, _)| n == name).expect("known");
        for dep in inner {
            assert!(allowed.contains(&dep.as_str()), "{name} must not depend on {dep}");
        }
    }
}

#[test]
fn the_core_has_no_sockets_clocks_or_threads_below_it() {
    for name in CORE {
        // Ciphers ask the system what the processor can do, and for randomness: aws-lc in C, where this test
        // does not see it, and ring through libc.
        let reachable = tidy::reachable_without(name, "ring");
        assert!(reachable.contains(*name), "cargo tree prints {name} itself: {reachable:?}");
        for dep in reachable {
            assert!(!NOT_IN_THE_CORE.contains(&dep.as_str()), "{name} reaches {dep}");
        }
    }
}

/// What tests and measurements live in is no part of what people install.
#[test]
fn the_program_ships_without_the_worlds_of_its_tests() {
    let (lab, program) = (tidy::reachable("fulmar-lab"), tidy::reachable("fulmar-cli"));
    assert!(lab.contains("fulmar-world"), "or this test would see nothing");
    for name in ["fulmar-world", "fulmar-lab"] {
        assert!(!program.contains(name), "fulmar-cli reaches {name}");
    }
}

/// clippy reads the nearest `clippy.toml`, so each crate of the core has its own copy of the ban, and all are
/// equal.
#[test]
fn the_core_is_linted_against_clocks() {
    let first = read("crates/fulmar-gf/clippy.toml");
    assert!(first.contains("std::time::Instant::now") && first.contains("std::net::UdpSocket"));
    for name in CORE {
        assert!(
            read(&format!("crates/{name}/clippy.toml")) == first,
            "{name}/clippy.toml differs from fulmar-gf's"
        );
    }
}

#[test]
fn every_crate_keeps_the_workspace_lints() {
    for manifest in files("crates", "Cargo.toml") {
        let text = read(&manifest);
        // A workspace of its own keeps its own rules.
        let is_apart = text.contains("\n[workspace]\n");
        assert!(is_apart || text.contains("[lints]\nworkspace = true"), "{manifest} leaves the lints");
    }
}

/// Field kernels need `unsafe`; nothing else in the core does.
#[test]
fn unsafe_code_is_forbidden_outside_the_kernels() {
    for name in CORE.iter().filter(|n| **n != "fulmar-gf") {
        let lib = read(&format!("crates/{name}/src/lib.rs"));
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{name} does not forbid unsafe code");
    }
}

#[test]
fn dependencies_are_from_the_registry_and_permissively_licensed() {
    let allowed: BTreeSet<String> = read("deny.toml")
        .split("allow = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .expect("deny.toml lists licences")
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    assert!(allowed.contains("MIT"));
    for dep in Dependencies::of_workspace().foreign {
        assert_eq!(dep.source, "registry+https://github.com/rust-lang/crates.io-index", "{}", dep.name);
        assert!(
            is_allowed(&dep.licence, &allowed),
            "{}: licence {:?} is not in deny.toml",
            dep.name,
            dep.licence
        );
    }
}

/// SPDX in the small: `OR` (or its old spelling `/`) binds weaker than `AND`; parentheses appear only around
/// `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let term = |t: &str| {
        t.trim_matches(|c| "() ".contains(c))
            .replace('/', " OR ")
            .split(" OR ")
            .any(|l| allowed.contains(l.trim()))
    };
    if expression.contains('(') || !expression.contains(" AND ") {
        expression.split(" AND ").all(term)
    } else {
        expression.split(" OR ").any(|side| side.split(" AND ").all(term))
    }
}

/// The laboratory keeps results of other senders when auto's controller changes (`fulmar-lab/build.rs`): it
/// is made where `cc=auto` is read, and in the small worlds of tests.
#[test]
fn only_senders_of_auto_run_its_controller() {
    let folder = "crates/fulmar-control/src/congestion/";
    let own = format!("{folder}auto/");
    let namers: Vec<String> = tidy::sources()
        .into_iter()
        .filter(|path| path.contains("/src/") && !path.starts_with(&own) && !path.starts_with("crates/tidy/"))
        .filter(|path| {
            let text = read(path);
            let is_named = |line: &str| line.contains("Auto::new(") || line.contains("auto::{");
            text.lines().any(is_named)
        })
        .collect();
    let expected = [
        "crates/fulmar-control/src/congestion/mod.rs",
        "crates/fulmar-proto/src/profile/engine.rs",
        "crates/fulmar-world/src/swarm/recombine.rs",
    ];
    assert_eq!(namers, expected);
    let exported = read(&format!("{folder}mod.rs"));
    assert!(exported.contains("\nmod auto;\n") && exported.contains("\npub use auto::{Auto, Mechanism};\n"));
}
