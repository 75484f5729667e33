//! The connection ids of both ends, and that the handshake confirms them.

use crate::params::Parameters;
use crate::{ConnectionId, Side, TransportError};

/// Who is called what.
#[derive(Debug)]
pub(super) struct Cids {
    /// Chosen by this end.
    pub(super) local: ConnectionId,
    /// What the peer is addressed by.
    pub(super) peer: ConnectionId,
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

/// A client whose token is refused begins anew at most so often: the server it proved its address to may have been
/// replaced, its address have changed, or the proof have been too long on its way.
const RESTARTS_MAX: u32 = 4;

impl Cids {
    pub(super) fn new(
        local: ConnectionId,
        peer: ConnectionId,
        peer_chose: Option<ConnectionId>,
        original: ConnectionId,
        retry: Option<ConnectionId>,
    ) -> Self {
        Self { local, peer, peer_chose, original, retry, token: Vec::new(), restarts: 0 }
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
            self.peer = source;
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
        (self.original, self.peer) = (fresh, fresh);
        (self.peer_chose, self.retry) = (None, None);
        self.token.clear();
        true
    }

    /// The server wants the client to prove its address.
    pub(super) fn on_retry(&mut self, source: ConnectionId, token: &[u8]) {
        self.token = token.to_vec();
        self.retry = Some(source);
        self.peer = source;
    }
}
