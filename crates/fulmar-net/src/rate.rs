//! When a packet has been put on the wire: constant rates, rates that follow a trace, no limit.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use fulmar_units::{Instant, Rate, whole_nanos};

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

/// A rate over time: steps, each valid from its start to the start of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RateTrace {
    /// Start of each step, in order, the first at zero, and its rate.
    steps: Vec<(Instant, Rate)>,
    /// After this the trace begins again; without it the last step lasts for ever.
    period: Option<Duration>,
}

/// Why a list of steps is no [`RateTrace`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum InvalidTrace {
    /// There was no step.
    Empty,
    /// The first step does not start at zero.
    FirstNotAtZero,
    /// The step with this index does not start after the one before it.
    NotInOrder(usize),
    /// The period ends before the last step starts.
    PeriodTooShort,
}

impl fmt::Display for InvalidTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a rate trace needs at least one step"),
            Self::FirstNotAtZero => f.write_str("the first step of a rate trace starts at time zero"),
            Self::NotInOrder(index) => {
                write!(f, "step {index} of the rate trace does not start after the one before")
            }
            Self::PeriodTooShort => f.write_str("the rate trace repeats before its last step starts"),
        }
    }
}

impl core::error::Error for InvalidTrace {}

impl RateTrace {
    /// A trace of `(start, rate)` steps; with a `period` it repeats.
    ///
    /// # Errors
    /// If the steps are not in order from zero, or the period cuts off a step.
    pub fn new(steps: Vec<(Duration, Rate)>, period: Option<Duration>) -> Result<Self, InvalidTrace> {
        let last = *steps.last().ok_or(InvalidTrace::Empty)?;
        if !steps[0].0.is_zero() {
            return Err(InvalidTrace::FirstNotAtZero);
        }
        if let Some(index) = steps.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            return Err(InvalidTrace::NotInOrder(index + 1));
        }
        if period.is_some_and(|period| period <= last.0) {
            return Err(InvalidTrace::PeriodTooShort);
        }
        Ok(Self { steps: steps.into_iter().map(|(at, rate)| (Instant::ZERO + at, rate)).collect(), period })
    }

    /// The rate at a time.
    pub fn rate_at(&self, at: Instant) -> Rate {
        self.step_at(at).0
    }

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

    /// The rate at a time and when it ends; `None` if it lasts for ever.
    fn step_at(&self, at: Instant) -> (Rate, Option<Instant>) {
        let period = self.period.map_or(u64::MAX, whole_nanos);
        let offset = Instant::from_nanos(at.as_nanos() % period);
        let index = self.steps.partition_point(|step| step.0 <= offset) - 1;
        let end = self.steps.get(index + 1).map(|step| step.0);
        let end = end.or(self.period.map(|period| Instant::ZERO + period));
        (self.steps[index].1, end.map(|end| at + (end - offset)))
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
