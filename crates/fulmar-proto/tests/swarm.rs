//! The first thousand seeds of the swarm (`fulmar_world::swarm`). More: `fulmar-lab swarm`, or
//!
//!     SWARM_FIRST=1000 SWARM_SEEDS=100000 cargo test --release -p fulmar-proto --test swarm
//!     SWARM_SEED=123 cargo test -p fulmar-proto --test swarm -- --nocapture     # one run again, with its plan

use std::ops::ControlFlow;
use std::time::Duration;

use fulmar_world::swarm::enemy::besiege;
use fulmar_world::swarm::{Plan, hunt, hunt_with, run};

/// Runs in an ordinary test.
const SEEDS_DEFAULT: u64 = 1000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn swarm() {
    if let Some(seed) = number("SWARM_SEED") {
        let plan = Plan::draw(seed);
        println!("{plan:#?}");
        println!("{}", run(&plan));
        return;
    }
    let first = number("SWARM_FIRST").unwrap_or(0);
    let seeds = first..first + number("SWARM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let tally = hunt(seeds, None, |_| ControlFlow::Continue(()));
    let failed: Vec<u64> = tally.failures.iter().map(|failure| failure.seed).collect();
    assert!(
        failed.is_empty(),
        "{} of {} seeds failed: {failed:?}; repeat one with SWARM_SEED={} cargo test -p fulmar-proto --test swarm\n{}",
        failed.len(),
        tally.done,
        failed[0],
        tally.failures[0].reason
    );
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..3 {
        let (one, two) = (run(&Plan::draw(seed)), run(&Plan::draw(seed)));
        assert_eq!(one, two, "two runs of seed {seed} differ");
    }
}

/// With the enemy in it (`fulmar_world::swarm::enemy`). More: `fulmar-lab swarm --enemy`.
#[test]
fn enemies() {
    if let Some(seed) = number("ENEMY_SEED") {
        println!("{:?}", besiege(seed, || Duration::ZERO));
        return;
    }
    let first = number("ENEMY_FIRST").unwrap_or(0);
    let seeds = first..first + number("ENEMY_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let tally =
        hunt_with(seeds, None, &|seed| drop(besiege(seed, || Duration::ZERO)), |_| ControlFlow::Continue(()));
    let failed: Vec<_> = tally.failures.iter().map(|failure| failure.seed).collect();
    assert!(
        failed.is_empty(),
        "{} of {} seeds failed: {failed:?}; repeat one with ENEMY_SEED={} cargo test -p fulmar-proto --test swarm enemies\n{}",
        failed.len(),
        tally.done,
        failed[0],
        tally.failures[0].reason
    );
}
