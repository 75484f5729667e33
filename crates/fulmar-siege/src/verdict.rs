//! What is counted, and what must not have happened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Complaints that are printed; more are counted.
const SHOWN: usize = 20;

/// Counts by name, and complaints.
#[derive(Debug, Default)]
pub(crate) struct Verdict(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: BTreeMap<String, u64>,
    complaints: Vec<String>,
    /// Of copies that arrived, in milliseconds.
    took_ms: Vec<u64>,
}

impl Verdict {
    /// Something that may happen has happened.
    pub(crate) fn count(&self, what: impl Into<String>) {
        *self.inner().counts.entry(what.into()).or_default() += 1;
    }

    /// A copy has arrived after so long.
    pub(crate) fn on_arrival(&self, took: Duration) {
        self.inner().took_ms.push(took.as_millis() as u64);
    }

    /// Something that must not happen has happened.
    pub(crate) fn complain(&self, what: impl Into<String>) {
        let what = what.into();
        eprintln!("BROKEN: {what}");
        self.inner().complaints.push(what);
    }

    pub(crate) fn is_fine(&self) -> bool {
        self.inner().complaints.is_empty()
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        for (what, count) in &inner.counts {
            writeln!(f, "{count:>8}  {what}")?;
        }
        let mut took_ms = inner.took_ms.clone();
        took_ms.sort_unstable();
        let share = |percent: usize| took_ms.get(took_ms.len() * percent / 100).map_or(0, |ms| *ms);
        writeln!(
            f,
            "{:>8}  copies that arrived: half within {} ms, 99 % within {} ms",
            took_ms.len(),
            share(50),
            share(99)
        )?;
        for complaint in inner.complaints.iter().take(SHOWN) {
            writeln!(f, "BROKEN    {complaint}")?;
        }
        writeln!(f, "{}", if inner.complaints.is_empty() { "held" } else { "DID NOT HOLD" })
    }
}
