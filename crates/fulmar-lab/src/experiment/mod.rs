//! Experiments: one file per table or figure, run cell by cell, kept so that an interrupted run goes on where
//! it was.

mod cell;
mod claim;
mod content;
mod definition;
mod file;
mod key;
mod limits;
mod plan;
mod provenance;
mod published;
mod raw;
mod real;
mod results;
mod run;
mod sender;
mod shard;
mod task;

pub use cell::Cell;
pub use claim::{Claim, Finding, digits, interval_digits, rounded};
pub use definition::{Curve, Experiment, FlowLine, Plot, plain_name};
pub use file::Mistake;
pub use key::{COMMIT, OurCode, RunKey, ScenarioHash};
pub use plan::{cells, task};
pub use provenance::Provenance;
pub use published::Published;
pub(crate) use raw::RELATIVE;
pub use results::{Record, Results};
pub(crate) use run::on_all_cores;
pub use run::{Mode, Progress, Stopped, keys, run};
pub use sender::{is_profile, kernel_congestion, peer_name};
pub use shard::Shard;
pub use task::Task;
