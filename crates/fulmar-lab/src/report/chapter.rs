//! One experiment with what was measured: a row for each cell, and how its claims fared.

use std::collections::BTreeMap;

use super::command::command;
use super::row::Row;
use crate::experiment::{
    Cell, Claim, Experiment, Finding, Mode, Provenance, RELATIVE, Results, ScenarioHash, cells, task,
};
use crate::outcome::Outcome;
use crate::statistics::Summary;

/// An experiment and its results.
#[derive(Debug)]
pub struct Chapter {
    /// What was run.
    pub experiment: Experiment,
    /// What came of it, in the order of the sweep.
    pub rows: Vec<Row>,
    /// How each of its claims fared.
    pub findings: Vec<(Claim, Finding)>,
    /// The first run of each cell, for values over time.
    pub(super) firsts: Vec<Option<Outcome>>,
    /// What a run of each cell is, as the experiment's file of today has it.
    scenarios: Vec<ScenarioHash>,
}

impl Chapter {
    /// Reads the results of every cell.
    ///
    /// # Errors
    /// If the experiment cannot be run (any more).
    pub fn new(experiment: Experiment, results: &Results) -> Result<Self, String> {
        let mode = Mode::of_name(&experiment.name);
        let (cells, scenarios) = (mode.cells(&experiment)?, scenarios(&experiment, mode)?);
        let (mut rows, mut firsts) = (Vec::new(), Vec::new());
        for (cell, hash) in cells.iter().zip(&scenarios) {
            let own = experiment.commit(cell);
            firsts.push(results.outcomes(own, hash).first().map(|outcome| (*outcome).clone()));
            let row = blank(&experiment, cell);
            let provenance = results.provenance(own, hash);
            let summary = |measure: &String| results.summary(&experiment, cell, hash, measure);
            let measured = experiment.measures.iter().map(summary).collect();
            rows.push(Row { measured, provenance, ..row });
        }
        Ok(Self::judged(experiment, rows, firsts, scenarios))
    }

    /// From a table that was kept; cells that are not in it were not measured.
    ///
    /// # Errors
    /// If it is no such table.
    pub fn from_csv(experiment: Experiment, text: &str) -> Result<Self, String> {
        let table = super::table::read(&experiment, text)?;
        let row = |cell: &Cell| {
            let (measured, provenance) = table.get(&cell.label()).cloned().unwrap_or_default();
            Row { measured, provenance, ..blank(&experiment, cell) }
        };
        let rows: Vec<Row> = cells(&experiment)?.iter().map(row).collect();
        let (firsts, scenarios) = (vec![None; rows.len()], scenarios(&experiment, Mode::Full)?);
        Ok(Self::judged(experiment, rows, firsts, scenarios))
    }

    /// Takes over the cells that a kept table of the same experiment knows better: more runs of the same
    /// scenario by this engine, or stale ones where there is nothing else.
    pub fn complete_by(&mut self, kept: Self) {
        let experiment = &self.experiment;
        let runs = |row: &Row, scenario: &ScenarioHash| {
            let is_good = row.provenance.scenario.is_some() && !is_stale(experiment, row, scenario);
            (if is_good { row.runs() } else { 0 }, row.runs())
        };
        let own_rows = self.rows.iter_mut().zip(&mut self.firsts).zip(&self.scenarios);
        for (((row, first), scenario), other) in own_rows.zip(kept.rows) {
            if runs(&other, scenario) > runs(row, scenario) {
                (*row, *first) = (other, None);
            }
        }
        relate(&self.experiment, &mut self.rows);
        self.settle(self.findings(&[]));
    }

    /// As a table: a line for each cell.
    ///
    /// # Errors
    /// Never, but for memory.
    pub fn to_csv(&self) -> Result<String, csv::Error> {
        super::table::write(&self.experiment, &self.rows)
    }

    fn judged(
        experiment: Experiment,
        mut rows: Vec<Row>,
        firsts: Vec<Option<Outcome>>,
        scenarios: Vec<ScenarioHash>,
    ) -> Self {
        relate(&experiment, &mut rows);
        let mut chapter = Self { experiment, rows, findings: Vec::new(), firsts, scenarios };
        chapter.settle(chapter.findings(&[]));
        chapter
    }

    /// Results of another engine, or of what the experiment was before it was changed, say nothing of this
    /// one: they are stale, and no claim is judged by them.
    pub fn only_of_today(&mut self) {
        for (row, scenario) in self.rows.iter_mut().zip(&self.scenarios) {
            row.is_stale = is_stale(&self.experiment, row, scenario);
        }
        self.settle(self.findings(&[]));
    }

    /// Whether any of its rows is of another engine, or of another scenario.
    pub fn is_stale(&self) -> bool {
        self.rows.iter().any(|row| row.is_stale)
    }

    /// Judges those that are set against another experiment, now that all are there.
    pub fn judge_together(chapters: &mut [Self]) {
        let findings: Vec<_> = chapters.iter().map(|chapter| chapter.findings(chapters)).collect();
        chapters.iter_mut().zip(findings).for_each(|(chapter, findings)| chapter.settle(findings));
    }

    fn findings(&self, others: &[Self]) -> Vec<(Claim, Finding)> {
        let Experiment { claims, published, measures, .. } = &self.experiment;
        let cells: Vec<Cell> = self.rows.iter().map(Row::as_cell).collect();
        let summary = |place: Option<&str>, cell: &Cell, measure: &str| match place {
            None => self.summary(cell, measure),
            Some(name) => others.iter().find(|other| other.experiment.name == name)?.summary(cell, measure),
        };
        let judge = |claim: &Claim| claim.judge(&cells, published, &measures[0], summary);
        claims.iter().map(|claim| (claim.clone(), judge(claim))).collect()
    }

    fn summary(&self, cell: &Cell, measure: &str) -> Option<Summary> {
        let row = self.rows.iter().find(|row| row.as_cell() == *cell && !row.is_stale)?;
        let index = self.experiment.measures.iter().position(|name| name == measure)?;
        let summary = (*row.measured.get(index)?)?;
        // The first of several runs says nothing yet of how they scatter.
        let is_first = summary.n == 1 && self.experiment.repetitions > 1;
        let is_full = Mode::of_name(&self.experiment.name) == Mode::Full;
        let ci95 = if is_first && is_full { f64::INFINITY } else { summary.ci95 };
        Some(Summary { ci95, ..summary })
    }

    /// Keeps what was found, and marks the rows in which a claim does not hold.
    fn settle(&mut self, findings: Vec<(Claim, Finding)>) {
        for row in &mut self.rows {
            let here = format!("{}: ", row.as_cell().label());
            row.is_outside = findings.iter().any(|(_, finding)| {
                matches!(finding, Finding::Fails(places) if places.iter().any(|place| place.starts_with(&here)))
            });
        }
        self.findings = findings;
    }

    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        self.rows.iter().any(|row| row.measured.iter().any(Option::is_some))
    }

    /// The commits its rows come from.
    pub fn commits(&self) -> Vec<&str> {
        let mut all: Vec<&str> =
            self.rows.iter().filter_map(|row| row.provenance.commit.as_deref()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Claims that do not hold, in words.
    pub fn outside_bounds(&self) -> impl Iterator<Item = String> {
        self.findings.iter().filter_map(|(claim, finding)| match finding {
            Finding::Fails(places) => {
                Some(format!("{}: {}: {}", self.experiment.name, claim.says, places.join("; ")))
            }
            _ => None,
        })
    }
}

fn scenarios(experiment: &Experiment, mode: Mode) -> Result<Vec<ScenarioHash>, String> {
    let hash = |cell: &Cell| Ok(task(experiment, cell, mode.duration(experiment))?.hash());
    mode.cells(experiment)?.iter().map(hash).collect()
}

/// Whether a row is of another engine than this one, or of another scenario than its cell is today.
fn is_stale(experiment: &Experiment, row: &Row, scenario: &ScenarioHash) -> bool {
    let Provenance { commit, scenario: measured, .. } = &row.provenance;
    let own = experiment.commit(&row.as_cell());
    commit.as_deref().is_some_and(|commit| commit != own)
        || measured.as_ref().is_some_and(|measured| measured != scenario)
}

fn blank(experiment: &Experiment, cell: &Cell) -> Row {
    Row {
        published: experiment.published.iter().find(|p| p.matches(cell)).and_then(|p| p.value),
        command: command(experiment, cell),
        cell: cell.settings.iter().cloned().collect(),
        ..Row::default()
    }
}

/// Fills in what is relative to another cell's goodput.
fn relate(experiment: &Experiment, rows: &mut [Row]) {
    let place = |name: &str| experiment.measures.iter().position(|measure| measure == name);
    let (Some(target), Some(goodput), Some(reference)) =
        (place(RELATIVE), place("goodput_mbps"), &experiment.reference)
    else {
        return;
    };
    let mean = |rows: &[Row], cell: &BTreeMap<String, String>| {
        let row = rows.iter().find(|row| row.cell == *cell)?;
        Some(row.measured.get(goodput)?.as_ref()?.mean)
    };
    for index in 0..rows.len() {
        let mut ample = rows[index].cell.clone();
        ample.extend(reference.clone());
        let ratio = mean(rows, &rows[index].cell).zip(mean(rows, &ample)).map(|(own, ample)| own / ample);
        if let Some(slot) = rows[index].measured.get_mut(target) {
            *slot = ratio.and_then(|ratio| Summary::of(&[ratio]));
        }
    }
}
