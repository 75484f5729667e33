//! What happened to single packets, for those who want to write it down.

use std::collections::VecDeque;
use std::time::Duration;

use fulmar_units::Rate;

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
pub(super) struct PacketLog {
    events: VecDeque<PacketEvent>,
    events_max: usize,
    omitted: u64,
}

impl PacketLog {
    /// One that holds so many events.
    pub(super) fn new(events_max: usize) -> Self {
        Self { events: VecDeque::new(), events_max, omitted: 0 }
    }

    /// All there is, and how many there were no room for.
    pub(super) fn take(&mut self) -> (VecDeque<PacketEvent>, u64) {
        (std::mem::take(&mut self.events), std::mem::take(&mut self.omitted))
    }

    pub(super) fn push(&mut self, at: Instant, kind: PacketEventKind) {
        if self.events.len() < self.events_max {
            self.events.push_back(PacketEvent { at, kind });
        } else {
            self.omitted += 1;
        }
    }
}
