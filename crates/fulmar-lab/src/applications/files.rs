//! What the files of applications and of ways say.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulmar_net::parse;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Bound;
use crate::programs::search_path;

/// A program, and what is measured of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// That of the file without its ending.
    #[serde(skip)]
    pub name: String,
    /// The file.
    #[serde(skip)]
    pub(super) words: String,
    /// For people.
    pub title: String,
    /// What it does, in words.
    pub does: String,
    /// What it needs of the way: `proxy`, `forward`, `udp`, `run`, `tun`.
    pub needs: Vec<String>,
    /// Programs that have to be there.
    #[serde(default)]
    programs: Vec<String>,
    /// How to get them.
    #[serde(default)]
    install: String,
    /// Ports at the far end that a forward is made for.
    #[serde(default)]
    pub ports: Vec<String>,
    /// Made before anything else, at the far end; a run waits for its end.
    #[serde(default)]
    pub prepare: String,
    /// What runs at the far end; it is ended with the run.
    #[serde(default)]
    pub server: String,
    /// What runs at the near end. Its last line of output is an object of numbers.
    pub client: String,
    /// How long the client may take; it is told in `$LIMIT`.
    #[serde(default = "two_minutes", deserialize_with = "duration")]
    pub limit: Duration,
    /// Numbers that are shown.
    #[serde(rename = "measure")]
    pub measures: Vec<Measure>,
    /// Links other than those all programs are tried over, in the words of experiments.
    #[serde(default)]
    pub links: Vec<std::collections::BTreeMap<String, String>>,
    /// Ways other than all.
    #[serde(default)]
    pub ways: Vec<String>,
    /// What is to hold.
    #[serde(default, rename = "bound")]
    pub bounds: Vec<Bound>,
}

/// A number the client prints.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Its key.
    pub name: String,
    /// For people, with the unit.
    pub title: String,
}

/// How connections get across.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// That of the file without its ending.
    #[serde(skip)]
    pub name: String,
    /// The file.
    #[serde(skip)]
    pub(super) words: String,
    /// For people.
    pub title: String,
    /// How it is set, in words.
    pub configured: String,
    /// What programs can do over it.
    pub offers: Vec<String>,
    /// Programs that have to be there.
    #[serde(default)]
    programs: Vec<String>,
    /// How to get them.
    #[serde(default)]
    install: String,
    /// Set for the program: `$HOST` above all, where it finds the far end's ports.
    pub environment: std::collections::BTreeMap<String, String>,
    /// Runs at the far end before the program's server.
    #[serde(default)]
    pub server: String,
    /// Runs at the near end before the program's client.
    #[serde(default)]
    pub client: String,
}

fn two_minutes() -> Duration {
    Duration::from_secs(120)
}

fn duration<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse::duration(&text).map_err(serde::de::Error::custom)
}

impl Application {
    /// Why it cannot run here, if it cannot.
    pub fn missing(&self) -> Option<String> {
        missing(&self.programs, &self.install)
    }

    /// Whether a way carries it.
    pub fn goes_by(&self, way: &Way) -> bool {
        let is_named = self.ways.is_empty() || self.ways.contains(&way.name);
        is_named && self.needs.iter().all(|need| way.offers.contains(need))
    }
}

impl Way {
    /// Why it cannot be taken here, if it cannot.
    pub fn missing(&self) -> Option<String> {
        missing(&self.programs, &self.install)
    }
}

fn missing(programs: &[String], install: &str) -> Option<String> {
    let folders = search_path();
    let is_there = |program: &&String| folders.iter().any(|folder| folder.join(program).is_file());
    let missing: Vec<&str> =
        programs.iter().filter(|program| !is_there(program)).map(String::as_str).collect();
    (!missing.is_empty()).then(|| format!("needs {} ({install})", missing.join(", ")))
}

/// Every application and every way of a folder, by name, each as it stands.
pub(super) fn read(folder: &Path) -> Result<(Vec<Application>, Vec<Way>), String> {
    let applications = read_all(folder)?.into_iter();
    let applications: Vec<Application> =
        applications.map(|(name, words, read)| Application { name, words, ..read }).collect();
    let ways = read_all(&folder.join("ways"))?.into_iter();
    let ways: Vec<Way> = ways.map(|(name, words, read)| Way { name, words, ..read }).collect();
    Ok((applications, ways))
}

/// Name, text and meaning of every file of a folder.
fn read_all<T: DeserializeOwned>(folder: &Path) -> Result<Vec<(String, String, T)>, String> {
    let words = |path: &Path, reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let entries = std::fs::read_dir(folder).map_err(|error| words(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| words(path, &error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = toml::from_str(&text).map_err(|error| words(path, &error))?;
        Ok((name, text, read))
    };
    paths.iter().map(read).collect()
}
