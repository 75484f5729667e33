//! The window of TCP: slow start, additive increase, multiplicative decrease. What Reno, NewReno and their
//! relatives share.
//!
//! Source: RFC 5681 (slow start, congestion avoidance, timeout), RFC 3465 (byte counting), RFC 9002 section
//! 7. Which signal reduces the window, and by how much, is the affair of each controller.

use core::time::Duration;

use fulmar_units::Instant;

use super::SendBudget;
use super::window::{Epoch, WindowConfig, pacing_rtt};
use crate::{Feedback, PathView};

/// RFC 5681 (4), RFC 9002 B.1 kLossReductionFactor.
pub const REDUCTION: f64 = 0.5;

/// Window and threshold.
#[derive(Copy, Clone, Debug)]
pub(super) struct Windows {
    pub(super) window_bytes: u64,
    pub(super) ssthresh_bytes: u64,
}

/// Window, threshold, and the congestion event in progress.
#[derive(Clone, Debug)]
pub struct Aimd {
    config: WindowConfig,
    mtu_bytes: u32,
    pub(super) windows: Windows,
    /// Bytes acknowledged in congestion avoidance towards the next packet of growth (RFC 3465).
    acked_bytes: u64,
    pub(super) epoch: Epoch<Windows>,
    /// Entries into fast recovery.
    pub(super) recoveries: u64,
    rtt: Option<Duration>,
}

impl Aimd {
    pub(super) fn new(mtu_bytes: u32, config: WindowConfig) -> Self {
        Self {
            config,
            mtu_bytes,
            windows: Windows { window_bytes: config.initial_bytes(mtu_bytes), ssthresh_bytes: u64::MAX },
            acked_bytes: 0,
            epoch: Epoch::new(),
            recoveries: 0,
            rtt: None,
        }
    }

    /// The path as it is now.
    pub(super) fn on_path(&mut self, path: &PathView) {
        self.rtt = pacing_rtt(path);
        self.mtu_bytes = path.mtu_bytes;
        let least_bytes = self.config.min_bytes(self.mtu_bytes).min(self.config.loss_bytes(self.mtu_bytes));
        self.windows.window_bytes = self.windows.window_bytes.max(least_bytes);
    }

    fn is_slow_start(&self) -> bool {
        self.windows.window_bytes < self.windows.ssthresh_bytes
    }

    /// A congestion event: the window times `factor`. With `is_loss`, all of its losses coming back undoes
    /// it.
    pub fn reduce(&mut self, feedback: &Feedback, factor: f64, is_loss: bool) {
        self.epoch.start(feedback, self.windows, is_loss);
        self.recoveries += u64::from(is_loss);
        self.shrink(factor);
    }

    /// Do losses begin a new event? Those of packets sent before the last one belong to that.
    pub fn is_new_loss(&mut self, feedback: &Feedback) -> bool {
        self.epoch.is_new_loss(feedback)
    }

    /// Do marks (RFC 3168: once per window)?
    pub fn is_new_mark(&self, feedback: &Feedback) -> bool {
        self.epoch.is_new_mark(feedback)
    }

    /// Do packets that a code could not repair?
    pub fn is_new_unrepairable(&self, feedback: &Feedback) -> bool {
        self.epoch.is_new_unrepairable(feedback)
    }

    /// Do losses that a code repaired?
    pub fn is_new_repair(&self, feedback: &Feedback) -> bool {
        self.epoch.is_new_repair(feedback)
    }

    /// A reduction without `is_loss` that counts as fast recovery all the same.
    pub fn enter_recovery(&mut self) {
        self.recoveries += 1;
    }

    fn shrink(&mut self, factor: f64) {
        let reduced = (self.windows.window_bytes as f64 * factor) as u64;
        self.windows.ssthresh_bytes = reduced.max(self.config.min_bytes(self.mtu_bytes));
        self.windows.window_bytes = self.windows.ssthresh_bytes;
        self.acked_bytes = 0;
    }

    /// Growth by what was acknowledged, unless it was sent before the last reduction or the application was
    /// the limit.
    pub fn grow(&mut self, feedback: &Feedback) {
        if !self.epoch.covers(feedback.newest_acked_sent_at) {
            self.grow_in_recovery_too(feedback);
        }
    }

    /// The same, also in the round after a reduction.
    pub fn grow_in_recovery_too(&mut self, feedback: &Feedback) {
        if !feedback.is_window_limited {
            return;
        }
        // No ACK acknowledges more than the window allowed to be in flight.
        let acked_bytes = feedback.acked_bytes.min(self.windows.window_bytes);
        let mut acked_bytes = self.config.counted_bytes(acked_bytes, self.mtu_bytes);
        if self.is_slow_start() {
            // RFC 9002 7.3.1: by the bytes acknowledged, up to the threshold; the rest counts as avoidance.
            let growth = acked_bytes.min(self.windows.ssthresh_bytes - self.windows.window_bytes);
            self.windows.window_bytes += growth;
            acked_bytes -= growth;
        }
        self.acked_bytes += acked_bytes;
        // RFC 5681 3.1, RFC 3465 2.1: a packet for every window of bytes acknowledged.
        while self.acked_bytes >= self.windows.window_bytes {
            self.acked_bytes -= self.windows.window_bytes;
            self.windows.window_bytes += u64::from(self.mtu_bytes);
        }
    }

    /// Packets declared lost came back: the event may be undone.
    pub fn on_spurious(&mut self, packets: u32) {
        if packets == 0 {
            return;
        }
        if let Some(before) = self.epoch.on_spurious(packets) {
            self.windows.window_bytes = self.windows.window_bytes.max(before.window_bytes);
            self.windows.ssthresh_bytes = before.ssthresh_bytes;
        }
    }

    /// A timeout (RFC 5681 3.1): half the window becomes the threshold, and slow start begins anew.
    pub(super) fn collapse(&mut self) {
        self.shrink(REDUCTION);
        self.windows.window_bytes = self.config.loss_bytes(self.mtu_bytes);
        self.epoch.reset();
    }

    /// A timeout that is no sign of congestion: slow start from the loss window, where there is one, to the
    /// window as it was.
    pub fn begin_anew(&mut self) {
        if self.config.loss_packets > 0 {
            self.windows.ssthresh_bytes = self.windows.ssthresh_bytes.min(self.windows.window_bytes);
            self.windows.window_bytes = self.config.loss_bytes(self.mtu_bytes);
            self.acked_bytes = 0;
            self.epoch.reset();
        }
    }

    /// Another path: all that was learned is forgotten.
    pub(super) fn restart(&mut self, path: &PathView) {
        *self = Self { recoveries: self.recoveries, ..Self::new(path.mtu_bytes, self.config) };
        self.rtt = pacing_rtt(path);
    }

    /// A retransmission timeout, where timeouts are such.
    pub(super) fn on_timed_out(&mut self, now: Instant) {
        if self.config.is_timeout_final {
            self.epoch.on_timed_out(now);
        }
    }

    /// Has this timeout, the `count`th in a row, told of congestion?
    pub fn on_timeout(&mut self, count: u32) {
        if count == self.config.collapse_timeouts() {
            self.collapse();
        }
    }

    pub(super) fn budget(&self) -> SendBudget {
        self.config.budget(self.windows.window_bytes, self.mtu_bytes, self.rtt, self.is_slow_start())
    }

    pub(super) fn phase(&self) -> &'static str {
        if self.is_slow_start() { "slow start" } else { "congestion avoidance" }
    }
}
