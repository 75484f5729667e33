//! Seeds by the thousand, on all cores.

use std::cell::RefCell;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use super::{Plan, run};

/// A seed whose run broke a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The file and line of the rule, and what it said: many kilobytes if it shows the whole state.
    pub reason: String,
}

/// How far a hunt has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Seeds that were run.
    pub done: u64,
    /// Those that failed, in the order in which they came.
    pub failures: Vec<Failure>,
}

thread_local! {
    /// What this thread's last panic said. Only threads of a hunt have one.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs every seed of the range on all cores, but begins none after `time_max`. `tell` hears of each run as
/// it ends, from one thread at a time, and may break the hunt off.
///
/// A run that panics has failed; its message is kept instead of printed.
pub fn hunt(
    seeds: Range<u64>,
    time_max: Option<Duration>,
    tell: impl FnMut(&Tally) -> ControlFlow<()> + Send,
) -> Tally {
    hunt_with(seeds, time_max, &|seed| drop(run(&Plan::draw(seed))), tell)
}

/// The same for whatever a seed stands for.
pub fn hunt_with(
    seeds: Range<u64>,
    time_max: Option<Duration>,
    run: &(dyn Fn(u64) + Sync),
    tell: impl FnMut(&Tally) -> ControlFlow<()> + Send,
) -> Tally {
    let began = Clock::now();
    let next = AtomicU64::new(seeds.start);
    let state = Mutex::new((Tally::default(), tell));
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    quietly(|| {
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while time_max.is_none_or(|max| began.elapsed() < max) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= seeds.end {
                            break;
                        }
                        let failure = attempt(seed, run).err();
                        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                        let (tally, tell) = &mut *state;
                        tally.done += 1;
                        tally.failures.extend(failure);
                        if tell(tally).is_break() {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
    });
    state.into_inner().unwrap_or_else(PoisonError::into_inner).0
}

fn attempt(seed: u64, run: &(dyn Fn(u64) + Sync)) -> Result<(), Failure> {
    LAST_PANIC.set(Some(String::new()));
    panic::catch_unwind(AssertUnwindSafe(|| run(seed)))
        .map_err(|_| Failure { seed, reason: LAST_PANIC.take().unwrap_or_default() })
}

/// While `work` goes on, panics of runs are kept for their reports; those of other threads are printed as
/// ever.
fn quietly(work: impl FnOnce()) {
    let usual = std::sync::Arc::new(panic::take_hook());
    let others = usual.clone();
    panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        LAST_PANIC.with_borrow_mut(|last| match last {
            Some(last) => *last = info.to_string(),
            None => others(info),
        });
    }));
    work();
    panic::set_hook(Box::new(move |info| usual(info)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_of_the_range_is_run_once() {
        let mut told = Vec::new();
        let tally = hunt(5..15, None, |tally| {
            told.push(tally.done);
            ControlFlow::Continue(())
        });
        assert_eq!((tally.done, tally.failures.len()), (10, 0));
        assert_eq!(told, (1..=10).collect::<Vec<_>>());
        let out_of_time = hunt(0..u64::MAX - 9, Some(Duration::ZERO), |_| ControlFlow::Continue(()));
        assert_eq!(out_of_time, Tally::default());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let broken_off = hunt(0..1000, None, |_| ControlFlow::Break(()));
        assert!((1..=cores).contains(&broken_off.done), "{broken_off:?}");
    }

    #[test]
    fn what_a_panic_said_is_kept() {
        let mut reason = String::new();
        quietly(|| {
            let thread = std::thread::spawn(|| {
                LAST_PANIC.set(Some(String::new()));
                let result = panic::catch_unwind(|| panic!("a rule of {}", 17));
                assert!(result.is_err());
                LAST_PANIC.take().unwrap()
            });
            reason = thread.join().unwrap();
        });
        assert!(reason.contains("hunt.rs:") && reason.contains("a rule of 17"), "{reason}");
    }
}
