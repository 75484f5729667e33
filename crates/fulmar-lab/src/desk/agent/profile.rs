//! Connections of this protocol: for data between two agents, and to the controller. All ends know each other
//! by key.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar::crypto::{self, Identity, PublicKey, Refusal, TrustKeys, VerifyPeer};
use fulmar::identity::{Host, KnownHosts, Verdict};
use fulmar::{ClientConfig, ConfigError, Endpoint, EndpointConfig, Profile, ServerConfig, TransportConfig};

use super::config::AgentConfig;
use super::ground::Ground;
use super::pipe::{Inlet, Outlet};
use crate::desk::control::{Job, parse_key};

/// Memory must not be what limits a transport on the paths that are tried here.
const WINDOW_BYTES: u64 = 256 << 20;
/// Longer than any black-out worth a run.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a port of an earlier transfer is waited for.
const PORT_WAIT: Duration = Duration::from_secs(10);

fn transport(job: &Job) -> Result<Arc<TransportConfig>, String> {
    let mut transport = roomy().map_err(|error| error.to_string())?;
    transport.profile(Profile::parse(&job.transport).map_err(|error| error.to_string())?);
    Ok(Arc::new(transport))
}

/// Memory is not what limits a transport here.
fn roomy() -> Result<TransportConfig, ConfigError> {
    let mut transport = TransportConfig::default();
    transport
        .idle_timeout(Some(IDLE_TIMEOUT))?
        .receive_window_bytes(WINDOW_BYTES)?
        .stream_receive_window_bytes(WINDOW_BYTES)?
        .symbols_held_bytes(WINDOW_BYTES + WINDOW_BYTES / 2)?;
    Ok(transport)
}

/// Listens for the other agent. The endpoint of the transfer before has the port until it has taken leave of
/// its peer, three probe timeouts: where a queue holds seconds, that takes seconds.
pub(super) async fn listen(ground: &Ground, identity: &Identity, job: &Job) -> Result<Endpoint, String> {
    let crypto =
        crypto::ServerConfig::raw_key(identity, Some(Arc::new(TrustKeys::new([parse_key(&job.peer_key)?]))));
    let server = ServerConfig { transport: transport(job)?, ..ServerConfig::new(Arc::new(crypto)) };
    let until = Instant::now() + PORT_WAIT;
    let socket = loop {
        match ground.udp(job.network, job.port) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            socket => break socket.map_err(|error| error.to_string())?,
        }
    };
    Endpoint::new(&EndpointConfig::default(), Some(server), socket).map_err(|error| error.to_string())
}

/// Takes its connection.
pub(super) async fn accept(endpoint: Endpoint) -> Result<Inlet, String> {
    loop {
        let incoming = endpoint.accept().await.ok_or("the endpoint is closed")?;
        // Somebody else who knocks is not let in, and does not matter.
        if let Ok(connection) = incoming.await {
            return Ok(Inlet::Fulmar { endpoint, connection, stream: None });
        }
    }
}

/// Connects to the other agent.
pub(super) async fn connect(
    ground: &Ground,
    identity: &Identity,
    job: &Job,
    to: SocketAddr,
) -> Result<Outlet, String> {
    let crypto =
        crypto::ClientConfig::raw_key(Some(identity), Arc::new(TrustKeys::new([parse_key(&job.peer_key)?])));
    let client = ClientConfig { transport: transport(job)?, ..ClientConfig::new(Arc::new(crypto)) };
    let socket = ground.udp(job.network, 0).map_err(|error| error.to_string())?;
    let endpoint =
        Endpoint::new(&EndpointConfig::default(), None, socket).map_err(|error| error.to_string())?;
    let connecting = endpoint.connect_with(&client, to, "agent").map_err(|error| error.to_string())?;
    let connection = connecting.await.map_err(|error| error.to_string())?;
    let stream = connection.open_uni().await.map_err(|error| error.to_string())?;
    Ok(Outlet::Fulmar { endpoint, connection, stream })
}

/// Whether the controller is who it should be: by `known_hosts`, as with every server.
#[derive(Debug)]
pub(super) struct Controller {
    own: PublicKey,
    host: Host,
    known: KnownHosts,
    trusts_new: bool,
    finding: Mutex<Option<String>>,
}

impl Controller {
    pub(super) fn new(config: &AgentConfig, own: PublicKey) -> Self {
        Self {
            own,
            host: config.controller.clone(),
            known: config.home.known_hosts(),
            trusts_new: config.trusts_new,
            finding: Mutex::new(None),
        }
    }

    /// Why it was not believed.
    pub(super) fn finding(&self) -> Option<String> {
        self.finding.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl VerifyPeer for Controller {
    fn verify(&self, key: &PublicKey, _: &str) -> Result<(), Refusal> {
        if *key == self.own {
            return Ok(());
        }
        let verdict = self.known.verdict(&self.host, key);
        let (reason, refusal) = match verdict {
            Ok(Verdict::Trusted) => return Ok(()),
            Ok(Verdict::Unknown) if self.trusts_new => match self.known.add(&self.host, key, "controller") {
                Ok(()) => return Ok(()),
                Err(error) => (error.to_string(), Refusal::Other("known_hosts cannot be written".into())),
            },
            Ok(Verdict::Unknown) => (
                format!(
                    "the controller {} is not known; its key is {}. With --trust-new it is from now on",
                    self.host,
                    key.fingerprint()
                ),
                Refusal::UnknownKey(key.fingerprint()),
            ),
            Ok(Verdict::Changed { line, known }) => (
                format!(
                    "THE KEY OF THE CONTROLLER {} HAS CHANGED: it is {}, but {}:{line} knows {}",
                    self.host,
                    key.fingerprint(),
                    self.known.path().display(),
                    known.fingerprint()
                ),
                Refusal::KeyChanged { name: self.host.to_string(), presented: key.fingerprint() },
            ),
            Err(error) => (error.to_string(), Refusal::Other("known_hosts cannot be read".into())),
        };
        *self.finding.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        Err(refusal)
    }
}
