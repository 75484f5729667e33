//! What a receiver measures: bytes, and the time from the first to the last (LT-TCP, 2.1).

use std::time::Instant;

use crate::desk::types::Amount;
use crate::meter::Meter;

/// Counts one transfer.
#[derive(Debug)]
pub(super) struct Count {
    meter: Meter,
    began: Instant,
    amount: Amount,
}

impl Count {
    /// Time counts from now.
    pub(super) fn new(amount: Amount) -> Self {
        Self { meter: Meter::default(), began: Instant::now(), amount }
    }

    pub(super) fn on_bytes(&mut self, bytes: usize) {
        self.meter.on_bytes(bytes as u64, self.began.elapsed());
    }

    pub(super) fn bytes(&self) -> u64 {
        self.meter.total_bytes
    }

    /// When the time of a transfer by time is over: never for a time that is none, whatever a controller
    /// says.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.amount {
            Amount::Seconds(seconds) => {
                let time = std::time::Duration::try_from_secs_f64(seconds).ok()?;
                self.began.checked_add(time)
            }
            Amount::Bytes(_) => None,
        }
    }

    /// All of it is there.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.amount, Amount::Bytes(bytes) if self.bytes() >= bytes)
    }

    /// First byte to last, or to now if there would have been more.
    pub(super) fn seconds(&mut self) -> f64 {
        self.meter.has_ended = self.is_whole();
        self.meter.span(self.began.elapsed()).unwrap_or_default().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_ends_nothing() {
        for seconds in [-1.0, f64::NAN, f64::INFINITY, f64::MAX] {
            assert_eq!(Count::new(Amount::Seconds(seconds)).deadline(), None, "{seconds}");
        }
        assert!(Count::new(Amount::Seconds(0.5)).deadline().is_some());
    }
}
