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

    /// When the time of a transfer by time is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.amount {
            Amount::Seconds(seconds) => Some(self.began + std::time::Duration::from_secs_f64(seconds)),
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
