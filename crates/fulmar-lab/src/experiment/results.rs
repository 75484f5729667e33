//! Results on disk: `NAME/runs.jsonl`, a line per run, beside a copy of the experiment; parts of a shared
//! experiment have files of their
//! own beside it, `runs-I-of-N.jsonl`. Lines are added as runs end, so what is there is whole but for a last
//! line cut short,
//! which is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::provenance::{Machine, Provenance};
use super::{Cell, Experiment, OurCode, RunKey, ScenarioHash, Shard};
use crate::outcome::Outcome;
use crate::statistics::{Summary, without_outliers};

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Content hash of scenario, commit and seed.
    #[serde(default)]
    pub key: RunKey,
    /// Content hash of the scenario.
    #[serde(default)]
    pub scenario: ScenarioHash,
    /// The commit of the program that ran it.
    #[serde(default)]
    pub commit: String,
    /// The machine it ran on.
    #[serde(flatten)]
    machine: Machine,
    /// The scenario in full: what programs wrote that knew no hashes.
    #[serde(default, skip_serializing)]
    words: String,
    /// The cell's settings.
    pub cell: BTreeMap<String, String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// The runs of one experiment.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
    shard: Shard,
    /// The run that counts of each key.
    records: BTreeMap<RunKey, Record>,
    /// Commits, in the order in which they were first met: of several the last speaks.
    commits: Vec<String>,
}

/// The files of runs in a folder, in the order of their names; a folder that is not there has none.
pub(crate) fn run_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let is_of_runs = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("runs") && name.ends_with(".jsonl")
    };
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_of_runs).collect();
    files.sort();
    Ok(files)
}

impl Results {
    /// Opens the results of an experiment, or begins them, and keeps the experiment's text beside them.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn open(folder: PathBuf, experiment_text: &str) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("experiment.toml"), experiment_text)?;
        Self::read(folder)
    }

    /// Adds to the file of a part from now on. A line that was cut short there is closed, so that the next is
    /// whole.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn of_shard(mut self, shard: Shard) -> io::Result<Self> {
        self.shard = shard;
        let path = self.folder.join(shard.file_name());
        let is_cut = fs::read(&path).is_ok_and(|text| text.last().is_some_and(|byte| *byte != b'\n'));
        if is_cut {
            OpenOptions::new().append(true).open(path)?.write_all(b"\n")?;
        }
        Ok(self)
    }

    /// Removes the runs that are in a folder; that there are none is no error.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn forget(folder: &Path) -> io::Result<()> {
        run_files(folder)?.iter().try_for_each(fs::remove_file)
    }

    /// Reads results that are there.
    ///
    /// # Errors
    /// If a file cannot be read; that there is none is no error.
    pub fn read(folder: PathBuf) -> io::Result<Self> {
        let files = run_files(&folder)?;
        let mut results = Self { folder, shard: Shard::WHOLE, records: BTreeMap::new(), commits: Vec::new() };
        for file in files {
            let text = fs::read_to_string(file)?;
            text.lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .for_each(|record| results.insert(record));
        }
        Ok(results)
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn insert(&mut self, mut record: Record) {
        if record.key == RunKey::default() {
            record.scenario = ScenarioHash::of(&record.words);
            record.key = record.scenario.with(&record.commit, record.outcome.seed);
        }
        if !self.commits.contains(&record.commit) {
            self.commits.push(record.commit.clone());
        }
        // A valid run is not replaced by an invalid one.
        if record.outcome.valid || !self.records.get(&record.key).is_some_and(|r| r.outcome.valid) {
            self.records.insert(record.key.clone(), record);
        }
    }

    /// Adds a run, on disk first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: Record) -> io::Result<()> {
        let path = self.folder.join(self.shard.file_name());
        let mut file: File = OpenOptions::new().create(true).append(true).open(path)?;
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        self.insert(record);
        Ok(())
    }

    /// The commit that speaks for a scenario: the one that decides its cell (`own`) if it has run it,
    /// otherwise the one met last.
    fn commit<'a>(&'a self, own: &'a str, scenario: &ScenarioHash) -> Option<&'a str> {
        let has = |commit: &str| {
            let mut all = self.records.values();
            all.any(|r| r.scenario == *scenario && r.commit == commit && r.outcome.valid)
        };
        let later = self.commits.iter().rev().map(String::as_str);
        std::iter::once(own).chain(later).find(|commit| has(commit))
    }

    /// The valid outcomes of a scenario by the commit that speaks for it ([`Experiment::commit`] if that ran
    /// it), in the order of seeds.
    pub fn outcomes(&self, own: &str, scenario: &ScenarioHash) -> Vec<&Outcome> {
        let commit = self.commit(own, scenario);
        let of_cell = |r: &&Record| r.scenario == *scenario && Some(r.commit.as_str()) == commit;
        let mut found: Vec<&Outcome> = self.valid().filter(of_cell).map(|record| &record.outcome).collect();
        found.sort_by_key(|outcome| outcome.seed);
        found
    }

    /// Where the outcomes of a scenario come from.
    pub fn provenance(&self, own: &str, scenario: &ScenarioHash) -> Provenance {
        let commit = self.commit(own, scenario);
        let of_cell = |r: &&Record| r.scenario == *scenario && Some(r.commit.as_str()) == commit;
        Provenance::of(commit, scenario, self.valid().filter(of_cell).map(|r| (r.outcome.seed, &r.machine)))
    }

    /// The commits of all runs, by which code of this tree may have run in them: one program has one for
    /// each.
    pub fn commits(&self, experiment: &Experiment) -> BTreeSet<(OurCode, &str)> {
        let of = |record: &Record| experiment.our_code(&record.as_cell());
        self.records.values().map(|record| (of(record), record.commit.as_str())).collect()
    }

    /// Whether the run of this key is there and valid.
    pub fn has(&self, key: &RunKey) -> bool {
        self.records.get(key).is_some_and(|record| record.outcome.valid)
    }

    /// Into how many parts the work was shared, as the names of the files say.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn parts(&self) -> io::Result<u64> {
        let files = run_files(&self.folder)?;
        let count = |path: &PathBuf| {
            let stem = path.file_stem()?.to_string_lossy().into_owned();
            stem.rsplit_once("-of-")?.1.parse::<u64>().ok()
        };
        Ok(files.iter().filter_map(count).max().unwrap_or(1))
    }

    /// Every run.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// Whether a run, or a valid one in its place, is there.
    pub fn contains(&self, record: &Record) -> bool {
        self.records.get(&record.key).is_some_and(|own| own.outcome.valid || !record.outcome.valid)
    }

    /// Makes one file of those of parts; says how many runs came from parts.
    ///
    /// # Errors
    /// If files cannot be written or removed.
    pub fn gather(&mut self) -> io::Result<usize> {
        let own = self.folder.join(Shard::WHOLE.file_name());
        let parts: Vec<PathBuf> = run_files(&self.folder)?.into_iter().filter(|path| *path != own).collect();
        if parts.is_empty() {
            return Ok(0);
        }
        let before = if own.is_file() { fs::read_to_string(&own)?.lines().count() } else { 0 };
        let mut text = String::new();
        for record in self.records.values() {
            text.push_str(&serde_json::to_string(record)?);
            text.push('\n');
        }
        // Complete or not there: under another name first.
        let partial = self.folder.join("partial");
        fs::write(&partial, text)?;
        fs::rename(&partial, &own)?;
        parts.iter().try_for_each(fs::remove_file)?;
        Ok(self.records.len().saturating_sub(before))
    }

    /// Every valid run.
    pub fn valid(&self) -> impl Iterator<Item = &Record> {
        self.records.values().filter(|record| record.outcome.valid)
    }

    /// The same runs as if they were all of one cell.
    pub fn without_cells(&self) -> Self {
        let mut records = self.records.clone();
        records.values_mut().for_each(|record| record.cell.clear());
        Self { records, ..self.clone() }
    }

    /// What was measured in a cell, which is this scenario.
    pub fn summary(
        &self,
        experiment: &Experiment,
        cell: &Cell,
        scenario: &ScenarioHash,
        measure: &str,
    ) -> Option<Summary> {
        let all = self.outcomes(experiment.commit(cell), scenario);
        let values: Vec<f64> = all.into_iter().filter_map(|outcome| outcome.measure(measure)).collect();
        // The rule is about times; of a yes or no none lies outside.
        let drops = experiment.drops_outliers && measure != "completed";
        let kept = if drops { without_outliers(&values) } else { values };
        Summary::of(&kept)
    }
}

impl Record {
    /// A run of a cell by a program of this commit.
    pub fn new(commit: &str, scenario: ScenarioHash, cell: &Cell, outcome: Outcome) -> Self {
        let key = scenario.with(commit, outcome.seed);
        Self {
            key,
            scenario,
            commit: commit.into(),
            cell: cell.settings.iter().cloned().collect(),
            machine: Machine::here().clone(),
            words: String::new(),
            outcome,
        }
    }

    /// Its cell by itself.
    fn as_cell(&self) -> Cell {
        Cell { settings: self.cell.clone().into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_survive_and_a_line_cut_short_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x");
        let cell = Cell { settings: vec![("loss".into(), "5%".into())] };
        let outcome = |seed, valid| Outcome { seed, valid, goodput_mbps: seed as f64, ..Outcome::default() };
        let mut results = Results::open(place.clone(), "title = 'x'").unwrap();
        for (seed, valid) in [(1, true), (2, false), (1, false), (3, true)] {
            results.add(Record::new("c", ScenarioHash::of("w"), &cell, outcome(seed, valid))).unwrap();
        }
        let path = place.join("runs.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let again = Results::read(place).unwrap();
        let seeds: Vec<u64> =
            again.outcomes("c", &ScenarioHash::of("w")).iter().map(|outcome| outcome.seed).collect();
        assert_eq!(seeds, [1], "2 was invalid, 3 was cut short");
        let has = |words, seed| again.has(&ScenarioHash::of(words).with("c", seed));
        assert!(has("w", 1) && !has("w", 2) && !has("v", 1));
        Results::forget(again.folder()).unwrap();
        Results::forget(again.folder()).unwrap();
        assert_eq!(Results::read(again.folder().to_owned()).unwrap().valid().count(), 0);
    }
}
