//! Where results come from: program, machine, seeds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::ScenarioHash;

/// The machine that a run was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The kernel, with its release.
    pub kernel: String,
}

impl Machine {
    /// This one, as far as it tells.
    pub(super) fn here() -> &'static Self {
        static HERE: std::sync::LazyLock<Machine> = std::sync::LazyLock::new(Machine::look);
        &HERE
    }

    fn look() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let processor = named(&read("/proc/cpuinfo"), &["model name", "Hardware", "CPU part"]);
        let release = read("/proc/sys/kernel/osrelease");
        let kernel = format!("{} {}", std::env::consts::OS, release.trim());
        Self {
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.into()),
            kernel: kernel.trim().into(),
        }
    }
}

/// The first of these names that a text of `name : value` lines has.
fn named(text: &str, names: &[&str]) -> Option<String> {
    let value = |name: &&str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|own| own.trim() == *name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    names.iter().find_map(value)
}

/// Where a row of a table comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The commit of the program.
    pub commit: Option<String>,
    /// What was run; tables that were written before they said it have none.
    pub scenario: Option<ScenarioHash>,
    /// The seeds: `1-10`, or `1 3 7`.
    pub seeds: String,
    /// The processors, where more than one by semicolons.
    pub processor: String,
    /// The kernels.
    pub kernel: String,
}

impl Provenance {
    /// Of runs of a scenario by a commit, each with its seed and its machine.
    pub(super) fn of<'a>(
        commit: Option<&str>,
        scenario: &ScenarioHash,
        runs: impl Iterator<Item = (u64, &'a Machine)>,
    ) -> Self {
        let (seeds, machines): (BTreeSet<u64>, BTreeSet<&Machine>) = runs.unzip();
        let words = |of: fn(&Machine) -> &str| {
            let all: BTreeSet<&str> = machines.iter().map(|machine| of(machine)).collect();
            all.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("; ")
        };
        Self {
            commit: commit.map(str::to_owned),
            scenario: commit.map(|_| scenario.clone()),
            seeds: in_short(&seeds),
            processor: words(|machine| &machine.processor),
            kernel: words(|machine| &machine.kernel),
        }
    }
}

fn in_short(seeds: &BTreeSet<u64>) -> String {
    match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if last - first + 1 == seeds.len() as u64 && first < last => {
            format!("{first}-{last}")
        }
        _ => seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_two_machines_name_both() {
        let w = ScenarioHash::of("w");
        let [a, b] = ["a", "b"].map(|name| Machine { processor: name.into(), kernel: "linux 6.1".into() });
        let all = Provenance::of(Some("c"), &w, [(1, &a), (2, &b), (3, &a)].into_iter());
        assert_eq!(
            (all.seeds.as_str(), all.processor.as_str(), all.kernel.as_str()),
            ("1-3", "a; b", "linux 6.1")
        );
        let one = Provenance::of(None, &w, [(1, &a), (4, &a)].into_iter());
        assert_eq!((one.seeds.as_str(), one.processor.as_str()), ("1 4", "a"));
        assert_eq!(named("x: 1\nmodel name\t: Fast 3000\n", &["y", "model name"]), Some("Fast 3000".into()));
    }
}
