//! Tells the program which commit it is of: a result is a function of scenario, seed and commit, and says so.
//!
//! What counts is the last commit that touched what decides a run, the engine and the simulator: a change of
//! the documentation or of a report leaves results good. `FULMAR_COMMIT` overrules.
//!
//! Where nobody sends with auto's controller, nothing in its folder is run: those runs have a commit of their
//! own.

use std::process::Command;

/// What decides what a run does, from this crate.
const DECISIVE: &[&str] = &[
    "../fulmar-units/src",
    "../fulmar-gf/src",
    "../fulmar-fec/src",
    "../fulmar-control/src",
    "../fulmar-profile/src",
    "../fulmar-systems/src",
    "../fulmar-net/src",
    "../fulmar-proto/src",
    "src/sim",
    "src/tcp",
    "src/bridge",
    "src/peer",
    "../fulmar-relay/src",
    "src/link",
    "src/traffic.rs",
    "src/scenario.rs",
    "src/meter.rs",
    "src/outcome.rs",
    "src/outcome",
];

/// What only a sender of `cc=auto` runs.
const ONLY_OF_AUTO: &str = ":(exclude)../fulmar-control/src/congestion/auto";

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn commit(but: &[&str]) -> Option<String> {
    if let Ok(given) = std::env::var("FULMAR_COMMIT") {
        return Some(given);
    }
    let with_paths = |words: &[&str]| git(&[words, &["--"], DECISIVE, but].concat());
    let commit = with_paths(&["log", "-1", "--abbrev=12", "--format=%h"]).filter(|hash| !hash.is_empty())?;
    let is_changed = with_paths(&["status", "--porcelain"]).is_some_and(|list| !list.is_empty());
    Some(if is_changed { format!("{commit}-changed") } else { commit })
}

fn main() {
    println!("cargo::rerun-if-env-changed=FULMAR_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    DECISIVE.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    for (name, but) in [("FULMAR_COMMIT", &[][..]), ("FULMAR_COMMIT_WITHOUT_AUTO", &[ONLY_OF_AUTO])] {
        println!("cargo::rustc-env={name}={}", commit(but).unwrap_or_else(|| "unknown".into()));
    }
    // A page that is built after the program was is put into it with the next build.
    println!("cargo::rerun-if-changed=../../dashboard/dist");
}
