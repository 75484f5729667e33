//! The TLS handshake of one connection (RFC 8446, carried as RFC 9001 4 says).
//!
//! Decides when keys become available and whether the peer is who it must be. Handshake bytes go in and out
//! in order and without gaps; packets, repetition and reordering are the connection's business.
//!
//! What TLS needs for that, some KiB, goes when the handshake is over ([`Session::conclude`]); what was
//! agreed on stays.

use super::config::{ClientConfig, ServerConfig};
use super::exporter::{self, Exporter};
use super::identity::PublicKey;
use super::keys::{KEY_DERIVATION, PacketKeys};
use super::schedule::KeySchedule;
use super::verify::Refusal;
use crate::error::{TransportError, TransportErrorCode};
use crate::ids::Side;
use rustls::crypto::tls13::OkmBlock;
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, Connection, ServerConnection};
use rustls::{AlertDescription, CertificateError, OtherError};
use std::fmt;

/// Why a handshake could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// Neither a DNS name nor an IP address.
    #[error("\"{0}\" is neither a DNS name nor an IP address")]
    ServerName(String),
    /// The configuration cannot make a handshake.
    #[error("TLS configuration: {0}")]
    Config(String),
}

/// Keys that a step of the handshake made available. Handshake data written after it belongs in packets under
/// them.
#[derive(Debug)]
pub enum KeyChange {
    /// For Handshake packets.
    Handshake(PacketKeys),
    /// For 1-RTT packets. A server has them before the client proved its identity: until its handshake is
    /// complete it must not open such packets (RFC 9001 5.7), and whatever it sends goes to a stranger. A
    /// client whose handshake is complete may still be refused by the server.
    OneRtt(Box<KeySchedule>),
}

/// Who the peer proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// The holder of this key (RFC 7250).
    RawKey(PublicKey),
    /// The subject of the first of these certificates, each in DER.
    X509(Vec<Vec<u8>>),
}

/// The TLS side of one connection.
pub struct Session {
    phase: Phase,
    side: Side,
}

/// How far it has come.
enum Phase {
    UnderWay(Box<UnderWay>),
    Over(Box<Agreed>),
}

struct UnderWay {
    tls: Connection,
    uses_raw_keys: bool,
    exporter_secret: Option<OkmBlock>,
    refusal: Option<Refusal>,
    /// How the handshake failed; the library is not to be given more after that.
    failure: Option<TransportError>,
}

/// What is left of a handshake.
struct Agreed {
    peer: Option<PeerIdentity>,
    alpn: Option<Box<[u8]>>,
    server_name: Option<Box<str>>,
    exporter: Option<Exporter>,
}

impl Session {
    /// Starts the handshake at the client. `server_name` is what the server is to be verified as: a DNS name
    /// or an IP address, without a port. `parameters` go to the server as they are, authenticated by the
    /// handshake.
    pub fn start_client(
        config: &ClientConfig,
        server_name: &str,
        parameters: Vec<u8>,
    ) -> Result<Self, StartError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| StartError::ServerName(server_name.to_owned()))?;
        let tls = ClientConnection::new(config.tls(), KEY_DERIVATION, name, parameters)
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self::new(tls.into(), Side::Client, config.uses_raw_keys()))
    }

    /// Starts the handshake at the server.
    pub fn start_server(config: &ServerConfig, parameters: Vec<u8>) -> Result<Self, StartError> {
        let tls = ServerConnection::new(config.tls(), KEY_DERIVATION, parameters)
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self::new(tls.into(), Side::Server, config.uses_raw_keys()))
    }

    fn new(tls: Connection, side: Side, uses_raw_keys: bool) -> Self {
        let begun = UnderWay { tls, uses_raw_keys, exporter_secret: None, refusal: None, failure: None };
        Self { phase: Phase::UnderWay(Box::new(begun)), side }
    }

    fn under_way(&self) -> Option<&UnderWay> {
        match &self.phase {
            Phase::UnderWay(handshake) => Some(handshake),
            Phase::Over(_) => None,
        }
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Takes the next handshake bytes from the peer, in order; those of Initial and those of Handshake
    /// packets in calls of their own. An error is to be sent to the peer as it is and ends the connection;
    /// call [`Self::write_handshake`] after success.
    pub fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        match &mut self.phase {
            Phase::UnderWay(handshake) => handshake.read(bytes, self.side),
            Phase::Over(_) => Err(TransportError::new(
                TransportErrorCode::Tls(AlertDescription::UnexpectedMessage.into()),
                "a handshake message after the handshake",
            )),
        }
    }

    /// Appends handshake bytes for the peer to `out`. With a [`KeyChange`], what was appended still belongs
    /// under the keys before it; call again for what belongs under the new ones, until nothing is appended
    /// and no keys come.
    pub fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        let Phase::UnderWay(handshake) = &mut self.phase else { return None };
        Some(match handshake.tls.write_hs(out)? {
            rustls::quic::KeyChange::Handshake { keys } => {
                KeyChange::Handshake(PacketKeys::from_rustls(keys))
            }
            rustls::quic::KeyChange::OneRtt { keys, next } => {
                KeyChange::OneRtt(Box::new(KeySchedule::new(keys, next)))
            }
        })
    }

    /// Whether the handshake is still incomplete at this end.
    pub fn is_handshaking(&self) -> bool {
        self.under_way().is_some_and(|handshake| handshake.tls.is_handshaking())
    }

    /// The handshake is complete, and all that it had to say was taken: lets go of everything but what was
    /// agreed on. Nothing happens while that is not so.
    pub fn conclude(&mut self) {
        let Phase::UnderWay(handshake) = &mut self.phase else { return };
        if handshake.tls.is_handshaking() || handshake.failure.is_some() {
            return;
        }
        let suite = handshake.tls.negotiated_cipher_suite().and_then(|suite| suite.tls13());
        let exporter = suite.zip(handshake.exporter_secret.take());
        self.phase = Phase::Over(Box::new(Agreed {
            peer: handshake.peer_identity(),
            alpn: handshake.tls.alpn_protocol().map(Box::from),
            server_name: handshake.server_name().map(Box::from),
            exporter: exporter.map(|(suite, secret)| Exporter::new(suite, secret)),
        }));
    }

    /// The parameters the peer sent; at a client they are authentic once the handshake is complete. `None`
    /// once it is [concluded](Self::conclude).
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.under_way()?.tls.quic_transport_parameters()
    }

    /// Who the peer proved to be; `None` while the handshake lasts, and for a client that was not asked.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        match &self.phase {
            Phase::UnderWay(handshake) => handshake.peer_identity(),
            Phase::Over(agreed) => agreed.peer.clone(),
        }
    }

    /// Why this end refused the peer's key, if that is how the handshake failed.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.under_way()?.refusal.as_ref()
    }

    /// The application protocol agreed on, once known.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.phase {
            Phase::UnderWay(handshake) => handshake.tls.alpn_protocol(),
            Phase::Over(agreed) => agreed.alpn.as_deref(),
        }
    }

    /// The name a client asked for, if it sent one (RFC 6066); with raw keys none is sent.
    pub fn server_name(&self) -> Option<&str> {
        match &self.phase {
            Phase::UnderWay(handshake) => handshake.server_name(),
            Phase::Over(agreed) => agreed.server_name.as_deref(),
        }
    }

    /// Fills `out` with bytes that only the two ends know, for `label` and `context` (RFC 8446 7.5). Fails
    /// while the handshake lasts.
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), TransportError> {
        let failed = |why: &dyn fmt::Display| TransportError::internal(format!("TLS exporter: {why}"));
        match &self.phase {
            Phase::UnderWay(handshake) => {
                let done = handshake.tls.export_keying_material(out, label, Some(context));
                done.map(drop).map_err(|error| failed(&error))
            }
            Phase::Over(agreed) => {
                let exporter = agreed.exporter.as_ref().ok_or_else(|| failed(&"no secret is known"))?;
                exporter.export(out, label, context).map_err(|_| failed(&"too long"))
            }
        }
    }
}

impl UnderWay {
    fn read(&mut self, bytes: &[u8], side: Side) -> Result<(), TransportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let (read, secret) = exporter::listen(|| self.tls.read_hs(bytes));
        self.exporter_secret = secret.or(self.exporter_secret.take());
        read.map_err(|error| {
            let error = self.on_tls_error(&error, side);
            self.failure.insert(error).clone()
        })
    }

    fn on_tls_error(&mut self, error: &rustls::Error, side: Side) -> TransportError {
        if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error
            && let Some(refusal) = cause.downcast_ref::<Refusal>()
        {
            self.refusal = Some(refusal.clone());
            // rustls would say certificate_unknown to all; the alert travels in our frame, so the choice is
            // ours.
            return TransportError::new(TransportErrorCode::Tls(refusal.alert(side)), refusal.to_string());
        }
        match self.tls.alert() {
            Some(alert) => TransportError::new(TransportErrorCode::Tls(alert.into()), error.to_string()),
            None => TransportError::protocol_violation(format!("TLS: {error}")),
        }
    }

    fn peer_identity(&self) -> Option<PeerIdentity> {
        if self.tls.is_handshaking() {
            return None;
        }
        let chain = self.tls.peer_certificates()?;
        if self.uses_raw_keys {
            return PublicKey::from_spki(chain.first()?).map(PeerIdentity::RawKey);
        }
        Some(PeerIdentity::X509(chain.iter().map(|certificate| certificate.to_vec()).collect()))
    }

    fn server_name(&self) -> Option<&str> {
        match &self.tls {
            Connection::Client(_) => None,
            Connection::Server(tls) => tls.server_name(),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("side", &self.side)
            .field("is_handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// What a TLS alert means, for people who meet [`TransportErrorCode::Tls`].
pub fn describe_alert(alert: u8) -> String {
    match AlertDescription::from(alert) {
        AlertDescription::AccessDenied => "access denied: the peer does not let this key in".into(),
        AlertDescription::CertificateUnknown => "the peer does not trust this key".into(),
        AlertDescription::CertificateRequired => "the peer asks for an identity, and none was given".into(),
        AlertDescription::NoApplicationProtocol => "no common application protocol".into(),
        AlertDescription::UnknownCA => "the peer does not know who issued this certificate".into(),
        AlertDescription::HandshakeFailure => {
            "no common parameters for the handshake (kind of identity, cipher or group)".into()
        }
        other => format!("TLS alert {other:?}"),
    }
}
