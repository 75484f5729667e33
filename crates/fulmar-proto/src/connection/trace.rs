//! What happened to single packets, for those who want a log of them. Without one it costs a comparison for
//! each packet.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_control::PathView;
use fulmar_units::Rate;

use super::Connection;
use super::handshake::Level;
use crate::coding::Content;
use crate::{Instant, PacketNumber};

/// One thing that happened, and when.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PacketEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: PacketEventKind,
}

/// What happened.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketEventKind {
    /// A packet was made, to leave at once.
    Sent {
        /// Which.
        packet: Packet,
        /// It asks to be acknowledged.
        is_ack_eliciting: bool,
        /// What it carries of the coding layer.
        content: Option<Content>,
    },
    /// A packet arrived and was opened; packets that came twice are left out.
    Received {
        /// Which.
        packet: Packet,
    },
    /// A packet was declared lost. Those of the handshake are not: they are repeated by time.
    Lost {
        /// Which.
        packet: Packet,
    },
    /// What congestion control knows has changed.
    Metrics(PathMetrics),
}

/// Which keys protect a packet; numbers are counted for each of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum PacketSpace {
    /// Initial.
    Initial,
    /// Handshake.
    Handshake,
    /// 1-RTT.
    Data,
}

/// A packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its keys.
    pub space: PacketSpace,
    /// Its number.
    pub number: PacketNumber,
    /// Its length with header and tag, in bytes.
    pub bytes: u32,
}

/// What congestion control knows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PathMetrics {
    /// Smoothed RTT.
    pub rtt: Duration,
    /// Smallest RTT.
    pub rtt_min: Duration,
    /// Latest RTT.
    pub rtt_latest: Duration,
    /// RTT variation.
    pub rtt_var: Duration,
    /// Congestion window in bytes.
    pub window_bytes: u64,
    /// Bytes sent and neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Pace of sending, if the controller sets one.
    pub pacing: Option<Rate>,
}

impl From<Level> for PacketSpace {
    fn from(level: Level) -> Self {
        match level {
            Level::Initial => Self::Initial,
            Level::Handshake => Self::Handshake,
        }
    }
}

/// Events that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Trace {
    events: VecDeque<PacketEvent>,
    events_max: usize,
    omitted: u64,
}

impl Trace {
    /// One that holds so many events.
    pub(super) fn new(events_max: usize) -> Self {
        Self { events: VecDeque::new(), events_max, omitted: 0 }
    }

    fn push(&mut self, at: Instant, kind: PacketEventKind) {
        if self.events.len() < self.events_max {
            self.events.push_back(PacketEvent { at, kind });
        } else {
            self.omitted += 1;
        }
    }
}

impl Connection {
    /// Takes the events of [`TransportConfig::trace_packets`](crate::TransportConfig::trace_packets), oldest
    /// first, and says how many there were no room for.
    pub fn take_packet_events(&mut self) -> (VecDeque<PacketEvent>, u64) {
        let taken =
            |trace: &mut Box<Trace>| (std::mem::take(&mut trace.events), std::mem::take(&mut trace.omitted));
        self.trace.as_mut().map(taken).unwrap_or_default()
    }

    pub(super) fn trace_sent(
        &mut self,
        at: Instant,
        (space, number, bytes): (PacketSpace, PacketNumber, usize),
        is_ack_eliciting: bool,
        content: Option<Content>,
    ) {
        if let Some(trace) = &mut self.trace {
            let packet = Packet { space, number, bytes: bytes as u32 };
            trace.push(at, PacketEventKind::Sent { packet, is_ack_eliciting, content });
        }
    }

    pub(super) fn trace_received(
        &mut self,
        at: Instant,
        space: PacketSpace,
        number: PacketNumber,
        bytes: usize,
    ) {
        if let Some(trace) = &mut self.trace {
            let packet = Packet { space, number, bytes: bytes as u32 };
            trace.push(at, PacketEventKind::Received { packet });
        }
    }

    /// What recovery has found out since it was asked last.
    pub(super) fn trace_recovery(&mut self, at: Instant) {
        let Some(trace) = &mut self.trace else { return };
        let recovery = &mut self.path.recovery;
        for (number, bytes) in recovery.take_lost() {
            let packet = Packet { space: PacketSpace::Data, number, bytes };
            trace.push(at, PacketEventKind::Lost { packet });
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
        trace.push(at, PacketEventKind::Metrics(metrics));
    }
}
