//! What everybody in the siege knows.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::Clock;
use crate::late::Late;
use crate::verdict::Verdict;

/// The program that is besieged, where, and how it stands.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) verdict: Verdict,
    pub(crate) clock: Clock,
    pub(crate) late: Late,
    is_over: AtomicBool,
}

impl Field {
    /// A siege of this program, in this folder.
    pub(crate) fn new(program: PathBuf, folder: PathBuf) -> Self {
        let clock = Clock::new(&folder);
        Self {
            program,
            folder,
            verdict: Verdict::default(),
            clock,
            late: Late::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// It ends.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Nothing new is begun any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
