//! How late everything is on this machine, so that bounds of time judge programs and not who else wants the
//! processor.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What the watch sleeps at a time.
const NAP: Duration = Duration::from_millis(20);

/// Time that somebody who only wants to wake up has had to wait for it, all in all.
#[derive(Debug, Default)]
pub(crate) struct Late(AtomicU64);

impl Late {
    /// Sleeps, and notes how much longer that took than it should.
    pub(crate) fn nap(&self) {
        let begin = Instant::now();
        std::thread::sleep(NAP);
        self.0.fetch_add(begin.elapsed().saturating_sub(NAP).as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn so_far(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}
