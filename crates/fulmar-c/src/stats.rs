//! What a connection can tell about itself, as numbers.

use std::time::Duration;

use fulmar::ConnectionStats;

use crate::memory::SizedStruct;

/// Counts from a connection's beginning, and current values. Rates are zero where they are not known.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct ful_stats {
    /// sizeof(ful_stats), to be set by the caller.
    pub size: usize,
    /// Smoothed round-trip time, ns.
    pub rtt_ns: u64,
    /// Smallest round-trip time, ns.
    pub rtt_min_ns: u64,
    /// Congestion window, bytes.
    pub window_bytes: u64,
    /// Sent and neither acknowledged nor declared lost, bytes.
    pub in_flight_bytes: u64,
    /// Pace of sending, bytes per second.
    pub pacing_bytes_per_s: u64,
    /// Estimate of the bottleneck's rate, bytes per second.
    pub bandwidth_bytes_per_s: u64,
    /// Estimated loss on the wire, before repair, 0 to 1.
    pub loss: f64,
    /// Share of symbols whose first packet was lost, 0 to 1.
    pub loss_before_repair: f64,
    /// Share of symbols for which repair had to be asked for, 0 to 1.
    pub loss_after_repair: f64,
    /// Symbols sent per source symbol, less one.
    pub overhead: f64,
    /// UDP datagrams sent.
    pub sent_packets: u64,
    /// UDP payload sent, bytes.
    pub sent_bytes: u64,
    /// UDP datagrams received.
    pub received_packets: u64,
    /// UDP payload received, bytes.
    pub received_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_packets: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Times the peer's address changed.
    pub path_changes: u64,
    /// Unreliable datagrams sent.
    pub datagrams_sent: u64,
    /// Unreliable datagrams received.
    pub datagrams_received: u64,
    /// Unreliable datagrams dropped because nobody took them.
    pub datagrams_dropped: u64,
    /// Largest UDP payload that the path is known to carry, bytes.
    pub mtu_bytes: u32,
}

// SAFETY: numbers only.
unsafe impl SizedStruct for ful_stats {}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl ful_stats {
    pub(crate) fn new(stats: &ConnectionStats) -> Self {
        Self {
            size: size_of::<Self>(),
            rtt_ns: ns(stats.path.rtt),
            rtt_min_ns: ns(stats.path.rtt_min),
            window_bytes: stats.path.window_bytes,
            in_flight_bytes: stats.path.in_flight_bytes,
            pacing_bytes_per_s: stats.path.pacing.unwrap_or_default().bytes_per_second(),
            bandwidth_bytes_per_s: stats.path.bandwidth.unwrap_or_default().bytes_per_second(),
            loss: stats.path.loss.rate,
            loss_before_repair: stats.loss_before_repair(),
            loss_after_repair: stats.loss_after_repair(),
            overhead: stats.overhead(),
            sent_packets: stats.wire.sent_datagrams,
            sent_bytes: stats.wire.sent_bytes,
            received_packets: stats.wire.received_datagrams,
            received_bytes: stats.wire.received_bytes,
            lost_packets: stats.recovery.lost_packets,
            spurious_packets: stats.recovery.spurious_packets,
            probe_timeouts: stats.recovery.probe_timeouts,
            path_changes: stats.path.changes,
            datagrams_sent: stats.datagrams_sent,
            datagrams_received: stats.datagrams_received,
            datagrams_dropped: stats.datagrams_dropped,
            mtu_bytes: stats.path.mtu_bytes.into(),
        }
    }
}
