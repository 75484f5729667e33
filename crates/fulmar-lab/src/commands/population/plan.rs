//! A table that is still to be filled, and how it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::super::progress::Bar;
use super::line::Line;
use super::page::Table;
use crate::experiment::on_all_cores;

/// A table that is still to be filled.
pub(super) struct Plan {
    pub(super) name: String,
    /// What its figures are.
    pub(super) about: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) seeds: u64,
}

/// Its rows.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
}

impl Plan {
    /// Runs every line with every seed, on all cores.
    pub(super) fn run(self, profile: &str) -> Result<Table, String> {
        let jobs: Vec<(usize, usize, u64)> = self
            .rows
            .iter()
            .enumerate()
            .flat_map(|(row, lines)| (0..lines.lines.len()).map(move |line| (row, line)))
            .flat_map(|(row, line)| (1..=self.seeds).map(move |seed| (row, line, seed)))
            .collect();
        let (bar, done) = (Mutex::new(Bar::new(&self.name)), AtomicU64::new(0));
        let found: Mutex<Vec<_>> = Mutex::new(Vec::new());
        on_all_cores(&jobs, |&(row, line, seed)| {
            let figures = self.rows[row].lines[line].run(profile, seed)?;
            found.lock().unwrap_or_else(PoisonError::into_inner).push(((row, line, seed), figures));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            bar.lock().unwrap_or_else(PoisonError::into_inner).show(done, jobs.len() as u64, "");
            Ok(())
        })?;
        bar.into_inner().unwrap_or_else(PoisonError::into_inner).end();
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(job, _)| *job);
        let cells = |row: usize| {
            let lines = self.rows[row].lines.iter().enumerate();
            lines.flat_map(|(number, line)| line.over_seeds(&of(&found, (row, number)))).collect()
        };
        let rows = (0..self.rows.len()).map(|row| (self.rows[row].name.clone(), cells(row))).collect();
        Ok(Table { name: self.name, about: self.about, columns: self.columns, rows })
    }
}

/// Row, line and seed of a run, and its figures.
type Found = ((usize, usize, u64), Vec<f64>);

/// The figures of a line, by seed.
fn of(found: &[Found], place: (usize, usize)) -> Vec<Vec<f64>> {
    let is_here = |&&((row, line, _), _): &&Found| (row, line) == place;
    found.iter().filter(is_here).map(|(_, figures)| figures.clone()).collect()
}
