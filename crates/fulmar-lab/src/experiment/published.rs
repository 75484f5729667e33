//! Published figures.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::cell::Cell;

/// A published figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The cell: values of the sweep. What is not named may be anything.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// The figure.
    pub value: Option<f64>,
}

impl Published {
    /// Whether it belongs to a cell.
    pub fn matches(&self, cell: &Cell) -> bool {
        self.at.iter().all(|(key, value)| cell.value(key) == Some(value))
    }
}
