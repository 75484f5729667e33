//! What a result belongs to: the content of its scenario, and the commit of the program that ran it.
//!
//! A run is decided by the code that it runs. Auto's congestion controller runs where somebody sends with
//! it, the engine where Fulmar sends: cells without such a sender have a commit of their own, the last that
//! touched anything but these.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::definition::FlowLine;
use super::sender::{is_of_others, may_run_auto};
use super::{Cell, Experiment};

/// The commit this program is of, as far as it decides what a run does.
pub const COMMIT: &str = env!("FULMAR_COMMIT");
/// The same, as far as it decides what a run does in which nobody sends with auto's controller.
const COMMIT_WITHOUT_AUTO: &str = env!("FULMAR_COMMIT_WITHOUT_AUTO");
/// The same, as far as it decides what a run does in which only programs of others send.
const COMMIT_OF_LINKS: &str = env!("FULMAR_COMMIT_OF_LINKS");

/// Which code of this tree runs in a cell.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OurCode {
    /// The laboratory's links, over which programs of others send, or the kernel.
    Links,
    /// And the engine.
    Engine,
    /// And auto's congestion controller.
    Auto,
}

impl OurCode {
    /// All that there is.
    pub const ALL: [Self; 3] = [Self::Links, Self::Engine, Self::Auto];

    fn of_sender(sender: &str) -> Self {
        match sender {
            _ if is_of_others(sender) => Self::Links,
            _ if may_run_auto(sender) => Self::Auto,
            _ => Self::Engine,
        }
    }

    /// The commit that this program has of it.
    pub fn commit(self) -> &'static str {
        match self {
            Self::Links => COMMIT_OF_LINKS,
            Self::Engine => COMMIT_WITHOUT_AUTO,
            Self::Auto => COMMIT,
        }
    }
}

impl Experiment {
    /// Which commit decides what the runs of a cell do: results of another one are stale.
    pub fn commit(&self, cell: &Cell) -> &'static str {
        self.our_code(cell).commit()
    }

    /// Which code of this tree may run in a cell: what the sender with the most of it runs.
    pub(crate) fn our_code(&self, cell: &Cell) -> OurCode {
        let swept = cell.value("sender");
        let code = |flow: &FlowLine| match swept {
            Some(swept) if !flow.is_apart => OurCode::of_sender(swept),
            _ => OurCode::of_sender(&flow.sender),
        };
        self.flows.iter().map(code).max().unwrap_or(OurCode::Auto)
    }
}

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

    /// As it stands in a table; `None` of no words.
    pub fn read(words: &str) -> Option<Self> {
        (!words.is_empty()).then(|| Self(words.to_owned()))
    }

    /// The key of a run by a program of a commit.
    pub fn with(&self, commit: &str, seed: u64) -> RunKey {
        let hash = blake3::hash(format!("{} {commit} {seed}", self.0).as_bytes());
        RunKey(hash.to_hex()[..DIGITS].to_owned())
    }
}

impl fmt::Display for ScenarioHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

    /// Whatever is not known to be another sender counts as auto, wherever it is named; flows that stand
    /// apart send in every cell.
    #[test]
    fn a_change_of_autos_controller_concerns_cells_that_may_send_with_it() {
        let experiment = |apart: &str| {
            let flows = format!("[[flow]]\nsender = '{apart}'\napart = true\n[[flow]]\nsender = 'cubic'\n");
            let text = format!("title = 't'\nduration = '1s'\n{flows}");
            Experiment::parse("t.toml", &text).unwrap_or_else(|error| panic!("{text}: {}", error.reason))
        };
        let commit = |experiment: &Experiment, swept: Option<&str>| {
            let settings = swept.map(|sender| ("sender".into(), sender.into()));
            experiment.commit(&Cell { settings: settings.into_iter().collect() })
        };
        let others =
            ["newreno", "lt-tcp:loss=autoregressive", "tcp-nc-adaptive", "ctcp", "dfcp", "tcp-fec:r=0.7"];
        for other in others {
            assert_eq!(commit(&experiment(other), Some(other)), COMMIT_WITHOUT_AUTO, "{other}");
        }
        for auto in ["auto", "auto:packet=1200", "newreno:cc=auto", "auto:without=random-loss"] {
            assert_eq!(commit(&experiment(auto), Some("cubic")), COMMIT, "{auto}");
            assert_eq!(commit(&experiment("reno"), Some(auto)), COMMIT, "{auto}");
        }
    }

    /// A flow of Fulmar beside them makes the engine count.
    #[test]
    fn a_change_of_the_engine_concerns_no_cell_in_which_only_others_send() {
        let text = "title = 't'\nduration = '1s'\n[[flow]]\nsender = 'reno'\n";
        let mut experiment = Experiment::parse("t.toml", text).unwrap_or_else(|e| panic!("{}", e.reason));
        let cell = Cell { settings: Default::default() };
        for (sender, commit) in [
            ("tcp-cubic", COMMIT_OF_LINKS),
            ("tcp-bbr", COMMIT_OF_LINKS),
            ("peer-norm:fixed", COMMIT_OF_LINKS),
            ("peer-quinn", COMMIT_OF_LINKS),
            ("peer-fulmar", COMMIT),
            ("peer-fulmar:newreno", COMMIT),
            ("tcp-fec", COMMIT_WITHOUT_AUTO),
            ("nobody", COMMIT),
        ] {
            experiment.flows[0].sender = sender.into();
            assert_eq!(experiment.commit(&cell), commit, "{sender}");
        }
        let own = FlowLine { sender: "tcp-cubic".into(), ..experiment.flows[0].clone() };
        experiment.flows = vec![FlowLine { sender: "reno".into(), ..own.clone() }, own];
        assert_eq!(experiment.commit(&cell), COMMIT_WITHOUT_AUTO);
    }

    #[test]
    fn shards_share_about_equally() {
        let mut counts = [0; 8];
        let hash = ScenarioHash::of("x");
        (0..8000).for_each(|seed| counts[hash.with("c", seed).shard(8) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
