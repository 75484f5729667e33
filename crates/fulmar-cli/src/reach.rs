//! How the subcommands reach each other: names, ports, endpoints, settings of the transport.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity};
use fulmar::identity::{Host, PORT_DEFAULT};
use fulmar::{
    AllowedProfiles, ClientConfig, Endpoint, EndpointConfig, Profile, ProfileError, ServerConfig,
    TransportConfig,
};

use crate::exit::Failure;
use crate::session::{self, Session};
use crate::trust::{self, Finding, Judge};
use crate::units::parse_seconds;

/// Where servers listen if nothing else is said.
pub const DEFAULT_PORT: u16 = PORT_DEFAULT;

/// Silence after which a connection is given up.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Silence after which a sign of life is sent: hashing a large file, say, sends nothing for a while.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Waiting for an answer in silence is patience up to here; then it is said who is waited for.
const SILENCE: Duration = Duration::from_secs(2);

/// What a server offers; each has its application protocol (RFC 7301), so that a wrong door is told apart from a closed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// `fulmar serve`.
    Copy,
    /// `fulmar perf -s`.
    Perf,
}

impl Service {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Copy => b"fulmar-cp/1",
            Self::Perf => b"fulmar-perf/1",
        }
    }
}

/// What every client can be told.
#[derive(Debug, Clone, clap::Args)]
pub struct ClientArgs {
    /// The server's port
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// How to send: a profile, with settings if wanted, as tcp-fec:fmax=5 (see `fulmar profiles`)
    #[arg(long, default_value = "auto", value_parser = parse_profile)]
    profile: String,
    /// Trust a server that is not known yet without asking, and remember its key
    #[arg(long)]
    accept_new: bool,
    /// Seconds to wait for an answer
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "15")]
    connect_timeout: Duration,
    /// Say nothing while a server is being reached.
    #[arg(skip)]
    pub is_quiet: bool,
}

impl ClientArgs {
    /// Name of the profile.
    pub fn profile(&self) -> String {
        self.profile.clone()
    }
}

/// What every server can be told.
#[derive(Debug, Clone)]
pub struct ServerArgs {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Name of the profile this side sends with.
    pub profile: String,
    /// What clients may have it send with instead, besides what obeys congestion.
    pub allowed: AllowedProfiles,
}

/// A server's socket.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    /// Where it listens.
    pub address: SocketAddr,
    /// Of its key.
    pub fingerprint: String,
}

impl Listener {
    /// The next client that knocks: a future, so that others need not wait for its handshake.
    pub async fn next(&self) -> Option<impl Future<Output = Result<Session, Failure>> + Send + use<>> {
        let incoming = self.endpoint.accept().await?;
        let endpoint = self.endpoint.clone();
        Some(async move {
            let peer = incoming.remote_address().to_string();
            match incoming.await {
                Ok(connection) => Ok(Session::new(connection, endpoint)),
                Err(reason) => Err(session::explain(&reason, &peer, None)),
            }
        })
    }
}

/// Connects to a server, asking its user about a key that is new where there is somebody to ask.
pub async fn connect(host: &str, service: Service, args: &ClientArgs) -> Result<Session, Failure> {
    let identity = trust::identity()?;
    let host = Host::new(host, args.port).map_err(|e| Failure::Usage(e.to_string()))?;
    let addresses =
        host.resolve().await.map_err(|e| Failure::Unreachable(format!("{}: {e}", host.name())))?;
    let judge = Arc::new(Judge::new(&identity, &host)?);
    let mut last = Failure::Unreachable(format!("{host} has no address"));
    for address in addresses {
        let attempt = || attempt(address, service, args, &identity, Arc::clone(&judge));
        let failure = match attempt().await {
            Ok(session) => return Ok(session),
            Err(failure) => failure,
        };
        last = match judge.take_finding() {
            Some(Finding::Unknown(key)) => {
                trust::ask(&host, &key, args.accept_new).await?;
                return attempt().await;
            }
            Some(Finding::Bad(failure)) => return Err(failure),
            // Another address of the same host may be within reach.
            None => failure,
        };
    }
    Err(last)
}

async fn attempt(
    address: SocketAddr,
    service: Service,
    args: &ClientArgs,
    identity: &Identity,
    judge: Arc<Judge>,
) -> Result<Session, Failure> {
    let name = address.ip().to_string();
    let crypto =
        crypto::ClientConfig::raw_key(Some(identity), judge).with_alpn(&[service.alpn()]).with_key_log();
    let own_key = identity.public_key().to_line("");
    let mut opening =
        std::pin::pin!(open(address, &name, crypto, &args.profile, args.connect_timeout, Some(own_key)));
    tokio::select! {
        result = &mut opening => return result,
        () = tokio::time::sleep(SILENCE), if !args.is_quiet => {}
    }
    eprintln!("No answer from {address} yet{}", other_port(address.port()));
    opening.await
}

/// What to do if the server listens elsewhere, for those who may not have thought of it.
fn other_port(port: u16) -> &'static str {
    if port == DEFAULT_PORT { " (this is the usual port; another is given with -p PORT)" } else { "" }
}

async fn open(
    address: SocketAddr,
    name: &str,
    crypto: crypto::ClientConfig,
    profile: &str,
    time_max: Duration,
    own_key: Option<String>,
) -> Result<Session, Failure> {
    let local = if address.is_ipv4() { any_v4(0) } else { SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)) };
    let endpoint = Endpoint::client(local).map_err(|e| Failure::Unreachable(format!("no socket: {e}")))?;
    open_from(endpoint, address, name, crypto, profile, time_max, own_key).await
}

async fn open_from(
    endpoint: Endpoint,
    address: SocketAddr,
    name: &str,
    crypto: crypto::ClientConfig,
    profile: &str,
    time_max: Duration,
    own_key: Option<String>,
) -> Result<Session, Failure> {
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport = Arc::new(transport(profile)?);
    let connecting = endpoint.connect_with(&config, address, name);
    let connecting = connecting.map_err(|e| Failure::Unreachable(format!("{address}: {e}")))?;
    match tokio::time::timeout(time_max, connecting).await {
        Ok(Ok(connection)) => Ok(Session::new(connection, endpoint).with_own_key(own_key)),
        Ok(Err(reason)) => Err(session::explain(&reason, &address.to_string(), own_key.as_deref())),
        Err(_) => {
            Err(Failure::Unreachable(format!("{address} does not answer{}", other_port(address.port()))))
        }
    }
}

/// Listens for clients that are known.
pub fn listen(args: &ServerArgs, service: Service) -> Result<Listener, Failure> {
    let identity = trust::identity()?;
    let verifier = trust::authorized_clients(&identity)?;
    let crypto =
        crypto::ServerConfig::raw_key(&identity, Some(verifier)).with_alpn(&[service.alpn()]).with_key_log();
    bind(args, crypto, &identity, service)
}

fn bind(
    args: &ServerArgs,
    crypto: crypto::ServerConfig,
    identity: &Identity,
    service: Service,
) -> Result<Listener, Failure> {
    let taken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen at {}: {e}", args.listen));
    let socket = UdpSocket::bind(args.listen).map_err(taken)?;
    // Clients of a server that was restarted hear of it at once, from this service at this address and no other.
    let address = socket.local_addr().map_err(taken)?;
    let name = String::from_utf8_lossy(service.alpn());
    let mut config = EndpointConfig::default();
    match trust::home()?.reset_secret() {
        Ok(secret) => {
            config.reset_key(secret.key(&name, address));
        }
        Err(error) => tracing::warn!("clients will not hear of a restart at once: {error}"),
    }
    listen_on(socket, args, crypto, identity, &config)
}

fn listen_on(
    socket: UdpSocket,
    args: &ServerArgs,
    crypto: crypto::ServerConfig,
    identity: &Identity,
    endpoint_config: &EndpointConfig,
) -> Result<Listener, Failure> {
    let mut config = ServerConfig::new(Arc::new(crypto));
    let mut transport = transport(&args.profile)?;
    transport.allowed_profiles(args.allowed.clone());
    config.transport = Arc::new(transport);
    let broken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen: {e}"));
    let endpoint = Endpoint::new(endpoint_config, Some(config), socket).map_err(broken)?;
    let address = endpoint.local_addr().map_err(broken)?;
    let fingerprint = identity.public_key().fingerprint().to_string();
    Ok(Listener { endpoint, address, fingerprint })
}

fn transport(profile: &str) -> Result<TransportConfig, Failure> {
    let profile = Profile::parse(profile).map_err(|e| Failure::Usage(e.to_string()))?;
    let mut transport = TransportConfig::default();
    transport.profile(profile).idle_timeout(Some(IDLE_TIMEOUT)).keep_alive(Some(KEEP_ALIVE));
    Ok(transport)
}

/// Every address of this machine, by IPv6 and IPv4, where there is IPv6.
pub fn any_address(port: u16) -> SocketAddr {
    let has_ipv6 = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if has_ipv6 { SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)) } else { any_v4(port) }
}

fn any_v4(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// A profile that there is, as it writes itself.
pub fn parse_profile(spec: &str) -> Result<String, ProfileError> {
    Profile::parse(spec).map(|profile| profile.name)
}

/// Both ends in one program, with keys that exist only there: for the demo.
pub mod private {
    use super::{
        AllowedProfiles, Arc, Duration, Endpoint, EndpointConfig, Failure, Identity, Listener, ServerArgs,
        Service, Session, SocketAddr, UdpSocket, crypto,
    };
    use crate::trust::OnlyKey;

    /// A key for each end.
    #[derive(Debug)]
    pub struct Keys {
        server: Identity,
        client: Identity,
    }

    impl Keys {
        /// New ones.
        pub fn generate() -> Self {
            Self { server: Identity::generate(), client: Identity::generate() }
        }
    }

    /// Listens for the one client.
    pub fn listen(keys: &Keys, socket: UdpSocket) -> Result<Listener, Failure> {
        let only = Arc::new(OnlyKey(keys.client.public_key()));
        let crypto =
            crypto::ServerConfig::raw_key(&keys.server, Some(only)).with_alpn(&[Service::Copy.alpn()]);
        let listen = socket.local_addr().map_err(|e| Failure::Unreachable(e.to_string()))?;
        let args = ServerArgs { listen, profile: "auto".into(), allowed: AllowedProfiles::All };
        super::listen_on(socket, &args, crypto, &keys.server, &EndpointConfig::default())
    }

    /// Connects to the one server, which may be behind a relay.
    pub async fn connect(
        keys: &Keys,
        socket: UdpSocket,
        address: SocketAddr,
        profile: &str,
    ) -> Result<Session, Failure> {
        let endpoint = Endpoint::new(&EndpointConfig::default(), None, socket)
            .map_err(|e| Failure::Unreachable(format!("no socket: {e}")))?;
        let only = Arc::new(OnlyKey(keys.server.public_key()));
        let crypto =
            crypto::ClientConfig::raw_key(Some(&keys.client), only).with_alpn(&[Service::Copy.alpn()]);
        super::open_from(endpoint, address, "demo", crypto, profile, Duration::from_secs(60), None).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_that_there_are() {
        assert_eq!(parse_profile("cubic"), Ok("cubic".into()));
        assert_eq!(parse_profile("ctcp: k=16"), Ok("ctcp:k=16".into()));
        assert!(parse_profile("vegas").unwrap_err().to_string().contains("auto"));
        assert!(fulmar::PROFILE_NAMES.iter().all(|name| transport(name).is_ok()));
    }
}
