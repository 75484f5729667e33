//! The connection ids of both ends: that the handshake confirms them, and what changes later.

mod own;
mod peers;

use std::collections::VecDeque;

use rand_core::RngCore;

use crate::crypto::ResetToken;
use crate::params::Parameters;
use crate::wire::symbol::{NewConnectionId, SymbolFrame};
use crate::{ConnectionId, Side, TransportError};
pub(crate) use own::CidSource;
use own::OwnCids;
use peers::PeerCids;

/// Ids of the peer that this end keeps.
pub(super) const KEPT: u64 = peers::KEPT_MAX as u64;

/// For the endpoint, which finds connections by their ids.
#[derive(Debug)]
pub(super) enum CidNews {
    Issued(ConnectionId),
    Retired(ConnectionId),
    /// Of the peer's id that is in use.
    PeerToken(ResetToken),
}

/// Who is called what.
#[derive(Debug)]
pub(super) struct Cids {
    /// What this end calls itself in the handshake.
    pub(super) local: ConnectionId,
    own: OwnCids,
    peers: PeerCids,
    is_worth_a_symbol: bool,
    events: VecDeque<CidNews>,
    /// The id the peer put into its first packet; it must say the same inside the handshake.
    pub(super) peer_chose: Option<ConnectionId>,
    /// Destination of the client's very first packet.
    pub(super) original: ConnectionId,
    /// Destination of the client's first packet after a Retry.
    pub(super) retry: Option<ConnectionId>,
    /// What the client shows for its address.
    pub(super) token: Vec<u8>,
    /// How often the client began anew because its token was refused.
    restarts: u32,
}

/// A client whose token is refused begins anew at most so often: the server it proved its address to may have
/// been replaced, its address have changed, or the proof have been too long on its way.
const RESTARTS_MAX: u32 = 4;

/// Bytes of the longest frame about an id.
const FRAME_BYTES_MAX: usize = 1 + 8 + 8 + 1 + ConnectionId::LEN_MAX + 16;

impl Cids {
    /// Keeps room for no more ids than there are.
    pub(super) fn release_memory(&mut self) {
        self.own.release_memory();
        self.peers.release_memory();
        self.events.shrink_to_fit();
    }

    pub(super) fn new(
        source: CidSource,
        local: ConnectionId,
        peer: ConnectionId,
        peer_chose: Option<ConnectionId>,
        original: ConnectionId,
        retry: Option<ConnectionId>,
    ) -> Self {
        Self {
            local,
            own: OwnCids::new(source, local),
            peers: PeerCids::new(peer),
            is_worth_a_symbol: false,
            events: VecDeque::new(),
            peer_chose,
            original,
            retry,
            token: Vec::new(),
            restarts: 0,
        }
    }

    /// What the peer is addressed by.
    pub(super) fn peer(&self) -> ConnectionId {
        self.peers.current()
    }

    /// What it will be addressed by after the next [`Self::change`]; `None` if it has given out no other id.
    pub(super) fn peers_next(&self) -> Option<ConnectionId> {
        self.peers.next()
    }

    /// Length of all ids of this end, which packets do not tell.
    pub(super) fn own_bytes(&self) -> usize {
        self.own.wire_bytes()
    }

    /// The handshake must confirm the connection ids that travelled outside it (RFC 9000 7.3).
    pub(super) fn check(&self, side: Side, peer: &Parameters) -> Result<(), TransportError> {
        let mut is_right = self.peer_chose == Some(peer.source_cid);
        if side.is_client() {
            is_right &= peer.original_cid == Some(self.original) && peer.retry_cid == self.retry;
        } else {
            is_right &= peer.original_cid.is_none() && peer.retry_cid.is_none() && peer.reset_token.is_none();
        }
        is_right
            .then_some(())
            .ok_or_else(|| TransportError::parameters("connection ids differ from those in the packets"))
    }

    /// The first packet of a server says what to call it.
    pub(super) fn on_first_packet(&mut self, side: Side, source: ConnectionId) {
        if side.is_client() && self.peer_chose.is_none() {
            self.peer_chose = Some(source);
            self.peers.set_first(source);
        }
    }

    /// The server has been heard, if only in a packet that anybody on the path could make.
    pub(super) fn has_heard_server(&self) -> bool {
        self.peer_chose.is_some()
    }

    /// The server refuses the client's token. True if the client begins anew, calling the server `fresh`.
    pub(super) fn restart(&mut self, fresh: ConnectionId) -> bool {
        if self.retry.is_none() || self.restarts == RESTARTS_MAX {
            return false;
        }
        self.restarts += 1;
        self.original = fresh;
        self.peers.set_first(fresh);
        (self.peer_chose, self.retry) = (None, None);
        self.token.clear();
        true
    }

    /// The server wants the client to prove its address.
    pub(super) fn on_retry(&mut self, source: ConnectionId, token: &[u8]) {
        self.token = token.to_vec();
        self.retry = Some(source);
        self.peers.set_first(source);
    }

    /// The peer keeps so many ids of this end's, which are worth a symbol of their own or not.
    pub(super) fn on_agreed(&mut self, kept: u64, is_worth_a_symbol: bool) {
        self.own.on_peer_keeps(kept);
        self.is_worth_a_symbol = is_worth_a_symbol;
    }

    /// The peer is to be told something, for which a symbol is worth sending.
    pub(super) fn has_news(&self) -> bool {
        self.is_worth_a_symbol && (self.own.is_wanted() || self.peers.has_retired())
    }

    /// Appends what the peer is to be told to a symbol, as far as `bytes_max` allows.
    pub(super) fn fill(&mut self, random: &mut impl RngCore, symbol: &mut Vec<u8>, bytes_max: usize) {
        let fits = |symbol: &Vec<u8>| symbol.len() + FRAME_BYTES_MAX <= bytes_max;
        while fits(symbol)
            && let Some(sequence) = self.peers.poll_retired()
        {
            SymbolFrame::RetireConnectionId { sequence }.put(symbol);
        }
        while fits(symbol) && self.own.is_wanted() {
            let new = self.own.issue(random);
            self.events.push_back(CidNews::Issued(new.cid));
            SymbolFrame::NewConnectionId(new).put(symbol);
        }
    }

    /// The peer may be called something else.
    pub(super) fn on_new(&mut self, new: NewConnectionId) -> Result<(), TransportError> {
        let token = self.peers.on_new(new)?;
        self.events.extend(token.map(CidNews::PeerToken));
        Ok(())
    }

    /// The peer does not use one of this end's ids any more.
    pub(super) fn on_retired(&mut self, sequence: u64) -> Result<(), TransportError> {
        let forgotten = self.own.on_retired(sequence)?;
        self.events.extend(forgotten.map(CidNews::Retired));
        Ok(())
    }

    /// An end has moved: calls the peer something else, if it may.
    pub(super) fn change(&mut self) {
        let token = self.peers.change();
        self.events.extend(token.map(CidNews::PeerToken));
    }

    /// Something the endpoint must know.
    pub(super) fn poll_event(&mut self) -> Option<CidNews> {
        self.events.pop_front()
    }
}
