//! How the subcommands reach each other: names, ports, endpoints, settings of the transport.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity};
use fulmar::identity::{Host, PORT_DEFAULT};
use fulmar::{
    AllowedProfiles, ClientConfig, ConfigError, Endpoint, EndpointConfig, Favor, Profile, ProfileError,
    ServerConfig, TransportConfig,
};

use crate::exit::Failure;
use crate::qlog;
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

/// How long clients may take to notice that a server goes.
const FAREWELL: Duration = Duration::from_secs(1);

/// What all streams of a tunnel may hold unread. Much more than one may, so that the slow ones leave room for
/// the others; only what has really arrived takes memory.
pub const TUNNEL_WINDOW_BYTES: u64 = 512 << 20;

/// What one stream of a tunnel may hold unread: enough for 500 Mbit/s over 250 ms.
const TUNNEL_STREAM_WINDOW_BYTES: u64 = 16 << 20;

/// Streams of a client of a gateway that may be open before it is known what its key may have.
const STREAMS_UNKNOWN: u64 = 256;

/// For how many streams at once a connection is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Windows {
    /// A few, which the program reads itself.
    Few,
    /// Thousands, which other programs read, or do not.
    Many,
}

impl Windows {
    fn of(services: &[Service]) -> Self {
        if services.contains(&Service::Tunnel) { Self::Many } else { Self::Few }
    }
}

/// What a server offers; each has its application protocol (RFC 7301), so that a wrong door is told apart
/// from a closed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// `fulmar serve`.
    Copy,
    /// `fulmar perf -s`.
    Perf,
    /// `fulmar gateway`.
    Tunnel,
}

impl Service {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Copy => b"fulmar-cp/1",
            Self::Perf => b"fulmar-perf/1",
            Self::Tunnel => b"fulmar-tunnel/1",
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
    /// What counts most, both ways: `latency` spends two to four times the bytes of a thin flow on repair
    /// ahead of loss, `throughput` none [default: balanced]
    #[arg(long, value_parser = Favor::NAMES)]
    favor: Option<String>,
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
        favoring(&self.profile, self.favor.as_deref())
    }

    fn manner(&self) -> Manner {
        Manner {
            profile: self.profile(),
            accept_new: self.accept_new,
            connect_timeout: self.connect_timeout,
            is_quiet: self.is_quiet,
        }
    }
}

/// How a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manner {
    /// A profile, with settings if wanted.
    pub profile: String,
    /// Trust a server that is not known yet without asking.
    pub accept_new: bool,
    /// How long to wait for an answer.
    pub connect_timeout: Duration,
    /// Say nothing while waiting.
    pub is_quiet: bool,
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
    /// What all connections may hold together, in bytes; what the endpoint finds right if it is not said.
    pub memory_bytes: Option<u64>,
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

    /// Says goodbye to everybody who is there.
    pub async fn close(&self) {
        self.endpoint.close(0, b"shutting down");
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// Connects to a server, asking its user about a key that is new where there is somebody to ask.
pub async fn connect(host: &str, service: Service, args: &ClientArgs) -> Result<Session, Failure> {
    let host = Host::new(host, args.port).map_err(|e| Failure::Usage(e.to_string()))?;
    connect_to(&host, service, &args.manner()).await
}

/// As [`connect`], where the port is part of the host.
pub async fn connect_to(host: &Host, service: Service, manner: &Manner) -> Result<Session, Failure> {
    let identity = trust::identity()?;
    let addresses =
        host.resolve().await.map_err(|e| Failure::Unreachable(format!("{}: {e}", host.name())))?;
    let judge = Arc::new(Judge::new(&identity, host)?);
    let mut last = Failure::Unreachable(format!("{host} has no address"));
    for address in addresses {
        let attempt = || attempt(address, service, manner, &identity, Arc::clone(&judge));
        let failure = match attempt().await {
            Ok(session) => return Ok(session),
            Err(failure) => failure,
        };
        last = match judge.take_finding() {
            Some(Finding::Unknown(key)) => {
                trust::ask(host, &key, manner.accept_new).await?;
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
    manner: &Manner,
    identity: &Identity,
    judge: Arc<Judge>,
) -> Result<Session, Failure> {
    let name = address.ip().to_string();
    let crypto =
        crypto::ClientConfig::raw_key(Some(identity), judge).with_alpn(&[service.alpn()]).with_key_log();
    let own_key = identity.public_key().to_line("");
    let transport = transport(&manner.profile, Windows::of(&[service]))?;
    let mut opening =
        std::pin::pin!(open(address, &name, crypto, transport, manner.connect_timeout, Some(own_key)));
    tokio::select! {
        result = &mut opening => return result,
        () = tokio::time::sleep(SILENCE), if !manner.is_quiet => {}
    }
    eprintln!("No answer from {address} yet{}", other_port(address.port()));
    opening.await
}

/// What to do if the server listens elsewhere, for those who may not have thought of it.
fn other_port(port: u16) -> &'static str {
    if port == DEFAULT_PORT {
        " (this is the usual port; another is given with -p PORT, or as HOST:PORT to what goes through a gateway)"
    } else {
        ""
    }
}

async fn open(
    address: SocketAddr,
    name: &str,
    crypto: crypto::ClientConfig,
    transport: TransportConfig,
    time_max: Duration,
    own_key: Option<String>,
) -> Result<Session, Failure> {
    let local = if address.is_ipv4() { any_v4(0) } else { SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)) };
    let endpoint = Endpoint::client(local).map_err(|e| Failure::Unreachable(format!("no socket: {e}")))?;
    open_from(endpoint, address, name, crypto, transport, time_max, own_key).await
}

async fn open_from(
    endpoint: Endpoint,
    address: SocketAddr,
    name: &str,
    crypto: crypto::ClientConfig,
    transport: TransportConfig,
    time_max: Duration,
    own_key: Option<String>,
) -> Result<Session, Failure> {
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport = Arc::new(transport);
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
    listen_for(args, &[service])
}

/// As [`listen`], for clients of several services at one port.
pub fn listen_for(args: &ServerArgs, services: &[Service]) -> Result<Listener, Failure> {
    let names: Vec<&[u8]> = services.iter().map(|service| service.alpn()).collect();
    let identity = trust::identity()?;
    let verifier = trust::authorized_clients(&identity)?;
    let crypto = crypto::ServerConfig::raw_key(&identity, Some(verifier)).with_alpn(&names).with_key_log();
    bind(args, crypto, services, &identity)
}

/// Why a port cannot be had, and what it needs.
pub fn cannot_listen(at: &dyn std::fmt::Display, error: &std::io::Error) -> Failure {
    let is_forbidden = error.kind() == std::io::ErrorKind::PermissionDenied;
    let hint = ": ports below 1024 need root, or CAP_NET_BIND_SERVICE";
    Failure::Unreachable(format!("cannot listen at {at}: {error}{}", if is_forbidden { hint } else { "" }))
}

fn bind(
    args: &ServerArgs,
    crypto: crypto::ServerConfig,
    services: &[Service],
    identity: &Identity,
) -> Result<Listener, Failure> {
    let taken = |e: std::io::Error| cannot_listen(&args.listen, &e);
    let socket = UdpSocket::bind(args.listen).map_err(taken)?;
    // Clients of a server that was restarted hear of it at once, from these services at this address and no
    // other.
    let address = socket.local_addr().map_err(taken)?;
    let names: Vec<_> = services.iter().map(|service| String::from_utf8_lossy(service.alpn())).collect();
    let mut config = EndpointConfig::default();
    match trust::home()?.reset_secret() {
        Ok(secret) => {
            config.reset_key(secret.key(&names.join(" "), address));
        }
        Err(error) => tracing::warn!("clients will not hear of a restart at once: {error}"),
    }
    if let Some(bytes) = args.memory_bytes {
        config.memory_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
    listen_on(socket, args, Windows::of(services), crypto, identity, &config)
}

fn listen_on(
    socket: UdpSocket,
    args: &ServerArgs,
    windows: Windows,
    crypto: crypto::ServerConfig,
    identity: &Identity,
    endpoint_config: &EndpointConfig,
) -> Result<Listener, Failure> {
    let mut config = ServerConfig::new(Arc::new(crypto));
    let mut transport = transport(&args.profile, windows)?;
    transport.allowed_profiles(args.allowed.clone());
    if windows == Windows::Many {
        let refused = |e: ConfigError| Failure::Usage(e.to_string());
        transport.streams_bi(STREAMS_UNKNOWN).map_err(refused)?;
    }
    config.transport = Arc::new(transport);
    let broken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen: {e}"));
    let endpoint = Endpoint::new(endpoint_config, Some(config), socket).map_err(broken)?;
    let address = endpoint.local_addr().map_err(broken)?;
    let fingerprint = identity.public_key().fingerprint().to_string();
    Ok(Listener { endpoint, address, fingerprint })
}

fn transport(profile: &str, windows: Windows) -> Result<TransportConfig, Failure> {
    let profile = Profile::parse(profile).map_err(|e| Failure::Usage(e.to_string()))?;
    timers_and_windows(windows)
        .map(|mut transport| transport.profile(profile).clone())
        .map_err(|e| Failure::Usage(e.to_string()))
}

fn timers_and_windows(windows: Windows) -> Result<TransportConfig, ConfigError> {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(Some(IDLE_TIMEOUT))?.keep_alive(Some(KEEP_ALIVE))?;
    transport.trace_packets(qlog::events_max());
    if windows == Windows::Many {
        transport.receive_window_bytes(TUNNEL_WINDOW_BYTES)?;
        transport.receive_window_initial_bytes(Some(TUNNEL_WINDOW_BYTES))?;
        transport.stream_receive_window_bytes(TUNNEL_STREAM_WINDOW_BYTES)?;
    }
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

/// The profile `spec` with what is favoured among its settings. Whether it has that setting is found when it
/// is used.
pub fn favoring(spec: &str, favor: Option<&str>) -> String {
    let separator = if spec.contains(':') { ',' } else { ':' };
    favor.map_or_else(|| spec.into(), |favor| format!("{spec}{separator}favor={favor}"))
}

/// A profile that there is, as it writes itself.
pub fn parse_profile(spec: &str) -> Result<String, ProfileError> {
    Profile::parse(spec).map(|profile| profile.name)
}

/// Both ends in one program, with keys that exist only there: for the demo.
pub mod private {
    use super::{
        AllowedProfiles, Arc, Duration, Endpoint, EndpointConfig, Failure, Identity, Listener, ServerArgs,
        Service, Session, SocketAddr, UdpSocket, Windows, crypto,
    };
    use fulmar::crypto::TrustKeys;

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
        let only = Arc::new(TrustKeys::new([keys.client.public_key()]));
        let crypto =
            crypto::ServerConfig::raw_key(&keys.server, Some(only)).with_alpn(&[Service::Copy.alpn()]);
        let listen = socket.local_addr().map_err(|e| Failure::Unreachable(e.to_string()))?;
        let allowed = AllowedProfiles::All;
        let args = ServerArgs { listen, profile: "auto".into(), allowed, memory_bytes: None };
        super::listen_on(socket, &args, Windows::Few, crypto, &keys.server, &EndpointConfig::default())
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
        let only = Arc::new(TrustKeys::new([keys.server.public_key()]));
        let crypto =
            crypto::ClientConfig::raw_key(Some(&keys.client), only).with_alpn(&[Service::Copy.alpn()]);
        let time_max = Duration::from_secs(60);
        let transport = super::transport(profile, Windows::Few)?;
        super::open_from(endpoint, address, "demo", crypto, transport, time_max, None).await
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
        let favors = |spec: &str| Profile::parse(&favoring(spec, Some("latency")));
        assert_eq!(favors("auto").unwrap().name, "auto:favor=latency");
        assert_eq!(favors("auto:reordering=5").unwrap().name, "auto:reordering=5,favor=latency");
        assert!(favors("cubic").unwrap_err().to_string().contains("favor"));
        assert!(fulmar::profile_names().iter().all(|name| transport(name, Windows::Few).is_ok()));
    }
}
