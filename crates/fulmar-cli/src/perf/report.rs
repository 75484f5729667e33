//! What a measurement says: the JSON for programs, the table for people.

use std::time::Duration;

use serde::Serialize;

use super::clock::Relation;
use super::protocol::{Delays, Load, Outcome, Received};
use crate::session::WireStats;
use crate::units;

/// One interval of a measurement, as the receiver saw it.
#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    /// Seconds since the start.
    pub start_seconds: f64,
    /// Seconds since the start.
    pub end_seconds: f64,
    /// Delivered to the application in this interval.
    pub bytes: u64,
    /// Delivered since the start.
    pub bytes_total: u64,
    /// Of this interval.
    pub goodput_mbps: f64,
    /// Smoothed round-trip time now.
    pub rtt_ms: f64,
    /// Share of the packets sent so far that were lost on the wire, in percent.
    pub loss_percent: f64,
}

impl Interval {
    pub(super) fn new(before: (f64, u64), end_seconds: f64, bytes_total: u64, wire: &WireStats) -> Self {
        let (start_seconds, bytes_before) = before;
        let bytes = bytes_total.saturating_sub(bytes_before);
        let time = Duration::from_secs_f64((end_seconds - start_seconds).max(0.0));
        Self {
            start_seconds,
            end_seconds,
            bytes,
            bytes_total,
            goodput_mbps: units::mbps(bytes, time),
            rtt_ms: wire.rtt_ms,
            loss_percent: wire.loss_percent(),
        }
    }

    /// The line of the table.
    pub fn line(&self) -> String {
        format!(
            "{:7.2} -{:7.2} s {:>12} {:>12} {:>9.1} ms {:>8.2} %",
            self.start_seconds,
            self.end_seconds,
            units::bytes(self.bytes),
            units::rate(self.goodput_mbps),
            self.rtt_ms,
            self.loss_percent
        )
    }

    /// What stands above the lines.
    pub fn head() -> &'static str {
        "Interval                 Transfer      Goodput         RTT       Loss"
    }
}

/// Processor time of both ends.
#[derive(Debug, Clone, Serialize)]
pub struct Cpu {
    /// Seconds used by this program.
    pub local_seconds: f64,
    /// In percent of one core over the measurement.
    pub local_percent: f64,
    /// Seconds used by the server.
    pub remote_seconds: f64,
    /// In percent of one core over the measurement.
    pub remote_percent: f64,
}

/// The whole measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this program.
    pub version: &'static str,
    /// Profile of the sender, if it is this side; the server chooses its own.
    pub profile: String,
    /// Whether the server sent.
    pub reverse: bool,
    /// Streams at once.
    pub streams: u32,
    /// Delivered to the receiving application, from the first to the last byte, in Mbit/s.
    pub goodput_mbps: f64,
    /// Delivered to the receiving application.
    pub bytes: u64,
    /// From the first to the last byte, at the receiver.
    pub seconds: f64,
    /// From the start of the measurement to its end, at the client.
    pub elapsed_seconds: f64,
    /// Sent by the sender with everything down to IP headers.
    pub wire_bytes: u64,
    /// `wire_bytes / bytes`.
    pub wire_ratio: f64,
    /// Lost on the wire, of the packets sent, in percent.
    pub loss_percent: f64,
    /// Lost on the wire.
    pub lost_packets: u64,
    /// Sent to repair losses: coded symbols and copies.
    pub repair_symbols: u64,
    /// `repair_symbols` in percent of all symbols sent.
    pub repair_percent: f64,
    /// Smoothed round-trip time at the end.
    pub rtt_ms: f64,
    /// Delays, if messages were sent.
    pub messages: Option<Delays>,
    /// Processor time.
    pub cpu: Cpu,
    /// Everything that the sending side of the connection counted.
    pub sender: WireStats,
    /// Everything that the receiving side of the connection counted.
    pub receiver: WireStats,
    /// As seen by the receiver.
    pub intervals: Vec<Interval>,
}

impl Report {
    #[expect(clippy::too_many_arguments, reason = "the one place where a report is put together")]
    pub(super) fn new(
        load: Load,
        is_reverse: bool,
        received: Received,
        local: WireStats,
        outcome: Outcome,
        intervals: Vec<Interval>,
        elapsed: Duration,
        cpu_seconds: f64,
    ) -> Self {
        let (sender, receiver) = if is_reverse { (outcome.wire, local) } else { (local, outcome.wire) };
        let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        let elapsed_seconds = elapsed.as_secs_f64();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            profile: sender.profile.clone(),
            reverse: is_reverse,
            streams: match load {
                Load::Bulk { streams, .. } => streams,
                Load::Messages { .. } => 1,
            },
            goodput_mbps: units::mbps(received.bytes, Duration::from_secs_f64(received.seconds)),
            bytes: received.bytes,
            seconds: received.seconds,
            elapsed_seconds,
            wire_bytes: sender.wire_bytes,
            wire_ratio: sender.wire_bytes as f64 / received.bytes.max(1) as f64,
            loss_percent: sender.loss_percent(),
            lost_packets: sender.lost_packets,
            repair_symbols: sender.repair_symbols,
            repair_percent: percent(sender.repair_symbols as f64, sender.symbols as f64),
            rtt_ms: sender.rtt_ms,
            messages: received.messages,
            cpu: Cpu {
                local_seconds: cpu_seconds,
                local_percent: percent(cpu_seconds, elapsed_seconds),
                remote_seconds: outcome.cpu_seconds,
                remote_percent: percent(outcome.cpu_seconds, elapsed_seconds),
            },
            sender,
            receiver,
            intervals,
        }
    }

    /// What stands below the lines of the intervals.
    pub fn text(&self) -> String {
        let mut text = format!(
            "\n{} delivered in {:.2} s: {}   (profile {})\n",
            units::bytes(self.bytes),
            self.seconds,
            units::rate(self.goodput_mbps),
            self.profile
        );
        text += &format!(
            "on the wire {} (x {:.2})   lost {:.2} % of {} packets   repair {:.2} % of symbols   RTT {:.1} ms\n",
            units::bytes(self.wire_bytes),
            self.wire_ratio,
            self.loss_percent,
            self.sender.packets,
            self.repair_percent,
            self.rtt_ms
        );
        if let Some(delays) = &self.messages {
            text += &delay_text(delays);
        }
        text + &format!(
            "processor: here {:.0} %, there {:.0} % of a core",
            self.cpu.local_percent, self.cpu.remote_percent
        )
    }
}

fn delay_text(delays: &Delays) -> String {
    let clock = match delays.clock {
        Some(Relation::Estimated { error_ns, .. }) => {
            format!("clocks compared by half RTTs, +- {:.1} ms", error_ns as f64 / 1e6)
        }
        _ => "one clock".to_owned(),
    };
    format!(
        "delay of {} messages, in order, ms: min {:.2}  p50 {:.2}  p90 {:.2}  p99 {:.2}  p99.9 {:.2}  max {:.2}   ({clock})\n",
        delays.count,
        delays.min_ms,
        delays.p50_ms,
        delays.p90_ms,
        delays.p99_ms,
        delays.p999_ms,
        delays.max_ms
    )
}
