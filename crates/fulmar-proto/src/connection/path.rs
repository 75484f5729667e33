//! One path: what is known of it, and what may be sent on it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::challenge::Challenge;
use super::feedback::Carried;
use crate::Instant;
use crate::recovery::Recovery;

/// Before its address is validated, a peer is sent at most this many times what it sent (RFC 9000 8.1).
pub(super) const AMPLIFICATION_MAX: u64 = 3;
/// How often a path challenge is repeated before the path is given up.
const CHALLENGES_MAX: u32 = 6;

/// The state of address validation.
#[derive(Debug)]
pub(super) enum Validation {
    /// The peer receives at this address.
    Done,
    /// A server: nothing proves yet that the peer understands what it gets there; its handshake will.
    ByHandshake,
    /// A challenge is out.
    Challenged(Challenge),
}

/// A path: its addresses, whether they are proven, and the recovery of what travels on it.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) validation: Validation,
    pub(super) recovery: Recovery<Carried>,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Path {
    pub(super) fn new(
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        validation: Validation,
        recovery: Recovery<Carried>,
    ) -> Self {
        Self { remote, local_ip, validation, recovery, received_bytes: 0, sent_bytes: 0 }
    }

    /// The peer has another address, where it has answered. If only its port changed (NAT rebinding), what
    /// was measured still holds (RFC 9000 9.4).
    pub(super) fn rebind(&mut self, remote: SocketAddr, local_ip: Option<IpAddr>) {
        self.remote = remote;
        self.local_ip = local_ip;
        self.validation = Validation::Done;
    }

    /// Another address takes the place of this one, with the bytes that came from there and went there.
    /// Returns this one's.
    pub(super) fn exchange(
        &mut self,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        (received, sent): (u64, u64),
    ) -> (SocketAddr, Option<IpAddr>, (u64, u64)) {
        (
            std::mem::replace(&mut self.remote, remote),
            std::mem::replace(&mut self.local_ip, local_ip),
            (
                std::mem::replace(&mut self.received_bytes, received),
                std::mem::replace(&mut self.sent_bytes, sent),
            ),
        )
    }

    pub(super) fn on_datagram_received(&mut self, bytes: u64) {
        self.received_bytes += bytes;
    }

    pub(super) fn on_datagram_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Bytes that may still be sent, of which `written` are in a buffer already: bounded until the address is
    /// validated.
    pub(super) fn room_bytes(&self, written: usize) -> usize {
        match self.validation {
            Validation::Done => usize::MAX,
            Validation::ByHandshake | Validation::Challenged(_) => {
                let budget = (self.received_bytes * AMPLIFICATION_MAX).saturating_sub(self.sent_bytes);
                usize::try_from(budget).unwrap_or(usize::MAX).saturating_sub(written)
            }
        }
    }

    pub(super) fn is_validated(&self) -> bool {
        matches!(self.validation, Validation::Done)
    }

    /// When a challenge must be repeated or given up.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match &self.validation {
            Validation::Challenged(challenge) => challenge.timeout(),
            _ => None,
        }
    }

    /// False if the path cannot be validated.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        match &mut self.validation {
            Validation::Challenged(challenge) => challenge.handle_timeout(now, CHALLENGES_MAX),
            _ => true,
        }
    }

    /// The challenge to send now, if one is due.
    pub(super) fn poll_challenge(&mut self, now: Instant) -> Option<u64> {
        let period = self.recovery.rtt().probe_timeout(Duration::ZERO, 0);
        match &mut self.validation {
            Validation::Challenged(challenge) if challenge.is_due() => {
                Some(challenge.take(now, period * (1 << (challenge.sent() + 1).min(6))))
            }
            _ => None,
        }
    }

    /// A challenge is to be sent.
    pub(super) fn is_challenge_due(&self) -> bool {
        matches!(&self.validation, Validation::Challenged(challenge) if challenge.is_due())
    }

    /// The challenge under way, if there is one.
    pub(super) fn challenge(&self) -> Option<u64> {
        match &self.validation {
            Validation::Challenged(challenge) => Some(challenge.token()),
            _ => None,
        }
    }

    /// The peer answered `token`. True if that validated the path.
    pub(super) fn on_response(&mut self, response: u64) -> bool {
        let is_right = self.challenge() == Some(response);
        if is_right {
            self.validation = Validation::Done;
        }
        is_right
    }
}

impl Validation {
    /// A challenge to be sent at once.
    pub(super) fn challenge(token: u64, now: Instant) -> Self {
        Self::Challenged(Challenge::new(token, now))
    }
}
