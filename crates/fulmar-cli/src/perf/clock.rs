//! Time that two ends can compare.
//!
//! Two programs on one machine share its monotonic clock, which is exact. On two machines the offset between
//! the clocks is estimated from the fastest of several exchanges, taking both ways to be equally long (RFC
//! 5905, section 8); the error is at most half of that exchange's RTT. A report says which of the two it
//! rests on.

use serde::{Deserialize, Serialize};

pub use crate::platform::{cpu_time, monotonic_ns};

/// What tells one machine, since it was last started, from all others; empty where the system does not say.
pub fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// How the other end's clock relates to this one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Relation {
    /// It is the same clock.
    Shared,
    /// Theirs less ours, and how far off that may be.
    Estimated {
        /// Nanoseconds to add to ours to get theirs.
        offset_ns: i64,
        /// Half of the RTT of the exchange it comes from.
        error_ns: u64,
    },
}

/// One exchange: asked at `sent_ns` by our clock, answered at `their_ns` by theirs, answer here at
/// `received_ns`.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// Our clock.
    pub sent_ns: u64,
    /// Their clock.
    pub their_ns: u64,
    /// Our clock.
    pub received_ns: u64,
}

/// The relation that the fastest exchange shows; `None` without any.
pub fn estimate(exchanges: &[Exchange]) -> Option<Relation> {
    let best = exchanges.iter().min_by_key(|e| e.received_ns.saturating_sub(e.sent_ns))?;
    let rtt_ns = best.received_ns.saturating_sub(best.sent_ns);
    let middle = best.sent_ns + rtt_ns / 2;
    Some(Relation::Estimated { offset_ns: best.their_ns.wrapping_sub(middle) as i64, error_ns: rtt_ns / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_exchange_tells_the_offset() {
        let slow = Exchange { sent_ns: 0, their_ns: 9_999, received_ns: 1_000 };
        let fast = Exchange { sent_ns: 2_000, their_ns: 7_050, received_ns: 2_100 };
        assert_eq!(estimate(&[slow, fast]), Some(Relation::Estimated { offset_ns: 5_000, error_ns: 50 }));
        let behind = Exchange { sent_ns: 2_000, their_ns: 50, received_ns: 2_100 };
        assert_eq!(estimate(&[behind]), Some(Relation::Estimated { offset_ns: -2_000, error_ns: 50 }));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn clocks_do_not_run_backwards() {
        let (before, cpu_before) = (monotonic_ns(), cpu_time());
        let work: u64 = (0..100_000u64).map(std::hint::black_box).sum();
        assert!(std::hint::black_box(work) > 0);
        assert!(monotonic_ns() > before && cpu_time() >= cpu_before);
    }
}
