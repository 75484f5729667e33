//! Paths drawn at random.

use std::sync::{Mutex, PoisonError};

use fulmar_proto::Profile;

use super::super::progress::Bar;
use super::page::Table;
use crate::random::{self, Judged, Ranges, kinds};

/// The table's name.
pub(super) const NAME: &str = "Paths drawn at random";

/// Each seed draws other paths.
const SEEDS: [u64; 3] = [1, 3, 7];
const PATHS: u64 = 500;
const PATHS_QUICK: u64 = 100;

/// Runs them. A row for each seed, then one for each kind over all seeds.
pub(super) fn table(profile: &Profile, is_quick: bool) -> Result<Table, String> {
    let ranges = if is_quick { Ranges::quick() } else { Ranges::default() };
    let paths = if is_quick { PATHS_QUICK } else { PATHS };
    let mut all: Vec<Judged> = Vec::new();
    let mut rows = Vec::new();
    let bar = Mutex::new(Bar::new(NAME));
    let lock = || bar.lock().unwrap_or_else(PoisonError::into_inner);
    for (index, seed) in (0..).zip(SEEDS) {
        let total = paths * SEEDS.len() as u64;
        let found = random::run(profile, seed, paths, &ranges, &|done| {
            lock().show(index * paths + done as u64, total, "");
        })?;
        rows.extend(kinds(&found).into_iter().take(1).map(|kind| row(format!("seed {seed}"), &kind)));
        all.extend(found);
    }
    lock().end();
    rows.extend(kinds(&all).into_iter().map(|kind| row(kind.name.into(), &kind)));
    Ok(Table {
        name: NAME.into(),
        about: format!(
            "{paths} paths of each seed (`fulmar-lab random`): shares of (1 - p) x capacity x 0.955."
        ),
        columns: ["paths", "median", "10th percentile", "1st", "never connected", "queue drops > 2 %"]
            .map(Into::into)
            .into(),
        rows,
    })
}

fn row(name: String, kind: &random::Kind) -> (String, Vec<f64>) {
    let counts = |count: usize| count as f64;
    let values = vec![
        counts(kind.paths),
        kind.median,
        kind.tenth,
        kind.hundredth,
        counts(kind.unconnected),
        counts(kind.dropping),
    ];
    (name, values)
}
