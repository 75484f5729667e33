//! Tells of single packets, where somebody wants a log of them. Without one it costs a comparison for each.

use std::collections::VecDeque;

use fulmar_control::PathView;

use super::Connection;
use super::packet_log::{Packet, PacketEvent, PacketEventKind, PacketSpace, PathMetrics};
use crate::coding::Content;
use crate::{Instant, PacketNumber};

impl Connection {
    /// Takes the events of [`TransportConfig::trace_packets`](crate::TransportConfig::trace_packets), oldest
    /// first, and says how many there were no room for.
    pub fn take_packet_events(&mut self) -> (VecDeque<PacketEvent>, u64) {
        self.packet_log.as_mut().map(|log| log.take()).unwrap_or_default()
    }

    pub(super) fn trace_sent(
        &mut self,
        at: Instant,
        (space, number, bytes): (PacketSpace, PacketNumber, usize),
        is_ack_eliciting: bool,
        content: Option<Content>,
    ) {
        if let Some(log) = &mut self.packet_log {
            let packet = Packet { space, number, bytes: bytes as u32 };
            log.push(at, PacketEventKind::Sent { packet, is_ack_eliciting, content });
        }
    }

    pub(super) fn trace_received(
        &mut self,
        at: Instant,
        space: PacketSpace,
        number: PacketNumber,
        bytes: usize,
    ) {
        if let Some(log) = &mut self.packet_log {
            let packet = Packet { space, number, bytes: bytes as u32 };
            log.push(at, PacketEventKind::Received { packet });
        }
    }

    /// What recovery has found out since it was asked last.
    pub(super) fn trace_recovery(&mut self, at: Instant) {
        let Some(log) = &mut self.packet_log else { return };
        let recovery = &mut self.path.recovery;
        for (number, bytes) in recovery.take_lost() {
            let packet = Packet { space: PacketSpace::Data, number, bytes };
            log.push(at, PacketEventKind::Lost { packet });
        }
        let (budget, view): (_, PathView) = (recovery.budget(), recovery.view());
        let metrics = PathMetrics {
            rtt: view.rtt_smoothed,
            rtt_min: view.rtt_min,
            rtt_latest: view.rtt_latest,
            rtt_var: view.rtt_var,
            window_bytes: budget.window_bytes,
            in_flight_bytes: view.in_flight_bytes,
            pacing: budget.pacing,
        };
        log.push(at, PacketEventKind::Metrics(metrics));
    }
}
