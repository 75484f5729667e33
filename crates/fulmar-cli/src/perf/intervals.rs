//! The intervals of a measurement, as the receiver's reports tell them.
//!
//! An interval ends when the receiver says so, by its own clock: reports that were held up by a loss arrive
//! together, and by the clock of who hears them the second would have lasted microseconds. The rest after the
//! last report is an interval of its own only if it is long enough for a rate to mean something; iperf3 draws
//! the same line.

use std::time::Duration;

use super::report::Interval;
use crate::session::WireStats;

/// The shortest rest that is an interval of its own, as a share of the interval asked for.
const REST_MIN: f64 = 0.1;

/// The intervals so far, and who is shown each as it ends.
#[derive(Debug)]
pub(super) struct Intervals<F> {
    asked_seconds: f64,
    all: Vec<Interval>,
    show: F,
}

impl<F: FnMut(&Interval)> Intervals<F> {
    pub(super) fn new(asked: Duration, show: F) -> Self {
        Self { asked_seconds: asked.as_secs_f64(), all: Vec::new(), show }
    }

    /// So many bytes had come after so long. A report that is not later than the one before adds to the next.
    pub(super) fn on_report(&mut self, seconds: f64, bytes_total: u64, wire: &WireStats) {
        let before = self.before();
        if seconds > before.0 {
            let next = Interval::new(before, seconds, bytes_total, wire);
            (self.show)(&next);
            self.all.push(next);
        }
    }

    /// The measurement has ended after so long, with so many bytes.
    pub(super) fn finish(mut self, seconds: f64, bytes_total: u64, wire: &WireStats) -> Vec<Interval> {
        let rest_seconds = seconds - self.before().0;
        let is_short = rest_seconds < self.asked_seconds * REST_MIN || rest_seconds <= 0.0;
        match self.all.pop() {
            Some(last) if is_short => {
                let before = (last.start_seconds, last.bytes_total - last.bytes);
                let end_seconds = seconds.max(last.end_seconds);
                self.all.push(Interval::new(before, end_seconds, bytes_total, wire));
            }
            last => {
                self.all.extend(last);
                if bytes_total > self.before().1 {
                    self.on_report(seconds, bytes_total, wire);
                }
            }
        }
        self.all
    }

    fn before(&self) -> (f64, u64) {
        self.all.last().map_or((0.0, 0), |last| (last.end_seconds, last.bytes_total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(reports: &[(f64, u64)], end: (f64, u64)) -> (Vec<Interval>, usize) {
        let mut shown = 0;
        let wire = WireStats::default();
        let mut intervals = Intervals::new(Duration::from_secs(1), |_| shown += 1);
        reports.iter().for_each(|&(seconds, bytes)| intervals.on_report(seconds, bytes, &wire));
        let all = intervals.finish(end.0, end.1, &wire);
        (all, shown)
    }

    /// A megabyte in each second: no interval may say anything else than 8 Mb/s.
    #[test]
    fn the_rest_has_no_rate_of_its_own_unless_it_lasted() {
        for (end, count) in [(2.000_02, 2), (2.09, 2), (2.2, 3), (2.9, 3), (2.0, 2)] {
            let bytes = (end * 1e6) as u64;
            let (all, shown) = intervals(&[(1.0, 1_000_000), (2.0, 2_000_000)], (end, bytes));
            assert_eq!((all.len(), shown), (count, count), "{end}");
            assert!(all.iter().all(|i| (7.9..8.1).contains(&i.goodput_mbps)), "{all:?}");
            assert_eq!(all.iter().map(|i| i.bytes).sum::<u64>(), bytes, "nothing is left out");
        }
    }

    #[test]
    fn a_measurement_shorter_than_an_interval_has_one() {
        let (all, shown) = intervals(&[], (0.01, 10_000));
        assert_eq!((all.len(), shown), (1, 1));
        assert!((all[0].goodput_mbps - 8.0).abs() < 0.1);
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_makes_no_interval() {
        let (all, _) = intervals(&[(1.0, 1), (1.0, 2), (0.5, 3), (2.0, 4)], (1.0, 5));
        assert_eq!(all.iter().map(|i| i.bytes).collect::<Vec<_>>(), [1, 4]);
        assert!(all.iter().all(|i| i.goodput_mbps.is_finite()));
    }
}
