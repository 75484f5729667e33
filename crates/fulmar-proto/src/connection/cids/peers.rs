//! What the peer may be called: the id in use, and those to change to when an end moves, so that who watches
//! both paths does not see that they are one connection (RFC 9000 5.1, 9.5).

use std::collections::VecDeque;

use crate::crypto::ResetToken;
use crate::wire::symbol::NewConnectionId;
use crate::{ConnectionId, TransportError};

/// Ids of the peer that this end keeps, the one in use among them.
pub(super) const KEPT_MAX: usize = 3;
/// So many retirements may wait for their way to the peer: it has no use for more than follow from what it
/// issued.
const RETIRING_MAX: usize = 16;

/// The ids of the peer.
#[derive(Debug)]
pub(super) struct PeerCids {
    current: (u64, ConnectionId),
    /// Not used yet, by number.
    spare: Vec<NewConnectionId>,
    /// Used no more; the peer is to be told.
    retiring: VecDeque<u64>,
    /// Those with lower numbers are not wanted by the peer any more.
    retire_below: u64,
}

impl PeerCids {
    pub(super) fn new(first: ConnectionId) -> Self {
        Self { current: (0, first), spare: Vec::new(), retiring: VecDeque::new(), retire_below: 0 }
    }

    pub(super) fn release_memory(&mut self) {
        self.spare.shrink_to_fit();
    }

    /// What packets to the peer are addressed to.
    pub(super) fn current(&self) -> ConnectionId {
        self.current.1
    }

    /// What they would be addressed to after a change.
    pub(super) fn next(&self) -> Option<ConnectionId> {
        self.spare.first().map(|spare| spare.cid)
    }

    /// The handshake has another id for the peer.
    pub(super) fn set_first(&mut self, first: ConnectionId) {
        self.current.1 = first;
    }

    /// Goes on under another id, if there is one, and never uses the old one again. Returns the new one's
    /// token.
    pub(super) fn change(&mut self) -> Option<ResetToken> {
        if self.spare.is_empty() || self.retiring.len() >= RETIRING_MAX {
            return None;
        }
        let next = self.spare.remove(0);
        self.retiring.push_back(self.current.0);
        self.current = (next.sequence, next.cid);
        Some(ResetToken::from(next.reset_token))
    }

    /// The peer may be called something else. Returns a token if the id in use had to change.
    pub(super) fn on_new(&mut self, new: NewConnectionId) -> Result<Option<ResetToken>, TransportError> {
        if new.retire_below > new.sequence {
            return Err(TransportError::frame_encoding("a connection id that retires itself"));
        }
        if new.cid.wire_bytes() != self.current.1.wire_bytes() {
            return Err(TransportError::protocol_violation("connection ids of different lengths"));
        }
        let is_current = self.current == (new.sequence, new.cid);
        if is_current || self.spare.contains(&new) {
            return Ok(None);
        }
        let known = self.spare.iter().map(|spare| (spare.sequence, spare.cid)).chain([self.current]);
        if known.into_iter().any(|(sequence, cid)| sequence == new.sequence || cid == new.cid) {
            return Err(TransportError::protocol_violation("a connection id issued twice"));
        }
        self.retire_below = self.retire_below.max(new.retire_below);
        let at = self.spare.partition_point(|spare| spare.sequence < new.sequence);
        self.spare.insert(at, new);
        let below = self.retire_below;
        for spare in self.spare.extract_if(.., |spare| spare.sequence < below) {
            self.retiring.push_back(spare.sequence);
        }
        let too_many = || TransportError::buffer_exceeded("more connection ids than this end keeps");
        let token = if self.current.0 < below { Some(self.change().ok_or_else(too_many)?) } else { None };
        if self.spare.len() >= KEPT_MAX || self.retiring.len() > RETIRING_MAX {
            return Err(too_many());
        }
        Ok(token)
    }

    /// The number of one that is used no more, of which the peer has not been told.
    pub(super) fn poll_retired(&mut self) -> Option<u64> {
        self.retiring.pop_front()
    }

    pub(super) fn has_retired(&self) -> bool {
        !self.retiring.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportErrorCode;

    fn new(sequence: u64, retire_below: u64) -> NewConnectionId {
        let cid = ConnectionId::new([sequence as u8; 8]);
        NewConnectionId { sequence, retire_below, cid, reset_token: [sequence as u8; 16] }
    }

    fn refused(peers: &mut PeerCids, id: NewConnectionId) -> TransportErrorCode {
        peers.on_new(id).unwrap_err().code
    }

    /// RFC 9000 5.1.2: what is to be retired is, whether it is in use or not.
    #[test]
    fn wire_6_6_ids_change_in_order_and_are_not_used_again() {
        let mut peers = PeerCids::new(ConnectionId::new([0; 8]));
        assert_eq!(peers.change(), None);
        for sequence in [2, 1] {
            assert_eq!(peers.on_new(new(sequence, 0)), Ok(None));
        }
        assert_eq!(peers.on_new(new(1, 0)), Ok(None), "the same again");
        assert_eq!(peers.change(), Some(ResetToken::from([1; 16])));
        assert_eq!((peers.current(), peers.poll_retired()), (new(1, 0).cid, Some(0)));
        assert_eq!(peers.on_new(new(7, 5)), Ok(Some(ResetToken::from([7; 16]))));
        assert_eq!(peers.current(), new(7, 5).cid);
        assert_eq!([(); 3].map(|()| peers.poll_retired()), [Some(2), Some(1), None]);
        assert_eq!(peers.on_new(new(3, 0)), Ok(None), "late");
        assert_eq!(peers.poll_retired(), Some(3));
        assert!(!peers.has_retired());
    }

    #[test]
    fn wire_6_6_ids_that_contradict_and_too_many_are_refused() {
        use TransportErrorCode::{BufferExceeded, FrameEncoding, ProtocolViolation};
        let mut peers = PeerCids::new(ConnectionId::new([0; 8]));
        assert_eq!(refused(&mut peers, new(1, 2)), FrameEncoding);
        let long = ConnectionId::from_bytes(&[1; 9]).unwrap();
        assert_eq!(refused(&mut peers, NewConnectionId { cid: long, ..new(1, 0) }), ProtocolViolation);
        assert_eq!(
            refused(&mut peers, NewConnectionId { cid: new(9, 0).cid, ..new(0, 0) }),
            ProtocolViolation
        );
        assert_eq!(peers.on_new(new(1, 0)), Ok(None));
        assert_eq!(
            refused(&mut peers, NewConnectionId { cid: new(1, 0).cid, ..new(4, 0) }),
            ProtocolViolation
        );
        assert_eq!(peers.on_new(new(2, 0)), Ok(None));
        assert_eq!(refused(&mut peers, new(3, 0)), BufferExceeded);
        // Whoever has ids retired and hears no retirement must stop.
        let mut peers = PeerCids::new(ConnectionId::new([0; 8]));
        let last = (1..100).find(|&n| peers.on_new(new(n, n)).is_err());
        assert_eq!(last, Some(RETIRING_MAX as u64 + 1));
    }
}
