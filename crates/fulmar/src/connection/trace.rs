//! What happened to single packets, for those who log them.

use std::collections::VecDeque;

use fulmar_proto::{ConnectionStats, Instant, PacketEvent};

use super::Connection;
use crate::clock;

/// What has happened on a connection until now.
#[derive(Debug)]
pub struct PacketTrace {
    /// When this was taken.
    pub at: Instant,
    /// Events since the last time, oldest first.
    pub events: VecDeque<PacketEvent>,
    /// Events for which there was no room.
    pub omitted: u64,
    /// The counts at this moment: they agree with the events.
    pub stats: ConnectionStats,
}

impl Connection {
    /// Takes what happened to packets since this was asked last. There is nothing unless
    /// [`TransportConfig::trace_packets`](crate::TransportConfig::trace_packets) asks for it.
    pub fn take_packet_trace(&self) -> PacketTrace {
        let mut state = self.0.lock();
        let (events, omitted) = state.proto.take_packet_events();
        PacketTrace { at: clock::now(), events, omitted, stats: state.proto.stats() }
    }
}
