//! What is counted and limited while bytes are carried: shared by all flows of one key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::drops::Drops;

/// What a rate allows at once after a pause, in time.
const BURST: Duration = Duration::from_millis(50);

/// A reader that has taken nothing for so long is not waited for when others need the room.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Above that, streams that are not read leave too little of the window to the others.
pub const PRESSED_BYTES: u64 = crate::reach::TUNNEL_WINDOW_BYTES / 4 * 3;

/// Which way bytes go, seen from the tunnel's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the target.
    Up,
    /// From the target to the client.
    Down,
}

impl Way {
    /// The opposite way.
    pub fn back(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }
}

/// Counters of bytes, and a limit on their rate.
#[derive(Debug, Default)]
pub struct Traffic {
    up_bytes: AtomicU64,
    down_bytes: AtomicU64,
    up: Throttle,
    down: Throttle,
    paused: watch::Sender<bool>,
    pressed: watch::Sender<bool>,
    /// Packets that were dropped.
    pub drops: Arc<Drops>,
}

impl Traffic {
    /// Counts bytes that were delivered.
    pub fn count(&self, way: Way, bytes: usize) {
        let counter = match way {
            Way::Up => &self.up_bytes,
            Way::Down => &self.down_bytes,
        };
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes delivered from clients to targets, and from targets to clients.
    pub fn bytes(&self) -> (u64, u64) {
        (self.up_bytes.load(Ordering::Relaxed), self.down_bytes.load(Ordering::Relaxed))
    }

    /// Bytes per second allowed in each direction from now on; zero for no limit.
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.up.rate_bytes.store(bytes_per_second, Ordering::Relaxed);
        self.down.rate_bytes.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Whether bytes from targets wait, until further notice.
    pub fn pause(&self, is_paused: bool) {
        self.paused.send_if_modified(|paused| std::mem::replace(paused, is_paused) != is_paused);
    }

    /// Whether what is not read leaves hardly any room for others.
    pub fn press(&self, is_pressed: bool) {
        self.pressed.send_if_modified(|pressed| std::mem::replace(pressed, is_pressed) != is_pressed);
    }

    /// Resolves for a flow that has waited for its reader for long, if that keeps others waiting.
    pub async fn hopeless(&self) {
        tokio::time::sleep(STALL_MAX).await;
        // The sender lives as long as this does.
        let _ = self.pressed.subscribe().wait_for(|is_pressed| *is_pressed).await;
    }

    /// Waits until so many bytes may go.
    pub async fn admit(&self, way: Way, bytes: usize) {
        if way == Way::Down && *self.paused.borrow() {
            // The sender lives as long as this does.
            let _ = self.paused.subscribe().wait_for(|is_paused| !is_paused).await;
        }
        match way {
            Way::Up => self.up.admit(bytes).await,
            Way::Down => self.down.admit(bytes).await,
        }
    }
}

/// A rate kept by giving each piece of data its moment (a leaky bucket as a virtual clock).
#[derive(Debug, Default)]
struct Throttle {
    rate_bytes: AtomicU64,
    next: Mutex<Option<Instant>>,
}

impl Throttle {
    async fn admit(&self, bytes: usize) {
        let rate = self.rate_bytes.load(Ordering::Relaxed);
        if rate > 0 {
            let at = self.book(bytes, rate);
            tokio::time::sleep_until(at).await;
        }
    }

    fn book(&self, bytes: usize, rate: u64) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let at = next.map_or(earliest, |next| next.max(earliest));
        *next = Some(at + Duration::from_secs_f64(bytes as f64 / rate as f64));
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_kept_over_all_that_share_it() {
        let traffic = std::sync::Arc::new(Traffic::default());
        traffic.set_rate(1_000_000);
        let begin = Instant::now();
        let flows: Vec<_> = (0..4)
            .map(|_| {
                let traffic = std::sync::Arc::clone(&traffic);
                tokio::spawn(async move {
                    for _ in 0..50 {
                        traffic.admit(Way::Down, 10_000).await;
                        traffic.count(Way::Down, 10_000);
                    }
                })
            })
            .collect();
        for flow in flows {
            flow.await.unwrap();
        }
        assert_eq!(traffic.bytes(), (0, 2_000_000));
        // Virtual time: 2 s at the rate, less the burst and the last piece.
        let took = begin.elapsed();
        assert!((1.90..=2.01).contains(&took.as_secs_f64()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_those_who_keep_others_waiting_are_hopeless() {
        let traffic = Traffic::default();
        let long = Duration::from_secs(3600);
        assert!(tokio::time::timeout(long, traffic.hopeless()).await.is_err());
        traffic.press(true);
        assert!(tokio::time::timeout(STALL_MAX / 2, traffic.hopeless()).await.is_err());
        tokio::time::timeout(long, traffic.hopeless()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_does_not_wait() {
        let traffic = Traffic::default();
        let begin = Instant::now();
        traffic.admit(Way::Up, 1 << 30).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
}
