//! Experiments: one file per table or figure, run cell by cell, kept so that an interrupted run goes on where it was.

mod file;
mod plan;
mod real;
mod results;
mod run;

pub use file::{Experiment, FlowLine, Mistake, Plot, Published};
pub use plan::{Cell, Task, cells, is_profile, kernel_congestion, peer_name, task};
pub use results::{Record, Results};
pub(crate) use run::on_all_cores;
pub use run::{Mode, Progress, run};
