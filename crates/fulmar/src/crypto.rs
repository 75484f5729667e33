//! Who an end is, and whom it trusts.
//!
//! | what | how |
//! |---|---|
//! | a key of its own | [`Identity::generate`]; kept in a file: [`crate::identity::Home`] |
//! | trust in known keys | [`TrustKeys`] |
//! | trust as in SSH, with files | [`crate::identity`] |
//! | trust decided by the program | [`VerifyPeer`] |
//! | certificates | [`ClientConfig::x509`], [`ServerConfig::x509`] with [`X509Roots`], [`X509Identity`] and [`system_clock`] |
//! | the name of the protocol that is spoken | [`ClientConfig::with_alpn`], [`crate::Connection::alpn`] |
//!
//! Connections use TLS 1.3 only, with keys that are exchanged anew for each.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use fulmar_proto::crypto::{
    ALPN_DEFAULT, ClientConfig, ConfigError, Fingerprint, Identity, KeyParseError, PeerIdentity, PublicKey,
    Refusal, ServerConfig, TrustKeys, VerifyPeer, WallClock, X509Identity, X509Roots,
};

/// The system's clock, to judge certificates by.
pub fn system_clock() -> WallClock {
    Arc::new(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
}
