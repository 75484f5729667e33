//! Streams: ordered bytes of many streams to and from the frames inside symbols, with flow control (RFC 9000
//! 2-4).
//!
//! What differs from QUIC: the layer below delivers every symbol exactly once, in any order. So nothing here
//! is ever sent again; what is packed is the symbol's; flow-control updates, resets and stop requests
//! are never lost; and a byte that arrives twice is the peer's fault.
//!
//! [`Streams`] is wiring. Rules live in the parts: `table` which streams there are, `send` and `recv` the two
//! halves, `assembler` order, `flow` credit, `schedule` turns, `chunks` memory, `event` what the application
//! learns. Every operation on a stream costs O(log n) in the number of streams, and `has_pending` O(1).

mod app;
mod assembler;
mod chunks;
mod config;
mod event;
mod flow;
mod frames;
mod pack;
mod recv;
mod schedule;
mod send;
mod table;
#[cfg(test)]
mod tests;

pub use app::ClosedStream;
pub use config::{PeerStreamLimits, STREAMS_MAX, StreamConfig};
pub use event::StreamEvent;
pub use pack::FILL_BYTES_MIN;
pub use recv::{Read, ReadError};
pub use send::{FinishError, WriteError};

use crate::{Dir, Side, StreamId};
use chunks::Pool;
use event::Events;
use flow::RecvWindow;
use fulmar_control::Favor;
use recv::RecvShared;
use schedule::{Control, Schedule};
use send::SendShared;
use std::collections::BTreeSet;
use table::Table;

/// What a stream takes beside its data, with its places in tables and queues: 10,000 of a byte each took 10
/// MB.
const STREAM_BYTES: u64 = 1024;

/// All streams of one end of a connection.
#[derive(Debug)]
pub struct Streams {
    table: Table,
    sending: SendShared,
    receiving: RecvShared,
    schedule: Schedule,
    control: BTreeSet<Control>,
    events: Events,
    /// `Opened` is in the queue of events, by direction.
    is_opened_pending: [bool; 2],
    /// `Available` is in the queue of events, by direction.
    is_available_pending: [bool; 2],
    counts: Counts,
    /// What the streams favour whose data was packed last.
    filled_favor: Option<Favor>,
}

#[derive(Copy, Clone, Debug, Default)]
struct Counts {
    bytes_read: u64,
    frames_packed: u64,
    frames_received: u64,
    symbols_filled: u64,
}

/// What the streams of a connection have done so far, and hold now.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStats {
    /// Streams that are not forgotten.
    pub streams: u64,
    /// Streams this end opened.
    pub streams_opened: u64,
    /// Streams the peer opened.
    pub streams_opened_by_peer: u64,
    /// Bytes taken from the application and not packed yet.
    pub queued_bytes: u64,
    /// Stream bytes packed into symbols.
    pub sent_bytes: u64,
    /// Stream bytes the peer has sent, as flow control counts them.
    pub received_bytes: u64,
    /// Stream bytes the application has read.
    pub read_bytes: u64,
    /// Of the received ones, those that it may still read, gaps between them included. What was stopped or
    /// reset is neither read nor unread.
    pub unread_bytes: u64,
    /// Stretches of received bytes that wait beyond a gap.
    pub fragments: u64,
    /// Frames packed, of all kinds.
    pub frames_packed: u64,
    /// Frames received, of all kinds.
    pub frames_received: u64,
    /// Symbols that frames were packed into.
    pub symbols_filled: u64,
}

impl Streams {
    /// No streams yet, at the end `side`, with this end's own limits. The peer allows nothing until
    /// [`Self::set_peer_limits`].
    pub fn new(side: Side, config: &StreamConfig) -> Self {
        let window = RecvWindow::new(config.connection_window_bytes, config.connection_window_bytes_max);
        Self {
            table: Table::new(side, config),
            sending: SendShared {
                queued_max: config.send_buffer_bytes_max.max(1),
                stream_queued_max: config.stream_send_buffer_bytes_max.max(1),
                ..SendShared::default()
            },
            receiving: RecvShared {
                window,
                is_kept: false,
                received: 0,
                fragments: 0,
                fragments_max: config.fragments_max,
                chunks: Pool::default(),
            },
            schedule: Schedule::default(),
            control: BTreeSet::new(),
            events: Events::default(),
            is_opened_pending: [false; 2],
            is_available_pending: [false; 2],
            counts: Counts::default(),
            filled_favor: None,
        }
    }

    /// The peer's limits, from the handshake.
    pub fn set_peer_limits(&mut self, limits: &PeerStreamLimits) {
        self.sending.max = self.sending.max.max(limits.max_data);
        for id in self.table.set_peer_stream_max(limits.max_stream_data) {
            self.wake_if_writable(id);
        }
        self.raise_max_streams(Dir::Bi, limits.max_streams_bi);
        self.raise_max_streams(Dir::Uni, limits.max_streams_uni);
    }

    fn raise_max_streams(&mut self, dir: Dir, max: u64) {
        if self.table.raise_max(dir, max) {
            self.events
                .push_once(StreamEvent::Available { dir }, &mut self.is_available_pending[dir as usize]);
        }
    }

    /// The peer may have so many streams of a direction open from now on; fewer than it was allowed before
    /// only as those end that it has.
    pub fn limit_streams(&mut self, dir: Dir, count: u64) {
        self.table.set_concurrent_max(dir, count.min(STREAMS_MAX));
        if self.table.advance_max(dir) {
            self.control.insert(Control::max_streams(dir));
        }
    }

    /// Nothing has come for a while: what was kept for speed goes.
    pub fn release_memory(&mut self) {
        self.receiving.chunks.release();
        self.schedule.release();
        self.table.release();
        if self.control.is_empty() {
            self.control = BTreeSet::new();
        }
    }

    /// Nothing is sent and nothing arrives any more: what is left is what may still be read.
    pub fn let_go(&mut self) {
        for id in self.table.touched() {
            // One that is closed already has let go of its data.
            let _ = self.reset(id, 0);
        }
        self.control = BTreeSet::new();
        self.release_memory();
        self.release_sending_memory();
    }

    /// Nobody will read what has arrived.
    pub fn discard_unread(&mut self) {
        for id in self.table.touched() {
            let _ = self.stop(id, 0);
        }
        self.control = BTreeSet::new();
    }

    /// Everything was delivered: what was kept for the next data goes.
    pub fn release_sending_memory(&mut self) {
        self.sending.chunks.release();
    }

    fn wake_if_writable(&mut self, id: StreamId) {
        if self.table.send(id).is_some_and(|send| send.take_writable(&self.sending)) {
            self.events.push(StreamEvent::Writable(id));
        }
    }

    /// What happened that an application may wait for.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        loop {
            let event = self.events.pop()?;
            if self.on_event_taken(event) {
                return Some(event);
            }
        }
    }

    /// Lets an event come again; whether what it is about still exists.
    fn on_event_taken(&mut self, event: StreamEvent) -> bool {
        match event {
            StreamEvent::Opened { dir } => self.is_opened_pending[dir as usize] = false,
            StreamEvent::Available { dir } => self.is_available_pending[dir as usize] = false,
            StreamEvent::Stopped { id, .. } => return self.table.is_live(id),
            StreamEvent::Readable(id) => {
                let Some(recv) = self.table.recv(id) else { return false };
                recv.is_event_pending = false;
            }
            StreamEvent::Writable(id) => {
                let Some(send) = self.table.send(id) else { return false };
                send.is_event_pending = false;
            }
        }
        true
    }

    /// Whether nothing at all waits to be packed, be it held back by flow control or not.
    pub fn is_idle(&self) -> bool {
        self.control.is_empty() && self.schedule.is_empty()
    }

    /// Bytes taken from the application and not packed yet, and those received that it has not read, gaps
    /// between them included.
    pub fn held_bytes(&self) -> u64 {
        self.sending.queued + self.unread_bytes()
    }

    /// Bytes of the streams on which something has happened and that are not forgotten, without their data.
    pub fn state_bytes(&self) -> u64 {
        self.table.touched_count() as u64 * STREAM_BYTES
    }

    fn unread_bytes(&self) -> u64 {
        self.receiving.received.saturating_sub(self.receiving.window.consumed())
    }

    /// Windows stay as they are, or may grow again.
    pub fn keep_windows(&mut self, is_kept: bool) {
        self.receiving.is_kept = is_kept;
    }

    /// Bytes taken from the application and not packed yet.
    pub fn queued_bytes(&self) -> u64 {
        self.sending.queued
    }

    /// Counters and levels.
    pub fn stats(&self) -> StreamStats {
        let (streams_opened, streams_opened_by_peer) = self.table.opened();
        StreamStats {
            streams: self.table.len() as u64,
            streams_opened,
            streams_opened_by_peer,
            queued_bytes: self.sending.queued,
            sent_bytes: self.sending.sent,
            received_bytes: self.receiving.received,
            read_bytes: self.counts.bytes_read,
            unread_bytes: self.unread_bytes(),
            fragments: self.receiving.fragments,
            frames_packed: self.counts.frames_packed,
            frames_received: self.counts.frames_received,
            symbols_filled: self.counts.symbols_filled,
        }
    }

    /// The sending half of `id` has come to its end.
    fn drop_send(&mut self, id: StreamId) {
        if let Some(stream) = self.table.stream(id) {
            stream.send = None;
        }
        self.forget_if_done(id);
    }

    /// The receiving half of `id` has come to its end.
    fn drop_recv(&mut self, id: StreamId) {
        if let Some(stream) = self.table.stream(id) {
            stream.recv = None;
        }
        self.control.remove(&Control::MaxStreamData(id));
        self.control.remove(&Control::StopSending(id));
        self.forget_if_done(id);
    }

    fn forget_if_done(&mut self, id: StreamId) {
        if !self.table.forget_if_done(id) {
            return;
        }
        if self.table.advance_max(id.dir()) {
            self.control.insert(Control::max_streams(id.dir()));
        }
        let table = &self.table;
        self.events.compact(table.len(), |id| table.is_live(id));
    }

    /// Queues MAX_DATA if the connection's window has moved.
    fn update_max_data(&mut self) {
        if self.receiving.window.take_due() {
            self.control.insert(Control::MaxData);
        }
    }
}
