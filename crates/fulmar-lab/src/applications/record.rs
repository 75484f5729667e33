//! What was found, kept as it comes: a line of JSON for each run, so that an interrupted sweep goes on where
//! it was.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Application, Cell, Way};

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Of the program's file, the way's and the link: a run of other commands is another run.
    pub key: String,
    /// The application.
    pub application: String,
    /// The way.
    pub way: String,
    /// The link.
    pub link: BTreeMap<String, String>,
    /// Seed of the link's draws.
    pub seed: u64,
    /// What the client printed.
    pub measures: BTreeMap<String, f64>,
    /// What went wrong, in words; empty if nothing did.
    pub failed: String,
    /// The machine kept the link's times.
    pub valid: bool,
    /// How late one packet in a hundred left, in milliseconds.
    pub lateness_p99_ms: f64,
    /// What `fulmar --version` and the commit said, for those who repeat it.
    pub commit: String,
}

impl Record {
    /// Whether it is of this cell.
    pub fn is_of(&self, cell: &Cell) -> bool {
        self.application == cell.application && self.way == cell.way && self.link == cell.link
    }
}

/// What tells runs apart.
pub(super) fn key(application: &Application, way: &Way, cell: &Cell, megabytes: u32, seed: u64) -> String {
    let words = format!("{}\0{}\0{:?}\0{megabytes}\0{seed}", application.words, way.words, cell.link);
    blake3::hash(words.as_bytes()).to_hex()[..16].to_owned()
}

/// The file of all runs.
#[derive(Debug)]
pub struct Book {
    path: PathBuf,
    /// In the order in which they were made, of equal ones the last.
    pub records: Vec<Record>,
}

impl Book {
    /// Opens the book of a folder, which is made if it is not there. Half a line at the end, of a run that
    /// was cut off, is left out.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("runs.jsonl");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut records: Vec<Record> = Vec::new();
        for record in text.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok()) {
            records.retain(|earlier| earlier.key != record.key);
            records.push(record);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            let mut file = OpenOptions::new().append(true).open(&path)?;
            file.write_all(b"\n")?;
        }
        Ok(Self { path, records })
    }

    /// Whether this run was made.
    pub fn has(&self, key: &str) -> bool {
        self.records.iter().any(|record| record.key == key)
    }

    /// Forgets a run that failed or that the machine could not carry, and says whether it was one.
    pub fn forget_doubtful(&mut self, key: &str) -> bool {
        let before = self.records.len();
        self.records.retain(|record| record.key != key || (record.valid && record.failed.is_empty()));
        self.records.len() < before
    }

    /// Keeps a run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, record: Record) -> io::Result<()> {
        let line = serde_json::to_string(&record).map_err(io::Error::other)?;
        let mut file: File = OpenOptions::new().create(true).append(true).open(&self.path)?;
        writeln!(file, "{line}")?;
        self.records.retain(|earlier| earlier.key != record.key);
        self.records.push(record);
        Ok(())
    }
}
