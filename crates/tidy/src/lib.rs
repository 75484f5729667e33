//! What the workspace looks like, for the rules in `tests/`: its files, its crates, and what each depends on.
//!
//! The rules are tests so that `cargo test` alone keeps them, in the manner of TigerBeetle's `tidy`.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/tidy lies two below the root")
        .to_owned()
}

/// Reads a file of the workspace by its path from the root.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every file below `folder` (from the root) whose name ends in `suffix`, as paths from the root, in order.
pub fn files(folder: &str, suffix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![root().join(folder)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.map(|e| e.expect("a readable folder")) {
            let path = entry.path();
            if path.is_dir() {
                if !matches!(entry.file_name().to_str(), Some("target" | ".git" | "node_modules")) {
                    open.push(path);
                }
            } else if path.to_string_lossy().ends_with(suffix) {
                let from_root = path.strip_prefix(root()).expect("below the root");
                found.insert(from_root.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// All Rust sources of the crates.
pub fn sources() -> BTreeSet<String> {
    files("crates", ".rs")
}

/// What the workspace's crates depend on, as cargo resolves it for this machine.
#[derive(Debug)]
pub struct Dependencies {
    /// Direct normal dependencies of each workspace crate on other workspace crates.
    pub inner: BTreeMap<String, BTreeSet<String>>,
    /// Everything that is not of this workspace.
    pub foreign: Vec<Foreign>,
}

/// A dependency from outside.
#[derive(Debug)]
pub struct Foreign {
    /// Name and version.
    pub name: String,
    /// Its licence expression (SPDX).
    pub licence: String,
    /// Where it comes from, as cargo names it.
    pub source: String,
}

impl Dependencies {
    /// Asks cargo.
    pub fn of_workspace() -> Self {
        let host = format!("{}-unknown-{}-gnu", std::env::consts::ARCH, std::env::consts::OS);
        let json = cargo(&["metadata", "--format-version=1", "--filter-platform", &host]);
        Self::from_metadata(&serde_json::from_str(&json).expect("cargo writes JSON"))
    }

    fn from_metadata(metadata: &serde_json::Value) -> Self {
        let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
        let packages = metadata["packages"].as_array().expect("packages");
        let (members, others): (Vec<_>, Vec<_>) = packages.iter().partition(|p| p["source"].is_null());
        let names: BTreeSet<String> = members.iter().map(|p| text(&p["name"])).collect();
        let inner = members.iter().map(|p| {
            let dependencies = p["dependencies"].as_array().expect("dependencies").iter();
            let normal = dependencies.filter(|d| d["kind"].is_null()).map(|d| text(&d["name"]));
            (text(&p["name"]), normal.filter(|d| names.contains(d)).collect())
        });
        let foreign = others.iter().map(|p| Foreign {
            name: format!("{} {}", text(&p["name"]), text(&p["version"])),
            licence: text(&p["license"]),
            source: text(&p["source"]),
        });
        Self { inner: inner.collect(), foreign: foreign.collect() }
    }
}

/// Everything that can end up in a program together with this crate: its normal dependencies, all the way
/// down, with the features they are built with (`cargo metadata` would also count optional ones that nobody
/// asked for).
pub fn reachable(package: &str) -> BTreeSet<String> {
    tree(package, &[])
}

/// The same, but for `pruned` and what only that needs.
pub fn reachable_without(package: &str, pruned: &str) -> BTreeSet<String> {
    let all = reachable(package);
    // cargo takes a name that is not there for a mistake.
    if all.contains(pruned) { tree(package, &["--prune", pruned]) } else { all }
}

fn tree(package: &str, more: &[&str]) -> BTreeSet<String> {
    let mut arguments =
        vec!["tree", "--package", package, "--edges=normal", "--prefix=none", "--format={lib}"];
    arguments.extend(more);
    cargo(&arguments)
        .lines()
        .map(|line| line.trim_end_matches(" (*)").trim().replace('_', "-"))
        .filter(|name| !name.is_empty())
        .collect()
}

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}
