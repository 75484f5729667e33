//! Datagrams out. What goes into a packet is decided when congestion control and the pacer let it leave,
//! never before.

use bytes::Bytes;
use fulmar_control::Favor;

use super::Connection;
use super::cids::Cids;
use super::feedback::Carried;
use super::intake::Intake;
use super::packet_log::PacketSpace;
use super::setup::symbol_bytes;
use crate::chance::Chance;
use crate::coding::{Content, Next, Source, Turn};
use crate::crypto::SealError;
use crate::recovery::{AckSpacing, BASE_BYTES, Permit, ProbeCargo};
use crate::stream::Streams;
use crate::wire::frame;
use crate::wire::packet::{HeaderSpan, PacketHeader, TAG_BYTES, short_header_bytes};
use crate::wire::symbol::SymbolFrame;
use crate::{ConnectionId, Instant, PacketNumber, TransportError, TransportErrorCode};

/// Room in which a packet with control frames alone fits: 13 + 9 + 9 + 1 + 16, and something for an ACK.
pub(super) const PACKET_BYTES_MIN: usize = 64;
/// Bytes of a symbol that are worth sending beside an ACK.
const SYMBOL_BYTES_WORTHWHILE: usize = 200;
/// What a packet with a full source symbol leaves free: a repair symbol has the longer header.
const SOURCE_SPARE_BYTES: usize = frame::REPAIR_HEADER_BYTES_MAX - frame::SOURCE_HEADER_BYTES;

/// A path challenge or its answer.
const CHALLENGE_FRAME_BYTES: usize = 1 + 8;

/// With so many packets under way others see to it that silence is noticed.
const RESPONSES_TRACKED_MAX: usize = 64;

/// What the next 1-RTT packet is to carry besides ACK and control frames.
#[derive(Copy, Clone, Debug)]
enum Payload {
    Nothing,
    Probe(ProbeCargo),
    Datagram,
    Symbol(Turn),
}

impl Payload {
    fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// It can be cut to fit beside an ACK.
    fn is_cuttable(&self) -> bool {
        matches!(self, Self::Symbol(turn) if turn.is_cuttable())
    }
}

/// A 1-RTT packet being written.
pub(super) struct Draft {
    pub(super) number: PacketNumber,
    span: HeaderSpan,
    /// Where the datagram starts in the buffer.
    pub(super) start: usize,
    /// Where the tag starts at the latest.
    pub(super) limit: usize,
    is_ack_eliciting: bool,
    has_ack: bool,
    content: Option<Content>,
}

impl Draft {
    /// Bytes that frames may still take.
    fn room(&self, buf: &[u8]) -> usize {
        self.limit.saturating_sub(buf.len())
    }

    fn is_empty(&self, buf: &[u8]) -> bool {
        buf.len() == self.span.payload_start()
    }
}

/// The streams as a source of symbols. What this end asks of the other's ACKs goes first, then connection
/// ids.
struct Outflow<'a> {
    streams: &'a mut Streams,
    cids: &'a mut Cids,
    rng: &'a mut Chance,
    acks: &'a mut AckSpacing,
    intake: Option<&'a mut Intake>,
    symbol_bytes_max: usize,
}

impl Source for Outflow<'_> {
    fn has_pending(&self) -> bool {
        self.streams.has_pending()
            || self.cids.has_news()
            || self.intake.as_ref().is_some_and(|intake| intake.has_news())
    }

    fn fill(&mut self, symbol: &mut Vec<u8>, bytes_max: usize) -> Bytes {
        if let Some(policy) = self.acks.poll() {
            let frame = SymbolFrame::AckPolicy {
                every_packets: u64::from(policy.every_packets),
                delay_us: policy.delay.as_micros() as u64,
                repeats: u64::from(policy.repeats),
            };
            frame.put(symbol);
        }
        if let Some(frame) = self.intake.as_mut().and_then(|intake| intake.poll()) {
            frame.put(symbol);
        }
        let bytes_max = bytes_max.min(self.symbol_bytes_max);
        self.cids.fill(self.rng, symbol, bytes_max);
        let left = bytes_max.saturating_sub(symbol.len());
        self.streams.fill(symbol, left)
    }

    fn give_back(&mut self, data: Bytes) {
        self.streams.recycle(data);
    }

    fn favor(&self) -> Option<Favor> {
        self.streams.filled_favor()
    }
}

impl Connection {
    /// There are frames for a symbol.
    fn has_pending_frames(&self) -> bool {
        self.streams.has_pending()
            || self.cids.has_news()
            || self.intake.as_ref().is_some_and(|intake| intake.has_news())
    }

    /// Bytes of a packet that carries one datagram, besides the datagram.
    pub(super) fn datagram_overhead_bytes(&self) -> usize {
        short_header_bytes(self.cids.peer().wire_bytes()) + TAG_BYTES + 1 + 4
    }

    /// Bytes of frames that a packet with nothing but a datagram holds.
    fn datagram_room(&self) -> usize {
        let header = short_header_bytes(self.cids.peer().wire_bytes());
        usize::from(self.path.recovery.mtu_bytes()) - header - TAG_BYTES
    }

    /// One 1-RTT packet of at most `mtu` bytes. `None` if nothing is to be sent now; else whether it elicits
    /// an ACK.
    pub(super) fn write_packet(&mut self, now: Instant, buf: &mut Vec<u8>, mtu: usize) -> Option<bool> {
        let start = buf.len();
        let room = mtu.min(self.path.room_bytes(start));
        if room < PACKET_BYTES_MIN {
            return None;
        }
        // What an address that is not validated leaves room for is kept for control frames and ACKs.
        let payload = if room < mtu { Payload::Nothing } else { self.choose_payload(now, mtu) };
        let is_ack_due = self.received.is_ack_due(now);
        let has_control =
            !self.elsewhere.responses.is_empty() || self.is_ping_pending || self.is_challenge_due();
        if payload.is_nothing() && !is_ack_due && !has_control {
            return None;
        }
        let mut draft = self.begin(buf, start, room)?;
        self.put_control(now, &mut draft, buf);
        // Only a new symbol can be cut to fit beside an ACK, and only a small datagram fits as it is.
        // Everything else gets a packet of its own after it: nothing is booked before it is in a packet, so
        // the policy is simply asked again.
        let goes_beside_ack = payload.is_cuttable()
            || matches!(payload, Payload::Datagram) && self.datagrams.is_next_small(room);
        // Repair of datagrams follows them soon: another ACK would tell little, and takes a fifth of its
        // bytes.
        let is_repair = matches!(payload, Payload::Datagram) && self.datagrams.is_next_repair();
        if is_ack_due || (self.received.has_news() && goes_beside_ack && !is_repair) {
            self.put_ack(now, &mut draft, buf);
        }
        if goes_beside_ack || draft.is_empty(buf) {
            self.put_payload(now, payload, &mut draft, buf);
        }
        if draft.is_empty(buf) {
            buf.truncate(start);
            return None;
        }
        self.complete(now, draft, buf)
    }

    /// Decides what may leave now, and remembers what holds it back.
    fn choose_payload(&mut self, now: Instant, mtu: usize) -> Payload {
        if let Some(cargo) = self.path.recovery.probe_due(now) {
            return Payload::Probe(cargo);
        }
        let has_pending = self.has_pending_frames();
        let packet_room = self.datagram_room();
        let recovery = &mut self.path.recovery;
        let permit = recovery.permit(now, mtu as u64);
        if permit != Permit::Leave {
            let demand = self.coding.demand(now, recovery.rtt().smoothed(), has_pending);
            let has_work = demand.is_urgent || self.datagrams.has_work(now, packet_room);
            let wants = has_work || demand.may_come;
            match permit {
                Permit::Limited(_) if !wants => recovery.give_up_turn(),
                Permit::Limited(_) => recovery.on_limited(),
                _ if has_work => recovery.on_held_back(),
                _ => {}
            }
            if let Permit::Wait(at) | Permit::Limited(at) = permit {
                recovery.wake_for_pacer(wants.then_some(at));
            }
            return Payload::Nothing;
        }
        if self.datagrams.has_work(now, packet_room) {
            return Payload::Datagram;
        }
        match self.coding.next(now, &recovery.view(), has_pending) {
            Next::Packet(turn) => Payload::Symbol(turn),
            Next::Nothing => {
                recovery.on_app_limited();
                Payload::Nothing
            }
        }
    }

    pub(super) fn begin(&mut self, buf: &mut Vec<u8>, start: usize, bytes_max: usize) -> Option<Draft> {
        self.begin_to(self.cids.peer(), buf, start, bytes_max)
    }

    /// The same for another address than the one in use. `is_renamed`: the peer has changed its name for this
    /// end on the way there, so it is called something else too, if it may.
    pub(super) fn begin_elsewhere(
        &mut self,
        buf: &mut Vec<u8>,
        bytes_max: usize,
        is_renamed: bool,
    ) -> Option<Draft> {
        let name = self.cids.peers_next().filter(|_| is_renamed).unwrap_or(self.cids.peer());
        self.begin_to(name, buf, buf.len(), bytes_max)
    }

    fn begin_to(
        &mut self,
        dcid: ConnectionId,
        buf: &mut Vec<u8>,
        start: usize,
        bytes_max: usize,
    ) -> Option<Draft> {
        self.keys.as_ref()?;
        let number = self.path.recovery.next_number();
        let span = PacketHeader::OneRtt { dcid }.put(number, buf);
        let limit = start + bytes_max - TAG_BYTES;
        Some(Draft { number, span, start, limit, is_ack_eliciting: false, has_ack: false, content: None })
    }

    fn is_challenge_due(&self) -> bool {
        self.path.is_challenge_due() || (self.path.is_validated() && self.elsewhere.is_question_due())
    }

    fn put_control(&mut self, now: Instant, draft: &mut Draft, buf: &mut Vec<u8>) {
        while draft.room(buf) >= CHALLENGE_FRAME_BYTES
            && let Some(token) = self.elsewhere.responses.pop()
        {
            frame::put_path_response(buf, token);
            // It comes again if it is lost; but challenges that are never acknowledged must not fill this
            // end's memory.
            draft.is_ack_eliciting |= self.path.recovery.outstanding_packets() < RESPONSES_TRACKED_MAX;
        }
        if draft.room(buf) >= CHALLENGE_FRAME_BYTES
            && let Some(token) = self.path.poll_challenge(now)
        {
            frame::put_path_challenge(buf, token);
            draft.is_ack_eliciting = true;
        }
        if draft.room(buf) >= CHALLENGE_FRAME_BYTES
            && self.path.is_validated()
            && let Some(token) = self.elsewhere.poll_question_in_use(now, self.path.recovery.rtt().smoothed())
        {
            frame::put_path_challenge(buf, token);
            draft.is_ack_eliciting = true;
        }
        if std::mem::take(&mut self.is_ping_pending) {
            frame::put_ping(buf);
            draft.is_ack_eliciting = true;
        }
    }

    fn put_ack(&mut self, now: Instant, draft: &mut Draft, buf: &mut Vec<u8>) {
        // An ACK may be all the peer waits for, and its packets are all this end may send for: whoever is
        // acknowledged has been challenged too, so that not both fall silent (docs/internals/wire.md 5.5.2).
        if let Some(token) = self.path.challenge()
            && draft.is_empty(buf)
        {
            frame::put_path_challenge(buf, token);
            draft.is_ack_eliciting = true;
        }
        let state = self.symbols_in.state();
        let received = &mut self.received;
        let room = draft.room(buf);
        let delay_us = received.delay_us(now);
        if frame::put_ack(buf, received.ranges(), delay_us, received.ecn_counts(), Some(&state), room) {
            draft.has_ack = true;
            received.on_ack_sent(now);
            self.counts.wire.acks_sent += 1;
            // Without an ACK of its ACKs a receiver never learns its RTT, which its windows grow by.
            let recovery = &self.path.recovery;
            if !draft.is_ack_eliciting
                && now - recovery.last_eliciting_at() > recovery.rtt().smoothed() * 2
                && received.hears_much()
                && draft.room(buf) > 0
            {
                frame::put_ping(buf);
                draft.is_ack_eliciting = true;
            }
        }
    }

    fn put_payload(&mut self, now: Instant, payload: Payload, draft: &mut Draft, buf: &mut Vec<u8>) {
        match payload {
            Payload::Nothing => {}
            Payload::Probe(cargo) => {
                self.path.recovery.take_probe(now);
                frame::put_ping(buf);
                draft.is_ack_eliciting = true;
                if let Some(turn) = self.turn_of_probe(now, cargo) {
                    self.put_symbol(now, turn, draft, buf);
                }
                if let Some(limit) = probe_limit(draft, cargo).filter(|_| draft.content.is_none()) {
                    draft.content = self.coding.emit_probe(buf, limit.saturating_sub(buf.len()));
                }
            }
            Payload::Datagram => {
                let (rooms, before) = ((draft.room(buf), self.datagram_room()), buf.len());
                let is_sent = self.datagrams.put_next(now, &self.path.recovery.view(), buf, rooms);
                self.counts.datagrams_sent += u64::from(is_sent);
                if buf.len() > before {
                    draft.is_ack_eliciting = true;
                    self.liveness.on_used(now);
                }
                if self.datagrams.has_symbols() {
                    self.on_symbol_passed(now);
                }
            }
            Payload::Symbol(turn) => self.put_symbol(now, turn, draft, buf),
        }
    }

    /// What a probe carries that would leave in any case.
    fn turn_of_probe(&mut self, now: Instant, cargo: ProbeCargo) -> Option<Turn> {
        if cargo != ProbeCargo::Next || !self.has_pending_frames() {
            return None;
        }
        match self.coding.next(now, &self.path.recovery.view(), true) {
            Next::Packet(turn) if turn.is_wanted() => Some(turn),
            _ => None,
        }
    }

    fn put_symbol(&mut self, now: Instant, turn: Turn, draft: &mut Draft, buf: &mut Vec<u8>) {
        let recovery = &mut self.path.recovery;
        // Beside an ACK a new symbol is cut so that a PING still fits, and that the packet is as long as
        // without the ACK: a batch ends where the lengths change.
        let spare = if turn.is_cuttable() { SOURCE_SPARE_BYTES } else { 0 };
        let room = draft.room(buf).saturating_sub(spare);
        if draft.has_ack && room < SYMBOL_BYTES_WORTHWHILE {
            return;
        }
        let frame_start = buf.len();
        let (view, rtt) = (recovery.view(), recovery.rtt().smoothed());
        // A repair symbol over this one must fit a packet too, with its longer header.
        let symbol_bytes_max = symbol_bytes(recovery.mtu_bytes(), self.cids.peer().wire_bytes());
        let mut source = Outflow {
            streams: &mut self.streams,
            cids: &mut self.cids,
            rng: &mut self.rng,
            acks: recovery.acks(),
            intake: self.intake.as_deref_mut(),
            symbol_bytes_max,
        };
        draft.content = self.coding.emit(turn, &view, buf, room, &mut source);
        if draft.content.is_some() {
            draft.is_ack_eliciting = true;
            self.on_symbol_passed(now);
        }
        let is_last = matches!(draft.content, Some(Content::Source(_))) && !self.has_pending_frames();
        // The last symbol of a flight asks to be acknowledged at once.
        if is_last && draft.room(buf) > 0 && self.path.recovery.acks().may_ask_now(now, rtt) {
            buf.insert(frame_start, frame::PING);
        }
    }

    /// Seals the packet and records it. Says whether it elicits an ACK.
    fn complete(&mut self, now: Instant, draft: Draft, buf: &mut Vec<u8>) -> Option<bool> {
        if !self.seal_or_fail(now, &draft, buf) {
            return None;
        }
        let bytes = (buf.len() - draft.start) as u32;
        debug_assert!(buf.len() <= draft.limit + TAG_BYTES, "a datagram longer than the path carries");
        if !draft.is_ack_eliciting {
            self.path.recovery.on_sent_untracked();
            self.trace_sent(now, (PacketSpace::Data, draft.number, bytes as usize), false, None);
            return Some(false);
        }
        let largest_acked = draft.has_ack.then(|| self.received.largest()).flatten();
        self.path.recovery.on_sent(now, bytes, Carried { content: draft.content, largest_acked });
        self.trace_sent(now, (PacketSpace::Data, draft.number, bytes as usize), true, draft.content);
        self.on_eliciting_sent(now);
        Some(true)
    }

    fn on_eliciting_sent(&mut self, now: Instant) {
        self.received.on_eliciting_sent();
        self.liveness.on_eliciting_sent(now);
    }

    pub(super) fn seal_or_fail(&mut self, now: Instant, draft: &Draft, buf: &mut Vec<u8>) -> bool {
        let Err(error) = self.seal(draft, buf) else { return true };
        buf.truncate(draft.start);
        self.fail(now, TransportError::new(TransportErrorCode::KeyUpdate, error.to_string()));
        false
    }

    pub(super) fn seal(&mut self, draft: &Draft, buf: &mut Vec<u8>) -> Result<(), SealError> {
        match &mut self.keys {
            Some(keys) => keys.seal(draft.number, buf, draft.span),
            None => Err(SealError::KeysUsedUp),
        }
    }

    /// A packet with a mark alone, where marks were doubted. Returns its size.
    pub(super) fn write_ecn_trial(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        if !self.path.is_validated() || !self.path.recovery.take_ecn_trial(now) {
            return None;
        }
        let start = buf.len();
        let draft = self.begin(buf, start, PACKET_BYTES_MIN)?;
        frame::put_ping(buf);
        buf.resize(draft.limit, 0);
        self.seal_or_fail(now, &draft, buf).then(|| {
            let bytes = buf.len() - start;
            self.path.recovery.on_trial_sent(now, bytes as u32);
            self.trace_sent(now, (PacketSpace::Data, draft.number, bytes), true, None);
            self.on_eliciting_sent(now);
            bytes
        })
    }

    /// A probe for a larger MTU, on a path in use. Returns its size.
    pub(super) fn write_mtu_probe(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<usize> {
        if !self.may_probe_mtu() {
            return None;
        }
        let is_active = self.has_unsettled();
        let probe = self.path.recovery.poll_mtu_probe(now, is_active)?;
        let bytes = usize::from(probe.bytes);
        let start = buf.len();
        let draft = self.begin(buf, start, bytes)?;
        frame::put_ping(buf);
        buf.resize(draft.limit, 0);
        self.seal_or_fail(now, &draft, buf).then(|| {
            self.path.recovery.on_mtu_probe_sent(now, probe);
            self.trace_sent(now, (PacketSpace::Data, draft.number, bytes), true, None);
            self.on_eliciting_sent(now);
            bytes
        })
    }
}

/// Where the tag of a probe starts at the latest, if it carries something.
fn probe_limit(draft: &Draft, cargo: ProbeCargo) -> Option<usize> {
    match cargo {
        ProbeCargo::Next | ProbeCargo::Full => Some(draft.limit),
        ProbeCargo::Base => Some(draft.limit.min(draft.start + usize::from(BASE_BYTES) - TAG_BYTES)),
        ProbeCargo::Nothing => None,
    }
}
