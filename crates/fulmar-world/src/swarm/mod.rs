//! The swarm: one seed draws a path, its faults, both ends' settings and everything their applications do.
//!
//! Each run has two phases. Safety, with faults: the bytes of every stream come out equal and in order,
//! bounds hold, nothing panics, and no connection ends that was not told to. Liveness, without faults:
//! everything finishes within a bounded time, streams are forgotten, memory is given back, and then there is
//! silence.
//!
//! `fulmar-lab swarm` runs seeds by the million; an ordinary test of the protocol runs the first thousand.

mod app;
mod draw;
pub mod enemy;
mod hunt;
mod plan;
mod recombine;
mod run;

pub use hunt::{Failure, Tally, hunt, hunt_with};
pub use plan::Plan;
pub use run::run;
