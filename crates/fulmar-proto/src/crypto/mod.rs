//! Who the peer is, and what keeps everybody else out. docs/internals/wire.md, sections 3 and 4.
//!
//! TLS 1.3 through [`rustls::quic`] agrees on keys and proves identities (RFC 9001); packets are protected
//! with those keys; servers hold what they need for stateless answers - Retry tokens and stateless resets -
//! in two static keys.
//!
//! | question | answered by |
//! |---|---|
//! | who is this end, and whom does it let in? | [`ClientConfig`], [`ServerConfig`], [`Identity`], [`VerifyPeer`], [`TrustKeys`] |
//! | how does the handshake go on? | [`Session`] |
//! | is this packet authentic? | [`PacketKeys`], [`KeySchedule`] |
//! | does the client own its address? | [`TokenKey`], [`retry`] |
//! | is the connection forgotten at the other end? | [`ResetKey`], [`ResetToken`] |
//!
//! Replay is not decided here: a packet opens as often as it comes, and the receiver discards numbers it has
//! seen.
//!
//! **Randomness.** Functions of this module that need random bytes take a generator. The TLS library and the
//! key exchange inside it use the system's generator, and nothing can be passed in: two runs with one seed
//! exchange different handshake bytes. With raw public keys every handshake message has the same *length* in
//! every run, so a run in virtual time is still a function of its seed in all that can be measured; ECDSA
//! signatures in X.509 vary by a byte or two.

mod config;
mod error;
mod exporter;
mod identity;
mod keys;
mod reset;
pub mod retry;
mod schedule;
mod session;
mod suites;
mod token;
mod verify;
mod x509;

pub use config::{ALPN_DEFAULT, ClientConfig, ServerConfig};
pub use error::ConfigError;
pub use identity::{Fingerprint, Identity, KeyParseError, PublicKey};
pub use keys::{OpenError, PacketKeys, SealError};
pub use reset::{RESET_BYTES_MIN, RESET_BYTES_USUAL, ResetKey, ResetToken};
pub use schedule::{KeySchedule, Opened, UpdateTooEarly};
pub use session::{KeyChange, PeerIdentity, Session, StartError, describe_alert};
pub use token::{TokenKey, TokenRefusal, ValidatedToken};
pub use verify::{Refusal, TrustKeys, VerifyPeer};
pub use x509::{WallClock, X509Identity, X509Roots};

#[cfg(test)]
mod tests;
