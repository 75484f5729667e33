//! Virtual time: protocol cores at the ends of the network model, one event after the other.
//!
//! A run is a function of (scenario, seed): every draw follows from the seed, and events at the same time are
//! handled in the order of hosts. Nothing here reads a clock.
//!
//! Each step goes to the earliest of: a packet arrives, a connection's timer, an application's. What a host
//! can send after it was touched it sends at once, as a driver with an idle processor would. Cost of a step:
//! O(log of hosts).

mod app;
mod drops;
mod gather;
mod host;
mod stall;
mod start;
mod talk;
mod wires;
mod world;

use crate::outcome::Outcome;
use crate::scenario::Scenario;
pub use drops::Dropped;
pub use world::Work;
use world::{HANDSHAKES_MAX, World};

/// Runs a scenario.
///
/// # Errors
/// If it cannot be run; see [`Scenario::check`].
pub fn run(scenario: &Scenario, seed: u64) -> Result<(Outcome, Work), String> {
    scenario.check()?;
    go(&mut World::new(scenario, seed, false)?, seed)
}

/// As [`run`], and logs the packets that did not arrive, oldest first. The run is the same.
///
/// # Errors
/// As [`run`].
pub fn run_and_log_drops(scenario: &Scenario, seed: u64) -> Result<(Outcome, Work, Vec<Dropped>), String> {
    scenario.check()?;
    let mut world = World::new(scenario, seed, true)?;
    let (outcome, work) = go(&mut world, seed)?;
    Ok((outcome, work, world.wires.take_drops()))
}

fn go(world: &mut World<'_>, seed: u64) -> Result<(Outcome, Work), String> {
    let scenario = world.scenario;
    if scenario.loss_free_handshake {
        world.shake_hands();
    }
    let work = world.run_to(world.began + scenario.duration);
    let mut outcome = gather::outcome(world, seed);
    if scenario.loss_free_handshake && world.is_complete() && !world.part() {
        outcome.remarks.push(format!("a connection did not end within {HANDSHAKES_MAX:?}"));
    }
    Ok((outcome, work))
}
