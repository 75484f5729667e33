//! Linux: what happens to a machine, told by its kernel when it happens.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// rtnetlink's groups of news about addresses and routes (rtnetlink(7)): those of IPv4, and of IPv6.
const GROUPS: u32 = 0x10 | 0x40 | 0x100 | 0x400;

/// A sleep that is shorter is none.
const SLEEP_MIN: Duration = Duration::from_secs(1);

/// Addresses and routes of this machine.
#[derive(Debug)]
pub struct Routes(AsyncFd<OwnedFd>);

impl Routes {
    /// From now on.
    pub fn watch() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // The first of netlink's protocols, NETLINK_ROUTE, is 0.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        watched(socket).map(Self)
    }

    /// Resolves when some have changed. What has is to be asked for.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut guard = self.0.readable().await?;
            let mut has_changed = false;
            loop {
                match recv(self.0.get_ref(), &mut [0; 64][..], RecvFlags::TRUNC) {
                    // Some were more than the queue holds.
                    Ok(_) | Err(Errno::NOBUFS) => has_changed = true,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            guard.clear_ready();
            if has_changed {
                return Ok(());
            }
        }
    }
}

/// When this machine sleeps.
#[derive(Debug)]
pub struct Sleep {
    /// Rings when the clock on the wall jumps, as it does then, and never else.
    timer: AsyncFd<OwnedFd>,
    /// For how long it has slept since it was started.
    total: Duration,
}

impl Sleep {
    /// From now on.
    pub fn watch() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let never = Timespec { tv_sec: i64::MAX, tv_nsec: 0 };
        let never = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: never };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never)?;
        Ok(Self { timer: watched(timer)?, total: slept() })
    }

    /// Resolves when it has slept.
    pub async fn ended(&mut self) -> io::Result<()> {
        loop {
            let mut guard = self.timer.readable().await?;
            match rustix::io::read(self.timer.get_ref(), &mut [0; 8]) {
                Ok(_) | Err(Errno::CANCELED | Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            guard.clear_ready();
            // Somebody may have set the clock.
            if has_slept(&mut self.total, slept()) {
                return Ok(());
            }
        }
    }
}

/// Woken when it can be read.
#[allow(deprecated, reason = "what takes its place is unsafe; an OwnedFd stays the same file")]
fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// How far the clock that counts sleep is ahead of the one that does not.
fn slept() -> Duration {
    let time = |clock| {
        let now = clock_gettime(clock);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let awake = time(ClockId::Monotonic);
    time(ClockId::Boottime).saturating_sub(awake)
}

fn has_slept(total: &mut Duration, now: Duration) -> bool {
    now.saturating_sub(std::mem::replace(total, now)) >= SLEEP_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_told_once_and_a_set_clock_is_none() {
        let mut total = Duration::from_secs(100);
        let mut asked = |seconds| has_slept(&mut total, Duration::from_secs_f64(seconds));
        assert_eq!([100.0, 100.000_01, 460.0, 460.0].map(&mut asked), [false, false, true, false]);
    }

    #[tokio::test]
    async fn a_machine_that_is_awake_and_stays_where_it_is_has_no_news() {
        let (mut sleep, mut routes) = (Sleep::watch().unwrap(), Routes::watch().unwrap());
        let nothing = tokio::time::timeout(Duration::from_millis(100), async {
            tokio::select! {
                slept = sleep.ended() => panic!("{slept:?}"),
                // Others may change the routes of this machine meanwhile.
                changed = routes.changed() => changed.unwrap(),
            }
        });
        let _ = nothing.await;
        assert!(slept() < Duration::from_secs(10 * 365 * 86_400));
    }
}
