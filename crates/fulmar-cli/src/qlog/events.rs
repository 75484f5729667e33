//! How events are written: in the shape that qlog has for QUIC (draft-ietf-quic-qlog-quic-events), in a
//! namespace of our own, since our packets are not QUIC's.

use std::time::Duration;

use fulmar::{ConnectionStats, Packet, PacketEventKind, PacketSpace, PathMetrics};
use serde::Serialize;

/// The name and the data of an event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Data {
    /// A packet left, arrived, or was lost.
    Packet(PacketData),
    /// What congestion control knows, by QUIC's names; times in milliseconds.
    Metrics(MetricsData),
}

/// A packet.
#[derive(Debug, Serialize)]
pub struct PacketData {
    header: Header,
    raw: Raw,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_ack_eliciting: Option<bool>,
    /// What it carries of the coding layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<Symbol>,
}

#[derive(Debug, Serialize)]
struct Header {
    packet_type: &'static str,
    packet_number: u64,
}

#[derive(Debug, Serialize)]
struct Raw {
    length: u32,
}

#[derive(Debug, Serialize)]
struct Symbol {
    kind: &'static str,
    number: u64,
}

/// What congestion control knows.
#[derive(Debug, Serialize)]
pub struct MetricsData {
    smoothed_rtt: f64,
    min_rtt: f64,
    latest_rtt: f64,
    rtt_variance: f64,
    congestion_window: u64,
    bytes_in_flight: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_rate: Option<u64>,
}

impl From<Packet> for PacketData {
    fn from(packet: Packet) -> Self {
        let packet_type = match packet.space {
            PacketSpace::Initial => "initial",
            PacketSpace::Handshake => "handshake",
            PacketSpace::Data => "1RTT",
        };
        Self {
            header: Header { packet_type, packet_number: packet.number.0 },
            raw: Raw { length: packet.bytes },
            is_ack_eliciting: None,
            symbol: None,
        }
    }
}

impl From<PathMetrics> for MetricsData {
    fn from(metrics: PathMetrics) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            smoothed_rtt: ms(metrics.rtt),
            min_rtt: ms(metrics.rtt_min),
            latest_rtt: ms(metrics.rtt_latest),
            rtt_variance: ms(metrics.rtt_var),
            congestion_window: metrics.window_bytes,
            bytes_in_flight: metrics.in_flight_bytes,
            pacing_rate: metrics.pacing.map(|rate| rate.bits_per_second()),
        }
    }
}

/// Name and data of what happened; `None` for what this version has no name for.
pub fn event(kind: PacketEventKind) -> Option<(&'static str, Data)> {
    match kind {
        PacketEventKind::Sent { packet, is_ack_eliciting, content } => {
            let symbol = content.map(|content| Symbol { kind: content.name(), number: content.number() });
            let data =
                PacketData { is_ack_eliciting: Some(is_ack_eliciting), symbol, ..PacketData::from(packet) };
            Some(("fulmar:packet_sent", Data::Packet(data)))
        }
        PacketEventKind::Received { packet } => Some(("fulmar:packet_received", Data::Packet(packet.into()))),
        PacketEventKind::Lost { packet } => Some(("fulmar:packet_lost", Data::Packet(packet.into()))),
        PacketEventKind::Metrics(metrics) => {
            Some(("quic:recovery_metrics_updated", Data::Metrics(metrics.into())))
        }
        _ => None,
    }
}

/// What is counted since the connection began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counts {
    sent_datagrams: u64,
    sent_bytes: u64,
    received_datagrams: u64,
    received_bytes: u64,
    opened_packets: u64,
    duplicate_packets: u64,
    lost_packets: u64,
    spurious_packets: u64,
    source_symbols: u64,
    repair_symbols: u64,
    recovered_symbols: u64,
    redundant_symbols: u64,
    loss_before_repair: f64,
    loss_after_repair: f64,
    redundancy: f64,
    controller: &'static str,
    phase: &'static str,
}

impl From<&ConnectionStats> for Counts {
    fn from(stats: &ConnectionStats) -> Self {
        Self {
            sent_datagrams: stats.wire.sent_datagrams,
            sent_bytes: stats.wire.sent_bytes,
            received_datagrams: stats.wire.received_datagrams,
            received_bytes: stats.wire.received_bytes,
            opened_packets: stats.wire.opened_packets,
            duplicate_packets: stats.wire.duplicate_packets,
            lost_packets: stats.recovery.lost_packets,
            spurious_packets: stats.recovery.spurious_packets,
            source_symbols: stats.coding_sent.sources,
            repair_symbols: stats.coding_sent.repairs_sent(),
            recovered_symbols: stats.coding_received.recovered,
            redundant_symbols: stats.coding_received.redundant,
            loss_before_repair: stats.loss_before_repair(),
            loss_after_repair: stats.loss_after_repair(),
            redundancy: stats.redundancy,
            controller: stats.controller,
            phase: stats.phase,
        }
    }
}
