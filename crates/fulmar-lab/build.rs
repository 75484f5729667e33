//! Tells the program which commit it is of: a result is a function of scenario, seed and commit, and says so.
//!
//! What counts is the last commit that touched what decides a run: a change of the documentation or of a
//! report leaves results good. So does one that was shown to change no run, by `scripts/same-results`, and
//! says so in a line of its message. `FULMAR_COMMIT` overrules.
//!
//! A run is decided by the code that it runs, so there are three commits. Where programs of others send, and
//! the kernel's TCP, only the laboratory's links and what drives them are of this tree. Where Fulmar sends,
//! the engine and the simulator are too, and auto's controller where it may send.

use std::process::Command;

/// What decides what every run does.
const LINKS: &[&str] = &[
    "../fulmar-units/src",
    "../fulmar-net/src",
    "../fulmar-relay/src",
    "src/tcp",
    "src/bridge",
    "src/peer",
    "src/link",
    "src/traffic.rs",
    "src/scenario.rs",
    "src/meter.rs",
    "src/outcome.rs",
    "src/outcome",
];

/// And where Fulmar sends.
const ENGINE: &[&str] = &[
    "../fulmar-gf/src",
    "../fulmar-fec/src",
    "../fulmar-control/src",
    "../fulmar-profile/src",
    "../fulmar-systems/src",
    "../fulmar-proto/src",
    "src/sim",
];

/// What only a sender of `cc=auto` runs.
const ONLY_OF_AUTO: &str = ":(exclude)../fulmar-control/src/congestion/auto";

/// What a commit says that was shown to change no run.
const SAME_RESULTS: &str = "^Same-results: scripts/same-results ";

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit(paths: &[&str]) -> Option<String> {
    if let Ok(given) = std::env::var("FULMAR_COMMIT") {
        return Some(given);
    }
    let with_paths = |words: &[&str]| git(&[words, &["--"], paths].concat());
    let log = ["log", "-1", "--abbrev=12", "--format=%h", "--invert-grep", "--grep", SAME_RESULTS];
    let commit = with_paths(&log).filter(|hash| !hash.is_empty())?;
    let is_changed = with_paths(&["status", "--porcelain"]).is_some_and(|list| !list.is_empty());
    Some(if is_changed { format!("{commit}-changed") } else { commit })
}

fn main() {
    println!("cargo::rerun-if-env-changed=FULMAR_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let all = [LINKS, ENGINE].concat();
    all.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    let without_auto = [&all[..], &[ONLY_OF_AUTO]].concat();
    let paths = [
        ("FULMAR_COMMIT", &all[..]),
        ("FULMAR_COMMIT_WITHOUT_AUTO", &without_auto),
        ("FULMAR_COMMIT_OF_LINKS", LINKS),
    ];
    for (name, paths) in paths {
        println!("cargo::rustc-env={name}={}", commit(paths).unwrap_or_else(|| "unknown".into()));
    }
    // A page that is built after the program was is put into it with the next build.
    println!("cargo::rerun-if-changed=../../dashboard/dist");
}
