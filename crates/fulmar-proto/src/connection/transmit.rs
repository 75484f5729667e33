//! Datagrams out. What goes into a packet is decided when congestion control and the pacer let it leave, never before.

use fulmar_control::{Choice, Sent};

use super::close::State;
use super::{Connection, Transmit};
use crate::coding::Emitted;
use crate::crypto::SealError;
use crate::recovery::{BASE_BYTES, Content, SentPacket};
use crate::wire::frame;
use crate::wire::packet::{HeaderSpan, PacketHeader, TAG_BYTES};
use crate::wire::symbol::SymbolFrame;
use crate::{Instant, PacketNumber, TransportError, TransportErrorCode};

/// Room in which a packet with control frames alone fits: 13 + 9 + 9 + 1 + 16, and something for an ACK.
pub(super) const PACKET_BYTES_MIN: usize = 64;
/// So often a policy is asked for one packet: a choice may be impossible, as a combination of symbols that no longer fit.
const CHOICES_MAX: usize = 4;
/// So many probe timeouts in a row send packets of full size.
const PROBES_FULL_SIZED: u32 = 2;
/// Most bytes in one batch of segments: what one UDP send with GSO takes.
const BATCH_BYTES_MAX: usize = 65_000;
/// Bytes of a symbol that are worth sending beside an ACK.
const SYMBOL_BYTES_WORTHWHILE: usize = 200;

/// What the next 1-RTT packet is to carry besides ACK and control frames.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Payload {
    Nothing,
    Probe,
    Datagram,
    Symbol(Choice),
}

/// A 1-RTT packet being written.
pub(super) struct Draft {
    number: PacketNumber,
    span: HeaderSpan,
    /// Where the datagram starts in the buffer.
    start: usize,
    /// Where the tag starts at the latest.
    pub(super) limit: usize,
    is_ack_eliciting: bool,
    has_ack: bool,
    content: Content,
}

impl Connection {
    /// Appends up to `segments_max` datagrams of equal size (the last may be shorter) to the empty `buf`. `None`: there is
    /// nothing to send before the next event or [`Self::poll_timeout`].
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let before = buf.len();
        let segment_bytes = match self.state {
            State::Draining { .. } | State::Drained => return None,
            State::Closing { .. } => self.write_close(buf).then(|| buf.len() - before),
            State::Handshaking => self.write_handshake(now, buf).then(|| buf.len() - before),
            State::Established if self.handshake.has_pending() => self
                .write_handshake(now, buf)
                .then(|| buf.len() - before)
                .or_else(|| self.write_batch(now, segments_max, buf)),
            State::Established => self.write_batch(now, segments_max, buf),
        }?;
        let bytes = buf.len() - before;
        self.path.on_datagram_sent(bytes as u64);
        self.stats.sent_bytes += bytes as u64;
        self.stats.sent_datagrams += bytes.div_ceil(segment_bytes) as u64;
        Some(Transmit {
            destination: self.path.remote,
            src_ip: self.path.local_ip,
            ecn: if matches!(self.state, State::Established) { self.path.ecn.mark() } else { None },
            bytes,
            segment_bytes: (bytes > segment_bytes).then_some(segment_bytes),
        })
    }

    /// As many 1-RTT packets of one size as may leave. Returns that size.
    fn write_batch(&mut self, now: Instant, segments_max: usize, buf: &mut Vec<u8>) -> Option<usize> {
        let mut segment_bytes = None;
        let room = self.path.room_bytes(buf.len());
        if let Some(stashed) = self.stash.take_if(|stashed| stashed.len() <= room) {
            segment_bytes = Some(stashed.len());
            buf.extend_from_slice(&stashed);
        } else if let Some(bytes) = self.write_mtu_probe(now, buf) {
            return Some(bytes);
        }
        let mtu = usize::from(self.path.mtu.current_bytes());
        for _ in usize::from(segment_bytes.is_some())..segments_max.max(1) {
            let start = buf.len();
            if start + mtu > BATCH_BYTES_MAX.max(mtu) || !self.write_packet(now, buf, mtu) {
                break;
            }
            let bytes = buf.len() - start;
            match segment_bytes {
                None => segment_bytes = Some(bytes),
                Some(segment) if bytes == segment => {}
                Some(segment) if bytes < segment => break,
                // Longer than the batch's segments: it opens the next batch.
                Some(_) => {
                    self.stash = Some(buf.split_off(start));
                    break;
                }
            }
        }
        segment_bytes
    }

    /// One 1-RTT packet of at most `mtu` bytes. False if nothing is to be sent now.
    fn write_packet(&mut self, now: Instant, buf: &mut Vec<u8>, mtu: usize) -> bool {
        (0..CHOICES_MAX).find_map(|_| self.try_packet(now, buf, mtu)).unwrap_or(false)
    }

    /// The same for one choice of the policy; `None` if that could not be carried out.
    fn try_packet(&mut self, now: Instant, buf: &mut Vec<u8>, mtu: usize) -> Option<bool> {
        let start = buf.len();
        let room = mtu.min(self.path.room_bytes(start));
        if room < PACKET_BYTES_MIN {
            return Some(false);
        }
        // What an address that is not validated leaves room for is kept for control frames and ACKs.
        let payload = if room < mtu { Payload::Nothing } else { self.choose_payload(now, mtu) };
        let is_ack_due = self.received.is_ack_due(now);
        let has_control =
            self.path_response.is_some() || self.is_ping_pending || self.path_challenge_is_due();
        if payload == Payload::Nothing && !is_ack_due && !has_control {
            return Some(false);
        }
        let Some(mut draft) = self.begin(buf, start, room) else { return Some(false) };
        self.put_control(now, &mut draft, buf);
        // Only a new symbol can be cut to fit beside an ACK; everything else gets a packet of its own after it.
        let carries_new = matches!(payload, Payload::Symbol(Choice::Source));
        if is_ack_due || (self.received.has_news() && carries_new) {
            self.put_ack(now, &mut draft, buf);
        }
        if carries_new || buf.len() == draft.span.payload_start() {
            self.put_payload(now, payload, &mut draft, buf);
        }
        if buf.len() == draft.span.payload_start() {
            self.wait(now, None);
            buf.truncate(start);
            return None;
        }
        Some(self.complete(now, draft, buf))
    }

    /// Nothing is to be sent until the policy's time, or until a missing symbol is overdue.
    fn wait(&mut self, now: Instant, at: Option<Instant>) {
        let overdue_at = self.symbols_out.overdue_at(self.path.rtt.smoothed());
        self.policy_at = [at, overdue_at].into_iter().flatten().filter(|&at| at > now).min();
    }

    /// Decides what may leave now, and remembers what holds it back.
    fn choose_payload(&mut self, now: Instant, mtu: usize) -> Payload {
        if self.probes_pending > 0 {
            return Payload::Probe;
        }
        let has_new_data = self.has_room_for_symbols() && self.streams.has_pending();
        if has_new_data && self.symbols_out.needs_plan() {
            let view = self.path.view(self.sent.in_flight_bytes());
            let symbols = self.sizing.block_symbols(&view);
            self.symbols_out.plan_block(symbols);
        }
        let slot = self.symbols_out.slot(now, has_new_data, self.path.rtt.smoothed());
        let has_work = has_new_data || slot.missing > 0 || self.datagrams.has_pending();
        let in_flight = self.sent.in_flight_bytes();
        let budget = self.path.budget();
        if in_flight > 0 && in_flight + mtu as u64 > budget.window_bytes {
            self.is_window_limited |= has_work;
            return Payload::Nothing;
        }
        if let Err(at) = self.path.pacer.poll(now, mtu as u64) {
            self.is_window_limited |= has_work;
            let may_have_more = has_work
                || slot.unacked_symbols > 0
                || slot.recovering_symbols > 0
                || slot.missing_symbols > 0;
            self.pacer_at = may_have_more.then_some(at);
            return Payload::Nothing;
        }
        if self.datagrams.has_pending() {
            return Payload::Datagram;
        }
        let view = self.path.view(in_flight);
        match self.redundancy.choose(&slot, &view) {
            Choice::Wait(at) => {
                self.wait(now, at);
                self.path.sampler.on_app_limited(in_flight);
                Payload::Nothing
            }
            choice => {
                self.redundancy.on_emitted(choice, &slot, &view);
                Payload::Symbol(choice)
            }
        }
    }

    /// The bounds on symbols that are not known to be decoded leave room for another.
    fn has_room_for_symbols(&self) -> bool {
        self.symbols_out.held_bytes() < self.config.symbols_held_bytes
            && self.symbols_out.span_symbols() < crate::coding::SYMBOLS_AHEAD_MAX / 2
    }

    pub(super) fn begin(&mut self, buf: &mut Vec<u8>, start: usize, bytes_max: usize) -> Option<Draft> {
        self.keys.as_ref()?;
        let number = self.sent.next_number();
        let span = PacketHeader::OneRtt { dcid: self.peer_cid }.put(number, buf);
        let limit = start + bytes_max - TAG_BYTES;
        Some(Draft {
            number,
            span,
            start,
            limit,
            is_ack_eliciting: false,
            has_ack: false,
            content: Content::Control,
        })
    }

    fn path_challenge_is_due(&self) -> bool {
        matches!(self.path.validation, super::path::Validation::Challenged { is_due: true, .. })
    }

    fn put_control(&mut self, now: Instant, draft: &mut Draft, buf: &mut Vec<u8>) {
        if let Some(token) = self.path_response.take() {
            frame::put_path_response(buf, token);
            draft.is_ack_eliciting = true;
        }
        if let Some(token) = self.path.poll_challenge(now) {
            frame::put_path_challenge(buf, token);
            draft.is_ack_eliciting = true;
        }
        if std::mem::take(&mut self.is_ping_pending) {
            frame::put_ping(buf);
            draft.is_ack_eliciting = true;
        }
    }

    fn put_ack(&mut self, now: Instant, draft: &mut Draft, buf: &mut Vec<u8>) {
        // An ACK may be all the peer waits for, and its packets are all this end may send for: whoever is acknowledged has been
        // challenged too, so that not both fall silent (docs/wire.md 5.5.2).
        if let Some(token) = self.path.challenge()
            && buf.len() == draft.span.payload_start()
        {
            frame::put_path_challenge(buf, token);
            draft.is_ack_eliciting = true;
        }
        let state = self.symbols_in.state();
        let received = &mut self.received;
        let room = draft.limit.saturating_sub(buf.len());
        let delay_us = received.delay_us(now);
        if frame::put_ack(buf, received.ranges(), delay_us, received.ecn_counts(), Some(&state), room) {
            draft.has_ack = true;
            received.on_ack_sent();
            self.stats.acks_sent += 1;
            // Without an ACK of its ACKs a receiver never learns its RTT, which its windows grow by.
            if !draft.is_ack_eliciting
                && now - self.last_eliciting_at > self.path.rtt.smoothed() * 2
                && self.hears_much()
            {
                frame::put_ping(buf);
                draft.is_ack_eliciting = true;
            }
        }
    }

    /// Data is coming in, so that there is something to acknowledge now and again.
    fn hears_much(&self) -> bool {
        self.received_since_eliciting >= 8
    }

    fn put_payload(&mut self, now: Instant, payload: Payload, draft: &mut Draft, buf: &mut Vec<u8>) {
        match payload {
            Payload::Nothing => {}
            Payload::Probe => {
                self.probes_pending -= 1;
                frame::put_ping(buf);
                draft.is_ack_eliciting = true;
                let emitted = self.symbols_out.emit_probe(buf, self.probe_room(draft, buf.len()));
                self.note(draft, emitted);
            }
            Payload::Datagram => {
                let packet_room = usize::from(self.path.mtu.current_bytes()) - DATAGRAM_OVERHEAD_BYTES;
                let room = draft.limit.saturating_sub(buf.len() + 3);
                if let Some(data) = self.datagrams.poll_send(room, packet_room) {
                    frame::put_datagram(buf, &data);
                    draft.is_ack_eliciting = true;
                    self.stats.datagrams_sent += 1;
                }
            }
            Payload::Symbol(choice) => self.put_symbol(now, choice, draft, buf),
        }
    }

    /// Room for a probe. When several went unanswered, large packets may be what the path no longer carries.
    fn probe_room(&self, draft: &Draft, written: usize) -> usize {
        let limit = if self.probe_expiries > PROBES_FULL_SIZED {
            draft.limit.min(draft.start + usize::from(BASE_BYTES) - TAG_BYTES)
        } else {
            draft.limit
        };
        limit.saturating_sub(written)
    }

    fn put_symbol(&mut self, now: Instant, choice: Choice, draft: &mut Draft, buf: &mut Vec<u8>) {
        let room = draft.limit.saturating_sub(buf.len());
        // A repair symbol over this one must fit a packet too, with its longer header.
        let symbol_max = self.symbol_bytes_max();
        if draft.has_ack && room < SYMBOL_BYTES_WORTHWHILE {
            return;
        }
        let frame_start = buf.len();
        let (streams, policy) = (&mut self.streams, &mut self.ack_policy_pending);
        let mut held_room = self.config.symbols_held_bytes.saturating_sub(self.symbols_out.held_bytes());
        let emitted = self.symbols_out.emit(now, choice, buf, room, &mut |symbol, space| {
            // A block may be taken in whole.
            if held_room == 0 {
                return;
            }
            if let Some(policy) = policy.take() {
                let frame = SymbolFrame::AckPolicy {
                    every_packets: u64::from(policy.every_packets),
                    delay_us: policy.delay.as_micros() as u64,
                };
                frame.put(symbol);
            }
            let left = space.min(symbol_max).saturating_sub(symbol.len());
            streams.fill(symbol, left);
            held_room = held_room.saturating_sub(symbol.len() as u64);
        });
        self.note(draft, emitted);
        if emitted.is_some()
            && choice == Choice::Source
            && !self.streams.has_pending()
            && self.may_ask_for_ack(now)
        {
            buf.insert(frame_start, frame::PING);
        }
    }

    /// The last symbol of a flight asks to be acknowledged at once, but not every one of a trickle at high speed.
    fn may_ask_for_ack(&mut self, now: Instant) -> bool {
        let may = now - self.last_ack_asked_at > self.path.rtt.smoothed() / 8;
        if may {
            self.last_ack_asked_at = now;
        }
        may
    }

    fn note(&mut self, draft: &mut Draft, emitted: Option<Emitted>) {
        if let Some(Emitted { content, .. }) = emitted {
            draft.content = content;
            draft.is_ack_eliciting = true;
        }
    }

    /// Seals the packet and records it.
    fn complete(&mut self, now: Instant, draft: Draft, buf: &mut Vec<u8>) -> bool {
        if let Err(error) = self.seal(&draft, buf) {
            buf.truncate(draft.start);
            self.fail(now, TransportError::new(TransportErrorCode::KeyUpdate, error.to_string()));
            return false;
        }
        let bytes = (buf.len() - draft.start) as u32;
        if !draft.is_ack_eliciting {
            self.sent.push_untracked();
            return true;
        }
        let is_ect = self.path.ecn.mark().is_some();
        if is_ect {
            self.path.ecn.on_sent();
        }
        let in_flight = self.sent.in_flight_bytes() + u64::from(bytes);
        let stamp = self.path.sampler.on_sent(now, u64::from(bytes), in_flight);
        let largest_acked = draft.has_ack.then(|| self.received.largest()).flatten();
        self.sent.push(SentPacket {
            sent_at: now,
            bytes,
            content: draft.content,
            largest_acked,
            is_ect,
            stamp,
        });
        self.path.on_sent(&Sent::new(now, bytes), in_flight);
        self.last_eliciting_at = now;
        self.received_since_eliciting = 0;
        if !self.has_sent_since_heard {
            // RFC 9000 10.1: the first ack-eliciting packet after hearing from the peer restarts the idle timer.
            self.has_sent_since_heard = true;
            self.last_activity_at = now;
        }
        true
    }

    pub(super) fn seal(&mut self, draft: &Draft, buf: &mut Vec<u8>) -> Result<(), SealError> {
        match &mut self.keys {
            Some(keys) => keys.seal(draft.number, buf, draft.span),
            None => Err(SealError::KeysUsedUp),
        }
    }

    /// The path is in use, and known to carry the smallest size.
    pub(super) fn may_probe_mtu(&self) -> bool {
        self.is_confirmed && self.path.is_validated() && self.sent.largest_acked().is_some()
    }

    /// A probe for a larger MTU, on a path in use. Returns its size.
    fn write_mtu_probe(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        if !self.may_probe_mtu() || !(self.path.mtu.is_searching() || self.has_unsettled()) {
            return None;
        }
        let probe = self.path.mtu.poll_probe(now)?;
        let bytes = usize::from(probe.bytes);
        let start = buf.len();
        let mut draft = self.begin(buf, start, bytes)?;
        frame::put_ping(buf);
        buf.resize(draft.limit, 0);
        draft.is_ack_eliciting = true;
        draft.content = Content::MtuProbe;
        let number = draft.number;
        self.complete(now, draft, buf).then(|| {
            self.path.mtu.on_probe_sent(number, probe);
            bytes
        })
    }
}

/// Bytes of a packet that carries one datagram, besides the datagram.
pub(super) const DATAGRAM_OVERHEAD_BYTES: usize = crate::wire::packet::SHORT_HEADER_BYTES + TAG_BYTES + 1 + 4;
