//! Identities: Ed25519 keys (RFC 8032) that TLS carries as raw public keys (RFC 7250), and how people see
//! them.
//!
//! | form | looks like |
//! |---|---|
//! | private key | PEM of PKCS#8 version 1 (RFC 8410), as OpenSSL writes it |
//! | public key | `fulmar-ed25519 BASE64 comment`, BASE64 being the 32 bytes of the key |
//! | fingerprint | `SHA256:` and the base64 of the SHA-256 of the key's SubjectPublicKeyInfo, without padding |
//!
//! `openssl pkey -in KEY -pubout -outform DER | openssl dgst -sha256 -binary | base64` prints the fingerprint
//! too, padded.

use super::suites::any_eddsa_type;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// First word of a public key's line.
const KIND: &str = "fulmar-ed25519";
const KEY_BYTES: usize = 32;
/// RFC 8410 4: SubjectPublicKeyInfo of an Ed25519 key, up to the key itself.
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// RFC 8410 7: the private key in PKCS#8 of version 1, up to the 32 bytes that end it.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
/// RFC 7468 2: lines of PEM have 64 characters.
const PEM_LINE_CHARS: usize = 64;

/// Why text or bytes are not a key.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyParseError {
    /// Not the first word of a public key's line.
    #[error("not a public key of Fulmar: it would start with \"{KIND}\"")]
    Kind,
    /// Not the base64 of 32 bytes.
    #[error("the key is not the base64 of 32 bytes")]
    Key,
    /// Not PEM with a `PRIVATE KEY` in it.
    #[error("not a private key in PEM")]
    Pem,
    /// PEM, but not of an Ed25519 key in PKCS#8.
    #[error("not an Ed25519 private key in PKCS#8")]
    Pkcs8,
}

/// The public half of an [`Identity`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// The key with these bytes (RFC 8032 5.1.2).
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key in a DER-encoded SubjectPublicKeyInfo; `None` if it is of any other kind.
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        spki.strip_prefix(&SPKI_PREFIX)?.try_into().ok().map(Self)
    }

    /// Its DER-encoded SubjectPublicKeyInfo.
    pub fn to_spki(&self) -> Vec<u8> {
        [SPKI_PREFIX.as_slice(), &self.0].concat()
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        let hash = digest::digest(&digest::SHA256, &self.to_spki());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hash.as_ref());
        Fingerprint(bytes)
    }

    /// Reads a line `fulmar-ed25519 BASE64 comment`; gives the key and the comment, which may be empty.
    pub fn from_line(line: &str) -> Result<(Self, &str), KeyParseError> {
        let line = line.trim();
        let (kind, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if kind != KIND {
            return Err(KeyParseError::Kind);
        }
        let rest = rest.trim_start();
        let (key, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let bytes = STANDARD.decode(key).map_err(|_| KeyParseError::Key)?;
        Ok((Self(bytes.try_into().map_err(|_| KeyParseError::Key)?), comment.trim_start()))
    }

    /// The line for it, without an end of line; `comment` loses its control characters.
    pub fn to_line(&self, comment: &str) -> String {
        let comment: String = comment.chars().filter(|c| !c.is_control()).collect();
        format!("{self} {comment}").trim_end().to_owned()
    }
}

/// `fulmar-ed25519 BASE64`.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KIND} {}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyParseError;
    fn from_str(line: &str) -> Result<Self, Self::Err> {
        Self::from_line(line).map(|(key, _)| key)
    }
}

/// SHA-256 of a public key's SubjectPublicKeyInfo: what people compare.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", STANDARD_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A private key, with which an end proves who it is. Cloning is cheap.
#[derive(Clone)]
pub struct Identity {
    pkcs8: Arc<PrivatePkcs8KeyDer<'static>>,
    signing_key: Arc<dyn SigningKey>,
    public: PublicKey,
}

impl Identity {
    /// A new identity, from the system's generator: a long-term key is no place for a seeded one.
    ///
    /// Panics if the system has no randomness, as nothing can be done securely then.
    pub fn generate() -> Self {
        let mut seed = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut seed).expect("the system gives randomness");
        Self::from_seed(&seed)
    }

    /// The identity whose private key is `seed` (RFC 8032 5.1.5). As secret as the key itself.
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a private key");
        let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        let pkcs8 = PrivatePkcs8KeyDer::from([PKCS8_PREFIX.as_slice(), seed].concat());
        let signing_key = any_eddsa_type(&pkcs8).expect("a key of version 1 is one the library reads");
        Self { pkcs8: Arc::new(pkcs8), signing_key, public: PublicKey(public) }
    }

    /// Reads a private key in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyParseError> {
        let pkcs8 = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| KeyParseError::Pem)?;
        let (seed, behind) = parts_of(pkcs8.secret_pkcs8_der()).ok_or(KeyParseError::Pkcs8)?;
        let identity = Self::from_seed(seed);
        match behind.last_chunk::<35>() {
            Some([0x81, 0x21, 0x00, public @ ..]) if public != identity.public.as_bytes() => {
                Err(KeyParseError::Pkcs8)
            }
            _ => Ok(identity),
        }
    }

    /// The private key in PEM, to be kept where only its owner reads.
    pub fn to_pem(&self) -> String {
        let body = STANDARD.encode(self.pkcs8.secret_pkcs8_der());
        let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
        for (at, character) in body.chars().enumerate() {
            if at > 0 && at % PEM_LINE_CHARS == 0 {
                pem.push('\n');
            }
            pem.push(character);
        }
        pem.push_str("\n-----END PRIVATE KEY-----\n");
        pem
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The private key in DER, for a certificate made over it.
    pub fn private_key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.pkcs8.clone_key())
    }

    /// What TLS presents: a "certificate" that is the SubjectPublicKeyInfo (RFC 7250 3).
    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::new(CertifiedKey::new(
            vec![CertificateDer::from(self.public.to_spki())],
            self.signing_key.clone(),
        ))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public).finish()
    }
}

/// The private key in PKCS#8 of either version, and what is behind it: in version 2 attributes and the public
/// key (RFC 8410 7).
fn parts_of(pkcs8: &[u8]) -> Option<(&[u8; KEY_BYTES], &[u8])> {
    let (len, body) = match pkcs8 {
        [0x30, 0x81, len, body @ ..] | [0x30, len @ 0..=0x7f, body @ ..] => (usize::from(*len), body),
        _ => return None,
    };
    let ([0x02, 0x01, 0 | 1, kind @ ..], rest) = body.split_first_chunk::<14>()? else { return None };
    (body.len() == len && *kind == PKCS8_PREFIX[5..]).then(|| rest.split_first_chunk())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8410 10.3's example private key, and its public key of 10.1.
    const RFC_8410_PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    /// The same with attributes and the public key.
    const RFC_8410_PRIVATE_2: &str = "-----BEGIN PRIVATE KEY-----\nMHICAQEwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\noB8wHQYKKoZIhvcNAQkJFDEPDA1DdXJkbGUgQ2hhaXJzgSEAGb9ECWmEzf6FQbrB\nZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PRIVATE KEY-----\n";
    const RFC_8410_PUBLIC_SPKI: &str = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";

    #[test]
    fn the_key_of_rfc_8410() {
        let identity = Identity::from_pem(RFC_8410_PRIVATE).unwrap();
        let spki = STANDARD.decode(RFC_8410_PUBLIC_SPKI).unwrap();
        assert_eq!(identity.public_key().to_spki(), spki);
        assert_eq!(PublicKey::from_spki(&spki), Some(identity.public_key()));
        assert_eq!(identity.to_pem(), RFC_8410_PRIVATE);
        assert_eq!(Identity::from_pem(RFC_8410_PRIVATE_2).unwrap().to_pem(), RFC_8410_PRIVATE);
    }

    #[test]
    fn keys_survive_their_textual_forms() {
        let identity = Identity::generate();
        assert_ne!(identity.public_key(), Identity::generate().public_key());
        let again = Identity::from_pem(&format!("a comment before\n{}", identity.to_pem())).unwrap();
        assert_eq!(again.public_key(), identity.public_key());

        let line = identity.public_key().to_line("me@\u{7}home\n");
        assert!(line.starts_with("fulmar-ed25519 ") && line.ends_with(" me@home"), "{line}");
        assert_eq!(PublicKey::from_line(&line), Ok((identity.public_key(), "me@home")));
        assert_eq!(identity.public_key().to_line("").parse(), Ok(identity.public_key()));
    }

    #[test]
    fn fingerprints_look_like_those_of_ssh() {
        let key = Identity::from_pem(RFC_8410_PRIVATE).unwrap().public_key();
        // openssl pkey -pubout -outform DER | openssl dgst -sha256 -binary | base64
        assert_eq!(key.fingerprint().to_string(), "SHA256:oekVYFTgT6yJmunydRMs3Ael28TqLCrTof/G4NJTaB8");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let good = Identity::from_seed(&[7; 32]).public_key().to_line("");
        for (line, error) in [
            ("", KeyParseError::Kind),
            ("ssh-ed25519 AAAA", KeyParseError::Kind),
            ("fulmar-ed25519", KeyParseError::Key),
            ("fulmar-ed25519 !!!!", KeyParseError::Key),
            ("fulmar-ed25519 AAAA", KeyParseError::Key),
            (&good[..good.len() - 1], KeyParseError::Key),
        ] {
            assert_eq!(PublicKey::from_line(line), Err(error), "{line}");
        }
        assert_eq!(Identity::from_pem("nothing").unwrap_err(), KeyParseError::Pem);
        let another_kind = RFC_8410_PRIVATE.replace("VwBCIE", "VxBCIE");
        let cut = RFC_8410_PRIVATE.replace("EdVhC", "E");
        let another_public_key = RFC_8410_PRIVATE_2.replace("xZuE=", "xZuI=");
        for damaged in [another_kind, cut, another_public_key] {
            assert_eq!(Identity::from_pem(&damaged).unwrap_err(), KeyParseError::Pkcs8);
        }
    }

    #[test]
    fn a_private_key_is_not_in_its_debug_output() {
        let identity = Identity::from_pem(RFC_8410_PRIVATE).unwrap();
        assert_eq!(format!("{identity:?}"), format!("Identity({})", identity.public_key()));
    }
}
