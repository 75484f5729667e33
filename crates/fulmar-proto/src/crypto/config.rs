//! What an end brings to the handshake: its identity, whom it trusts, and which application protocol it
//! speaks.
//!
//! Decides the parameters of TLS: version 1.3 only; AES-128-GCM before AES-256-GCM before ChaCha20-Poly1305
//! (the first is the fastest where the processor helps, and every suite is strong enough); X25519 before
//! P-256 and P-384; no tickets, no resumption and no early data, so every connection proves its identities
//! anew.
//!
//! Raw public keys (RFC 7250) and X.509 do not mix in one connection: an end that uses the one fails the
//! handshake with an end that uses the other.

use super::error::ConfigError;
use super::exporter::Listening;
use super::identity::Identity;
use super::suites::{self, default_provider, kx_group};
use super::verify::{ClientKeyVerifier, ServerKeyVerifier, VerifyPeer};
use super::x509::{Told, WallClock, X509Identity, X509Roots};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{KeyLogFile, NoKeyLog, SignatureScheme};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The application protocol if none is set (RFC 7301).
pub const ALPN_DEFAULT: &[u8] = b"fulmar/1";

/// A client's side of the handshake. Cloning is cheap.
#[derive(Clone)]
pub struct ClientConfig {
    tls: Arc<rustls::ClientConfig>,
    uses_raw_keys: bool,
}

impl ClientConfig {
    /// In SSH's manner: the server proves to hold a key that `verify_server` accepts; the client shows
    /// `identity` to a server that asks. The server's name is not sent.
    pub fn raw_key(identity: Option<&Identity>, verify_server: Arc<dyn VerifyPeer>) -> Self {
        let provider = provider();
        let verifier = ServerKeyVerifier {
            policy: verify_server,
            algorithms: provider.signature_verification_algorithms,
        };
        let resolver: Arc<dyn ResolvesClientCert> = match identity {
            Some(identity) => Arc::new(AlwaysResolvesClientRawPublicKeys::new(identity.certified_key())),
            None => Arc::new(NoRawKey),
        };
        let mut tls = rustls::ClientConfig::builder_with_details(provider, Arc::new(NoClock))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(resolver);
        tls.enable_sni = false;
        Self::finish(tls, true)
    }

    /// With certificates: the server's has to lead to one of `roots` and to have the right name, by the time
    /// `clock` tells; the client shows `identity` to a server that asks.
    pub fn x509(
        roots: X509Roots,
        identity: Option<X509Identity>,
        clock: WallClock,
    ) -> Result<Self, ConfigError> {
        let builder = rustls::ClientConfig::builder_with_details(provider(), Arc::new(Told(clock)))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .with_root_certificates(roots.into_store());
        let tls = match identity {
            Some(X509Identity { chain, key }) => {
                builder.with_client_auth_cert(chain, key).map_err(identity_error)?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self::finish(tls, false))
    }

    fn finish(mut tls: rustls::ClientConfig, uses_raw_keys: bool) -> Self {
        tls.resumption = Resumption::disabled();
        tls.enable_early_data = false;
        tls.alpn_protocols = vec![ALPN_DEFAULT.to_vec()];
        tls.key_log = Arc::new(Listening(Arc::new(NoKeyLog)));
        Self { tls: Arc::new(tls), uses_raw_keys }
    }

    /// Speaks these application protocols, the favourite first, instead of [`ALPN_DEFAULT`].
    pub fn with_alpn(mut self, protocols: &[&[u8]]) -> Self {
        Arc::make_mut(&mut self.tls).alpn_protocols = owned(protocols);
        self
    }

    /// Writes the secrets of every connection to the file that the environment names in `SSLKEYLOGFILE`, for
    /// those who debug with a packet dump. Reads the environment and, if it is set, opens the file: I/O,
    /// hence only on request.
    pub fn with_key_log(mut self) -> Self {
        Arc::make_mut(&mut self.tls).key_log = Arc::new(Listening(Arc::new(KeyLogFile::new())));
        self
    }

    pub(super) fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.tls.clone()
    }

    pub(super) fn uses_raw_keys(&self) -> bool {
        self.uses_raw_keys
    }
}

/// A server's side of the handshake. Cloning is cheap.
#[derive(Clone)]
pub struct ServerConfig {
    tls: Arc<rustls::ServerConfig>,
    uses_raw_keys: bool,
}

impl ServerConfig {
    /// In SSH's manner: the server proves to hold `identity`; a client has to prove that it holds a key which
    /// `verify_client` accepts. Without `verify_client` everybody is let in, unnamed.
    pub fn raw_key(identity: &Identity, verify_client: Option<Arc<dyn VerifyPeer>>) -> Self {
        let provider = provider();
        let verifier = ClientKeyVerifier {
            policy: verify_client,
            algorithms: provider.signature_verification_algorithms,
        };
        let resolver = AlwaysResolvesServerRawPublicKeys::new(identity.certified_key());
        let tls = rustls::ServerConfig::builder_with_details(provider, Arc::new(NoClock))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3")
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(resolver));
        Self::finish(tls, true)
    }

    /// With certificates: the server shows `identity`; with `client_roots`, a client has to show a
    /// certificate that leads to one of them, by the time `clock` tells.
    pub fn x509(
        identity: X509Identity,
        client_roots: Option<X509Roots>,
        clock: WallClock,
    ) -> Result<Self, ConfigError> {
        let provider = provider();
        let builder = rustls::ServerConfig::builder_with_details(provider.clone(), Arc::new(Told(clock)))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has suites of TLS 1.3");
        let builder = match client_roots {
            Some(roots) => {
                let roots = Arc::new(roots.into_store());
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| ConfigError::Roots(error.to_string()))?,
                )
            }
            None => builder.with_no_client_auth(),
        };
        let tls = builder.with_single_cert(identity.chain, identity.key).map_err(identity_error)?;
        Ok(Self::finish(tls, false))
    }

    fn finish(mut tls: rustls::ServerConfig, uses_raw_keys: bool) -> Self {
        tls.session_storage = Arc::new(NoServerSessionStorage {});
        tls.send_tls13_tickets = 0;
        tls.max_early_data_size = 0;
        tls.alpn_protocols = vec![ALPN_DEFAULT.to_vec()];
        tls.key_log = Arc::new(Listening(Arc::new(NoKeyLog)));
        Self { tls: Arc::new(tls), uses_raw_keys }
    }

    /// Speaks these application protocols, the favourite first, instead of [`ALPN_DEFAULT`].
    pub fn with_alpn(mut self, protocols: &[&[u8]]) -> Self {
        Arc::make_mut(&mut self.tls).alpn_protocols = owned(protocols);
        self
    }

    /// As [`ClientConfig::with_key_log`].
    pub fn with_key_log(mut self) -> Self {
        Arc::make_mut(&mut self.tls).key_log = Arc::new(Listening(Arc::new(KeyLogFile::new())));
        self
    }

    pub(super) fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.tls.clone()
    }

    pub(super) fn uses_raw_keys(&self) -> bool {
        self.uses_raw_keys
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig").field("uses_raw_keys", &self.uses_raw_keys).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig").field("uses_raw_keys", &self.uses_raw_keys).finish_non_exhaustive()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: suites::all(),
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        ..default_provider()
    })
}

fn identity_error(error: rustls::Error) -> ConfigError {
    ConfigError::Identity(error.to_string())
}

fn owned(protocols: &[&[u8]]) -> Vec<Vec<u8>> {
    protocols.iter().map(|protocol| protocol.to_vec()).collect()
}

/// Raw keys do not expire, so nobody may look at a clock.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// A client that would show a raw key if it had one. To say so is what makes a server that asks for a key
/// answer "a key is required" rather than that the ends have nothing in common.
#[derive(Debug)]
struct NoRawKey;

impl ResolvesClientCert for NoRawKey {
    fn resolve(&self, _root_hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        false
    }
}
