//! The keys of 1-RTT packets and their updates (RFC 9001 6). docs/internals/wire.md, section 3.
//!
//! Decides which generation of keys a packet is sealed with and opened with, and when a new generation
//! begins. The connection seals, opens and says what was acknowledged; updates happen on their own before a
//! key is used up.
//!
//! Invariants: packet numbers grow with generations in both directions; this end is never two generations
//! ahead of what the peer acknowledged; at most three generations of read keys are held, so memory is
//! constant.

use super::keys::{self, OpenError, SealError};
use crate::ids::PacketNumber;
use crate::wire::packet::{HeaderSpan, KEY_PHASE};
use fulmar_units::Instant;
use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Why an update of keys cannot begin now.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer has not acknowledged a packet under the current keys")]
pub struct UpdateTooEarly;

/// What a 1-RTT packet was, once open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its number.
    pub number: PacketNumber,
    /// Where in the packet its frames stand.
    pub frames: Range<usize>,
}

/// The keys of 1-RTT packets, generation after generation.
pub struct KeySchedule {
    header_local: Box<dyn HeaderProtectionKey>,
    header_remote: Box<dyn HeaderProtectionKey>,
    local: Box<dyn PacketKey>,
    remote: Box<dyn PacketKey>,
    /// Read keys of the next generation. Made in advance, so that the time a packet takes does not tell
    /// whether its key phase was forged (RFC 9001 9.5), but for a connection that rests.
    next: Option<Box<dyn PacketKey>>,
    /// What the next generation follows from.
    secrets: Secrets,
    /// Read keys of the generation before, for packets that were overtaken.
    previous: Option<Previous>,
    /// Key phase bit of the current generation.
    phase: bool,
    sending: Sending,
    receiving: Receiving,
    update_after_packets: u64,
    generation: u64,
}

struct Previous {
    key: Box<dyn PacketKey>,
    /// When it goes; unknown until the peer is known to use the current keys.
    expires_at: Option<Instant>,
}

/// Of the current generation.
#[derive(Default)]
struct Sending {
    first: Option<PacketNumber>,
    sealed_packets: u64,
    is_acked: bool,
}

#[derive(Default)]
struct Receiving {
    /// Lowest and highest number opened with the current keys.
    lowest: Option<PacketNumber>,
    highest: Option<PacketNumber>,
    /// Highest number opened with any earlier keys.
    highest_before: Option<PacketNumber>,
    /// Packets that failed authentication, under all keys together.
    failed_packets: u64,
}

impl KeySchedule {
    /// How long old read keys are kept after the peer was seen using new ones, in probe timeouts (RFC 9001
    /// 6.5).
    pub const KEEP_PREVIOUS_PTOS: u32 = 3;

    pub(super) fn new(keys: Keys, secrets: Secrets) -> Self {
        // Half the limit leaves millions of packets for the peer to acknowledge one.
        let update_after_packets = keys.local.packet.confidentiality_limit() / 2;
        Self {
            header_local: keys.local.header,
            header_remote: keys.remote.header,
            local: keys.local.packet,
            remote: keys.remote.packet,
            next: None,
            secrets,
            previous: None,
            phase: false,
            sending: Sending::default(),
            receiving: Receiving::default(),
            update_after_packets,
            generation: 0,
        }
    }

    /// How often the keys were updated, by either end.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Begins an update on its own after this many packets under one key. The cipher's limit stays.
    pub fn update_after(&mut self, packets: u64) {
        self.update_after_packets = packets.max(1);
    }

    /// Protects the packet that starts at `span` and ends with `buf`, as [`super::PacketKeys::seal`] does,
    /// with the current keys. Numbers must be given in increasing order.
    pub fn seal(
        &mut self,
        number: PacketNumber,
        buf: &mut Vec<u8>,
        span: HeaderSpan,
    ) -> Result<(), SealError> {
        if self.sending.sealed_packets >= self.update_after_packets && self.sending.is_acked {
            self.advance(None);
        }
        // RFC 9001 6.6: endpoints MUST NOT use a key beyond its confidentiality limit.
        if self.sending.sealed_packets >= self.local.confidentiality_limit() {
            return Err(SealError::KeysUsedUp);
        }
        if self.phase {
            buf[span.start] |= KEY_PHASE;
        }
        keys::seal(&*self.header_local, &*self.local, number, buf, span)?;
        self.sending.first.get_or_insert(number);
        self.sending.sealed_packets += 1;
        Ok(())
    }

    /// Takes off the protection of `packet`, as [`super::PacketKeys::open`] does, with the keys its key phase
    /// and number call for; follows an update of the peer. `pto` is the current probe timeout: overtaken
    /// packets under old keys open for [`Self::KEEP_PREVIOUS_PTOS`] of it. A packet comes in as often as it
    /// is delivered: whoever calls discards numbers received before.
    pub fn open(
        &mut self,
        packet: &mut [u8],
        pn_offset: usize,
        expected: PacketNumber,
        now: Instant,
        pto: Duration,
    ) -> Result<Opened, OpenError> {
        self.previous.take_if(|previous| previous.expires_at.is_some_and(|at| at <= now));
        let number = keys::uncover(&*self.header_remote, packet, pn_offset, expected)?;
        let phase = packet[0] & KEY_PHASE != 0;
        let opened = if phase == self.phase {
            self.open_current(packet, pn_offset, number, now, pto)
        } else if self.receiving.lowest.is_none_or(|lowest| number < lowest) && self.generation > 0 {
            self.open_previous(packet, pn_offset, number)
        } else {
            self.open_next(packet, pn_offset, number, now, pto)
        };
        match opened {
            Ok(frames) => Ok(Opened { number, frames }),
            Err(OpenError::NotAuthentic) => Err(self.on_failed()),
            Err(error) => Err(error),
        }
    }

    fn open_current(
        &mut self,
        packet: &mut [u8],
        pn_offset: usize,
        number: PacketNumber,
        now: Instant,
        pto: Duration,
    ) -> Result<Range<usize>, OpenError> {
        let frames = keys::open(&*self.remote, packet, pn_offset, number)?;
        // RFC 9001 6.4: a packet with a higher number MUST be protected with the same or newer keys.
        if self.receiving.highest_before.is_some_and(|before| number < before) {
            return Err(OpenError::KeyUpdate);
        }
        if self.receiving.lowest.is_none()
            && let Some(previous) = &mut self.previous
        {
            previous.expires_at = Some(now + pto * Self::KEEP_PREVIOUS_PTOS);
        }
        self.receiving.note(number);
        Ok(frames)
    }

    fn open_previous(
        &mut self,
        packet: &mut [u8],
        pn_offset: usize,
        number: PacketNumber,
    ) -> Result<Range<usize>, OpenError> {
        let previous = self.previous.as_ref().ok_or(OpenError::NotAuthentic)?;
        let frames = keys::open(&*previous.key, packet, pn_offset, number)?;
        self.receiving.highest_before = self.receiving.highest_before.max(Some(number));
        Ok(frames)
    }

    fn open_next(
        &mut self,
        packet: &mut [u8],
        pn_offset: usize,
        number: PacketNumber,
        now: Instant,
        pto: Duration,
    ) -> Result<Range<usize>, OpenError> {
        let frames = keys::open(self.next(), packet, pn_offset, number)?;
        // RFC 9001 6.2: an update needs an acknowledgement under the current keys, and none can have been
        // sent; 6.4: newer keys for a lower number.
        if self.sending.sealed_packets == 0 || self.receiving.highest.is_some_and(|highest| number < highest)
        {
            return Err(OpenError::KeyUpdate);
        }
        self.advance(Some(now + pto * Self::KEEP_PREVIOUS_PTOS));
        self.receiving.note(number);
        Ok(frames)
    }

    fn on_failed(&mut self) -> OpenError {
        self.receiving.failed_packets += 1;
        if self.receiving.failed_packets >= self.remote.integrity_limit() {
            OpenError::IntegrityLimit
        } else {
            OpenError::NotAuthentic
        }
    }

    /// The peer acknowledged `number`.
    pub fn on_acked(&mut self, number: PacketNumber) {
        self.sending.is_acked |= self.sending.first.is_some_and(|first| number >= first);
    }

    /// Makes the keys that the peer may soon change to, if they are not there: packets come and go.
    pub fn prepare_update(&mut self) {
        if self.next.is_none() {
            self.next();
        }
    }

    /// Read keys of the next generation.
    fn next(&mut self) -> &dyn PacketKey {
        &**self.next.get_or_insert_with(|| self.secrets.clone().next_packet_keys().remote)
    }

    /// Lets go of keys that can be made again.
    pub fn release_memory(&mut self) {
        self.next = None;
    }

    /// Begins a new generation of keys at this end; the peer follows when it sees the first packet under it.
    ///
    /// RFC 9001 6.1: not before the peer acknowledged a packet under the current keys. That also confirms the
    /// handshake (4.1.2), which the first update has to wait for.
    pub fn initiate_update(&mut self) -> Result<(), UpdateTooEarly> {
        if !self.sending.is_acked {
            return Err(UpdateTooEarly);
        }
        self.advance(None);
        Ok(())
    }

    /// Makes the next generation the current one.
    fn advance(&mut self, previous_expires_at: Option<Instant>) {
        let PacketKeySet { local, remote } = self.secrets.next_packet_keys();
        self.local = local;
        let key = std::mem::replace(&mut self.remote, remote);
        self.next = None;
        self.next();
        self.previous = Some(Previous { key, expires_at: previous_expires_at });
        self.phase = !self.phase;
        self.generation += 1;
        self.sending = Sending::default();
        let highest_before = self.receiving.highest.max(self.receiving.highest_before);
        self.receiving = Receiving {
            highest_before,
            failed_packets: self.receiving.failed_packets,
            ..Receiving::default()
        };
    }
}

impl Receiving {
    fn note(&mut self, number: PacketNumber) {
        self.lowest = Some(self.lowest.map_or(number, |lowest| lowest.min(number)));
        self.highest = self.highest.max(Some(number));
    }
}

impl fmt::Debug for KeySchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySchedule").field("generation", &self.generation).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
