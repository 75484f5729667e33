//! Experiments: one file per table or figure, run cell by cell, kept so that an interrupted run goes on where
//! it was.

mod claim;
mod file;
mod key;
mod plan;
mod raw;
mod real;
mod results;
mod run;
mod shard;

pub use claim::{Claim, Finding, digits};
pub use file::{Experiment, FlowLine, Mistake, Plot, Published, plain_name};
pub use key::{COMMIT, RunKey, ScenarioHash};
pub use plan::{Cell, Task, cells, is_profile, kernel_congestion, peer_name, task};
pub(crate) use raw::RELATIVE;
pub use results::{Record, Results};
pub(crate) use run::on_all_cores;
pub use run::{Mode, Progress, run};
pub use shard::Shard;
