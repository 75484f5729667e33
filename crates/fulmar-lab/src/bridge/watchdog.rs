//! How late the programs at the ends are. The engine has real-time priority and its lateness says nothing of
//! theirs: a machine that has no time for them measures itself.
//!
//! A thread with the priority of the programs sleeps a millisecond at a time, and notes by how much longer it
//! slept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use fulmar_net::DelayHistogram;

use crate::sys;

/// How long it sleeps.
const NAP: Duration = Duration::from_millis(1);

/// A thread that watches until this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<DelayHistogram>>,
}

impl Watchdog {
    /// Begins to watch.
    pub(super) fn start() -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let watch = move || {
            sys::be_preferred();
            let mut late = DelayHistogram::default();
            while !told.load(Ordering::Relaxed) {
                let asleep = Clock::now();
                std::thread::sleep(NAP);
                late.record(asleep.elapsed().saturating_sub(NAP));
            }
            late
        };
        let thread = std::thread::Builder::new().name("watchdog".into()).spawn(watch)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// How late it woke.
    pub(super) fn finish(mut self) -> DelayHistogram {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_many_times_and_stops() {
        let watchdog = Watchdog::start().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let late = watchdog.finish();
        assert!((1..=200).contains(&late.samples()), "{}", late.samples());
    }
}
