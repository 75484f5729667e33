//! Runs on disk: a folder for each, with `run.json` (what was run, and how it ended), `experiment.toml`, and
//! the transfers and samples as lines of JSON, which are added when a transfer ends.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::board::record::Record;
use super::experiment;
use super::types::{RunSummary, Sample, Spec, Status, Transfer};

const RUN: &str = "run.json";
const TRANSFERS: &str = "transfers.jsonl";
const SAMPLES: &str = "samples.jsonl";
/// Runs that are read at the start: the newest.
const RUNS_MAX: usize = 2000;

/// The folder of all runs.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct OnDisk {
    summary: RunSummary,
    spec: Spec,
}

impl Store {
    /// Opens the folder, or makes it.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn run_folder(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// Every run that can be read. One that was under way has failed with the program.
    pub(crate) fn all(&self) -> Vec<Record> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        folders.sort();
        let newest = folders.split_off(folders.len().saturating_sub(RUNS_MAX));
        newest.iter().filter_map(|folder| self.read(folder)).collect()
    }

    fn read(&self, folder: &Path) -> Option<Record> {
        let text = fs::read_to_string(folder.join(RUN)).ok()?;
        let OnDisk { mut summary, spec } = serde_json::from_str(&text).ok()?;
        // A folder that was renamed by hand is none of ours: its links would lead nowhere.
        if folder.file_name()?.to_str()? != summary.id {
            return None;
        }
        let transfers: Vec<Transfer> = lines(&folder.join(TRANSFERS), 0, usize::MAX);
        if !summary.status.is_over() {
            summary.status = Status::Failed;
            summary.error = Some("the controller ended before this run did".into());
            summary.progress.done = transfers.len() as u32;
            summary.steps = 0;
        }
        Some(Record::of_disk(summary, spec, transfers))
    }

    /// Makes the folder of a run.
    pub(crate) fn begin(&self, record: &Record) -> Result<(), String> {
        let folder = self.run_folder(&record.summary.id);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // A path that an experiment file cannot hold has none.
        if let Ok(text) = experiment::write(&record.spec) {
            fs::write(folder.join("experiment.toml"), text).map_err(|error| error.to_string())?;
        }
        self.save(record)
    }

    /// Writes what was run, and how it is.
    pub(crate) fn save(&self, record: &Record) -> Result<(), String> {
        let on_disk = OnDisk { summary: record.summary.clone(), spec: record.spec.clone() };
        let text = serde_json::to_string_pretty(&on_disk).map_err(|error| error.to_string())?;
        let folder = self.run_folder(&record.summary.id);
        let written = || {
            let mut new = tempfile::NamedTempFile::new_in(&folder)?;
            new.write_all(text.as_bytes())?;
            new.persist(folder.join(RUN)).map_err(|error| error.error)?;
            io::Result::Ok(())
        };
        written().map_err(|error| format!("{}: {error}", folder.display()))
    }

    /// Adds the transfers and samples that are new.
    pub(crate) fn append(&self, record: &mut Record) -> Result<(), String> {
        let folder = self.run_folder(&record.summary.id);
        let samples = record.samples().unwrap_or_default();
        let count = samples.len();
        let added = || {
            add(&folder.join(TRANSFERS), &record.transfers[record.transfers_saved..])?;
            add(&folder.join(SAMPLES), &samples[record.samples_saved.min(count)..])
        };
        added().map_err(|error| format!("{}: {error}", folder.display()))?;
        (record.transfers_saved, record.samples_saved) = (record.transfers.len(), count);
        Ok(())
    }

    /// Samples of a run from the `from`-th on.
    pub(crate) fn samples(&self, id: &str, from: usize, count_max: usize) -> Vec<Sample> {
        lines(&self.run_folder(id).join(SAMPLES), from, count_max)
    }

    /// Removes a run.
    pub(crate) fn remove(&self, id: &str) -> Result<(), String> {
        match fs::remove_dir_all(self.run_folder(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

fn add<T: Serialize>(path: &Path, items: &[T]) -> io::Result<()> {
    let mut text = Vec::new();
    for item in items {
        serde_json::to_writer(&mut text, item)?;
        text.push(b'\n');
    }
    OpenOptions::new().create(true).append(true).open(path)?.write_all(&text)
}

/// Lines of a file that can be read; one that was cut short is left out.
fn lines<T: DeserializeOwned>(path: &Path, from: usize, count_max: usize) -> Vec<T> {
    let Ok(file) = fs::File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok).skip(from).take(count_max);
    lines.filter_map(|line| serde_json::from_str(&line).ok()).collect()
}

/// A time of the calendar (UTC) in digits that sort: `20261122-023000`. By Howard Hinnant's
/// `civil_from_days`.
pub(crate) fn calendar(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::spec::{checked, tests::spec};
    use crate::desk::types::Ending;

    #[test]
    fn days_of_the_calendar() {
        for (unix_s, day) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_795_314_600, "20261122-023000"),
            (4_107_542_399, "21000228-235959"),
        ] {
            assert_eq!(calendar(unix_s), day);
        }
    }

    #[test]
    fn a_run_is_there_after_the_program_was_and_one_under_way_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("desk")).unwrap();
        let mut record = Record::new("20261122-023000-1".into(), 0, checked(spec()).unwrap(), None);
        store.begin(&record).unwrap();
        record.transfers.push(Transfer {
            flow: 1,
            transfer: 0,
            seed: 1,
            status: Ending::Complete,
            error: None,
            received_bytes: 5,
            time_s: 1.0,
            goodput_mbps: 2.0,
            wire_ratio: None,
            lost_packets: 0,
            offered_packets: 0,
            repair_packets: 0,
        });
        store.append(&mut record).unwrap();
        let [again] = &store.all()[..] else { panic!("one run") };
        assert_eq!((again.summary.status, &again.transfers), (Status::Failed, &record.transfers));
        assert_eq!(again.spec, record.spec);
        assert!(folder.path().join("desk/20261122-023000-1/experiment.toml").exists());
        store.remove("20261122-023000-1").unwrap();
        store.remove("20261122-023000-1").unwrap();
        assert!(store.all().is_empty());
    }
}
