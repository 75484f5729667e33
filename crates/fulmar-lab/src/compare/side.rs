//! One of the two that are compared, and how it runs an experiment.

use std::path::PathBuf;
use std::process::Command;

use crate::experiment::{self, Experiment, Mode, Progress, Results, Shard};

/// One of the two that are compared.
#[derive(Clone, Debug)]
pub enum Side {
    /// A profile of this program.
    Profile(String),
    /// A program `fulmar-lab`, perhaps of another commit.
    Program {
        /// What people call it.
        name: String,
        /// The executable.
        path: PathBuf,
    },
}

impl Side {
    /// What people call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Profile(name) | Self::Program { name, .. } => name,
        }
    }

    /// Runs an experiment file, as text, below a folder, and reads what came of it.
    ///
    /// # Errors
    /// In words, with the name of the side.
    pub fn run(
        &self,
        text: &str,
        folder: PathBuf,
        tell: &(dyn Fn(&Progress) + Sync),
    ) -> Result<Results, String> {
        let words = |reason: String| format!("{}: {reason}", self.name());
        match self {
            Self::Profile(profile) => in_process(&with_sender(text, profile)?, folder, tell).map_err(words),
            Self::Program { path, .. } => elsewhere(path, text, folder).map_err(words),
        }
    }
}

/// Paths drawn at random, and who goes over them where commits are compared.
#[derive(Clone, Debug)]
pub struct RandomPaths {
    /// How many.
    pub paths: u64,
    /// Of which seed.
    pub seed: u64,
    /// By which profile.
    pub profile: String,
}

impl Side {
    /// Runs random paths, and keeps them below a folder.
    ///
    /// # Errors
    /// In words, with the name of the side.
    pub fn run_random(&self, lot: &RandomPaths, folder: &std::path::Path) -> Result<Results, String> {
        let program = match self {
            Self::Profile(_) => std::env::current_exe().map_err(|error| error.to_string())?,
            Self::Program { path, .. } => path.clone(),
        };
        let profile = if let Self::Profile(name) = self { name } else { &lot.profile };
        let status = Command::new(&program)
            .args(["random", "--paths", &lot.paths.to_string(), "--seed", &lot.seed.to_string()])
            .args(["--profile", profile, "--out"])
            .arg(folder)
            .stdout(std::process::Stdio::null())
            .status()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        if !status.success() {
            return Err(format!(
                "{}: `fulmar-lab random` failed with {status}: is the commit too old?",
                self.name()
            ));
        }
        Results::read(folder.to_owned()).map_err(|error| error.to_string())
    }
}

/// The experiment with another sender in every flow.
fn with_sender(text: &str, sender: &str) -> Result<String, String> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    if let Some(sweep) = table.get_mut("sweep").and_then(toml::Value::as_table_mut) {
        sweep.remove("sender");
    }
    for flow in table.get_mut("flow").and_then(toml::Value::as_array_mut).into_iter().flatten() {
        if let Some(flow) = flow.as_table_mut() {
            flow.insert("sender".into(), sender.into());
        }
    }
    // Published figures belong to senders.
    table.remove("published");
    toml::to_string(&table).map_err(|error| error.to_string())
}

fn in_process(text: &str, folder: PathBuf, tell: &(dyn Fn(&Progress) + Sync)) -> Result<Results, String> {
    let experiment = Experiment::parse("compare.toml", text).map_err(|mistake| mistake.to_string())?;
    let mut results = Results::open(folder, text).map_err(|error| error.to_string())?;
    experiment::run(&experiment, Mode::Full, Shard::WHOLE, &mut results, tell)
        .map_err(|stopped| stopped.to_string())?;
    Ok(results)
}

/// The experiment by another program, which writes its results in the form that this one reads.
fn elsewhere(program: &std::path::Path, text: &str, folder: PathBuf) -> Result<Results, String> {
    let words = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&folder).map_err(words)?;
    let file = folder.join("compare.toml");
    std::fs::write(&file, text).map_err(words)?;
    let status = Command::new(program)
        .arg("run")
        .arg(&file)
        .arg("--out")
        .arg(&folder)
        .stdout(std::process::Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!("`fulmar-lab run` failed with {status}"));
    }
    Results::read(folder.join("compare")).map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_takes_the_place_of_every_sender() {
        let text = "title = 't'\nduration = '1s'\n[[flow]]\nsender = 'auto'\n[[flow]]\nsender = 'cubic'\n[sweep]\n\
            loss = ['1%', '2%']\nsender = ['auto', 'cubic']\n[[published]]\nat = { sender = 'auto' }\nvalue = 1.0\n";
        let changed = Experiment::parse("t.toml", &with_sender(text, "newreno").unwrap()).unwrap();
        assert_eq!(changed.flows.iter().map(|flow| flow.sender.as_str()).collect::<Vec<_>>(), ["newreno"; 2]);
        assert_eq!(experiment::cells(&changed).unwrap().len(), 2);
        assert!(changed.published.is_empty());
    }
}
