//! Short waits, more exact than tokio's timers.
//!
//! tokio's timers ring 1.1 ms late on the average (measured: a sleep of 50 us takes 1.13 ms, one of 1 ms 2.1
//! ms). For a pacer that is due in 0.1 ms that makes intervals of 1.2 ms, of which its bucket covers one. On
//! Linux a timer descriptor (timerfd), one per endpoint, rings 0.06 ms late. It serves waits up to
//! [`WAIT_MAX`] of all connections; longer ones, and other systems, are tokio's.

use std::time::Duration;

use fulmar_proto::{ConnectionHandle, Instant};

/// Waits longer than this need no exactness.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(10);
/// Waits shorter than this are made so long: 5,000 wake-ups in a second are enough to keep any pace, and what
/// has become due meanwhile leaves as one batch.
pub(crate) const WAIT_MIN: Duration = Duration::from_micros(200);

/// An alarm that was set: when it rings, and for whom.
pub(crate) type Key = (Instant, ConnectionHandle);

pub(crate) use system::Alarms;

#[cfg(target_os = "linux")]
mod system {
    use std::collections::BTreeMap;
    use std::os::fd::OwnedFd;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use fulmar_proto::Instant;
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::Key;
    use crate::clock;

    /// The alarms of one endpoint.
    #[derive(Debug)]
    pub(crate) struct Alarms {
        /// `None` if the system gave no timer.
        timer: Option<AsyncFd<OwnedFd>>,
        pending: Mutex<Pending>,
    }

    #[derive(Debug, Default)]
    struct Pending {
        wakers: BTreeMap<Key, Waker>,
        /// When the timer rings, if it will.
        rings_at: Option<Instant>,
    }

    impl Alarms {
        pub(crate) fn new() -> Self {
            let timer = open().inspect_err(|error| tracing::debug!(%error, "no exact timer")).ok();
            Self { timer, pending: Mutex::default() }
        }

        pub(crate) fn are_available(&self) -> bool {
            self.timer.is_some()
        }

        /// Wakes `waker` at the time of `key`.
        pub(crate) fn set(&self, key: Key, waker: &Waker) {
            let mut pending = self.pending();
            pending.wakers.insert(key, waker.clone());
            self.wind(&mut pending);
        }

        /// The alarm is not needed any more. It may have rung.
        pub(crate) fn cancel(&self, key: Key) {
            // The timer may ring for nobody then, once.
            self.pending().wakers.remove(&key);
        }

        /// Collects the wakers of alarms that are due. For one task at a time, which is woken when there are
        /// more.
        pub(crate) fn poll(&self, cx: &mut Context<'_>, due: &mut Vec<Waker>) {
            let Some(timer) = &self.timer else { return };
            while let Poll::Ready(Ok(mut ready)) = timer.poll_read_ready(cx) {
                // How often it has rung does not matter.
                if ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut [0; 8])?)).is_err() {
                    continue;
                }
                let mut pending = self.pending();
                pending.rings_at = None;
                let now = clock::now();
                while let Some(first) = pending.wakers.first_entry().filter(|first| first.key().0 <= now) {
                    due.push(first.remove());
                }
                self.wind(&mut pending);
            }
        }

        /// Makes the timer ring for the first alarm.
        fn wind(&self, pending: &mut Pending) {
            let (Some(timer), Some((&(first, _), _))) = (&self.timer, pending.wakers.first_key_value())
            else {
                return;
            };
            if pending.rings_at.is_some_and(|rings_at| rings_at <= first) {
                return;
            }
            // Zero would stop it.
            let wait = (first - clock::now()).max(Duration::from_nanos(1));
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let wait = Timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos().into() };
            let setting = Itimerspec { it_interval: zero, it_value: wait };
            match rustix::time::timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &setting) {
                Ok(_) => pending.rings_at = Some(first),
                Err(error) => tracing::warn!(%error, "the timer cannot be set"),
            }
        }

        fn pending(&self) -> MutexGuard<'_, Pending> {
            self.pending.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    fn open() -> std::io::Result<AsyncFd<OwnedFd>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[allow(
            deprecated,
            reason = "what takes its place is unsafe; an OwnedFd is what it wants to be sure of"
        )]
        AsyncFd::with_interest(timer, Interest::READABLE)
    }

    #[cfg(test)]
    mod tests {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        use std::task::Wake;

        use fulmar_proto::ConnectionHandle;

        use super::*;

        #[derive(Default)]
        struct Count(AtomicU32);

        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }

        #[tokio::test]
        async fn alarms_ring_once_in_order_unless_cancelled() {
            let alarms = Alarms::new();
            assert!(alarms.are_available());
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            let start = clock::now();
            let key = |millis, handle| (start + Duration::from_millis(millis), ConnectionHandle(handle));
            for (millis, handle) in [(30, 0), (10, 1), (20, 2), (10, 3), (0, 4)] {
                alarms.set(key(millis, handle), &waker);
            }
            alarms.cancel(key(20, 2));
            alarms.cancel(key(5, 9));
            let mut due = Vec::new();
            std::future::poll_fn(|cx| {
                alarms.poll(cx, &mut due);
                due.drain(..).for_each(Waker::wake);
                if count.0.load(Ordering::Relaxed) < 4 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            assert!(clock::now() >= key(30, 0).0);
            assert!(alarms.pending().wakers.is_empty());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::task::{Context, Waker};

    use super::Key;

    /// There are none here.
    #[derive(Debug)]
    pub(crate) struct Alarms;

    impl Alarms {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn are_available(&self) -> bool {
            false
        }

        pub(crate) fn set(&self, _: Key, _: &Waker) {}

        pub(crate) fn cancel(&self, _: Key) {}

        pub(crate) fn poll(&self, _: &mut Context<'_>, _: &mut Vec<Waker>) {}
    }
}
