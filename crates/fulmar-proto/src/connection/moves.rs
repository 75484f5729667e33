//! The peer seems to be at another address: asking there and here, and going on where it is (RFC 9000 9.3).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::elsewhere::{CHALLENGE_PACKET_BYTES_MAX, Candidate};
use super::packet_log::PacketSpace;
use super::path::Validation;
use super::{Connection, DatagramMeta, Transmit};
use crate::wire::frame;
use crate::{ConnectionId, Instant, PacketNumber};

/// The way to an address: ports are of no account. Of a flow label no network gives more than 20 bits (RFC
/// 6437); the highest of the other twelve says that an address is reached by other means than UDP, and the
/// rest are the caller's.
fn way(address: SocketAddr) -> (IpAddr, bool) {
    let is_other = matches!(address, SocketAddr::V6(v6) if v6.flowinfo() >> 31 != 0);
    (address.ip().to_canonical(), is_other)
}

impl Connection {
    /// A packet of the peer came, the first time or again. Servers do not move.
    pub(super) fn on_origin(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        number: PacketNumber,
        packet: &[u8],
    ) {
        if self.side.is_client() || self.state.is_closed() {
            return;
        }
        let rtt = self.path.recovery.rtt().smoothed();
        let called = packet.get(1..1 + self.cids.own_bytes()).and_then(ConnectionId::from_bytes);
        if meta.remote == self.path.remote {
            self.elsewhere.on_in_use(now, number, called, rtt);
        } else if self.elsewhere.is_suspicious(now, meta.remote, number, rtt) {
            let tokens = [self.draw(), self.draw()];
            self.elsewhere.ask(
                now,
                (meta.remote, meta.local_ip),
                (number, called),
                packet.len() as u64,
                tokens,
                rtt,
            );
        }
        self.settle_whereabouts(now);
    }

    /// The same in the handshake, where packets have other numbers.
    pub(super) fn on_origin_in_handshake(&mut self, now: Instant, meta: &DatagramMeta, bytes: usize) {
        let first = PacketNumber(0);
        let rtt = self.path.recovery.rtt().smoothed();
        if self.side.is_server()
            && meta.remote != self.path.remote
            && self.elsewhere.is_suspicious(now, meta.remote, first, rtt)
        {
            let tokens = [self.draw(), self.draw()];
            self.elsewhere.ask(now, (meta.remote, meta.local_ip), (first, None), bytes as u64, tokens, rtt);
        }
    }

    /// The handshake is over. Who was heard from one address only has proved that he receives there; of
    /// several nobody knows which has.
    pub(super) fn validate_after_handshake(&mut self, now: Instant) {
        if matches!(self.path.validation, Validation::ByHandshake) {
            self.path.validation = if self.elsewhere.is_empty() {
                Validation::Done
            } else {
                Validation::challenge(self.draw(), now)
            };
        }
        self.elsewhere.ask_all(now);
    }

    /// A challenge was answered, from wherever: who has seen it receives where it went.
    pub(super) fn on_path_response(&mut self, now: Instant, token: u64) {
        if self.path.on_response(token) {
            self.elsewhere.on_in_use_answered(now);
        }
        self.elsewhere.on_response(now, token);
    }

    /// How long the path in use may take to answer. One that has proved nothing has no precedence.
    pub(super) fn grace(&self) -> Duration {
        let rtt = self.path.recovery.rtt();
        if self.path.is_validated() {
            let usual = self.elsewhere.rtt().unwrap_or(rtt.smoothed());
            rtt.probe_timeout(Duration::ZERO, 0).min(usual * 2)
        } else {
            Duration::ZERO
        }
    }

    /// Goes on elsewhere, if it is known by now that the peer is there and not here.
    pub(super) fn settle_whereabouts(&mut self, now: Instant) {
        if self.elsewhere.is_empty() {
            return;
        }
        if let Some(next) = self.elsewhere.settle(now, self.grace()) {
            self.go_to(now, &next);
        }
    }

    fn go_to(&mut self, now: Instant, next: &Candidate) {
        self.cids.change();
        let is_other_path = way(next.remote) != way(self.path.remote);
        self.path.rebind(next.remote, next.local_ip);
        if is_other_path {
            let limit = self.peer.map(|peer| peer.udp_payload_max);
            self.path.recovery.on_path_change(now, limit);
            // What is under way fills the window, and nothing is known of how long an answer takes here: the
            // answer to this tells both.
            self.is_ping_pending = true;
        }
        self.elsewhere.on_moved(now, self.received.largest());
        // What was said since then went where nobody is.
        self.path.recovery.on_moved();
        self.received.request_ack();
        self.counts.path_changes += 1;
    }

    /// A datagram for another address than the one in use: a challenge, or a copy of what the handshake says.
    pub(super) fn poll_transmit_elsewhere(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if self.elsewhere.is_empty() {
            return None;
        }
        let start = buf.len();
        let (destination, src_ip) = if self.is_handshaking() {
            let copy = self.elsewhere.poll_copy()?;
            buf.extend_from_slice(&copy.datagram);
            (copy.remote, copy.local_ip)
        } else {
            self.write_question(now, buf)?
        };
        let bytes = buf.len() - start;
        self.counts.wire.sent_bytes += bytes as u64;
        self.counts.wire.sent_datagrams += 1;
        Some(Transmit { destination, src_ip, ecn: None, bytes, segment_bytes: None })
    }

    fn write_question(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<(SocketAddr, Option<IpAddr>)> {
        self.keys.as_ref()?;
        let question = self.elsewhere.poll_question(now, self.path.recovery.rtt().smoothed())?;
        let start = buf.len();
        let draft = self.begin_elsewhere(buf, CHALLENGE_PACKET_BYTES_MAX, question.is_renamed)?;
        frame::put_path_challenge(buf, question.token);
        if !self.seal_or_fail(now, &draft, buf) {
            return None;
        }
        // What becomes of it says nothing of the path in use.
        self.path.recovery.on_sent_untracked();
        let bytes = buf.len() - start;
        self.elsewhere.on_sent(question.remote, bytes as u64);
        self.trace_sent(now, (PacketSpace::Data, draft.number, bytes), true, None);
        Some((question.remote, question.local_ip))
    }
}
