//! What this end may be called: one id from the handshake, more for the peer to change to when it moves (RFC
//! 9000 5.1).

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::RngCore;

use crate::config::ConnectionIds;
use crate::crypto::ResetKey;
use crate::wire::symbol::NewConnectionId;
use crate::{ConnectionId, TransportError};

/// More are not given out, however many the peer would keep: one in use, one to change to, one to change to
/// meanwhile.
const ACTIVE_MAX: usize = 3;
/// So many that the peer has retired are still answered to, for packets that were overtaken.
const RETIRED_MAX: usize = 2;

/// How an endpoint makes ids, and the tokens that prove it has lost a connection.
#[derive(Clone, Debug)]
pub(crate) struct CidSource {
    pub(crate) ids: ConnectionIds,
    pub(crate) reset_key: Arc<ResetKey>,
}

/// The ids of this end.
#[derive(Debug)]
pub(super) struct OwnCids {
    source: CidSource,
    /// By number.
    active: Vec<(u64, ConnectionId)>,
    retired: VecDeque<ConnectionId>,
    next_sequence: u64,
    /// As many as the peer keeps.
    wanted: usize,
}

impl OwnCids {
    pub(super) fn new(source: CidSource, first: ConnectionId) -> Self {
        Self { source, active: vec![(0, first)], retired: VecDeque::new(), next_sequence: 1, wanted: 1 }
    }

    pub(super) fn release_memory(&mut self) {
        self.active.shrink_to_fit();
    }

    /// The length of all of them, which packets do not tell.
    pub(super) fn wire_bytes(&self) -> usize {
        self.source.ids.wire_bytes()
    }

    /// The peer keeps so many.
    pub(super) fn on_peer_keeps(&mut self, count: u64) {
        self.wanted = usize::try_from(count).unwrap_or(ACTIVE_MAX).min(ACTIVE_MAX);
    }

    /// The peer could be told of one more.
    pub(super) fn is_wanted(&self) -> bool {
        self.active.len() < self.wanted
    }

    /// One more, which the peer is to be told of now.
    pub(super) fn issue(&mut self, random: &mut impl RngCore) -> NewConnectionId {
        let cid = self.source.ids.draw(random);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.active.push((sequence, cid));
        let reset_token = *self.source.reset_key.token(&cid).as_bytes();
        NewConnectionId { sequence, retire_below: 0, cid, reset_token }
    }

    /// The peer uses one no more. Returns one that is forgotten.
    pub(super) fn on_retired(&mut self, sequence: u64) -> Result<Option<ConnectionId>, TransportError> {
        if sequence >= self.next_sequence {
            return Err(TransportError::protocol_violation(
                "a connection id is retired that was never issued",
            ));
        }
        let Some(at) = self.active.iter().position(|(number, _)| *number == sequence) else {
            return Ok(None);
        };
        self.retired.push_back(self.active.remove(at).1);
        Ok(if self.retired.len() > RETIRED_MAX { self.retired.pop_front() } else { None })
    }
}
