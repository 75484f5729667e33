//! A value over time, as recordings have it.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use fulmar_units::{Instant, whole_nanos};

/// A value that changes at known times: steps, each valid from its start to the start of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Steps<T> {
    /// Start of each step, in order, the first at zero, and its value.
    pub(crate) steps: Vec<(Instant, T)>,
    /// After this they begin again; without it the last step lasts for ever.
    pub(crate) period: Option<Duration>,
}

/// Why a list of steps is no [`Steps`].
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
            Self::Empty => f.write_str("a trace needs at least one step"),
            Self::FirstNotAtZero => f.write_str("the first step of a trace starts at time zero"),
            Self::NotInOrder(index) => {
                write!(f, "step {index} of the trace does not start after the one before")
            }
            Self::PeriodTooShort => f.write_str("the trace repeats before its last step starts"),
        }
    }
}

impl core::error::Error for InvalidTrace {}

impl<T: Copy> Steps<T> {
    /// `(start, value)` steps; with a `period` they repeat.
    ///
    /// # Errors
    /// If the steps are not in order from zero, or the period cuts off a step.
    pub fn new(steps: Vec<(Duration, T)>, period: Option<Duration>) -> Result<Self, InvalidTrace> {
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
        Ok(Self { steps: steps.into_iter().map(|(at, value)| (Instant::ZERO + at, value)).collect(), period })
    }

    /// The value at a time.
    pub fn at(&self, at: Instant) -> T {
        self.step_at(at).0
    }

    /// Each value and how long it lasts; the last one, without a period, for no time.
    pub fn lengths(&self) -> impl Iterator<Item = (T, Duration)> {
        let whole = self.period.map(|period| Instant::ZERO + period);
        self.steps.iter().enumerate().map(move |(index, &(start, value))| {
            let end = self.steps.get(index + 1).map(|next| next.0).or(whole);
            (value, end.map_or(Duration::ZERO, |end| end - start))
        })
    }

    /// The value at a time and when it ends; `None` if it lasts for ever.
    pub(crate) fn step_at(&self, at: Instant) -> (T, Option<Instant>) {
        let period = self.period.map_or(u64::MAX, whole_nanos);
        let offset = Instant::from_nanos(at.as_nanos() % period);
        let index = self.steps.partition_point(|step| step.0 <= offset) - 1;
        let end = self.steps.get(index + 1).map(|step| step.0);
        let end = end.or(self.period.map(|period| Instant::ZERO + period));
        (self.steps[index].1, end.map(|end| at + (end - offset)))
    }
}
