//! Values over time.

use serde::{Deserialize, Serialize};

/// Values of one flow at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since the start.
    pub t: f64,
    /// Which flow.
    pub flow: usize,
    /// Application bytes read in order so far.
    pub received_bytes: u64,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Smoothed round-trip time, ms.
    pub rtt_ms: f64,
    /// Pace of sending, Mbit/s.
    pub pacing_mbps: Option<f64>,
    /// Estimated loss rate.
    pub loss_estimate: Option<f64>,
    /// Repair symbols per source symbol aimed at.
    pub redundancy: Option<f64>,
    /// The longest delay of a message delivered since the sample before, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Who the sender takes to share the bottleneck: nobody, kin, yielding, insisting, policer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub company: Option<String>,
    /// Bytes in the (first) bottleneck's queue.
    pub queue_bytes: u64,
    /// Bytes of data sent for the first time so far.
    pub sequence_bytes: u64,
    /// Combinations and copies sent so far; of kernel TCP segments sent again.
    pub repair_packets: u64,
    /// Packets handed to the (first) bottleneck so far, of all flows.
    pub offered_packets: u64,
    /// Of these, lost on the wire.
    pub lost_packets: u64,
    /// Of these, dropped by the queue.
    pub dropped_packets: u64,
    /// Of these, marked.
    pub marked_packets: u64,
}
