//! What requests need.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;

use super::guard::Guard;
use crate::desk::board::Board;

/// The board, who may ask, and where things are.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) board: Arc<Board>,
    pub(crate) guard: Guard,
    /// Folder of experiment files.
    pub(crate) experiments: PathBuf,
    /// Folder of the report.
    pub(crate) report: PathBuf,
}

/// As requests get it.
pub(super) type Shared = State<Arc<Desk>>;
