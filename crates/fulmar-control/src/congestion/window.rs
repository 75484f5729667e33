//! What window-based controllers share: their settings, what counts as one congestion event, and its undoing.
//!
//! One reduction per round of loss (RFC 6582; RFC 9002 7.3.2): losses and marks of packets sent before the
//! last reduction belong to the event that caused it. If all losses of an event turn out to be mere
//! reordering, the window is given back (RFC 9438 4.9; RFC 4015).

use core::time::Duration;

use fulmar_units::{Instant, Rate};

use crate::{Feedback, PathView, SendBudget};

/// Probe timeouts in a row after which everything outstanding is taken for lost to congestion. The second
/// expires three probe timeouts after the newest packet (1 + 2), which is RFC 9002 7.6.1's
/// kPersistentCongestionThreshold.
const PERSISTENT_TIMEOUTS: u32 = 2;

/// Largest burst above the initial window: a few GSO batches.
const BURST_BYTES_MAX: u64 = 256 << 10;

/// Settings of a window-based controller, in packets of the path's MTU.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowConfig {
    /// Window at the start (RFC 6928, RFC 9002 7.2: 10).
    pub initial_packets: u32,
    /// Smallest window (RFC 9002 7.2: 2).
    pub min_packets: u32,
    /// Spread packets over the round trip (RFC 9002 7.7), rather than leave them to the ACK clock.
    pub is_paced: bool,
    /// The first timeout is a retransmission timeout and collapses the window (RFC 5681 3.1). Otherwise
    /// timeouts are probes, and the window collapses when congestion persists (RFC 9002 7.6).
    pub is_timeout_final: bool,
    /// Window after a retransmission timeout: RFC 5681's loss window, which is 1 there. 0: the smallest.
    pub loss_packets: u32,
    /// An ACK counts as one packet, however much it acknowledges: growth before RFC 3465.
    pub counts_acks: bool,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            initial_packets: 10,
            min_packets: 2,
            is_paced: true,
            is_timeout_final: false,
            loss_packets: 0,
            counts_acks: false,
        }
    }
}

impl WindowConfig {
    pub(super) fn initial_bytes(&self, mtu_bytes: u32) -> u64 {
        u64::from(self.initial_packets.max(self.min_packets)) * u64::from(mtu_bytes)
    }

    pub(super) fn min_bytes(&self, mtu_bytes: u32) -> u64 {
        u64::from(self.min_packets.max(2)) * u64::from(mtu_bytes)
    }

    /// The window after a retransmission timeout.
    pub(super) fn loss_bytes(&self, mtu_bytes: u32) -> u64 {
        match self.loss_packets {
            0 => self.min_bytes(mtu_bytes),
            packets => u64::from(packets) * u64::from(mtu_bytes),
        }
    }

    /// What an ACK of so many bytes counts for where the window grows.
    pub(super) fn counted_bytes(&self, acked_bytes: u64, mtu_bytes: u32) -> u64 {
        if self.counts_acks { acked_bytes.min(u64::from(mtu_bytes)) } else { acked_bytes }
    }

    /// Timeouts in a row that collapse the window.
    pub(super) fn collapse_timeouts(&self) -> u32 {
        if self.is_timeout_final { 1 } else { PERSISTENT_TIMEOUTS }
    }

    /// RFC 9002 7.7: pace at N * window / srtt, N small but above 1; Linux takes 2 in slow start, where the
    /// window may double within the round, and 1.2 later. RFC 9002 names 1.25.
    pub(super) fn budget(
        &self,
        window_bytes: u64,
        mtu_bytes: u32,
        rtt: Option<Duration>,
        is_slow_start: bool,
    ) -> SendBudget {
        let gain = if is_slow_start { 2.0 } else { 1.25 };
        let pacing = rtt
            .filter(|_| self.is_paced)
            .and_then(|rtt| Rate::from_bytes_in(window_bytes, rtt))
            .map(|rate| rate.scaled(gain).max(Rate::from_bytes_per_second(u64::from(mtu_bytes))));
        // RFC 9002 7.7: bursts up to the initial window are fine. At high rates a timer rings too late for
        // that, and a millisecond's worth is what it takes to keep the pace.
        let per_timer_bytes = pacing.map_or(0, |rate| rate.bytes_in(Duration::from_millis(1)));
        let burst_bytes = per_timer_bytes.min(BURST_BYTES_MAX).max(self.initial_bytes(mtu_bytes));
        SendBudget { window_bytes, pacing, burst_bytes }
    }
}

/// Window and threshold as they were before a reduction.
#[derive(Copy, Clone, Debug)]
pub(super) struct Before<T> {
    pub(super) state: T,
    lost_packets: u32,
    returned_packets: u32,
}

/// The congestion event in progress.
#[derive(Clone, Debug)]
pub(super) struct Epoch<T> {
    /// Losses of packets sent up to here belong to it.
    started_at: Option<Instant>,
    /// So do losses of packets sent before the last retransmission timeout (RFC 6582 3.2, step 4).
    timed_out_at: Option<Instant>,
    before: Option<Before<T>>,
}

impl<T: Copy> Epoch<T> {
    pub(super) fn new() -> Self {
        Self { started_at: None, timed_out_at: None, before: None }
    }

    /// Was a packet sent at `sent_at` sent before the last reduction?
    pub(super) fn covers(&self, sent_at: Option<Instant>) -> bool {
        matches!((self.started_at, sent_at), (Some(started_at), Some(sent_at)) if sent_at <= started_at)
    }

    /// Does a loss of a packet sent at `sent_at` belong to the last reduction?
    fn covers_loss(&self, sent_at: Option<Instant>) -> bool {
        let is_before = |at: Instant| sent_at.is_some_and(|sent_at| sent_at <= at);
        self.covers(sent_at) || self.timed_out_at.is_some_and(is_before)
    }

    /// A retransmission timeout at `now` has reduced the window.
    pub(super) fn on_timed_out(&mut self, now: Instant) {
        self.timed_out_at = Some(now);
    }

    /// Do the losses of `feedback` begin a new event? If they belong to the last one they are counted for its
    /// undoing.
    pub(super) fn is_new_loss(&mut self, feedback: &Feedback) -> bool {
        if feedback.lost.packets == 0 {
            return false;
        }
        if !self.covers_loss(feedback.lost.newest_sent_at) {
            return true;
        }
        if let Some(before) = &mut self.before {
            before.lost_packets = before.lost_packets.saturating_add(feedback.lost.packets);
        }
        false
    }

    /// Do the marks of `feedback` begin a new event? (RFC 3168: once per window; RFC 9002 B.7: by the newest
    /// packet acknowledged.)
    pub(super) fn is_new_mark(&self, feedback: &Feedback) -> bool {
        feedback.ecn_ce_packets > 0 && !self.covers(feedback.newest_acked_sent_at)
    }

    /// Do the packets of `feedback` that a code could not repair begin a new event? However late that is
    /// found, it counts from when they were sent.
    pub(super) fn is_new_unrepairable(&self, feedback: &Feedback) -> bool {
        feedback.coding.unrepairable_packets > 0 && !self.covers_loss(feedback.unrepairable_dated())
    }

    /// Do the losses that `feedback` tells of as repaired begin a new event? However late they are repaired,
    /// they count from when they were sent.
    pub(super) fn is_new_repair(&self, feedback: &Feedback) -> bool {
        feedback.coding.repaired_packets > 0 && !self.covers_loss(feedback.repaired_dated())
    }

    /// The window is being reduced; `state` is what an undo restores. Marks cannot be undone.
    pub(super) fn start(&mut self, feedback: &Feedback, state: T, is_loss: bool) {
        self.started_at = Some(feedback.now);
        self.before =
            is_loss.then_some(Before { state, lost_packets: feedback.lost.packets, returned_packets: 0 });
    }

    /// Counts packets that came back; all of the event's gives the state to restore.
    pub(super) fn on_spurious(&mut self, packets: u32) -> Option<T> {
        let before = self.before.as_mut()?;
        before.returned_packets = before.returned_packets.saturating_add(packets);
        if before.returned_packets < before.lost_packets {
            return None;
        }
        let state = before.state;
        *self = Self { timed_out_at: self.timed_out_at, ..Self::new() };
        Some(state)
    }

    /// After a timeout nothing is undone, and every later loss counts.
    pub(super) fn reset(&mut self) {
        *self = Self { timed_out_at: self.timed_out_at, ..Self::new() };
    }
}

/// The RTT to pace by, once there is one.
pub(super) fn pacing_rtt(path: &PathView) -> Option<Duration> {
    path.has_rtt_sample.then_some(path.rtt_smoothed)
}
