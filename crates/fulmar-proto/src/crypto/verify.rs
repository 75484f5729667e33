//! Whom to let in: the policy as a trait, and what carries it into the TLS library (RFC 7250, RFC 8446
//! 4.4.2).
//!
//! A policy sees a key that the peer has not proved to hold yet; the TLS library checks the proof right
//! after, and the handshake fails without it. Only Ed25519 keys and signatures are accepted.

use super::identity::{Fingerprint, PublicKey};
use crate::ids::Side;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    PeerIncompatible, SignatureScheme,
};
use std::fmt;
use std::sync::Arc;

/// Decides whether a peer's key is acceptable: `known_hosts` and `authorized_keys` are policies.
///
/// Called once per handshake, in the middle of handling a packet: it must not block. A policy that has to ask
/// somebody refuses, and the connection is tried again once there is an answer.
pub trait VerifyPeer: fmt::Debug + Send + Sync {
    /// Whether the holder of `key` may be talked to. At a client `name` is the server's name as given to
    /// [`super::Session::start_client`]; at a server it is empty, a client having no name.
    fn verify(&self, key: &PublicKey, name: &str) -> Result<(), Refusal>;
}

/// Trusts the holders of certain keys and nobody else: the policy of an end that knows its peers' keys.
///
/// ```
/// # use std::sync::Arc;
/// # use fulmar_proto::crypto::{ClientConfig, Identity, TrustKeys};
/// # let (own, server) = (Identity::from_seed(&[1; 32]), Identity::from_seed(&[2; 32]));
/// let config = ClientConfig::raw_key(Some(&own), Arc::new(TrustKeys::new([server.public_key()])));
/// ```
#[derive(Clone, Debug)]
pub struct TrustKeys(Vec<PublicKey>);

impl TrustKeys {
    /// Trusts the holders of `keys`, whatever name they answer to.
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> Self {
        Self(keys.into_iter().collect())
    }
}

impl VerifyPeer for TrustKeys {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        if self.0.contains(key) { Ok(()) } else { Err(Refusal::UnknownKey(key.fingerprint())) }
    }
}

/// Why a peer's key was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing is known of this key.
    #[error("unknown key {0}")]
    UnknownKey(Fingerprint),
    /// The peer is known, under another key: it was changed, or somebody is in between.
    #[error("key {presented} is not the one known for {name}")]
    KeyChanged {
        /// Whose.
        name: String,
        /// The key that came.
        presented: Fingerprint,
    },
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    /// The alert that the end at `side` sends with it: a server denies access, a client does not trust.
    pub(super) fn alert(&self, side: Side) -> u8 {
        match side {
            Side::Server => AlertDescription::AccessDenied.into(),
            Side::Client => AlertDescription::CertificateUnknown.into(),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
    }
}

fn key_of(end_entity: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    PublicKey::from_spki(end_entity).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

fn verify_signature(
    message: &[u8],
    key: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let spki = SubjectPublicKeyInfoDer::from(key.as_ref());
    verify_tls13_signature_with_raw_key(message, &spki, signature, algorithms)
}

fn tls12_is_off() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
}

/// A client's check of a server's raw key.
#[derive(Debug)]
pub(super) struct ServerKeyVerifier {
    pub(super) policy: Arc<dyn VerifyPeer>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ServerKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.policy.verify(&key_of(end_entity)?, &server_name.to_str())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12_is_off()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// A server's check of a client's raw key; without a policy the client is not asked for one.
///
/// The library's own "no client authentication" would turn away a client that offers raw keys only, so both
/// cases are here.
#[derive(Debug)]
pub(super) struct ClientKeyVerifier {
    pub(super) policy: Option<Arc<dyn VerifyPeer>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientKeyVerifier {
    fn offer_client_auth(&self) -> bool {
        self.policy.is_some()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(policy) = &self.policy else {
            return Err(Refusal::Other("no identity was asked for".into()).into());
        };
        policy.verify(&key_of(end_entity)?, "")?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12_is_off()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
