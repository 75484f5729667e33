//! What is to hold of an application's numbers.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Cell;

/// A measure by one way, or its ratio to that by another, lies between bounds wherever the link is as said.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// In words.
    pub says: String,
    /// Which number.
    pub measure: String,
    /// By which way.
    #[serde(default = "fulmar")]
    pub way: String,
    /// Relative to which way.
    pub over: Option<String>,
    /// Settings of the link; what is not named may be anything.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Not below.
    pub min: Option<f64>,
    /// Not above.
    pub max: Option<f64>,
}

fn fulmar() -> String {
    "fulmar".into()
}

/// How a bound fared in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The link.
    pub link: String,
    /// The number that is bounded.
    pub value: f64,
    /// Whether it is within.
    pub holds: bool,
}

impl Bound {
    /// The ways it speaks of.
    pub fn ways(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.way).chain(&self.over)
    }

    /// Every cell it speaks of that was measured.
    pub fn judge(&self, cells: &[Cell], number: impl Fn(&Cell, &str) -> Option<f64>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for cell in cells.iter().filter(|cell| cell.way == self.way && self.is_about(cell)) {
            let Some(mut value) = number(cell, &self.measure) else { continue };
            if let Some(over) = &self.over {
                let other = Cell { way: over.clone(), ..cell.clone() };
                let Some(base) = number(&other, &self.measure).filter(|base| *base > 0.0) else { continue };
                value /= base;
            }
            let holds = self.min.is_none_or(|min| value >= min) && self.max.is_none_or(|max| value <= max);
            findings.push(Finding { link: cell.link_label(), value, holds });
        }
        findings
    }

    fn is_about(&self, cell: &Cell) -> bool {
        self.at.iter().all(|(key, value)| cell.link.get(key) == Some(value))
    }
}
