//! When a packet has been put on the wire: constant rates, rates that follow a trace, no limit.

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use crate::Steps;

/// How fast a link takes packets out of its queue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum LinkRate {
    /// At once: the queue never holds anything.
    #[default]
    Unlimited,
    /// The same rate for ever. At rate zero everything waits in the queue.
    Constant(Rate),
    /// A rate that changes over time.
    Trace(RateTrace),
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        Self::Constant(rate)
    }
}

impl LinkRate {
    /// The first time at or after `at` when anything moves; `None` if nothing ever does.
    pub(crate) fn open_at(&self, at: Instant) -> Option<Instant> {
        match self {
            Self::Unlimited => Some(at),
            Self::Constant(rate) => (*rate > Rate::ZERO).then_some(at),
            Self::Trace(trace) => trace.open_at(at),
        }
    }

    /// When `bytes` whose sending starts at `start` have left; rounded up to whole nanoseconds, so the rate
    /// is never exceeded.
    pub(crate) fn finish(&self, start: Instant, bytes: u32) -> Instant {
        match self {
            Self::Unlimited => start,
            Self::Constant(rate) => start + time_for(*rate, u64::from(bytes)),
            Self::Trace(trace) => trace.finish(start, bytes),
        }
    }

    /// The highest rate there is, by which buffers are dimensioned; `None` without limit.
    pub fn peak(&self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Constant(rate) => Some(*rate),
            Self::Trace(trace) => trace.steps.iter().map(|step| step.1).max(),
        }
    }
}

/// `Rate::time_for`, rounded up.
fn time_for(rate: Rate, bytes: u64) -> Duration {
    let per_second = rate.bytes_per_second();
    if per_second == 0 {
        return Duration::MAX;
    }
    match bytes.checked_mul(1_000_000_000) {
        Some(product) => Duration::from_nanos(product.div_ceil(per_second)),
        None => rate.time_for(bytes).saturating_add(Duration::from_nanos(1)),
    }
}

/// A rate over time.
pub type RateTrace = Steps<Rate>;

impl RateTrace {
    /// How many bytes can have passed by a time.
    pub fn bytes_until(&self, at: Instant) -> u64 {
        let of_steps = |until: Instant| -> u128 {
            let starts = self.steps.iter().take_while(|step| step.0 < until);
            starts
                .enumerate()
                .map(|(index, step)| {
                    let end = self.steps.get(index + 1).map_or(until, |next| next.0.min(until));
                    u128::from(step.1.bytes_per_second()) * (end - step.0).as_nanos()
                })
                .sum()
        };
        let period = self.period.and_then(|period| u64::try_from(period.as_nanos()).ok());
        let product = match period {
            Some(period) => {
                let whole = u128::from(at.as_nanos() / period) * of_steps(Instant::from_nanos(period));
                whole + of_steps(Instant::from_nanos(at.as_nanos() % period))
            }
            None => of_steps(at),
        };
        u64::try_from(product / 1_000_000_000).unwrap_or(u64::MAX)
    }

    fn open_at(&self, mut at: Instant) -> Option<Instant> {
        for _ in 0..=self.steps.len() {
            let (rate, end) = self.step_at(at);
            if rate > Rate::ZERO {
                return Some(at);
            }
            at = end?;
        }
        None
    }

    fn finish(&self, start: Instant, bytes: u32) -> Instant {
        // Counted in bytes times nanoseconds per second, so that nothing is lost where the rate changes.
        let mut left = u128::from(bytes) * 1_000_000_000;
        let mut at = start;
        loop {
            let (rate, end) = self.step_at(at);
            let per_nano = u128::from(rate.bytes_per_second());
            let room = end.map_or(u128::MAX, |end| per_nano * (end - at).as_nanos());
            if left <= room {
                return if per_nano == 0 {
                    Instant::from_nanos(u64::MAX)
                } else {
                    at + Duration::from_nanos(u64::try_from(left.div_ceil(per_nano)).unwrap_or(u64::MAX))
                };
            }
            left -= room;
            match end {
                Some(end) if end > at => at = end,
                _ => return Instant::from_nanos(u64::MAX),
            }
        }
    }
}
