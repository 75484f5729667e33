//! The swarm: one seed draws a path, its faults, both ends' settings and everything their applications do.
//!
//! Each run has two phases. Safety, with faults: the bytes of every stream come out equal and in order, bounds hold,
//! nothing panics, and no connection ends that was not told to. Liveness, without faults: everything finishes within a
//! bounded time, streams are forgotten, memory is given back, and then there is silence.
//!
//!     SWARM_SEEDS=100000 cargo test --release -p fulmar-proto --test swarm      # more seeds
//!     SWARM_SEED=123 cargo test -p fulmar-proto --test swarm                    # one run again, with its plan
// What an event leads to is no guard of its arm.
#![allow(clippy::collapsible_match)]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "swarm/app.rs"]
mod app;
mod common;
#[path = "swarm/plan.rs"]
mod plan;
#[path = "swarm/recombine.rs"]
mod recombine;
#[path = "swarm/run.rs"]
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs in an ordinary test.
const SEEDS_DEFAULT: u64 = 1000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn swarm() {
    if let Some(seed) = number("SWARM_SEED") {
        let plan = plan::Plan::draw(seed);
        println!("{plan:#?}");
        println!("{}", run::run(&plan));
        return;
    }
    let first = number("SWARM_FIRST").unwrap_or(0);
    let end = first + number("SWARM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    if catch_unwind(AssertUnwindSafe(|| run::run(&plan::Plan::draw(seed)))).is_err() {
                        eprintln!("failed: SWARM_SEED={seed} cargo test -p fulmar-proto --test swarm");
                        failures.lock().expect("no thread panics with the lock").push(seed);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panics with the lock");
    failures.sort_unstable();
    assert!(
        failures.is_empty(),
        "{} of {} seeds failed: {failures:?}; repeat one with SWARM_SEED={} cargo test -p fulmar-proto --test swarm",
        failures.len(),
        end - first,
        failures[0]
    );
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..3 {
        let (one, two) = (run::run(&plan::Plan::draw(seed)), run::run(&plan::Plan::draw(seed)));
        assert_eq!(one, two, "two runs of seed {seed} differ");
    }
}
