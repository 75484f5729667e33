//! A row of a table: one cell of an experiment, and what was measured there.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::{Cell, Provenance};
use crate::statistics::Summary;

/// One cell.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// The cell's settings.
    pub cell: BTreeMap<String, String>,
    /// For each measure, in the order of the experiment, what was found.
    pub measured: Vec<Option<Summary>>,
    /// The published value of the first measure.
    pub published: Option<f64>,
    /// A claim does not hold here.
    pub is_outside: bool,
    /// Where it comes from.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// That is another engine than the one that is reported on, or another scenario: what was measured is
    /// shown, and counts as absent.
    pub is_stale: bool,
    /// The command of one run like this, where there is one.
    pub command: Option<String>,
}

impl Row {
    /// How many runs there are.
    pub(super) fn runs(&self) -> usize {
        self.measured.iter().flatten().map(|summary| summary.n).max().unwrap_or(0)
    }

    /// The cell by itself.
    pub(super) fn as_cell(&self) -> Cell {
        Cell { settings: self.cell.iter().map(|(key, value)| (key.clone(), value.clone())).collect() }
    }
}
