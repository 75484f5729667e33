//! Retry: a server's stateless request to come again with a token (RFC 9000 8.1.2, 17.2.5).
//! docs/internals/wire.md, section 2.
//!
//! Decides whether a Retry answers the packet this client sent. Its integrity tag is AES-128-GCM over
//! nothing, with a key everybody knows, as in RFC 9001 5.8: it keeps out accidents and those who did not see
//! the Initial packet.

use std::sync::LazyLock;

use crate::ids::ConnectionId;
use crate::wire::packet::{LongType, TAG_BYTES, VERSION, cid_of, put_long, valid_cid};
use crate::wire::{Malformed, Reader};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::error::Unspecified;
use subtle::ConstantTimeEq;

/// The first 16 bytes of SHA-256 of "fulmar/1 retry integrity key".
const KEY: [u8; 16] =
    [0xf9, 0xcb, 0x86, 0xe7, 0xc2, 0x59, 0xdc, 0x0d, 0xfc, 0x0f, 0x8e, 0xac, 0xdb, 0x2b, 0xd0, 0xb6];
/// The first 12 bytes of SHA-256 of "fulmar/1 retry integrity nonce".
const NONCE: [u8; 12] = [0xae, 0xaf, 0xea, 0x4a, 0x15, 0x2f, 0x18, 0xbc, 0xbd, 0x84, 0x83, 0xf6];

/// What a Retry says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Retry<'a> {
    /// The connection id the client has to send to from now on; its Initial keys follow from it.
    pub scid: ConnectionId,
    /// What the client has to put into its Initial packets from now on. Not empty.
    pub token: &'a [u8],
}

/// Why a Retry is to be discarded.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryError {
    /// It cannot be parsed, its token is empty, or it changes nothing (RFC 9000 17.2.5.2).
    #[error("malformed retry packet")]
    Malformed,
    /// It does not answer this client's Initial packet.
    #[error("retry packet failed its integrity check")]
    Integrity,
}

impl From<Malformed> for RetryError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Appends the datagram that answers an Initial packet from `client_cid` to `original_dcid`: it asks the
/// client to come again, to `new_cid` (which must be another than `original_dcid`) and with `token` (which
/// must not be empty).
pub fn put(
    client_cid: &ConnectionId,
    new_cid: &ConnectionId,
    original_dcid: &ConnectionId,
    token: &[u8],
    out: &mut Vec<u8>,
) {
    debug_assert!(new_cid != original_dcid && !token.is_empty());
    let start = out.len();
    put_long(LongType::Retry.first_byte(), VERSION, client_cid.as_bytes(), new_cid.as_bytes(), out);
    out.extend_from_slice(token);
    let tag = tag(original_dcid, &out[start..]).expect("AES-128-GCM seals an empty text");
    out.extend_from_slice(&tag);
}

/// Reads a Retry that came in answer to an Initial packet to `original_dcid`.
pub fn open<'a>(datagram: &'a [u8], original_dcid: &ConnectionId) -> Result<Retry<'a>, RetryError> {
    let body_len = datagram.len().checked_sub(TAG_BYTES).ok_or(RetryError::Malformed)?;
    let (body, theirs) = datagram.split_at(body_len);
    let ours = tag(original_dcid, body).map_err(|_| RetryError::Integrity)?;
    if !bool::from(ours.ct_eq(theirs)) {
        return Err(RetryError::Integrity);
    }

    let mut reader = Reader::new(body);
    reader.bytes(1 + 4)?;
    cid_of(&mut reader)?;
    let scid = valid_cid(cid_of(&mut reader)?)?;
    let token = reader.take_rest();
    if token.is_empty() || scid == *original_dcid {
        Err(RetryError::Malformed)
    } else {
        Ok(Retry { scid, token })
    }
}

/// Made once: a server in a flood answers with nothing but these.
static TAG_KEY: LazyLock<LessSafeKey> = LazyLock::new(|| {
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &KEY).expect("a key of AES-128-GCM has 16 bytes"))
});

/// The tag over the pseudo-packet: the original destination connection id with its length, then the packet.
fn tag(original_dcid: &ConnectionId, body: &[u8]) -> Result<[u8; TAG_BYTES], Unspecified> {
    let cid = original_dcid.as_bytes();
    let pseudo_packet = [&[cid.len() as u8], cid, body].concat();
    let nonce = Nonce::assume_unique_for_key(NONCE);
    let tag = TAG_KEY.seal_in_place_separate_tag(nonce, Aad::from(pseudo_packet), &mut [])?;
    tag.as_ref().try_into().map_err(|_| Unspecified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::packet::{Peeked, peek};
    use ring::digest::{SHA256, digest};

    fn cids() -> (ConnectionId, ConnectionId, ConnectionId) {
        (ConnectionId::new([1; 8]), ConnectionId::new([2; 8]), ConnectionId::from_bytes(&[3; 14]).unwrap())
    }

    #[test]
    fn the_constants_hide_nothing() {
        assert_eq!(KEY, digest(&SHA256, b"fulmar/1 retry integrity key").as_ref()[..16]);
        assert_eq!(NONCE, digest(&SHA256, b"fulmar/1 retry integrity nonce").as_ref()[..12]);
    }

    /// 2.2: a Retry reads back, at the client that asked only.
    #[test]
    fn a_retry_answers_one_initial_packet() {
        let (client, new, original) = cids();
        let mut packet = Vec::new();
        put(&client, &new, &original, b"a token", &mut packet);
        let Ok(Peeked::Long { ty: LongType::Retry, dcid, scid }) = peek(&packet, 8) else { panic!() };
        assert_eq!((dcid, scid), (client, new));
        assert_eq!(open(&packet, &original), Ok(Retry { scid: new, token: b"a token" }));
        assert_eq!(open(&packet, &new), Err(RetryError::Integrity));
        for at in 0..packet.len() {
            let mut bad = packet.clone();
            bad[at] ^= 1;
            assert_eq!(open(&bad, &original), Err(RetryError::Integrity));
            assert!(open(&packet[..at], &original).is_err());
        }
    }

    /// 2.2: without a token or with the same connection id there is nothing to come again with, even if the
    /// tag is valid.
    #[test]
    fn a_retry_that_changes_nothing_is_refused() {
        let (client, new, original) = cids();
        for (scid, token, original, expected) in [
            (new, b"".as_slice(), original, Err(RetryError::Malformed)),
            (new, b"token", new, Err(RetryError::Malformed)),
            (new, b"token", original, Ok(Retry { scid: new, token: b"token" })),
        ] {
            let mut packet = Vec::new();
            let first = LongType::Retry.first_byte();
            put_long(first, VERSION, client.as_bytes(), scid.as_bytes(), &mut packet);
            packet.extend_from_slice(token);
            let tag = tag(&original, &packet).unwrap();
            packet.extend_from_slice(&tag);
            assert_eq!(open(&packet, &original), expected);
        }
    }
}
