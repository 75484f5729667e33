//! What a connection can tell about itself.

use std::time::Duration;

use fulmar_control::{Company, LossView};
use fulmar_units::Rate;

use super::datagrams::DatagramStats;
use crate::coding::{ReceiverStats, SenderStats};
use crate::recovery::RecoveryStats;
use crate::stream::StreamStats;

/// Counts and current values of one connection. Counts run from its beginning.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Name of the profile this end sends with.
    pub profile: String,
    /// Name of the congestion controller.
    pub controller: &'static str,
    /// The controller's phase.
    pub phase: &'static str,
    /// Who the controller takes to share the bottleneck, if it can tell.
    pub company: Option<Company>,
    /// What is known of the path.
    pub path: PathStats,
    /// What became of packets on the path.
    pub recovery: RecoveryStats,
    /// What went over the wire.
    pub wire: WireStats,
    /// Bytes of symbols kept until the peer has them.
    pub symbols_held_bytes: u64,
    /// Bytes the decoder holds.
    pub decoder_bytes: usize,
    /// Unreliable datagrams sent.
    pub datagrams_sent: u64,
    /// Unreliable datagrams received.
    pub datagrams_received: u64,
    /// Unreliable datagrams dropped because the application did not read them.
    pub datagrams_dropped: u64,
    /// What became of datagrams, and of the symbols that some travelled in.
    pub datagrams: DatagramStats,
    /// What coding sent.
    pub coding_sent: SenderStats,
    /// What decoding received.
    pub coding_received: ReceiverStats,
    /// Repair symbols per source symbol that the policy aims at now.
    pub redundancy: f64,
    /// Streams.
    pub streams: StreamStats,
}

/// Current values of a path.
#[derive(Copy, Clone, Debug, Default)]
#[non_exhaustive]
pub struct PathStats {
    /// Smoothed RTT.
    pub rtt: Duration,
    /// Smallest RTT.
    pub rtt_min: Duration,
    /// RTT variation.
    pub rtt_var: Duration,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Pace of sending, if the controller sets one.
    pub pacing: Option<Rate>,
    /// The controller's estimate of the bottleneck's rate, if it has one.
    pub bandwidth: Option<Rate>,
    /// Estimated loss rate and burst length of packets on the wire, before repair.
    pub loss: LossView,
    /// Largest UDP payload the path is known to carry.
    pub mtu_bytes: u16,
    /// ECN works on this path.
    pub is_ecn_capable: bool,
    /// Times the peer's address changed.
    pub changes: u64,
}

/// What a connection sent and received.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WireStats {
    /// UDP datagrams sent.
    pub sent_datagrams: u64,
    /// UDP payload bytes sent.
    pub sent_bytes: u64,
    /// UDP datagrams received.
    pub received_datagrams: u64,
    /// UDP payload bytes received.
    pub received_bytes: u64,
    /// Packets opened.
    pub opened_packets: u64,
    /// Packets that no key opened.
    pub undecryptable_packets: u64,
    /// Packets that came twice.
    pub duplicate_packets: u64,
    /// ACKs sent after the handshake.
    pub acks_sent: u64,
    /// ACKs received after the handshake.
    pub acks_received: u64,
}

/// What the connection itself counts; the rest is asked for where it is known.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) wire: WireStats,
    pub(super) path_changes: u64,
    pub(super) datagrams_sent: u64,
    pub(super) datagrams_received: u64,
}

impl ConnectionStats {
    /// Share of source symbols whose first packet was lost: loss before repair.
    pub fn loss_before_repair(&self) -> f64 {
        ratio(self.coding_sent.lost, self.coding_sent.sources)
    }

    /// Share of source symbols for which repair had to be asked for: loss that proactive repair did not
    /// cover.
    pub fn loss_after_repair(&self) -> f64 {
        ratio(self.coding_sent.unrepaired, self.coding_sent.sources)
    }

    /// Symbols sent per source symbol, less one.
    pub fn overhead(&self) -> f64 {
        ratio(self.coding_sent.repairs_sent() + self.coding_sent.probes, self.coding_sent.sources)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
