//! What is counted, and what must not have happened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Complaints that are printed; more are counted.
const SHOWN: usize = 20;

/// Counts by name, and complaints.
#[derive(Debug, Default)]
pub(crate) struct Verdict(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    counts: BTreeMap<String, u64>,
    complaints: Vec<String>,
}

impl Verdict {
    /// Something that may happen has happened.
    pub(crate) fn count(&self, what: impl Into<String>) {
        *self.inner().counts.entry(what.into()).or_default() += 1;
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
        for complaint in inner.complaints.iter().take(SHOWN) {
            writeln!(f, "BROKEN    {complaint}")?;
        }
        writeln!(f, "{}", if inner.complaints.is_empty() { "held" } else { "DID NOT HOLD" })
    }
}
