//! The handshake: TLS bytes in Initial and Handshake packets, repeated until they get through.
//!
//! There is no loss detection here. A flight is a few packets; whatever of it is not acknowledged when the
//! timer fires is sent again. A client that hears nothing does not know whether the path loses or is slow: it
//! repeats a few times within the first second, for a thin path carries no more in that time; then early and
//! at an even pace, for a burst of losses takes so many packets, not so much time; then ever more seldom. The
//! pace is even on the average only: what comes and goes by the clock, as a microwave oven does with the
//! mains, would else take every flight or none. A server answers each repetition, and says little unasked: so
//! the way back carries what the way there did, and no more. That survives any loss that leaves something
//! through.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use fulmar_control::RttEstimator;

use super::crypto_stream::{CryptoReceive, CryptoSend};
use crate::crypto::{KeyChange, KeySchedule, PacketKeys, Session};
use crate::profile::HandshakeTimer;
use crate::recovery::{AckPolicy, Received, Timeout};
use crate::wire::frame::Ack;
use crate::{Instant, PacketNumber, Side, TransportError};

/// After these waits, in milliseconds, a client repeats what nothing answers. RFC 9002 6.2.2 waits a second,
/// and doubles that. They end after 0.9 s: a path of 32 kb/s with a round trip of 0.3 s has answered by then
/// (two packets of 1,228 bytes take 0.61 s), and has seven packets to carry, 2.1 s of it; most paths that
/// lose have let one through: of those that lose half both ways, 87 of 100.
const EARLY_WAITS_MS: [u64; 6] = [50, 50, 80, 130, 220, 370];
/// Silence is loss from then on, and is repeated into after so long each. On a path that loses a tenth of the
/// packets in bursts of twenty, one opening packet in a thousand needs 90 repetitions: these take 4 s, and
/// cost a datagram each, at most 281 kbit/s.
const EVEN_WAIT: Duration = Duration::from_millis(35);
/// So often a flight is repeated, before the timer grows.
const EVEN_REPEATS: u32 = 96;
/// From then on by an eighth each time: in a black-out of 15 s a client sends some 130 datagrams.
const GROWTH: f64 = 1.125;
/// The growth ends here, so that a path that comes back is found again.
const TIMEOUT_MAX: Duration = Duration::from_secs(4);

/// A server that does not know the RTT speaks unasked after so long, and ever less: its client asks again by
/// itself.
const SERVER_WAIT: Duration = Duration::from_millis(300);
const SERVER_GROWTH: f64 = 1.5;
/// A client that has repeated itself so often, more than a thin path makes it, has lost as many answers: from
/// then on it gets two each time.
const ANSWERED_ONCE: u16 = 8;

/// The client's last flight is sent so often again within a round trip.
const LAST_FLIGHT_COPIES: u32 = 2;

/// How long to wait for an answer after `expiries` without one, where `first` is the first wait if an RTT is
/// known, and `draw` is random: up to a quarter more or less, so that nothing periodic meets every
/// repetition.
fn patience(side: Side, first: Option<Duration>, expiries: u32, draw: u64) -> Duration {
    let grown = |first: Duration, growth: f64, steps: u32| {
        // From a millisecond the growth by an eighth ends after 71 steps.
        first.mul_f64(libm::pow(growth, f64::from(steps.min(71)))).min(TIMEOUT_MAX.max(first))
    };
    let late = expiries.saturating_sub(EVEN_REPEATS);
    let mean = match (first, EARLY_WAITS_MS.get(expiries as usize)) {
        (Some(first), _) => grown(first, GROWTH, late),
        (None, _) if side.is_server() => grown(SERVER_WAIT, SERVER_GROWTH, expiries),
        (None, Some(&early)) => Duration::from_millis(early),
        (None, None) => grown(EVEN_WAIT, GROWTH, late),
    };
    mean * 3 / 4 + mean / 2 * (draw % 1024) as u32 / 1024
}

/// Which keys protect a packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Initial,
    Handshake,
}

/// One packet-number space of the handshake.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) keys: PacketKeys,
    pub(super) received: Received,
    pub(super) send: CryptoSend,
    pub(super) receive: CryptoReceive,
    /// A packet is to be sent although there is nothing to say: it proves to the server that this address
    /// receives.
    pub(super) needs_ping: bool,
    next_number: u64,
    sent: VecDeque<SentFlight>,
}

#[derive(Debug)]
struct SentFlight {
    number: u64,
    at: Instant,
    range: Range<u64>,
}

/// Handshake packets are acknowledged at once (RFC 9000 13.2.1).
fn space_policy() -> AckPolicy {
    AckPolicy { every_packets: 1, delay: Duration::ZERO, repeats: 0 }
}

/// Packets of one space that are remembered for their acknowledgement.
const SENT_MAX: usize = 128;

impl Space {
    fn new(keys: PacketKeys) -> Self {
        Self {
            keys,
            received: Received::new(space_policy()),
            send: CryptoSend::default(),
            receive: CryptoReceive::default(),
            needs_ping: false,
            next_number: 0,
            sent: VecDeque::new(),
        }
    }

    /// Something must be sent at this level.
    pub(super) fn has_pending(&self) -> bool {
        self.send.has_pending() || self.needs_ping || self.received.has_news()
    }

    /// Number for a packet about to be sent.
    pub(super) fn take_number(&mut self) -> PacketNumber {
        self.next_number += 1;
        PacketNumber(self.next_number - 1)
    }

    /// The packet left with these handshake bytes in it.
    pub(super) fn on_sent(&mut self, number: PacketNumber, at: Instant, range: Range<u64>) {
        if self.sent.len() == SENT_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(SentFlight { number: number.0, at, range });
    }

    /// Returns when the largest packet acknowledged had been sent, if it is newly acknowledged.
    fn on_ack(&mut self, ack: &Ack<'_>) -> Result<Option<Instant>, TransportError> {
        if ack.largest.0 >= self.next_number {
            return Err(TransportError::protocol_violation("ACK of a packet that was never sent"));
        }
        let largest_at = self.sent.iter().find(|s| s.number == ack.largest.0).map(|s| s.at);
        for (low, high) in ack.ranges() {
            self.sent.retain(|sent| {
                let is_acked = (low.0..=high.0).contains(&sent.number);
                if is_acked {
                    self.send.on_acked(sent.range.clone());
                }
                !is_acked
            });
        }
        Ok(largest_at)
    }
}

/// The handshake of one connection.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) session: Session,
    /// Boxed, for they are large and gone once the handshake is over.
    initial: Option<Box<Space>>,
    handshake: Option<Box<Space>>,
    /// Where bytes the session writes now belong; `None` once they are 1-RTT's, which carries none.
    write_level: Option<Level>,
    flight_at: Option<Instant>,
    expiries: u32,
    /// How often a client that has acknowledged nothing repeated itself.
    repetitions: u16,
    /// The flight that leaves now is to leave once more.
    is_doubled: bool,
    /// The timer a profile asks for in the place of ours.
    timer: Option<HandshakeTimer>,
}

impl Handshake {
    pub(super) fn new(session: Session, initial_keys: PacketKeys, timer: Option<HandshakeTimer>) -> Self {
        Self {
            session,
            initial: Some(Box::new(Space::new(initial_keys))),
            handshake: None,
            write_level: Some(Level::Initial),
            flight_at: None,
            expiries: 0,
            repetitions: 0,
            is_doubled: false,
            timer,
        }
    }

    pub(super) fn space(&mut self, level: Level) -> Option<&mut Space> {
        match level {
            Level::Initial => self.initial.as_deref_mut(),
            Level::Handshake => self.handshake.as_deref_mut(),
        }
    }

    /// Starts over with the keys that follow from a Retry, or from its refusal. What was sent is sent again.
    pub(super) fn restart(&mut self, keys: PacketKeys) {
        if let Some(space) = &mut self.initial {
            space.keys = keys;
            space.send.repeat();
            space.sent.clear();
            // Whoever answers from now on numbers its packets from 0.
            space.received = Received::new(space_policy());
        }
        (self.flight_at, self.expiries) = (None, 0);
    }

    /// Keys of a level are no longer needed (RFC 9001 4.9).
    pub(super) fn discard(&mut self, level: Level) {
        match level {
            Level::Initial => self.initial = None,
            Level::Handshake => self.handshake = None,
        }
        if self.initial.is_none() && self.handshake.is_none() {
            self.flight_at = None;
        }
    }

    /// Moves what TLS has to say into the spaces. Returns the 1-RTT keys, once they are there.
    pub(super) fn pump(&mut self) -> Option<Box<KeySchedule>> {
        let mut one_rtt = None;
        loop {
            let mut bytes = Vec::new();
            let change = self.session.write_handshake(&mut bytes);
            if let Some(level) = self.write_level
                && let Some(space) = self.space(level)
            {
                space.send.write(&bytes);
            }
            match change {
                Some(KeyChange::Handshake(keys)) => {
                    self.handshake = Some(Box::new(Space::new(keys)));
                    self.write_level = Some(Level::Handshake);
                }
                Some(KeyChange::OneRtt(keys)) => {
                    one_rtt = Some(keys);
                    self.write_level = None;
                }
                None if bytes.is_empty() => return one_rtt,
                None => {}
            }
        }
    }

    /// Whether the peer's bytes below `end` were read.
    pub(super) fn has_read(&self, level: Level, end: u64) -> bool {
        let space = match level {
            Level::Initial => &self.initial,
            Level::Handshake => &self.handshake,
        };
        space.as_ref().is_some_and(|space| space.receive.has_read(end))
    }

    /// Handshake bytes arrived. Returns the 1-RTT keys, if they made them known.
    pub(super) fn on_crypto(
        &mut self,
        level: Level,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<Box<KeySchedule>>, TransportError> {
        let Some(space) = self.space(level) else { return Ok(None) };
        space.receive.insert(offset, data)?;
        let mut chunks = Vec::new();
        while let Some(chunk) = space.receive.read() {
            chunks.push(chunk);
        }
        for chunk in &chunks {
            self.session.read_handshake(chunk)?;
        }
        if chunks.is_empty() {
            return Ok(None);
        }
        self.expiries = 0;
        Ok(self.pump())
    }

    /// An ACK arrived at `level`.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        level: Level,
        ack: &Ack<'_>,
    ) -> Result<Option<Duration>, TransportError> {
        let Some(space) = self.space(level) else { return Ok(None) };
        let largest_at = space.on_ack(ack)?;
        if largest_at.is_some() {
            self.expiries = 0;
            self.flight_at = None;
        }
        // A repeated ACK is late. What the peer says of that is believed by half, for nothing else is known
        // of the path yet.
        let elapsed = largest_at.map(|at| now - at);
        Ok(elapsed.map(|elapsed| elapsed - Duration::from_micros(ack.delay_us).min(elapsed / 2)))
    }

    /// A client said again what it had said: what answers that is lost, or on its way.
    pub(super) fn on_repetition(&mut self) {
        if self.timer.is_some() {
            return;
        }
        self.repetitions = self.repetitions.saturating_add(1);
        self.is_doubled = self.repetitions > ANSWERED_ONCE;
        self.flight_at = None;
        self.repeat();
    }

    /// Everything that is not acknowledged is to be sent again.
    fn repeat(&mut self) {
        for space in [&mut self.initial, &mut self.handshake].into_iter().flatten() {
            space.send.repeat();
        }
    }

    /// A datagram was written. If it was the last of a flight that is to leave twice, it does.
    pub(super) fn on_written(&mut self) {
        if self.is_doubled && !self.has_pending() {
            self.is_doubled = false;
            self.repeat();
        }
    }

    /// Bytes that the peer's side of the handshake takes.
    pub(super) fn memory_bytes(&self) -> usize {
        [&self.initial, &self.handshake].into_iter().flatten().map(|space| space.receive.memory_bytes()).sum()
    }

    /// Something is waiting to be sent.
    pub(super) fn has_pending(&self) -> bool {
        [&self.initial, &self.handshake].into_iter().flatten().any(|space| space.has_pending())
    }

    /// How long to wait for an answer at first, where an RTT is known. The client's last flight is repeated
    /// sooner than it can be acknowledged, a few hundred bytes: all that the server has of the application
    /// waits for it.
    pub(super) fn first_wait(&self, side: Side, rtt: &RttEstimator) -> Option<Duration> {
        if !rtt.has_sample() {
            return None;
        }
        let is_last = side.is_client() && self.write_level.is_none();
        if is_last && self.expiries < LAST_FLIGHT_COPIES {
            return Some(rtt.smoothed() / 4);
        }
        Some(Timeout::Probe.base(rtt))
    }

    /// Arms the timer after a flight, or for the client as long as the server may be waiting for it (RFC 9002
    /// 6.2.2.1). `draw` is random.
    pub(super) fn arm(
        &mut self,
        now: Instant,
        side: Side,
        timeout: Option<Duration>,
        must_keep_talking: bool,
        draw: u64,
    ) {
        let has_unacked =
            [&self.initial, &self.handshake].into_iter().flatten().any(|space| space.send.has_unacked());
        if !has_unacked && !must_keep_talking {
            self.flight_at = None;
        } else if self.flight_at.is_none() {
            let wait = match self.timer {
                Some(timer) => timer.first * (1 << self.expiries.min(timer.retries).min(31)),
                None => patience(side, timeout, self.expiries, draw),
            };
            self.flight_at = Some(now + wait);
        }
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.flight_at
    }

    /// The profile's timer has expired once more often than it allows a flight to be repeated.
    pub(super) fn is_given_up(&self) -> bool {
        self.timer.is_some_and(|timer| self.expiries > timer.retries)
    }

    /// If the timer has expired: everything that is not acknowledged is to be sent again, a ping if there is
    /// nothing.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.flight_at.is_none_or(|at| at > now) {
            return;
        }
        self.flight_at = None;
        self.expiries += 1;
        self.repeat();
        // The newest level that exists is the one the peer can surely read.
        if let Some(space) = self.handshake.as_mut().or(self.initial.as_mut()) {
            space.needs_ping |= !space.send.has_pending();
        }
    }
}
