//! Results on disk: `NAME/runs.jsonl`, a line per run, beside a copy of the experiment. Lines are added as runs end, so what
//! is there is whole but for a last line cut short, which is ignored.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Cell, Experiment};
use crate::outcome::Outcome;
use crate::statistics::{Summary, without_outliers};

/// The file of runs in a folder of results.
const RUNS: &str = "runs.jsonl";

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// What was run: the experiment's cell in full ([`super::Task::words`]).
    pub words: String,
    /// The cell's settings.
    pub cell: BTreeMap<String, String>,
    /// What came of it.
    pub outcome: Outcome,
}

/// The runs of one experiment.
#[derive(Debug)]
pub struct Results {
    folder: PathBuf,
    /// By words and seed: the run that counts.
    records: BTreeMap<(String, u64), Record>,
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

    /// Removes the runs that are in a folder; that there are none is no error.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn forget(folder: &Path) -> io::Result<()> {
        match fs::remove_file(folder.join(RUNS)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads results that are there.
    ///
    /// # Errors
    /// If the file cannot be read; that there is none is no error.
    pub fn read(folder: PathBuf) -> io::Result<Self> {
        let text = match fs::read_to_string(folder.join(RUNS)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut results = Self { folder, records: BTreeMap::new() };
        for record in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            results.insert(record);
        }
        Ok(results)
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn insert(&mut self, record: Record) {
        let key = (record.words.clone(), record.outcome.seed);
        // A valid run is not replaced by an invalid one.
        if record.outcome.valid || !self.records.get(&key).is_some_and(|r| r.outcome.valid) {
            self.records.insert(key, record);
        }
    }

    /// Adds a run, on disk first.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: Record) -> io::Result<()> {
        let mut file: File = OpenOptions::new().create(true).append(true).open(self.folder.join(RUNS))?;
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        self.insert(record);
        Ok(())
    }

    /// The valid run of these words and this seed.
    pub fn get(&self, words: &str, seed: u64) -> Option<&Record> {
        self.records.get(&(words.to_owned(), seed)).filter(|record| record.outcome.valid)
    }

    /// The valid outcomes of a cell, in the order of seeds.
    pub fn outcomes(&self, words: &str) -> impl Iterator<Item = &Outcome> {
        let of_cell = self.records.range((words.to_owned(), 0)..=(words.to_owned(), u64::MAX));
        of_cell.map(|(_, record)| &record.outcome).filter(|outcome| outcome.valid)
    }

    /// Every valid run.
    pub fn valid(&self) -> impl Iterator<Item = &Record> {
        self.records.values().filter(|record| record.outcome.valid)
    }

    /// The same runs as if they were all of one cell.
    pub fn without_cells(&self) -> Self {
        let mut records = self.records.clone();
        records.values_mut().for_each(|record| record.cell.clear());
        Self { folder: self.folder.clone(), records }
    }

    /// What was measured in a cell.
    pub fn summary(&self, experiment: &Experiment, words: &str, measure: &str) -> Option<Summary> {
        let values: Vec<f64> = self.outcomes(words).filter_map(|outcome| outcome.measure(measure)).collect();
        let kept = if experiment.drops_outliers { without_outliers(&values) } else { values };
        Summary::of(&kept)
    }
}

impl Record {
    /// A run of a cell.
    pub fn new(words: String, cell: &Cell, outcome: Outcome) -> Self {
        Self { words, cell: cell.settings.iter().cloned().collect(), outcome }
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
            results.add(Record::new("w".into(), &cell, outcome(seed, valid))).unwrap();
        }
        let path = place.join(RUNS);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 20]).unwrap();
        let again = Results::read(place).unwrap();
        let seeds: Vec<u64> = again.outcomes("w").map(|outcome| outcome.seed).collect();
        assert_eq!(seeds, [1], "2 was invalid, 3 was cut short");
        assert!(again.get("w", 1).is_some() && again.get("w", 2).is_none() && again.get("v", 1).is_none());
        Results::forget(again.folder()).unwrap();
        Results::forget(again.folder()).unwrap();
        assert_eq!(Results::read(again.folder().to_owned()).unwrap().valid().count(), 0);
    }
}
