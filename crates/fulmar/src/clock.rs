//! The process's clock as the protocol sees it: nanoseconds since an origin that is taken once.

use std::sync::OnceLock;
use std::time::Duration;

use fulmar_proto::Instant;

/// tokio's clock is the system's monotonic one, except under `tokio::time::pause`, where timers and `now`
/// stay in step.
static ORIGIN: OnceLock<tokio::time::Instant> = OnceLock::new();

fn origin() -> tokio::time::Instant {
    *ORIGIN.get_or_init(tokio::time::Instant::now)
}

/// The time.
pub(crate) fn now() -> Instant {
    let elapsed = tokio::time::Instant::now().saturating_duration_since(origin());
    Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// What tokio's timers call `at`. Times beyond what the system can tell become a year from the origin: a
/// timer that rings too early is harmless.
pub(crate) fn to_tokio(at: Instant) -> tokio::time::Instant {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    let since = Duration::from_nanos(at.as_nanos()).min(YEAR);
    origin().checked_add(since).unwrap_or_else(|| origin() + YEAR)
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
}
