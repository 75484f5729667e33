//! The process's descriptors, as far as clients may have them: each open file and each connection to a target
//! takes one, and the system gives so many. What the program opens for itself, such as the list of keys, is
//! kept back.

use std::sync::{Arc, LazyLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::platform::raise_descriptor_limit;

/// Kept back for what the program opens itself: the list of keys, a client that is only now accepted, logs.
const RESERVED: u64 = 32;

/// And for each processor, on which a server has sockets of its own.
const RESERVED_PER_CORE: u64 = 4;

/// Descriptors for clients.
#[derive(Debug)]
pub struct Descriptors(Arc<Semaphore>);

/// However few there are: with fewer nothing would go at all.
const COUNT_MIN: u64 = 16;

/// Some of them, until this is dropped.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Descriptors {
    /// Those of this process, which from now on may have as many as the system allows without asking.
    pub fn of_process() -> Arc<Self> {
        static ALL: LazyLock<Arc<Descriptors>> = LazyLock::new(|| {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
            let reserved = RESERVED + RESERVED_PER_CORE * cores;
            Arc::new(Descriptors::new(raise_descriptor_limit().saturating_sub(reserved).max(COUNT_MIN)))
        });
        Arc::clone(&ALL)
    }

    /// So many.
    pub fn new(count: u64) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(count)))
    }

    /// Takes some, if there are as many.
    pub fn try_take(&self, count: u32) -> Option<Held> {
        Arc::clone(&self.0).try_acquire_many_owned(count).ok().map(Held)
    }

    /// Takes some, as soon as there are as many.
    pub async fn take(&self, count: u32) -> Option<Held> {
        // Nobody closes it.
        Arc::clone(&self.0).acquire_many_owned(count).await.ok().map(Held)
    }

    /// Takes one for somebody who holds so many: none if fewer than that would be left to others. One who
    /// takes all that he can so gets half, two a third each, and there is always something left for the next
    /// (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998, with
    /// alpha = 1).
    pub fn share(&self, held: usize) -> Option<Held> {
        if held < self.0.available_permits() { self.try_take(1) } else { None }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.0.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_share_for_the_next() {
        let all = Descriptors::new(120);
        let mut held = Vec::new();
        let mut greedy = |most: usize| {
            let mut own = Vec::new();
            while let Some(one) = all.share(own.len()) {
                own.push(one);
            }
            assert_eq!(own.len(), most);
            held.push(own);
        };
        // Half of all, half of the rest, and so on: what is left is never nothing.
        [60, 30, 15, 8, 4, 2, 1].into_iter().for_each(&mut greedy);
        drop(held);
        assert_eq!(all.free(), 120);
        assert!(all.try_take(121).is_none() && all.try_take(120).is_some());
    }
}
