//! What a result belongs to: the content of its scenario, and the commit of the program that ran it.

use serde::{Deserialize, Serialize};

/// The commit this program is of, as far as it decides what a run does.
pub const COMMIT: &str = env!("FULMAR_COMMIT");

/// Hexadecimal digits of a hash that are kept: 96 bits.
const DIGITS: usize = 24;

/// A scenario by its content: two of the same hash are the same run, whatever their cells are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScenarioHash(String);

impl ScenarioHash {
    /// Of a scenario in full, in words.
    pub fn of(words: &str) -> Self {
        Self(blake3::hash(words.as_bytes()).to_hex()[..DIGITS].to_owned())
    }

    /// The key of a run by a program of a commit.
    pub fn with(&self, commit: &str, seed: u64) -> RunKey {
        let hash = blake3::hash(format!("{} {commit} {seed}", self.0).as_bytes());
        RunKey(hash.to_hex()[..DIGITS].to_owned())
    }
}

/// One run: scenario, commit and seed.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunKey(String);

impl RunKey {
    /// Which of so many shards the run belongs to: the same everywhere, whatever is done already.
    pub fn shard(&self, count: u64) -> u64 {
        u64::from_str_radix(&self.0[..12], 16).unwrap_or(0) % count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_content_commit_and_seed() {
        let (a, b) = (ScenarioHash::of("20 Mb/s, auto"), ScenarioHash::of("20 Mb/s, cubic"));
        assert_ne!(a, b);
        assert_eq!(a, ScenarioHash::of("20 Mb/s, auto"));
        let keys = [a.with("c1", 1), a.with("c1", 2), a.with("c2", 1), b.with("c1", 1)];
        let all: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn shards_share_about_equally() {
        let mut counts = [0; 8];
        let hash = ScenarioHash::of("x");
        (0..8000).for_each(|seed| counts[hash.with("c", seed).shard(8) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
