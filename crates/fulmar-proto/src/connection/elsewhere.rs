//! Where else the peer may be: addresses that its packets came from and that have proved nothing yet.
//!
//! Whoever sees a packet can send it on from any address, sooner than it comes by itself. So nothing but
//! challenges goes to another address until it has answered, the path in use goes on meanwhile as if nothing
//! had happened, and is asked too: as long as it answers and later packets come from there, it stays (RFC
//! 9000 9.3.3). A NAT that has taken another port, or a client that has moved, lets neither happen.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::challenge::Challenge;
use super::path::{AMPLIFICATION_MAX, Path};
use crate::{ConnectionId, Instant, PacketNumber};

/// So many addresses are asked at a time: whoever makes up more has every packet of his cost nothing.
const CANDIDATES_MAX: usize = 4;
/// An address is asked at the same pace so often, twice in a round trip of the path in use, then ever more
/// seldom ..
const CHALLENGES_EVEN: u32 = 4;
/// .. no faster than this ..
const PACE_MIN: Duration = Duration::from_millis(5);
/// .. and for so long, or so many round trips: on the way there they may be far longer (RFC 9000 8.2.4).
const ASKED_FOR: Duration = Duration::from_secs(3);
const ASKED_ROUNDS: u32 = 16;
/// The path in use is asked so often while others are.
const CHALLENGES_MAX: u32 = 12;
/// Where so many are asked, one that has not answered for so many round trips, and so long, makes room for
/// another.
const ROUNDS_KEPT: u32 = 2;
const KEPT_FOR: Duration = Duration::from_millis(250);
/// The path in use is not asked again so soon after it has answered, as long as packets come from there.
const BELIEVED_FOR: Duration = Duration::from_secs(1);
/// Where packets come from the path in use, it has so many graces for its answer: some of its challenges may
/// be lost.
const GRACES_WHILE_HEARD: u32 = 4;
/// Room for a packet with a challenge alone: 1 + 20 + 4 + 9 + 16.
pub(super) const CHALLENGE_PACKET_BYTES_MAX: usize = 50;

/// How long a challenge waits before it is repeated.
fn wait(sent: u32, rtt: Duration) -> Duration {
    // From 5 ms twelve doublings are 20 s.
    (rtt / 2).max(PACE_MIN) * (1 << sent.saturating_sub(CHALLENGES_EVEN - 1).min(12))
}

/// An address that the peer may have moved to.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    /// Of the packet that told of it: a later one from the path in use shows that this is in use still.
    number: PacketNumber,
    since: Instant,
    challenge: Challenge,
    is_answered: bool,
    /// The peer calls this end something else there, so it knows of the move.
    is_renamed: bool,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Candidate {
    fn room_bytes(&self) -> u64 {
        (self.received_bytes * AMPLIFICATION_MAX).saturating_sub(self.sent_bytes)
    }

    fn may_ask(&self) -> bool {
        !self.is_answered && self.challenge.is_due() && self.room_bytes() >= CHALLENGE_PACKET_BYTES_MAX as u64
    }
}

/// A challenge to be sent to another address.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) token: u64,
    pub(super) is_renamed: bool,
}

/// A datagram of the handshake for one more address.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) remote: SocketAddr,
    pub(super) local_ip: Option<IpAddr>,
    pub(super) datagram: Vec<u8>,
}

/// The addresses beside the one in use, and what tells whether that one is in use still.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// Challenges of the peer that wait for their answer, the newest first.
    pub(super) responses: Vec<u64>,
    candidates: Vec<Candidate>,
    /// Of the handshake, to be sent.
    copies: Vec<Copy>,
    /// The newest packet that came on the path in use, before others or after.
    newest: Option<PacketNumber>,
    newest_at: Instant,
    /// What it was addressed to.
    called: Option<ConnectionId>,
    /// The round trip then: an ACK that comes by another way after a silence measures that silence.
    rtt: Option<Duration>,
    /// The path in use is asked whether it still is.
    challenge: Option<Challenge>,
    answered_at: Option<Instant>,
    believed_until: Instant,
}

impl Elsewhere {
    /// There is no other address.
    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    /// A packet of the peer came on the path in use, the first time or again.
    pub(super) fn on_in_use(
        &mut self,
        now: Instant,
        number: PacketNumber,
        called: Option<ConnectionId>,
        rtt: Duration,
    ) {
        if self.newest.is_none_or(|newest| number > newest) {
            (self.newest, self.newest_at, self.called) = (Some(number), now, called);
            self.rtt = Some(rtt);
        }
    }

    /// The round trip of the path in use, as it was when the newest packet came by it.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// A datagram came from `remote`, if it is one of the addresses.
    pub(super) fn on_datagram(&mut self, remote: SocketAddr, bytes: u64) {
        if let Some(known) = self.candidates.iter_mut().find(|known| known.remote == remote) {
            known.received_bytes += bytes;
        }
    }

    /// Whether a packet from another address is a reason to ask: one that the path in use has not brought
    /// (yet).
    pub(super) fn is_suspicious(
        &self,
        now: Instant,
        remote: SocketAddr,
        number: PacketNumber,
        rtt: Duration,
    ) -> bool {
        self.newest.is_none_or(|newest| number > newest)
            && (now >= self.believed_until || now - self.newest_at > rtt)
            && self.candidates.iter().all(|known| known.remote != remote)
            && (self.candidates.len() < CANDIDATES_MAX || self.overdue(now, rtt).is_some())
    }

    /// One that has not answered for so long that it makes room for another.
    fn overdue(&self, now: Instant, rtt: Duration) -> Option<usize> {
        let is_overdue =
            |known: &Candidate| !known.is_answered && now - known.since > KEPT_FOR.max(rtt * ROUNDS_KEPT);
        self.candidates.iter().position(is_overdue)
    }

    /// Asks there, with one token, and on the path in use with the other, unless that is going on.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (remote, local_ip): (SocketAddr, Option<IpAddr>),
        (number, called): (PacketNumber, Option<ConnectionId>),
        bytes: u64,
        tokens: [u64; 2],
        rtt: Duration,
    ) {
        if self.candidates.len() >= CANDIDATES_MAX
            && let Some(overdue) = self.overdue(now, rtt)
        {
            self.candidates.remove(overdue);
        }
        self.candidates.push(Candidate {
            remote,
            local_ip,
            number,
            since: now,
            challenge: Challenge::new(tokens[0], now),
            is_answered: false,
            is_renamed: called.is_some() && called != self.called,
            received_bytes: bytes,
            sent_bytes: 0,
        });
        self.challenge.get_or_insert_with(|| Challenge::new(tokens[1], now));
    }

    /// The handshake is over: those that were heard in it are asked from now on, the path in use elsewhere.
    pub(super) fn ask_all(&mut self, now: Instant) {
        self.copies.clear();
        for known in &mut self.candidates {
            known.since = now;
            known.challenge = Challenge::new(known.challenge.token(), now);
        }
    }

    /// The peer answered a challenge of `token`.
    pub(super) fn on_response(&mut self, now: Instant, token: u64) {
        if let Some(known) = self.candidates.iter_mut().find(|known| known.challenge.token() == token) {
            known.is_answered = true;
        }
        if self.challenge.take_if(|challenge| challenge.token() == token).is_some() {
            self.on_in_use_answered(now);
        }
    }

    /// The path in use has answered.
    pub(super) fn on_in_use_answered(&mut self, now: Instant) {
        self.answered_at = Some(now);
    }

    /// Lets go of what the path in use has outlived, and returns where the connection is now, if that is
    /// elsewhere.
    /// `grace` is how long an answer on the path in use may take; none if it has not proved anything itself.
    pub(super) fn settle(&mut self, now: Instant, grace: Duration) -> Option<Candidate> {
        let (newest, answered_at) = (self.newest, self.answered_at);
        let is_heard = |known: &Candidate| newest.is_some_and(|newest| newest > known.number);
        let count = self.candidates.len();
        self.candidates.retain(|known| !(is_heard(known) && answered_at.is_some_and(|at| at >= known.since)));
        if self.candidates.len() < count {
            self.believed_until = now + BELIEVED_FOR;
        }
        if self.candidates.is_empty() {
            self.challenge = None;
            return None;
        }
        let at = self
            .candidates
            .iter()
            .position(|known| self.moves_at(known, grace).is_some_and(|at| at <= now))?;
        let next = self.candidates.swap_remove(at);
        self.candidates.clear();
        (self.challenge, self.answered_at, self.called) = (None, None, None);
        Some(next)
    }

    /// When the connection moves there, unless the path in use shows that it is alive.
    fn moves_at(&self, known: &Candidate, grace: Duration) -> Option<Instant> {
        let is_heard = self.newest.is_some_and(|newest| newest > known.number);
        known.is_answered.then(|| known.since + if is_heard { grace * GRACES_WHILE_HEARD } else { grace })
    }

    /// The connection has moved; this is the newest packet that came.
    pub(super) fn on_moved(&mut self, now: Instant, newest: Option<PacketNumber>) {
        (self.newest, self.newest_at, self.rtt) = (newest, now, None);
    }

    /// When something is to be asked again, given up, or concluded.
    pub(super) fn timeout(&self, grace: Duration) -> Option<Instant> {
        let asked = self.candidates.iter().filter_map(|known| {
            self.moves_at(known, grace).or_else(|| known.challenge.timeout().filter(|_| !known.is_answered))
        });
        asked.chain(self.challenge.as_ref().and_then(Challenge::timeout)).min()
    }

    /// Time has come: asks again, or not any more.
    pub(super) fn handle_timeout(&mut self, now: Instant, rtt: Duration) {
        let asked_for = ASKED_FOR.max(rtt * ASKED_ROUNDS);
        self.candidates.retain_mut(|known| {
            known.is_answered
                || (now - known.since < asked_for && known.challenge.handle_timeout(now, u32::MAX))
        });
        self.challenge.take_if(|challenge| !challenge.handle_timeout(now, CHALLENGES_MAX));
        if self.candidates.is_empty() {
            self.challenge = None;
        }
    }

    /// The path in use is to be asked now.
    pub(super) fn is_question_due(&self) -> bool {
        self.challenge.as_ref().is_some_and(Challenge::is_due)
    }

    /// What it is asked.
    pub(super) fn poll_question_in_use(&mut self, now: Instant, rtt: Duration) -> Option<u64> {
        let challenge = self.challenge.as_mut().filter(|challenge| challenge.is_due())?;
        Some(challenge.take(now, wait(challenge.sent(), rtt)))
    }

    /// A question for another address, of a packet with so many bytes at most.
    pub(super) fn poll_question(&mut self, now: Instant, rtt: Duration) -> Option<Question> {
        let known = self.candidates.iter_mut().find(|known| known.may_ask())?;
        let token = known.challenge.take(now, wait(known.challenge.sent(), rtt));
        let Candidate { remote, local_ip, is_renamed, .. } = *known;
        Some(Question { remote, local_ip, token, is_renamed })
    }

    /// So many bytes left for `remote`.
    pub(super) fn on_sent(&mut self, remote: SocketAddr, bytes: u64) {
        if let Some(known) = self.candidates.iter_mut().find(|known| known.remote == remote) {
            known.sent_bytes += bytes;
        }
    }

    /// In the handshake nobody knows yet which of several addresses is the peer's: each gets what is sent, as
    /// far as what came from there allows. The one with the most room decides how much there is.
    pub(super) fn prefer_roomiest(&mut self, path: &mut Path) {
        let Some(best) = self.candidates.iter_mut().max_by_key(|known| known.room_bytes()) else { return };
        if best.room_bytes() > path.room_bytes(0) as u64 {
            let came = path.exchange(best.remote, best.local_ip, (best.received_bytes, best.sent_bytes));
            (best.remote, best.local_ip, (best.received_bytes, best.sent_bytes)) = came;
        }
    }

    /// A datagram of the handshake left for the address in use.
    pub(super) fn copy(&mut self, datagram: &[u8]) {
        for known in &mut self.candidates {
            if known.room_bytes() >= datagram.len() as u64 {
                known.sent_bytes += datagram.len() as u64;
                let Candidate { remote, local_ip, .. } = *known;
                self.copies.push(Copy { remote, local_ip, datagram: datagram.to_vec() });
            }
        }
    }

    /// The next of these copies.
    pub(super) fn poll_copy(&mut self) -> Option<Copy> {
        self.copies.pop()
    }

    /// Nothing is sent any more.
    pub(super) fn let_go(&mut self) {
        *self = Self::default();
    }
}
