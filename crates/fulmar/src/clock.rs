//! The process's clock as the protocol sees it: nanoseconds since the Unix epoch, by the host's clock when it
//! was first asked, and from then on by one that is never set. So hosts agree about it as well as their
//! clocks do, which is how flows that share a queue drain it in the same moments (`auto`).

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use fulmar_proto::Instant;

/// When it was first asked, by both clocks.
#[derive(Copy, Clone)]
struct Origin {
    /// tokio's clock is the system's monotonic one, except under `tokio::time::pause`, where timers and `now`
    /// stay in step.
    tokio: tokio::time::Instant,
    protocol: Instant,
}

fn origin() -> Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    *ORIGIN.get_or_init(|| {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Origin { tokio: tokio::time::Instant::now(), protocol: Instant::ZERO + since_epoch }
    })
}

/// The time.
pub(crate) fn now() -> Instant {
    let origin = origin();
    origin.protocol + tokio::time::Instant::now().saturating_duration_since(origin.tokio)
}

/// What tokio's timers call `at`. Times beyond what the system can tell become a year from the origin: a
/// timer that rings too early is harmless.
pub(crate) fn to_tokio(at: Instant) -> tokio::time::Instant {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let origin = origin();
    let since = (at - origin.protocol).min(YEAR);
    origin.tokio.checked_add(since).unwrap_or_else(|| origin.tokio + YEAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_tell_the_same_time() {
        let before = tokio::time::Instant::now();
        let now = now();
        assert!(to_tokio(now) >= before && to_tokio(now) <= tokio::time::Instant::now());
        assert!(to_tokio(Instant::from_nanos(u64::MAX)) > to_tokio(now));
    }

    #[test]
    fn hosts_agree_about_it() {
        let of_host = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let of_protocol = now() - Instant::ZERO;
        assert!(of_protocol.abs_diff(of_host) < Duration::from_secs(60), "{of_protocol:?}, {of_host:?}");
    }
}
