//! X.509 certificates as DER and PEM, and the time to judge them by: no type of the TLS library is needed.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::ConfigError;

/// Tells the time since the Unix epoch, by which certificates are valid or not: no clock is read here.
pub type WallClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Certificates of authorities that are trusted.
#[derive(Clone, Debug)]
pub struct X509Roots(RootCertStore);

impl X509Roots {
    /// Trusts these certificates, each in DER.
    ///
    /// # Errors
    /// If there is none, or if one cannot be read.
    pub fn from_der<C: AsRef<[u8]>>(certificates: impl IntoIterator<Item = C>) -> Result<Self, ConfigError> {
        let owned = |der: C| Ok(CertificateDer::from(der.as_ref().to_vec()));
        Self::new(certificates.into_iter().map(owned))
    }

    /// Trusts all certificates of a PEM file (`-----BEGIN CERTIFICATE-----`).
    ///
    /// # Errors
    /// If there is none, or if one cannot be read.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ConfigError> {
        Self::new(CertificateDer::pem_slice_iter(pem).map(|one| one.map_err(roots_error)))
    }

    fn new(
        certificates: impl Iterator<Item = Result<CertificateDer<'static>, ConfigError>>,
    ) -> Result<Self, ConfigError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates {
            store.add(certificate?).map_err(roots_error)?;
        }
        if store.is_empty() {
            return Err(ConfigError::Roots("there is none".into()));
        }
        Ok(Self(store))
    }

    pub(super) fn into_store(self) -> RootCertStore {
        self.0
    }
}

fn roots_error(error: impl fmt::Display) -> ConfigError {
    ConfigError::Roots(error.to_string())
}

/// An end's X.509 certificates, its own first, with its private key.
pub struct X509Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl X509Identity {
    /// A chain of certificates in DER, the own one first, and the private key of that one in DER (PKCS #8,
    /// SEC 1 or PKCS #1).
    ///
    /// # Errors
    /// If the key is of no kind that is known. Whether key and certificate belong together shows when a
    /// configuration is made.
    pub fn from_der<C: AsRef<[u8]>>(
        chain: impl IntoIterator<Item = C>,
        private_key: &[u8],
    ) -> Result<Self, ConfigError> {
        let chain = chain.into_iter().map(|der| CertificateDer::from(der.as_ref().to_vec())).collect();
        let key = PrivateKeyDer::try_from(private_key.to_vec());
        Ok(Self { chain, key: key.map_err(|error| ConfigError::Identity(error.to_owned()))? })
    }

    /// As [`from_der`](Self::from_der), from the text of two PEM files. They may be the same.
    ///
    /// # Errors
    /// If there is no certificate, no key, or one that cannot be read.
    pub fn from_pem(chain: &[u8], private_key: &[u8]) -> Result<Self, ConfigError> {
        let wrong = |error: rustls::pki_types::pem::Error| ConfigError::Identity(error.to_string());
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(wrong)?;
        if chain.is_empty() {
            return Err(ConfigError::Identity("there is no certificate".into()));
        }
        Ok(Self { chain, key: PrivateKeyDer::from_pem_slice(private_key).map_err(wrong)? })
    }
}

/// The key is left out.
impl fmt::Debug for X509Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("X509Identity").field("certificates", &self.chain.len()).finish_non_exhaustive()
    }
}

/// A [`WallClock`] as the TLS library wants it.
pub(super) struct Told(pub(super) WallClock);

impl TimeProvider for Told {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch((self.0)()))
    }
}

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}
