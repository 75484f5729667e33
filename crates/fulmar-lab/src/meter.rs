//! What a receiving application measures: how many bytes, and over which time. One definition for virtual and
//! real time.
//!
//! The time of a flow begins with its first byte (or with the end of the warm-up, if it was under way by
//! then) and ends with its last byte if that was the end of its data, but with the measuring period if there
//! was more to come. A flow that stalls for the rest of a run so is not timed over the short while in which
//! it did something.

use std::time::Duration;

/// Counts what is read. All times are since one origin of the caller's choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    /// What is read before does not count.
    count_from: Duration,
    /// Bytes read that count.
    pub(crate) counted_bytes: u64,
    /// All bytes read.
    pub(crate) total_bytes: u64,
    /// The data came to their end.
    pub(crate) has_ended: bool,
    first: Option<Duration>,
    last: Option<Duration>,
}

impl Meter {
    pub(crate) fn new(count_from: Duration) -> Self {
        Self { count_from, ..Self::default() }
    }

    /// The measuring period begins later than was thought.
    pub(crate) fn postpone(&mut self, late: Duration) {
        self.count_from += late;
    }

    /// Whether what happens at this time counts.
    pub(crate) fn does_count(&self, at: Duration) -> bool {
        at >= self.count_from
    }

    /// Bytes were read. Says whether they count.
    pub(crate) fn on_bytes(&mut self, bytes: u64, now: Duration) -> bool {
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.total_bytes += bytes;
        let does_count = self.does_count(now);
        if does_count {
            self.counted_bytes += bytes;
        }
        does_count
    }

    /// From when to when the flow took, where it could have gone on until `end`. None if nothing came.
    pub(crate) fn counted(&self, end: Duration) -> Option<(Duration, Duration)> {
        let (first, last) = self.first.zip(self.last)?;
        let until = if self.has_ended { last } else { last.max(end) };
        Some((first.max(self.count_from), until))
    }

    /// How long that is.
    pub(crate) fn span(&self, end: Duration) -> Option<Duration> {
        self.counted(end).map(|(from, until)| until.saturating_sub(from))
    }

    /// When the last byte was read, if that was the end of the data.
    pub(crate) fn ended_at(&self) -> Option<Duration> {
        self.last.filter(|_| self.has_ended)
    }

    /// Mbit/s over that time.
    pub(crate) fn goodput_mbps(&self, end: Duration) -> f64 {
        let seconds = self.span(end).unwrap_or_default().as_secs_f64();
        if seconds > 0.0 { self.counted_bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_flow_that_stalls_is_timed_to_the_end_and_one_that_ends_to_its_last_byte() {
        let mut meter = Meter::new(Duration::ZERO);
        assert_eq!((meter.span(10 * SECOND), meter.goodput_mbps(10 * SECOND)), (None, 0.0));
        meter.on_bytes(500_000, SECOND);
        meter.on_bytes(500_000, 2 * SECOND);
        assert_eq!(meter.span(9 * SECOND), Some(8 * SECOND));
        assert_eq!(meter.goodput_mbps(9 * SECOND), 1.0);
        meter.has_ended = true;
        assert_eq!(meter.goodput_mbps(9 * SECOND), 8.0);
    }

    #[test]
    fn a_flow_under_way_is_timed_from_the_end_of_the_warm_up_even_if_it_stalls_there() {
        let mut meter = Meter::new(4 * SECOND);
        assert!(!meter.on_bytes(7_000_000, SECOND));
        assert!(meter.on_bytes(500_000, 7 * SECOND));
        assert_eq!((meter.counted_bytes, meter.total_bytes), (500_000, 7_500_000));
        assert_eq!(meter.goodput_mbps(8 * SECOND), 1.0);
        let mut late = Meter::new(4 * SECOND);
        late.on_bytes(500_000, 6 * SECOND);
        assert_eq!(late.span(8 * SECOND), Some(2 * SECOND), "it had not begun at the end of the warm-up");
    }
}
