//! The TLS handshake of one connection (RFC 8446, carried as RFC 9001 4 says).
//!
//! Decides when keys become available and whether the peer is who it must be. Handshake bytes go in and out
//! in order and without gaps; packets, repetition and reordering are the connection's business.

use super::config::{ClientConfig, ServerConfig};
use super::identity::PublicKey;
use super::keys::{KEY_DERIVATION, PacketKeys};
use super::schedule::KeySchedule;
use super::verify::Refusal;
use crate::error::{TransportError, TransportErrorCode};
use crate::ids::Side;
use rustls::pki_types::{CertificateDer, ServerName};
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
    /// The subject of the first of these certificates.
    X509(Vec<CertificateDer<'static>>),
}

/// The TLS side of one connection.
pub struct Session {
    tls: Connection,
    side: Side,
    uses_raw_keys: bool,
    refusal: Option<Refusal>,
    /// How the handshake failed; the library is not to be given more after that.
    failure: Option<TransportError>,
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
        Ok(Self {
            tls: tls.into(),
            side: Side::Client,
            uses_raw_keys: config.uses_raw_keys(),
            refusal: None,
            failure: None,
        })
    }

    /// Starts the handshake at the server.
    pub fn start_server(config: &ServerConfig, parameters: Vec<u8>) -> Result<Self, StartError> {
        let tls = ServerConnection::new(config.tls(), KEY_DERIVATION, parameters)
            .map_err(|error| StartError::Config(error.to_string()))?;
        Ok(Self {
            tls: tls.into(),
            side: Side::Server,
            uses_raw_keys: config.uses_raw_keys(),
            refusal: None,
            failure: None,
        })
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Takes the next handshake bytes from the peer, in order; those of Initial and those of Handshake
    /// packets in calls of their own. An error is to be sent to the peer as it is and ends the connection;
    /// call [`Self::write_handshake`] after success.
    pub fn read_handshake(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.tls.read_hs(bytes).map_err(|error| {
            let error = self.on_tls_error(&error);
            self.failure.insert(error).clone()
        })
    }

    fn on_tls_error(&mut self, error: &rustls::Error) -> TransportError {
        if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = error
            && let Some(refusal) = cause.downcast_ref::<Refusal>()
        {
            self.refusal = Some(refusal.clone());
            // rustls would say certificate_unknown to all; the alert travels in our frame, so the choice is
            // ours.
            return TransportError::new(
                TransportErrorCode::Tls(refusal.alert(self.side)),
                refusal.to_string(),
            );
        }
        match self.tls.alert() {
            Some(alert) => TransportError::new(TransportErrorCode::Tls(alert.into()), error.to_string()),
            None => TransportError::protocol_violation(format!("TLS: {error}")),
        }
    }

    /// Appends handshake bytes for the peer to `out`. With a [`KeyChange`], what was appended still belongs
    /// under the keys before it; call again for what belongs under the new ones, until nothing is appended
    /// and no keys come.
    pub fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        Some(match self.tls.write_hs(out)? {
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
        self.tls.is_handshaking()
    }

    /// The parameters the peer sent; at a client they are authentic once the handshake is complete.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.tls.quic_transport_parameters()
    }

    /// Who the peer proved to be; `None` while the handshake lasts, and for a client that was not asked.
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        if self.is_handshaking() {
            return None;
        }
        let chain = self.tls.peer_certificates()?;
        if self.uses_raw_keys {
            return PublicKey::from_spki(chain.first()?).map(PeerIdentity::RawKey);
        }
        Some(PeerIdentity::X509(chain.iter().map(|certificate| certificate.clone().into_owned()).collect()))
    }

    /// Why this end refused the peer's key, if that is how the handshake failed.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The application protocol agreed on, once known.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.tls.alpn_protocol()
    }

    /// The name a client asked for, if it sent one (RFC 6066); with raw keys none is sent.
    pub fn server_name(&self) -> Option<&str> {
        match &self.tls {
            Connection::Client(_) => None,
            Connection::Server(tls) => tls.server_name(),
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
        match self.tls.export_keying_material(out, label, Some(context)) {
            Ok(_) => Ok(()),
            Err(error) => Err(TransportError::internal(format!("TLS exporter: {error}"))),
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
