//! Stateless reset: how an end that has lost a connection says so (RFC 9000 10.3). docs/internals/wire.md,
//! section 4.
//!
//! Decides what token belongs to a connection id, and when and how long a reset is. A reset looks like a
//! packet with a short header; its last 16 bytes are the token that the receiver got, encrypted, when the
//! connection was alive.

use crate::ids::ConnectionId;
use crate::wire::packet::SHORT_PACKET_BYTES_MIN;
use rand_core::RngCore;
use ring::hmac;
use std::fmt;
use subtle::ConstantTimeEq;

/// Bytes of a reset token.
const TOKEN_BYTES: usize = 16;
/// Bytes of the shortest reset: as the shortest packet it could be taken for.
pub const RESET_BYTES_MIN: usize = SHORT_PACKET_BYTES_MIN;
/// Bytes of a reset in answer to a packet longer than that: as a short packet with a small frame or two.
pub const RESET_BYTES_USUAL: usize = 41;

/// The secret of a server from which the reset tokens of all its connection ids follow. To outlive a restart
/// it has to be stored; with a new one, connections from before the restart time out instead of ending at
/// once.
#[derive(Clone)]
pub struct ResetKey(hmac::Key);

impl ResetKey {
    /// The key with these bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// A new key from `random`.
    pub fn generate(random: &mut impl RngCore) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self::new(&bytes)
    }

    /// The token of `cid`: the first half of an HMAC-SHA256.
    pub fn token(&self, cid: &ConnectionId) -> ResetToken {
        let mac = hmac::sign(&self.0, cid.as_bytes());
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&mac.as_ref()[..TOKEN_BYTES]);
        ResetToken(token)
    }

    /// Appends the reset that answers a packet of `trigger_bytes` to the unknown `cid`, and tells whether
    /// there is one.
    ///
    /// RFC 9000 10.3.3: it is always shorter than what it answers, so two ends that have both forgotten do
    /// not go on for ever. A packet of [`RESET_BYTES_MIN`] or less has no answer.
    pub fn put_reset(
        &self,
        cid: &ConnectionId,
        trigger_bytes: usize,
        random: &mut impl RngCore,
        out: &mut Vec<u8>,
    ) -> bool {
        let len = trigger_bytes.saturating_sub(1).min(RESET_BYTES_USUAL);
        if len < RESET_BYTES_MIN {
            return false;
        }
        let start = out.len();
        out.resize(start + len - TOKEN_BYTES, 0);
        random.fill_bytes(&mut out[start..]);
        out[start] = 0b0100_0000 | out[start] & 0b0001_1111;
        out.extend_from_slice(&self.token(cid).0);
        true
    }
}

impl fmt::Debug for ResetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetKey")
    }
}

/// Proof that a reset comes from the end that had the connection. A secret while the connection lives.
#[derive(Copy, Clone)]
pub struct ResetToken([u8; TOKEN_BYTES]);

impl From<[u8; TOKEN_BYTES]> for ResetToken {
    fn from(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self::from_bytes(bytes)
    }
}

impl ResetToken {
    /// Bytes of a token.
    pub const LEN: usize = TOKEN_BYTES;

    /// The token with these bytes.
    pub fn from_bytes(bytes: [u8; TOKEN_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// What would be the token if `datagram` is a reset; `None` if it cannot be one. To be taken *before* the
    /// datagram is opened, which destroys it, and compared if that fails.
    pub fn at_end_of(datagram: &[u8]) -> Option<Self> {
        if datagram.len() < RESET_BYTES_MIN || datagram[0] & 0x80 != 0 {
            return None;
        }
        datagram.last_chunk().copied().map(Self)
    }
}

/// In constant time (RFC 9000 10.3.1).
impl PartialEq for ResetToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for ResetToken {}

impl fmt::Debug for ResetToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResetToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::{Peeked, peek};
    use rand_pcg::Pcg64Mcg;

    /// 4.2: looks like a short packet, is shorter than its cause, ends with the token of that connection id.
    #[test]
    fn resets_are_short_packets_with_a_token() {
        let mut random = Pcg64Mcg::new(1);
        let key = ResetKey::generate(&mut random);
        let (cid, other) = (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]));
        for trigger in 0..1500 {
            let mut out = b"before".to_vec();
            if !key.put_reset(&cid, trigger, &mut random, &mut out) {
                assert!(trigger <= RESET_BYTES_MIN && out == b"before");
                continue;
            }
            let reset = &out[6..];
            assert!(reset.len() < trigger && (RESET_BYTES_MIN..=RESET_BYTES_USUAL).contains(&reset.len()));
            assert!(matches!(peek(reset, 8), Ok(Peeked::Short { .. })));
            assert_eq!(ResetToken::at_end_of(reset), Some(key.token(&cid)));
            assert_ne!(ResetToken::at_end_of(reset), Some(key.token(&other)));
        }
    }

    /// 4.2: long headers and runts are no resets.
    #[test]
    fn what_cannot_be_a_reset_has_no_token() {
        assert!(ResetToken::at_end_of(&[0xc0; 60]).is_none());
        assert!(ResetToken::at_end_of(&[0x40; RESET_BYTES_MIN - 1]).is_none());
        assert!(ResetToken::at_end_of(&[]).is_none());
    }

    #[test]
    fn tokens_follow_from_the_key() {
        let cid = ConnectionId::new([5; 8]);
        assert_eq!(ResetKey::new(&[1; 32]).token(&cid), ResetKey::new(&[1; 32]).token(&cid));
        assert_ne!(ResetKey::new(&[1; 32]).token(&cid), ResetKey::new(&[2; 32]).token(&cid));
    }
}
