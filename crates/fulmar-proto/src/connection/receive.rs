//! Datagrams in: packets opened, duplicates dropped, frames given to whom they concern.

use bytes::Bytes;

use super::cids::Cids;
use super::close::State;
use super::feedback::Carried;
use super::handshake::Level;
use super::packet_log::PacketSpace;
use super::path::Validation;
use super::{Connection, DatagramMeta, Event};
use crate::crypto::{OpenError, PacketKeys, retry};
use crate::recovery::{AckPolicy, Arrival, Awaits, Ecn, Received, Recovery};
use crate::stream::Streams;
use crate::wire::frame::{Close, Frame, Frames};
use crate::wire::packet::{self, LongType, PacketKind, Peeked, ProtectedPacket};
use crate::wire::symbol::{SymbolFrame, SymbolFrames};
use crate::{ConnectionError, ConnectionId, Instant, Rate, Side, TransportError, TransportErrorCode};

/// Bytes kept of packets that came before the keys to open them: a flight of 16.
const EARLY_BYTES_MAX: usize = 16 * 1500;
/// So many of the newest challenges are answered: one for each address that the peer asks at a time, and one.
const RESPONSES_MAX: usize = 5;

/// Symbols of datagrams, and repair of them, that a packet may carry: each may cost as much as all that is
/// remembered of those before.
const CODED_DATAGRAMS_MAX: u32 = 16;

/// Borrows those whom the frames of a symbol concern, and leaves the decoder.
macro_rules! delivery {
    ($connection:expr) => {
        Delivery {
            streams: &mut $connection.streams,
            received: &mut $connection.received,
            cids: &mut $connection.cids,
            recovery: &mut $connection.path.recovery,
        }
    };
}

impl Connection {
    /// A datagram for this connection arrived. It is decrypted in place; what it held afterwards has no
    /// meaning.
    pub fn handle_datagram(&mut self, now: Instant, meta: &DatagramMeta, datagram: &mut [u8]) {
        if matches!(self.state, State::Draining { .. } | State::Drained) {
            return;
        }
        self.counts.wire.received_datagrams += 1;
        self.counts.wire.received_bytes += datagram.len() as u64;
        if let Some(intake) = &mut self.intake {
            intake.on_datagram(now, datagram.len() as u64);
        }
        if meta.remote == self.path.remote {
            self.path.on_datagram_received(datagram.len() as u64);
        } else {
            self.elsewhere.on_datagram(meta.remote, datagram.len() as u64);
        }
        if self.state.is_closed() {
            self.state.on_packet_while_closing();
        }
        self.open_datagram(now, meta, datagram);
    }

    pub(super) fn open_datagram(&mut self, now: Instant, meta: &DatagramMeta, datagram: &mut [u8]) {
        if self.side.is_client() && self.take_unprotected(now, datagram) {
            return;
        }
        for (packet, bytes) in packet::split(datagram, self.cids.own_bytes()) {
            if let Err(error) = self.on_packet(now, meta, &packet, bytes) {
                self.fail(now, error);
                return;
            }
        }
        self.look_for_unsettled(now);
        self.close_if_delivered(now);
    }

    /// A stateless reset for this connection arrived: the peer has lost its state (docs/internals/wire.md 4).
    pub fn handle_reset(&mut self, now: Instant) {
        if !self.state.is_closed() {
            self.drain(now, ConnectionError::Reset);
        }
    }

    fn on_packet(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        packet: &ProtectedPacket,
        bytes: &mut [u8],
    ) -> Result<(), TransportError> {
        match packet.kind {
            // A server has no token to send (RFC 9000 17.2.2).
            PacketKind::Initial { ref token, .. } if self.side.is_client() && !token.is_empty() => Ok(()),
            PacketKind::Initial { scid, .. } => {
                self.on_long_packet(now, meta, (Level::Initial, scid), packet, bytes)
            }
            PacketKind::Handshake { scid } => {
                self.on_long_packet(now, meta, (Level::Handshake, scid), packet, bytes)
            }
            // Longer than this end has said it takes: what one packet may cost depends on its length.
            PacketKind::OneRtt if bytes.len() > usize::from(self.config.udp_payload_bytes_max()) => Ok(()),
            PacketKind::OneRtt if matches!(self.state, State::Handshaking) => {
                let held = |len: usize| len + size_of::<(DatagramMeta, Vec<u8>)>();
                let held_bytes: usize = self.early.iter().map(|(_, packet)| held(packet.len())).sum();
                if held_bytes + held(bytes.len()) <= EARLY_BYTES_MAX {
                    self.early.push((*meta, bytes.to_vec()));
                }
                Ok(())
            }
            PacketKind::OneRtt => self.on_short_packet(now, meta, packet, bytes),
        }
    }

    /// Version negotiation and Retry, which are not protected. True if the datagram was one of them.
    fn take_unprotected(&mut self, now: Instant, datagram: &[u8]) -> bool {
        match packet::peek(datagram, self.cids.own_bytes()) {
            Ok(Peeked::VersionNegotiation { versions, .. }) => {
                // RFC 9000 6.2: ignored once anything else was received, or if it offers what was asked for.
                let offers_ours = packet::versions(versions).any(|version| version == packet::VERSION);
                if matches!(self.state, State::Handshaking) && !self.cids.has_heard_server() && !offers_ours {
                    self.drain(now, ConnectionError::VersionMismatch);
                }
                true
            }
            Ok(Peeked::Long { ty: LongType::Retry, .. }) => {
                self.on_retry(datagram);
                true
            }
            _ => false,
        }
    }

    fn on_retry(&mut self, datagram: &[u8]) {
        // RFC 9000 17.2.5.2: at most one, before anything else.
        if self.cids.retry.is_some()
            || self.cids.has_heard_server()
            || !matches!(self.state, State::Handshaking)
        {
            return;
        }
        let Ok(retry) = retry::open(datagram, &self.cids.original) else { return };
        self.cids.on_retry(retry.scid, retry.token);
        self.handshake.restart(PacketKeys::initial(&retry.scid, Side::Client));
    }

    /// The server does not know the token of its Retry (any more). True if this client asks it again, as if
    /// for the first time.
    fn begin_anew(&mut self) -> bool {
        let fresh = ConnectionId::new(self.draw().to_be_bytes());
        let is_begun = self.cids.restart(fresh);
        if is_begun {
            self.handshake.restart(PacketKeys::initial(&fresh, Side::Client));
        }
        is_begun
    }

    fn on_long_packet(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        (level, scid): (Level, ConnectionId),
        packet: &ProtectedPacket,
        bytes: &mut [u8],
    ) -> Result<(), TransportError> {
        let Some(space) = self.handshake.space(level) else { return Ok(()) };
        let opened = space.keys.open(bytes, packet.pn_offset, space.received.expected());
        let opened = opened.map(|(number, frames)| (number, space.received.classify(number), frames));
        let Some((number, arrival, frames)) = self.opened_or_dropped(opened)? else { return Ok(()) };
        if self.side.is_server()
            && level == Level::Handshake
            && self.elsewhere.is_empty()
            && matches!(self.path.validation, Validation::ByHandshake)
        {
            // RFC 9000 8.1: the client can only have this key if it received at its address, the only one so
            // far.
            self.path.validation = Validation::Done;
        }
        if matches!(self.state, State::Handshaking) {
            self.on_origin_in_handshake(now, meta, bytes.len());
        }
        if arrival == Arrival::Duplicate {
            self.counts.wire.duplicate_packets += 1;
            return Ok(());
        }
        self.trace_received(now, level.into(), number, bytes.len());
        let is_first = self.side.is_client() && !self.cids.has_heard_server();
        self.cids.on_first_packet(self.side, scid);
        if self.side.is_server() && level == Level::Handshake {
            // RFC 9001 4.9.1.
            self.handshake.discard(Level::Initial);
        }
        if is_first && is_token_refused(&bytes[frames.clone()]) && self.begin_anew() {
            return Ok(());
        }
        let is_ack_eliciting = self.on_handshake_frames(now, level, &bytes[frames])?;
        if let Some(space) = self.handshake.space(level) {
            let awaits = if is_ack_eliciting { Awaits::Arrival } else { Awaits::Nothing };
            space.received.on_packet(now, number, None, awaits);
        }
        self.liveness.on_heard(now);
        Ok(())
    }

    /// Counts what could not be opened and drops it; only a spent key ends the connection.
    fn opened_or_dropped<T>(&mut self, opened: Result<T, OpenError>) -> Result<Option<T>, TransportError> {
        match opened {
            Ok(opened) => {
                self.counts.wire.opened_packets += 1;
                Ok(Some(opened))
            }
            Err(error) => {
                self.counts.wire.undecryptable_packets += 1;
                error.violation().map_or(Ok(None), Err)
            }
        }
    }

    fn on_short_packet(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        packet: &ProtectedPacket,
        bytes: &mut [u8],
    ) -> Result<(), TransportError> {
        let pto = self.probe_timeout();
        let expected = self.received.expected();
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let opened = keys.open(bytes, packet.pn_offset, expected, now, pto);
        let Some(opened) = self.opened_or_dropped(opened)? else { return Ok(()) };
        if self.received.classify(opened.number) == Arrival::Duplicate {
            self.counts.wire.duplicate_packets += 1;
            self.on_origin(now, meta, opened.number, bytes);
            return Ok(());
        }
        self.trace_received(now, PacketSpace::Data, opened.number, bytes.len());
        if self.state.is_closed() {
            return self.on_frames_while_closing(now, &bytes[opened.frames]);
        }
        let is_ack_eliciting = self.on_frames(now, meta.ecn, opened.number, &bytes[opened.frames])?;
        self.on_origin(now, meta, opened.number, bytes);
        if self.side.is_client() {
            self.ports.on_heard(meta.remote.port());
            self.quiet.on_heard(now, self.path.recovery.rtt().smoothed(), is_ack_eliciting);
        }
        self.liveness.on_heard(now);
        Ok(())
    }

    /// After closing only the peer's own close matters: it ends the repeating.
    fn on_frames_while_closing(&mut self, now: Instant, payload: &[u8]) -> Result<(), TransportError> {
        for frame in Frames::new(payload).flatten() {
            if let Frame::Close(_) = frame {
                self.state = State::draining(now, self.path.recovery.news_timeout());
                return Ok(());
            }
        }
        Ok(())
    }

    fn on_frames(
        &mut self,
        now: Instant,
        ecn: Option<Ecn>,
        number: crate::PacketNumber,
        payload: &[u8],
    ) -> Result<bool, TransportError> {
        let mut is_ack_eliciting = false;
        let (mut wants_ack_now, mut must_arrive) = (false, false);
        // The first is heard; it can tell as much as all that follow could.
        let mut has_ack = false;
        let mut coded_datagrams = 0;
        for frame in Frames::new(payload) {
            let frame = frame.map_err(|_| TransportError::frame_encoding("malformed frame"))?;
            is_ack_eliciting |= !matches!(frame, Frame::Padding | Frame::Ack(_) | Frame::Close(_));
            wants_ack_now |= matches!(frame, Frame::Ping);
            must_arrive |=
                matches!(frame, Frame::Source { .. } | Frame::SourcePart { .. } | Frame::Repair(_));
            if matches!(frame, Frame::Ack(_)) && std::mem::replace(&mut has_ack, true) {
                continue;
            }
            coded_datagrams += u32::from(matches!(frame, Frame::CodedDatagram(_) | Frame::DatagramRepair(_)));
            if coded_datagrams > CODED_DATAGRAMS_MAX {
                return Err(TransportError::protocol_violation("too many symbols of datagrams in a packet"));
            }
            self.on_frame(now, frame)?;
            if self.state.is_closed() {
                return Ok(false);
            }
        }
        if self.symbols_in.take_dropped() {
            // To the sender it is lost, as if a queue had been full on the way: nothing was learnt from it.
            return Ok(is_ack_eliciting);
        }
        let awaits = match (must_arrive, is_ack_eliciting) {
            (true, _) => Awaits::Arrival,
            (false, true) => Awaits::Word,
            (false, false) => Awaits::Nothing,
        };
        self.received.on_packet(now, number, ecn, awaits);
        self.path.recovery.on_received(now, number, awaits);
        if wants_ack_now {
            self.received.request_ack();
        }
        Ok(is_ack_eliciting)
    }

    fn on_frame(&mut self, now: Instant, frame: Frame<'_>) -> Result<(), TransportError> {
        match frame {
            Frame::Padding | Frame::Ping => {}
            Frame::Ack(ack) => self.on_ack(now, &ack)?,
            Frame::Source { id, symbol } => {
                self.on_symbol_passed(now);
                let mut to = delivery!(self);
                self.symbols_in.on_source(id, symbol, &mut |symbol| to.deliver(symbol))?;
            }
            Frame::SourcePart { id, len, start, piece } => {
                let mut to = delivery!(self);
                self.symbols_in.on_part(id, len, start, piece, &mut |symbol| to.deliver(symbol))?;
            }
            Frame::Repair(repair) => {
                self.on_symbol_passed(now);
                let mut to = delivery!(self);
                self.symbols_in.on_repair(&repair, &mut |symbol| to.deliver(symbol))?;
            }
            Frame::Datagram(data) => {
                self.check_takes_datagrams()?;
                self.liveness.on_used(now);
                self.datagrams.receive(Bytes::copy_from_slice(data));
                self.on_datagrams(1);
            }
            Frame::CodedDatagram(symbol) => {
                self.check_takes_datagrams()?;
                self.liveness.on_used(now);
                self.on_symbol_passed(now);
                let came = self.datagrams.on_symbol(now, symbol.id, symbol.symbol)?;
                self.on_datagrams(came);
            }
            Frame::DatagramRepair(repair) => {
                self.check_takes_datagrams()?;
                self.liveness.on_used(now);
                self.on_symbol_passed(now);
                let came = self.datagrams.on_repair(now, &repair)?;
                self.on_datagrams(came);
            }
            Frame::PathChallenge(token) => {
                self.liveness.on_challenged();
                self.elsewhere.responses.truncate(RESPONSES_MAX - 1);
                self.elsewhere.responses.insert(0, token);
            }
            Frame::PathResponse(token) => self.on_path_response(now, token),
            Frame::Close(close) => self.on_peer_close(now, close),
            Frame::Crypto { .. } => {
                return Err(TransportError::protocol_violation("handshake data after the handshake"));
            }
        }
        Ok(())
    }

    /// Goes on decoding what has arrived. What that brings is told at once: the ACK of the packets it came
    /// from may have left.
    pub(super) fn decode_more(&mut self) -> Result<(), TransportError> {
        let recovered = self.symbols_in.stats().recovered;
        let mut to = delivery!(self);
        self.symbols_in.go_on(&mut |symbol| to.deliver(symbol))?;
        if self.symbols_in.stats().recovered > recovered {
            self.received.request_ack();
        }
        Ok(())
    }

    fn check_takes_datagrams(&self) -> Result<(), TransportError> {
        if self.config.datagram_buffer_bytes == 0 {
            return Err(TransportError::protocol_violation("datagram although none are taken"));
        }
        Ok(())
    }

    /// So many datagrams have come.
    pub(super) fn on_datagrams(&mut self, came: u64) {
        self.counts.datagrams_received += came;
        if came > 0 && self.datagrams.poll_announcement() {
            self.events.push_back(Event::DatagramReceived);
        }
    }

    pub(super) fn on_peer_close(&mut self, now: Instant, close: Close) {
        let error = match close {
            Close::Transport(error) => ConnectionError::PeerTransport(error),
            Close::Application { code, reason } => ConnectionError::ApplicationClosed { code, reason },
        };
        self.drain(now, error);
    }
}

/// Whether a packet says that the server refuses the client's token.
fn is_token_refused(payload: &[u8]) -> bool {
    let mut frames = Frames::new(payload).map_while(Result::ok);
    frames.any(|frame| {
        matches!(frame, Frame::Close(Close::Transport(error)) if error.code == TransportErrorCode::InvalidToken)
    })
}

/// Whom the frames of a symbol concern.
struct Delivery<'a> {
    streams: &'a mut Streams,
    received: &'a mut Received,
    cids: &'a mut Cids,
    recovery: &'a mut Recovery<Carried>,
}

impl Delivery<'_> {
    /// Hands the frames of one symbol up.
    fn deliver(&mut self, symbol: &[u8]) -> Result<(), TransportError> {
        for frame in SymbolFrames::new(symbol) {
            match frame.map_err(|_| TransportError::frame_encoding("malformed frame in a symbol"))? {
                SymbolFrame::AckPolicy { every_packets, delay_us, repeats } => {
                    let every_packets = u32::try_from(every_packets).unwrap_or(u32::MAX).max(1);
                    let delay = std::time::Duration::from_micros(delay_us.min(ACK_DELAY_MAX_US));
                    let repeats = u8::try_from(repeats).unwrap_or(u8::MAX).min(AckPolicy::REPEATS_MAX);
                    self.received.set_policy(AckPolicy { every_packets, delay, repeats });
                }
                SymbolFrame::MaxRate { sequence, bytes_per_second } => {
                    let rate = (bytes_per_second > 0).then(|| Rate::from_bytes_per_second(bytes_per_second));
                    self.recovery.on_rate_asked(sequence, rate);
                }
                SymbolFrame::NewConnectionId(new) => self.cids.on_new(new)?,
                SymbolFrame::RetireConnectionId { sequence } => self.cids.on_retired(sequence)?,
                frame => self.streams.on_frame(frame)?,
            }
        }
        Ok(())
    }
}

/// No ACK is held back longer, whatever the peer asks for.
const ACK_DELAY_MAX_US: u64 = 1_000_000;
