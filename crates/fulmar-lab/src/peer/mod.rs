//! Other transports over the bridge: kcptun, NORM, QUIC, whatever a pair of commands can start.
//!
//! One small file describes each (`experiments/peers/NAME.toml`, see docs/lab.md): its commands, where its
//! output says the goodput, what has to be installed, and in words how it was configured. Commands may be
//! parametrised by a *choice*: `quinn:bbr` is the peer `quinn` whose commands find `bbr` in `$CHOICE`.
//!
//! These files are programs of this project: who writes one runs what it says. The choice is not: it comes
//! from experiment files and from the page. So it is a plain word, and commands get it in their environment;
//! no text of a command is made from it.

mod run;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_net::parse;
use serde::Deserialize;

pub use run::{PeerScenario, run};

/// A transport as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Name: that of the file without its ending.
    #[serde(skip)]
    pub name: String,
    /// Where the file is.
    #[serde(skip)]
    folder: PathBuf,
    /// For people.
    pub title: String,
    /// How it is configured, in words.
    pub configured: String,
    /// Programs that have to be there.
    #[serde(default)]
    programs: Vec<String>,
    /// Files that have to be there.
    #[serde(default)]
    files: Vec<PathBuf>,
    /// How to get them.
    install: String,
    /// What `$CHOICE` may be, the default first.
    #[serde(default)]
    pub choices: Vec<String>,
    /// Those are examples only.
    #[serde(default)]
    has_more_choices: bool,
    /// Made before the first run.
    build: Option<String>,
    /// Command line at the receiving end.
    server: String,
    /// Command line at the sending end. It ends by itself after `$DURATION` seconds.
    client: String,
    /// From the start of the server to that of the client.
    #[serde(default = "default_settle", deserialize_with = "duration")]
    settle: Duration,
    /// Where the figures are.
    result: Figures,
}

/// Where the figures are: in the last JSON object that one of the two printed, by JSON pointers (RFC 6901).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    from: Printer,
    mbps: Option<String>,
    bits_per_second: Option<String>,
    /// Bytes delivered to the application.
    bytes: Option<String>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Printer {
    Client,
    Server,
}

fn default_settle() -> Duration {
    Duration::from_millis(300)
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse::duration(&text).map_err(serde::de::Error::custom)
}

/// What commands once had filled in, and where they find it now.
const FILLED_IN_ONCE: [(&str, &str); 5] = [
    ("choice", "CHOICE"),
    ("seconds", "DURATION"),
    ("rate_mbps", "RATE_MBPS"),
    ("here", "HERE"),
    ("build", "BUILD"),
];

fn filled_in_once(line: &str) -> Option<(&'static str, &'static str)> {
    FILLED_IN_ONCE.into_iter().find(|(name, _)| line.contains(&format!("{{{name}}}")))
}

/// Whether a word means itself to every shell, and no option to any program.
fn is_plain_word(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:=,-".contains(c);
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.chars().all(is_plain)
}

/// Says what is wrong with a choice.
fn check_choice(choice: &str) -> Result<(), String> {
    if is_plain_word(choice) {
        return Ok(());
    }
    Err(format!(
        "the choice {choice:?} is no plain word: it begins with a letter or digit and has only letters, digits and _ . : = , -"
    ))
}

/// A peer with its choice made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPeer {
    /// The peer.
    pub peer: Peer,
    /// One of its choices; none if it has none.
    pub choice: Option<String>,
}

impl Peer {
    /// Reads the file of a peer.
    ///
    /// # Errors
    /// If there is none, or what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let words = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| words(&error))?;
        let mut peer: Self = toml::from_str(&text).map_err(|error| words(&error))?;
        if peer.result.mbps.is_some() == peer.result.bits_per_second.is_some() {
            return Err(words(&"[result] says either mbps or bits_per_second"));
        }
        peer.choices.iter().try_for_each(|choice| check_choice(choice)).map_err(|reason| words(&reason))?;
        let lines = [Some(&peer.server), Some(&peer.client), peer.build.as_ref()];
        if let Some(name) = lines.into_iter().flatten().find_map(|line| filled_in_once(line)) {
            return Err(words(&format!(
                "{{{}}} is no longer filled in: commands find it in their environment, \"${}\"",
                name.0, name.1
            )));
        }
        peer.name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        peer.folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        Ok(peer)
    }

    /// Every peer of a folder, by name.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be read.
    pub fn all(folder: &Path) -> Result<Vec<Self>, String> {
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    /// What is not installed; empty if everything is.
    pub fn missing(&self) -> Vec<String> {
        let folders: Vec<PathBuf> = crate::programs::search_path();
        let is_there = |program: &String| folders.iter().any(|folder| folder.join(program).is_file());
        let programs = self.programs.iter().filter(|program| !is_there(program)).cloned();
        let files = self.files.iter().filter(|file| !file.exists());
        programs.chain(files.map(|file| file.display().to_string())).collect()
    }

    /// Says what to do if something is not installed.
    ///
    /// # Errors
    /// In words for the person who wants to run it.
    pub fn check_installed(&self) -> Result<(), String> {
        let missing = self.missing();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("peer '{}' needs {}: {}", self.name, missing.join(", "), self.install))
    }
}

impl ChosenPeer {
    /// By `NAME` or `NAME:CHOICE` in a folder of peers.
    ///
    /// # Errors
    /// If there is no such peer or choice, or something is wrong with its file.
    pub fn find(folder: &Path, name: &str) -> Result<Self, String> {
        let (name, choice) =
            name.split_once(':').map_or((name, None), |(name, choice)| (name, Some(choice.to_owned())));
        if let Some(choice) = &choice {
            check_choice(choice).map_err(|reason| format!("peer '{}': {reason}", name.escape_debug()))?;
        }
        let path = folder.join(format!("{name}.toml"));
        if !is_plain_word(name) || !path.is_file() {
            let names: Vec<String> = Peer::all(folder)?.into_iter().map(|peer| peer.name).collect();
            return Err(format!("there is no peer {name:?}; there are {}", names.join(", ")));
        }
        let peer = Peer::read(&path)?;
        let is_unknown = |choice: &String| !peer.has_more_choices && !peer.choices.contains(choice);
        if choice.as_ref().is_some_and(is_unknown) {
            return Err(format!("peer '{name}' can be {}", peer.choices.join(", ")));
        }
        let choice = choice.or_else(|| peer.choices.first().cloned());
        Ok(Self { peer, choice })
    }

    /// `NAME` or `NAME:CHOICE`.
    pub fn label(&self) -> String {
        let name = &self.peer.name;
        self.choice.as_ref().map_or_else(|| name.clone(), |choice| format!("{name}:{choice}"))
    }

    /// How it is configured, with the choice filled in.
    pub fn configured(&self) -> String {
        self.peer.configured.replace("{choice}", self.choice.as_deref().unwrap_or(""))
    }

    /// Copies the peer's file to another folder, to be kept with results.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let file = format!("{}.toml", self.peer.name);
        std::fs::copy(self.peer.folder.join(&file), folder.join(&file)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "title = 't'\nconfigured = 'c'\ninstall = 'apt install x'\nchoices = ['a', 'b']\n\
        server = 's $CHOICE'\nclient = 'c $DURATION'\nsettle = '50ms'\n[result]\nfrom = 'client'\nmbps = '/m'\n";

    #[test]
    fn the_peers_of_this_project_are_in_order() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/peers");
        let peers = Peer::all(&folder).unwrap();
        let names: Vec<&str> = peers.iter().map(|peer| peer.name.as_str()).collect();
        for name in ["fulmar", "iperf3", "kcptun", "norm", "quinn"] {
            assert!(names.contains(&name), "{name} of {names:?}");
        }
        assert!(peers.iter().all(|peer| !peer.title.is_empty() && !peer.configured.is_empty()));
    }

    #[test]
    fn a_peer_is_found_with_its_choice() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.toml"), GOOD).unwrap();
        let found = |name: &str| ChosenPeer::find(folder.path(), name);
        assert_eq!(found("p").unwrap().label(), "p:a");
        let chosen = found("p:b").unwrap();
        assert_eq!((chosen.label().as_str(), chosen.peer.settle), ("p:b", Duration::from_millis(50)));
        assert!(found("p:c").unwrap_err().contains("can be a, b"));
        assert!(found("q").unwrap_err().contains("there are p"));
        assert!(found("../p").is_err());
    }

    /// The choice comes from files and pages of anybody: it is a word, whatever the peer takes.
    #[test]
    fn a_choice_is_a_plain_word() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.toml"), format!("has_more_choices = true\n{GOOD}")).unwrap();
        let found = |choice: &str| ChosenPeer::find(folder.path(), &format!("p:{choice}"));
        for good in ["c", "auto:rto_max=5,x=a-b", "1.5", "fec_dup"] {
            assert_eq!(found(good).unwrap().choice.as_deref(), Some(good));
        }
        for bad in [
            "",
            "auto$(id)",
            "`id`",
            "a;id",
            "a|id",
            "a&id",
            "a b",
            "a\tb",
            "a\nb",
            "'a'",
            "\"a\"",
            "$HOME",
            "*",
            "~",
            "-x",
            "a>b",
            "a<b",
            "a\\b",
            "{a,b}",
            "a/b",
            "a#b",
            "a!b",
            "é",
            "a\0b",
        ] {
            let reason = found(bad).unwrap_err();
            assert!(
                reason.starts_with("peer 'p': the choice") && !reason.contains('\n'),
                "{bad:?}: {reason}"
            );
        }
        for bad in ["p$(id):a", "p;id", "", ".", "..", "-p"] {
            assert!(ChosenPeer::find(folder.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn mistakes_in_a_file_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        for (good, bad, reason) in [
            ("mbps = '/m'", "", "either mbps or bits_per_second"),
            ("settle = '50ms'", "settle = 'soon'", "soon"),
            ("from = 'client'", "from = 'me'", "unknown variant"),
            ("title = 't'", "titel = 't'", "unknown field"),
            ("['a', 'b']", "['a', '$(id)']", "no plain word"),
            ("s $CHOICE", "s {choice}", "environment, \"$CHOICE\""),
        ] {
            std::fs::write(&path, GOOD.replace(good, bad)).unwrap();
            let mistake = Peer::read(&path).unwrap_err();
            assert!(mistake.contains("p.toml") && mistake.contains(reason), "{mistake}");
        }
    }

    #[test]
    fn what_is_not_installed_is_said_with_the_way_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, format!("programs = ['sh', 'no-such-program']\n{GOOD}")).unwrap();
        let peer = Peer::read(&path).unwrap();
        assert_eq!(peer.missing(), ["no-such-program"]);
        assert_eq!(peer.check_installed().unwrap_err(), "peer 'p' needs no-such-program: apt install x");
    }
}
