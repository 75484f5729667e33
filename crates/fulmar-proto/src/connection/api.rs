//! The application's side of a connection.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use fulmar_control::Favor;
use fulmar_fec::RLC_LEN_MAX;

use super::close::{Shutdown, State};
use super::{
    Connection, ConnectionStats, DatagramOptions, EndpointEvent, Event, PathStats, SendDatagramError,
};
use crate::coding::TOLD_AT_ONCE_MAX;
use crate::crypto::PeerIdentity;
use crate::recovery::FATES_MAX;
use crate::stream::{ClosedStream, FinishError, Read, ReadError, StreamEvent, WriteError};
use crate::wire::frame::Close;
use crate::{ConnectionError, Dir, Instant, Side, StreamId, TransportError, TransportErrorCode};

impl Connection {
    /// What happened that the application may wait for.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            if event == Event::DatagramReceived {
                self.datagrams.on_told();
            }
            return Some(event);
        }
        if let Some(event) = self.streams.poll_event() {
            return Some(event.into());
        }
        if self.datagrams.poll_unblocked() {
            return Some(Event::DatagramsUnblocked);
        }
        if self.is_delivery_awaited && !self.has_unacked() {
            self.is_delivery_awaited = false;
            return Some(Event::Delivered);
        }
        None
    }

    /// What the endpoint must know.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.endpoint_events.pop_front().or_else(|| self.cids.poll_event().map(EndpointEvent::from))
    }

    /// Opens a stream; `None` if the peer allows no more now. [`Event::StreamsAvailable`] follows.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        if self.is_closing() { None } else { self.streams.open(dir) }
    }

    /// The peer may have so many streams of a direction open from now on, whatever the settings say; fewer
    /// than before only as those end that it has.
    pub fn limit_streams(&mut self, dir: Dir, count: u64) {
        self.streams.limit_streams(dir, count);
    }

    /// The next stream the peer has opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.streams.accept(dir)
    }

    /// Queues bytes on a stream; returns how many were taken, at least one.
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        if self.is_closing() {
            return Err(WriteError::Closed);
        }
        let written = self.streams.write(id, data)?;
        self.is_delivery_awaited |= written > 0;
        Ok(written)
    }

    /// As [`Self::write`], without a copy: what was taken is gone from the front of `data`.
    pub fn write_chunk(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        if self.is_closing() {
            return Err(WriteError::Closed);
        }
        let written = self.streams.write_chunk(id, data)?;
        self.is_delivery_awaited |= written > 0;
        Ok(written)
    }

    /// Ends a stream after what was written.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.is_delivery_awaited |= !self.is_drained();
        self.streams.finish(id)
    }

    /// Abandons a stream: what was written and not yet sent is dropped, and the peer's reader gets `code`.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        self.streams.reset(id, code)
    }

    /// Streams of higher priority go first; those of equal priority take turns. Default: 0.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        self.streams.set_priority(id, priority)
    }

    /// What one stream favours, whatever the connection's profile says (`favor`). Only the default profile's
    /// policy heeds it.
    pub fn set_favor(&mut self, id: StreamId, favor: Favor) -> Result<(), ClosedStream> {
        self.streams.set_favor(id, favor)
    }

    /// Wants no more of a stream; the peer's writer gets `code`.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), ClosedStream> {
        self.streams.stop(id, code)
    }

    /// Reads bytes of a stream in order, up to the length of `out`.
    pub fn read(&mut self, now: Instant, id: StreamId, out: &mut [u8]) -> Result<Read<usize>, ReadError> {
        let rtt = self.path.recovery.rtt().smoothed();
        self.streams.read(id, out, now, rtt)
    }

    /// Reads bytes of a stream in order, without copying them.
    pub fn read_chunk(
        &mut self,
        now: Instant,
        id: StreamId,
        bytes_max: usize,
    ) -> Result<Read<Bytes>, ReadError> {
        let rtt = self.path.recovery.rtt().smoothed();
        self.streams.read_chunk(id, bytes_max, now, rtt)
    }

    /// Queues an unreliable datagram, which is sent once.
    pub fn send_datagram(&mut self, data: Bytes) -> Result<(), SendDatagramError> {
        let max = self.datagram_bytes_max().ok_or(SendDatagramError::Unsupported)?;
        if data.len() > max {
            return Err(SendDatagramError::TooLarge { max });
        }
        self.datagrams.send(data, None, self.path.recovery.congestion().bandwidth())
    }

    /// Queues a datagram of which more is asked. One that fits no packet travels in pieces, whatever its
    /// class. A peer that does not know symbols of datagrams gets each once, as it is.
    pub fn send_datagram_with(
        &mut self,
        now: Instant,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        let max = self.any_datagram_bytes_max().ok_or(SendDatagramError::Unsupported)?;
        let is_coded = self.peer.is_some_and(|peer| peer.coded_datagram_bytes_max >= data.len() as u64);
        let rate = self.path.recovery.congestion().bandwidth();
        let fits_packet = self.datagram_bytes_max().is_some_and(|max| data.len() <= max);
        if is_coded && (options.is_repaired() || !fits_packet) {
            self.datagrams.send_coded(now, data, options, rate)
        } else if fits_packet {
            self.datagrams.send(data, options.expires_at(now), rate)
        } else {
            Err(SendDatagramError::TooLarge { max })
        }
    }

    /// Most bytes an unreliable datagram may have now; `None` if the peer takes none (or is not known yet).
    pub fn datagram_bytes_max(&self) -> Option<usize> {
        let peer = self.peer?.datagram_bytes_max;
        let path = usize::from(self.path.recovery.mtu_bytes()) - self.datagram_overhead_bytes();
        (peer > 0).then(|| usize::try_from(peer).unwrap_or(usize::MAX).min(path))
    }

    /// The same for [`Self::send_datagram_with`], which cuts what fits no packet, if the peer knows that.
    pub fn any_datagram_bytes_max(&self) -> Option<usize> {
        let coded = self.peer.map_or(0, |peer| peer.coded_datagram_bytes_max);
        self.datagram_bytes_max().map(|plain| plain.max(usize::try_from(coded).unwrap_or(usize::MAX)))
    }

    /// The next unreliable datagram that arrived.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.read()
    }

    /// Closes at once: what was not delivered yet may be lost.
    pub fn close(&mut self, now: Instant, code: u64, reason: Bytes) {
        if !self.state.is_closed() {
            let close = Close::Application { code, reason };
            self.end(now, close, ConnectionError::LocallyClosed);
        }
    }

    /// Closes in order: takes no more data, delivers everything written so far, then closes. A peer that has
    /// gone is waited for until the idle timeout.
    pub fn shutdown(&mut self, now: Instant, code: u64, reason: Bytes) {
        if self.state.is_closed() || self.shutdown.is_some() {
            return;
        }
        self.shutdown = Some(Shutdown { code, reason });
        self.close_if_delivered(now);
    }

    /// If an orderly end was asked for and everything is delivered, closes.
    pub(super) fn close_if_delivered(&mut self, now: Instant) {
        if self.shutdown.is_some()
            && !self.has_unacked()
            && matches!(self.state, State::Established)
            && let Some(Shutdown { code, reason }) = self.shutdown.take()
        {
            self.close(now, code, reason);
        }
    }

    /// Ends the connection because of an error found here, or by whoever drives it.
    pub fn fail(&mut self, now: Instant, error: TransportError) {
        if !self.state.is_closed() {
            tracing::debug!(%error, "connection failed");
            self.end(now, Close::Transport(error.clone()), ConnectionError::Transport(error));
        }
    }

    /// Another takes the place of this handshake: the peer is told once, and nothing is kept of it. Does
    /// nothing to a connection whose handshake is over.
    pub fn give_way(&mut self, now: Instant) {
        if self.is_handshaking() {
            let error = TransportError::new(TransportErrorCode::ConnectionRefused, "too many handshakes");
            self.state = State::leaving(now, Close::Transport(error.clone()));
            self.on_ended(ConnectionError::Transport(error));
        }
    }

    fn end(&mut self, now: Instant, close: Close, error: ConnectionError) {
        // Where nothing was ever heard nobody would ask for a second word.
        let is_anybody_there = self.side.is_server() || self.counts.wire.opened_packets > 0;
        let timeout = self.path.recovery.news_timeout();
        self.state =
            if is_anybody_there { State::closing(now, close, timeout) } else { State::leaving(now, close) };
        self.on_ended(error);
    }

    /// Ends the connection without a word.
    pub(super) fn drain(&mut self, now: Instant, error: ConnectionError) {
        self.state = State::draining(now, self.path.recovery.news_timeout());
        self.on_ended(error);
    }

    fn on_ended(&mut self, error: ConnectionError) {
        if self.close_reason.is_none() {
            self.close_reason = Some(error.clone());
            self.events.push_back(Event::Closed(error));
        }
    }

    /// An end was asked for or has come: no new streams or data.
    fn is_closing(&self) -> bool {
        self.shutdown.is_some() || self.state.is_closed()
    }

    /// The connection has ended; [`Self::close_reason`] says why.
    pub fn is_closed(&self) -> bool {
        self.state.is_closed()
    }

    /// Keys are still being agreed.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking)
    }

    /// Everything is over: the connection may be dropped.
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Drained)
    }

    /// Why the connection ended.
    pub fn close_reason(&self) -> Option<&ConnectionError> {
        self.close_reason.as_ref()
    }

    /// Bytes that the peer has made this end hold, those of streams left out, which flow control bounds.
    pub fn receive_memory_bytes(&self) -> usize {
        let early: usize = self.early.iter().map(|(_, packet)| packet.capacity()).sum();
        let symbols = self.symbols_in.memory_bytes() + self.datagrams.memory_bytes();
        symbols + early + self.handshake.memory_bytes() + self.path.recovery.memory_bytes()
    }

    /// Bytes that this connection holds for others: what the peer made it hold, streams and their data that
    /// wait for a reader, and what was written and has not arrived.
    pub fn memory_bytes(&self) -> usize {
        let streams = self.streams.held_bytes() + self.streams.state_bytes() + self.coding.memory_bytes();
        let datagrams = self.datagrams.outgoing_bytes();
        self.receive_memory_bytes() + datagrams + usize::try_from(streams).unwrap_or(usize::MAX)
    }

    /// Lets go of what has arrived on streams and was not read, of a connection that has ended.
    pub fn discard_unread(&mut self) {
        self.streams.discard_unread();
    }

    /// Memory is short: from now on the windows of flow control stay as they are, or may grow again.
    pub fn keep_windows(&mut self, is_kept: bool) {
        self.streams.keep_windows(is_kept);
    }

    /// Work that decoding has cost so far, in units of the codes (`fulmar_fec::WORK_MAX`).
    pub fn decoder_work(&self) -> u64 {
        self.symbols_in.work()
    }

    /// Packets and symbols whose fate was settled so far: what ACKs have cost. One datagram adds at most
    /// [`Self::SETTLED_AT_ONCE_MAX`]; what an ACK tells beyond is settled in as many calls of
    /// [`Self::handle_timeout`] as it takes, which are due at once.
    pub fn settled(&self) -> u64 {
        self.path.recovery.fates_found() + self.coding.told_symbols()
    }

    /// See [`Self::settled`]. A block of symbols is told of as a whole, hence the last term.
    pub const SETTLED_AT_ONCE_MAX: u64 = (FATES_MAX + TOLD_AT_ONCE_MAX) as u64 + RLC_LEN_MAX as u64;

    /// A packet led to more than was done for it: [`Self::handle_timeout`] is to be called at once, again and
    /// again, and others in between.
    pub fn is_busy(&self) -> bool {
        self.unsettled_at.is_some() && !self.is_closed()
    }

    /// Something waits to be sent that flow control lets go: data, or what flow control itself has to tell.
    /// Reading from a stream may lead to that.
    pub fn has_pending(&self) -> bool {
        self.streams.has_pending()
    }

    /// Something written has not reached the peer yet, as far as this end knows.
    pub fn has_unacked(&self) -> bool {
        !self.streams.is_idle() || !self.coding.is_all_delivered()
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.path.remote
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Who the peer proved to be; `None` before the handshake, or if a client showed nothing.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        self.handshake.session.peer_identity()
    }

    /// The application protocol agreed on (RFC 7301), once known.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.handshake.session.alpn()
    }

    /// The name that an X.509 client asked for (RFC 6066); with raw keys none is sent.
    pub fn server_name(&self) -> Option<&str> {
        self.handshake.session.server_name()
    }

    /// Smoothed RTT.
    pub fn rtt(&self) -> Duration {
        self.path.recovery.rtt().smoothed()
    }

    /// Fills `out` with secret bytes that both ends derive alike (RFC 8446 7.5).
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), TransportError> {
        self.handshake.session.export_keying_material(out, label, context)
    }

    /// Changes keys as soon as the peer has acknowledged a packet under the current ones. False if that is
    /// not yet so.
    pub fn initiate_key_update(&mut self) -> bool {
        self.keys.as_mut().is_some_and(|keys| keys.initiate_update().is_ok())
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self) {
        self.is_ping_pending = true;
    }

    /// The local socket has changed: tells the peer by sending from it at once. For clients.
    pub fn handle_path_change(&mut self, now: Instant) {
        if matches!(self.state, State::Established) {
            self.handle_fresh_port();
            self.liveness.on_path_change(now);
        }
    }

    /// The same because nothing was answered ([`Event::PathSilent`](crate::Event::PathSilent)): that the port
    /// is another does not make the peer alive, so the idle timeout goes on.
    pub fn handle_fresh_port(&mut self) {
        if matches!(self.state, State::Established) {
            self.is_ping_pending = true;
            self.cids.change();
            let draw = self.draw();
            self.path.remote.set_port(self.ports.next(self.path.remote.port(), draw));
            self.counts.path_changes += 1;
        }
    }

    /// The server's ports, if it has told of several. For clients.
    pub fn server_ports(&self) -> &[RangeInclusive<u16>] {
        self.ports.told()
    }

    /// What is sent goes another way from now on, to the same server. Nothing is known of it: not whether it
    /// is longer, carries less, or leads there at all. For clients.
    pub fn handle_other_way(&mut self, now: Instant) {
        if matches!(self.state, State::Established) {
            self.handle_fresh_port();
            let limit = self.peer.map(|peer| peer.udp_payload_max);
            self.path.recovery.on_other_way(now, limit);
            // Its ACKs may have gone where nobody is.
            self.received.request_ack();
        }
    }

    /// Counts and current values.
    pub fn stats(&self) -> ConnectionStats {
        let congestion = self.path.recovery.congestion();
        ConnectionStats {
            profile: self.profile_name.clone(),
            controller: congestion.name(),
            phase: congestion.phase(),
            company: congestion.company(),
            path: self.path_stats(),
            recovery: *self.path.recovery.stats(),
            wire: self.counts.wire,
            symbols_held_bytes: self.coding.held_bytes(),
            decoder_bytes: self.symbols_in.memory_bytes(),
            datagrams_sent: self.counts.datagrams_sent,
            datagrams_received: self.counts.datagrams_received,
            datagrams_dropped: self.datagrams.dropped,
            datagrams: self.datagrams.stats(),
            coding_sent: *self.coding.stats(),
            coding_received: *self.symbols_in.stats(),
            redundancy: self.coding.redundancy(),
            streams: self.streams.stats(),
        }
    }

    fn path_stats(&self) -> PathStats {
        let recovery = &self.path.recovery;
        let (budget, view) = (recovery.budget(), recovery.view());
        PathStats {
            rtt: view.rtt_smoothed,
            rtt_min: view.rtt_min,
            rtt_var: view.rtt_var,
            window_bytes: budget.window_bytes,
            in_flight_bytes: recovery.in_flight_bytes(),
            pacing: budget.pacing,
            bandwidth: recovery.congestion().bandwidth(),
            loss: view.loss,
            mtu_bytes: recovery.mtu_bytes(),
            is_ecn_capable: recovery.ecn().is_capable(),
            changes: self.counts.path_changes,
        }
    }
}

impl From<StreamEvent> for Event {
    fn from(event: StreamEvent) -> Self {
        match event {
            StreamEvent::Readable(id) => Self::Readable(id),
            StreamEvent::Writable(id) => Self::Writable(id),
            StreamEvent::Stopped { id, code } => Self::Stopped { id, code },
            StreamEvent::Opened { dir } => Self::StreamOpened { dir },
            StreamEvent::Available { dir } => Self::StreamsAvailable { dir },
        }
    }
}
