//! Retry tokens: a client's proof that it receives what is sent to its address (RFC 9000 8.1).
//! docs/internals/wire.md, section 4.
//!
//! Decides whether a token was given by this server, to this address, for this attempt, and lately. The
//! server keeps nothing but the key. A token is a nonce of 12 bytes, then AES-256-GCM-SIV (RFC 8452) over:
//!
//! ```text
//!   1      kind: 1, retry
//!   8      when it was given, in nanoseconds of the server's clock
//!   1+n+2  client's address (4 or 16 bytes after their count) and port
//!   1+n    destination connection id of the client's first Initial packet
//!   1+n    connection id the client was told to use
//! ```
//!
//! GCM-SIV because nonces are random and a server under load gives tokens without end: a nonce that comes
//! twice reveals nothing but two equal tokens.

use crate::ids::ConnectionId;
use crate::wire::{Malformed, Reader};
use aes_gcm_siv::{AeadInOut, Aes256GcmSiv, KeyInit};
use fulmar_units::Instant;
use rand_core::RngCore;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const KIND_RETRY: u8 = 1;
const NONCE_BYTES: usize = 12;

/// What a valid token says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ValidatedToken {
    /// Destination connection id of the client's first Initial packet, for the parameters (RFC 9000 7.3).
    pub original_dcid: ConnectionId,
    /// Connection id the Retry told the client to use, likewise.
    pub retry_scid: ConnectionId,
}

/// Why a token proves nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// Not made with this server's key, or changed.
    #[error("token was not given by this server")]
    Forged,
    /// Given too long ago.
    #[error("token has expired")]
    Expired,
    /// Given to another address or port.
    #[error("token was given to another address")]
    WrongAddress,
    /// Given for another attempt to connect: the packet is not for the connection id the Retry told.
    #[error("token was given for another connection")]
    WrongConnection,
}

/// The key with which a server seals its tokens.
pub struct TokenKey {
    key: Aes256GcmSiv,
    lifetime: Duration,
}

impl TokenKey {
    /// Long enough for a round trip and its repetitions, short enough that a stolen token is of no use.
    pub const LIFETIME_DEFAULT: Duration = Duration::from_secs(15);

    /// The key with these bytes; its tokens are valid for `lifetime`.
    pub fn new(bytes: &[u8; 32], lifetime: Duration) -> Self {
        Self { key: Aes256GcmSiv::new(bytes.into()), lifetime }
    }

    /// A new key from `random`, with [`Self::LIFETIME_DEFAULT`].
    pub fn generate(random: &mut impl RngCore) -> Self {
        let mut bytes = [0; 32];
        random.fill_bytes(&mut bytes);
        Self::new(&bytes, Self::LIFETIME_DEFAULT)
    }

    /// Tokens are valid for so long from now on, those given already among them.
    pub fn set_lifetime(&mut self, lifetime: Duration) {
        self.lifetime = lifetime;
    }

    /// A token for the client at `address`, whose first Initial packet went to `original_dcid` and whose next
    /// ones are to go to `retry_scid`.
    pub fn seal(
        &self,
        address: SocketAddr,
        original_dcid: &ConnectionId,
        retry_scid: &ConnectionId,
        now: Instant,
        random: &mut impl RngCore,
    ) -> Vec<u8> {
        let mut text = vec![KIND_RETRY];
        text.extend_from_slice(&now.as_nanos().to_be_bytes());
        put_address(address, &mut text);
        for cid in [original_dcid, retry_scid] {
            text.push(cid.as_bytes().len() as u8);
            text.extend_from_slice(cid.as_bytes());
        }
        let mut nonce = [0; NONCE_BYTES];
        random.fill_bytes(&mut nonce);
        self.key
            .encrypt_in_place(&nonce.into(), b"", &mut text)
            .expect("the cipher seals a text of a hundred bytes");
        [nonce.as_slice(), &text].concat()
    }

    /// Checks `token`, which came from `address` in an Initial packet to `dcid`.
    pub fn open(
        &self,
        token: &[u8],
        address: SocketAddr,
        dcid: &ConnectionId,
        now: Instant,
    ) -> Result<ValidatedToken, TokenRefusal> {
        let (nonce, sealed) = token.split_first_chunk::<NONCE_BYTES>().ok_or(TokenRefusal::Forged)?;
        let mut text = sealed.to_vec();
        self.key.decrypt_in_place(nonce.into(), b"", &mut text).map_err(|_| TokenRefusal::Forged)?;
        let (issued, to, validated) = read(&text).map_err(|_| TokenRefusal::Forged)?;
        if now.saturating_duration_since(issued) > self.lifetime {
            return Err(TokenRefusal::Expired);
        }
        if to != (address.ip().to_canonical(), address.port()) {
            return Err(TokenRefusal::WrongAddress);
        }
        if validated.retry_scid != *dcid {
            return Err(TokenRefusal::WrongConnection);
        }
        Ok(validated)
    }
}

fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    // A socket of both families shows an IPv4 client in IPv6 clothes; the client is the same.
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(16);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

fn read(text: &[u8]) -> Result<(Instant, (IpAddr, u16), ValidatedToken), Malformed> {
    let mut reader = Reader::new(text);
    if reader.u8()? != KIND_RETRY {
        return Err(Malformed);
    }
    let issued = Instant::from_nanos(reader.array().map(u64::from_be_bytes)?);
    let ip = match reader.u8()? {
        4 => IpAddr::from(reader.array::<4>()?),
        16 => IpAddr::from(reader.array::<16>()?),
        _ => return Err(Malformed),
    };
    let port = reader.array().map(u16::from_be_bytes)?;
    let mut cid = || {
        let len = reader.u8()?;
        ConnectionId::from_bytes(reader.bytes(usize::from(len))?).ok_or(Malformed)
    };
    let validated = ValidatedToken { original_dcid: cid()?, retry_scid: cid()? };
    if reader.is_empty() { Ok((issued, (ip, port), validated)) } else { Err(Malformed) }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKey").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand_pcg::Pcg64Mcg;

    const NOW: Instant = Instant::from_nanos(1_000_000_000_000);

    fn cids() -> (ConnectionId, ConnectionId) {
        (ConnectionId::from_bytes(&[1; 20]).unwrap(), ConnectionId::new([2; 8]))
    }

    fn sealed(address: &str) -> (TokenKey, Vec<u8>, SocketAddr) {
        let (original, retry) = cids();
        let mut random = Pcg64Mcg::new(3);
        let (key, address) = (TokenKey::generate(&mut random), address.parse().unwrap());
        let token = key.seal(address, &original, &retry, NOW, &mut random);
        (key, token, address)
    }

    /// 4.1: valid from the address it was given to, for its lifetime.
    #[test]
    fn a_token_is_valid_where_and_while_it_should_be() {
        let (original_dcid, retry_scid) = cids();
        for address in ["192.0.2.7:4747", "[2001:db8::1]:4747"] {
            let (key, token, address) = sealed(address);
            let expected = ValidatedToken { original_dcid, retry_scid };
            let last = NOW + TokenKey::LIFETIME_DEFAULT;
            for now in [NOW, last] {
                assert_eq!(key.open(&token, address, &retry_scid, now), Ok(expected));
            }
            let late = last + Duration::from_nanos(1);
            assert_eq!(key.open(&token, address, &retry_scid, late), Err(TokenRefusal::Expired));
            assert_eq!(key.open(&token, address, &original_dcid, NOW), Err(TokenRefusal::WrongConnection));
        }
    }

    /// 4.1: neither another address nor another port; a mapped address is the same one.
    #[test]
    fn a_token_belongs_to_one_address() {
        let (_, retry) = cids();
        let (key, token, _) = sealed("192.0.2.7:4747");
        for other in ["192.0.2.8:4747", "192.0.2.7:4748", "[2001:db8::1]:4747"] {
            assert_eq!(
                key.open(&token, other.parse().unwrap(), &retry, NOW),
                Err(TokenRefusal::WrongAddress)
            );
        }
        assert!(key.open(&token, "[::ffff:192.0.2.7]:4747".parse().unwrap(), &retry, NOW).is_ok());
    }

    /// 4.1: no byte of it can be changed, and another server's key makes no token.
    #[test]
    fn forged_tokens_are_refused() {
        let (_, retry) = cids();
        let (key, token, address) = sealed("192.0.2.7:4747");
        for at in 0..token.len() {
            let mut bad = token.clone();
            bad[at] ^= 0x40;
            assert_eq!(key.open(&bad, address, &retry, NOW), Err(TokenRefusal::Forged));
            assert_eq!(key.open(&token[..at], address, &retry, NOW), Err(TokenRefusal::Forged));
        }
        let other = TokenKey::new(&[9; 32], TokenKey::LIFETIME_DEFAULT);
        assert_eq!(other.open(&token, address, &retry, NOW), Err(TokenRefusal::Forged));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_token(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (key, _, address) = sealed("192.0.2.7:4747");
            prop_assert_eq!(key.open(&bytes, address, &cids().1, NOW), Err(TokenRefusal::Forged));
            let _ = read(&bytes);
        }
    }
}
