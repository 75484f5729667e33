//! Connecting to a server that is known by its key, or is to become so.
//!
//! The protocol asks in the middle of a handshake, where nobody can wait for a person. So a server that is
//! not known is refused first; whoever is responsible is asked; and with a yes the connection is begun anew.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fulmar_proto::crypto::{self, Fingerprint, Identity, PublicKey, Refusal, VerifyPeer};
use fulmar_proto::{ClientConfig, ConnectionError, TransportConfig, TransportErrorCode};

use super::file::StoreError;
use super::home::Home;
use super::host::Host;
use super::known_hosts::{KnownHosts, Verdict};
use crate::error::ConnectError;
use crate::{Connection, Endpoint};

/// A server that nothing is known about: what is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownServer {
    /// Who it claims to be.
    pub host: Host,
    /// Where it answers.
    pub address: SocketAddr,
    /// The key that it holds.
    pub key: PublicKey,
}

impl UnknownServer {
    /// What people compare with what the server's owner told them.
    pub fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }
}

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Its name leads to no address.
    #[error("{host}: no address: {error}")]
    Resolve {
        /// Who was looked for.
        host: Host,
        /// What the system says.
        error: std::io::Error,
    },
    /// It holds another key than before.
    #[error(
        "THE KEY OF {host} HAS CHANGED!\n\
         It is now {presented}, but {}:{line} knows {known}.\n\
         Either the server has a new identity, or somebody is between you and it and listens.\n\
         Ask its owner; if the new key is right, remove that line.",
        .file.display()
    )]
    KeyChanged {
        /// Whose.
        host: Host,
        /// The key it has now.
        presented: Fingerprint,
        /// The key it had.
        known: Fingerprint,
        /// Where that is written.
        file: PathBuf,
        /// In which line.
        line: usize,
    },
    /// It is not known, and was not to be trusted.
    #[error("{} is not known (key {}), and was not trusted", .0.host, .0.fingerprint())]
    NotTrusted(UnknownServer),
    /// Keys cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The connection cannot be begun.
    #[error("{host}: {error}")]
    Connect {
        /// To whom.
        host: Host,
        /// Why.
        error: ConnectError,
    },
    /// The handshake failed.
    #[error("{host}: {error}")]
    Connection {
        /// With whom.
        host: Host,
        /// Why.
        error: ConnectionError,
    },
}

impl Home {
    /// Connects to `host` with this folder's identity. A server in `known_hosts`, or with the same identity,
    /// is trusted. About one that is not there `ask` decides; after a yes it is there.
    pub async fn connect(
        &self,
        endpoint: &Endpoint,
        host: &Host,
        transport: TransportConfig,
        ask: impl AsyncFnOnce(&UnknownServer) -> bool,
    ) -> Result<Connection, HostError> {
        let addresses = host.resolve().await;
        let addresses = addresses.map_err(|error| HostError::Resolve { host: host.clone(), error })?;
        let attempt = Attempt {
            home: self,
            identity: self.identity()?,
            endpoint,
            host,
            transport: Arc::new(transport),
        };
        attempt.connect(&addresses, ask).await
    }
}

/// What stays the same while addresses are tried and people asked.
struct Attempt<'a> {
    home: &'a Home,
    identity: Identity,
    endpoint: &'a Endpoint,
    host: &'a Host,
    transport: Arc<TransportConfig>,
}

impl Attempt<'_> {
    async fn connect(
        &self,
        addresses: &[SocketAddr],
        ask: impl AsyncFnOnce(&UnknownServer) -> bool,
    ) -> Result<Connection, HostError> {
        let not_found = std::io::Error::from(std::io::ErrorKind::NotFound);
        let mut last = HostError::Resolve { host: self.host.clone(), error: not_found };
        for &address in addresses {
            match self.connect_to(address).await {
                Err(HostError::NotTrusted(server)) => {
                    if !ask(&server).await {
                        return Err(HostError::NotTrusted(server));
                    }
                    self.home.known_hosts().add(&server.host, &server.key, "")?;
                    return self.connect_to(address).await;
                }
                // Another address of the same host may be within reach.
                Err(error @ HostError::Connect { .. }) => last = error,
                Err(HostError::Connection { host, error }) if is_nobody(&error) => {
                    last = HostError::Connection { host, error };
                }
                other => return other,
            }
        }
        Err(last)
    }

    async fn connect_to(&self, address: SocketAddr) -> Result<Connection, HostError> {
        let known = self.home.known_hosts();
        let policy = Arc::new(KnownServer {
            own: self.identity.public_key(),
            known: known.clone(),
            host: self.host.clone(),
            finding: Mutex::new(None),
        });
        let crypto = crypto::ClientConfig::raw_key(Some(&self.identity), policy.clone());
        let config = ClientConfig { crypto: Arc::new(crypto), transport: self.transport.clone() };
        let host = self.host.clone();
        let connecting = self
            .endpoint
            .connect_with(&config, address, self.host.name())
            .map_err(|error| HostError::Connect { host: host.clone(), error })?;
        let error = match connecting.await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        Err(match policy.take_finding() {
            Some(Finding::Unknown(key)) => HostError::NotTrusted(UnknownServer { host, address, key }),
            Some(Finding::Changed { presented, line, known: before }) => HostError::KeyChanged {
                host,
                presented: presented.fingerprint(),
                known: before.fingerprint(),
                file: known.path().to_owned(),
                line,
            },
            Some(Finding::Unreadable(error)) => HostError::Store(error),
            None => HostError::Connection { host, error },
        })
    }
}

/// Whether there was no answer, or word that there will be none.
fn is_nobody(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::TimedOut => true,
        ConnectionError::Transport(error) => error.code == TransportErrorCode::ConnectionRefused,
        _ => false,
    }
}

/// A client's policy for one connection; it remembers why it refused.
#[derive(Debug)]
struct KnownServer {
    own: PublicKey,
    known: KnownHosts,
    host: Host,
    finding: Mutex<Option<Finding>>,
}

/// Why a server was refused.
#[derive(Debug)]
enum Finding {
    Unknown(PublicKey),
    Changed { presented: PublicKey, line: usize, known: PublicKey },
    Unreadable(StoreError),
}

impl KnownServer {
    fn take_finding(&self) -> Option<Finding> {
        self.finding.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse(&self, finding: Finding, refusal: Refusal) -> Result<(), Refusal> {
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(finding);
        Err(refusal)
    }
}

impl VerifyPeer for KnownServer {
    fn verify(&self, key: &PublicKey, _name: &str) -> Result<(), Refusal> {
        match self.known.verdict(&self.host, key) {
            Ok(Verdict::Trusted) => Ok(()),
            // Where another key was written down, even the own one is a change.
            Ok(Verdict::Unknown) if *key == self.own => Ok(()),
            Ok(Verdict::Unknown) => {
                self.refuse(Finding::Unknown(*key), Refusal::UnknownKey(key.fingerprint()))
            }
            Ok(Verdict::Changed { line, known }) => self.refuse(
                Finding::Changed { presented: *key, line, known },
                Refusal::KeyChanged { name: self.host.to_string(), presented: key.fingerprint() },
            ),
            Err(error) => {
                let refusal = Refusal::Other("known_hosts cannot be read".into());
                self.refuse(Finding::Unreadable(error), refusal)
            }
        }
    }
}
