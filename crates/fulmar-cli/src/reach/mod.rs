//! How the subcommands reach each other: names, ports, endpoints, settings of the transport.

use std::net::{SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity, PublicKey};
use fulmar::identity::Host;
use fulmar::{
    AllowedProfiles, ClientConfig, ConfigError, Endpoint, EndpointConfig, Profile, ServerConfig,
    TransportConfig,
};

use crate::descriptors::{self, Descriptors};
use crate::exit::Failure;
use crate::listen::{Listen, Ports};
use crate::pair::invitation::Clients;
use crate::session::{self, Session};
use crate::trust::{self, Finding, Judge, Meeting};
use crate::{limits, pair, qlog, turned_away};
use attempt::Attempt;

mod anywhere;
mod attempt;
mod keeper;
mod manner;
mod pace;
pub mod private;
pub mod quiet;
mod remembered;
mod surroundings;
pub mod tcp;
mod tcp_args;
mod way;

pub use anywhere::{DEFAULT_PORT, any_address, any_like};
pub use keeper::Keeper;
pub use manner::{ClientArgs, Manner, MannerArgs, favoring};
pub use tcp::coat::Certificate;
pub use tcp::web_socket::WebSocketUrl;
pub use tcp_args::{Door, TcpArgs};
pub use way::{Way, WayArgs, WayWanted, parse_hop};

/// Silence after which a connection is given up, if nothing was asked in it ..
const IDLE_TIMEOUT: Duration = Duration::from_secs(180);
/// .. and if something was.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

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
    /// `fulmar pair`, at every server that can invite.
    Pair,
}

impl Service {
    fn alpn(self) -> &'static [u8] {
        match self {
            Self::Copy => b"fulmar-cp/1",
            Self::Perf => b"fulmar-perf/1",
            Self::Tunnel => b"fulmar-tunnel/1",
            Self::Pair => b"fulmar-pair/1",
        }
    }
}

/// What every server can be told.
#[derive(Debug, Clone)]
pub struct ServerArgs {
    /// Where to listen.
    pub listen: Listen,
    /// Name of the profile this side sends with.
    pub profile: String,
    /// What clients may have it send with instead, besides what obeys congestion.
    pub allowed: AllowedProfiles,
    /// What all connections may hold together, in bytes; what the endpoint finds right if it is not said.
    pub memory_bytes: Option<u64>,
    /// Draws a code for `fulmar pair`, and says it.
    pub invites: bool,
    /// Lets clients come by TCP as well.
    pub tcp: TcpArgs,
}

/// A server's socket.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    /// Who is let in; `None` where only a key made for this one occasion is.
    clients: Option<Arc<Clients>>,
    invites: bool,
    /// Where it listens.
    pub address: SocketAddr,
    /// All its ports, if there are several.
    pub ports: Vec<RangeInclusive<u16>>,
    /// What these take of the process's descriptors.
    _held: Option<descriptors::Held>,
    /// Where it listens for those who come by TCP.
    pub tcp: Option<Door>,
    /// Of its key.
    pub fingerprint: String,
}

impl Listener {
    /// The next client that knocks: a future, so that others need not wait for its handshake. It gives a
    /// session with a client that is let in. Those who are turned away are logged here, and those who came to
    /// pair are served.
    pub async fn next(&self) -> Option<impl Future<Output = Option<Session>> + Send + use<>> {
        let incoming = self.endpoint.accept().await?;
        let (endpoint, clients) = (self.endpoint.clone(), self.clients.clone());
        Some(async move {
            let peer = incoming.remote_address().to_string();
            let session = match incoming.await {
                Ok(connection) => Session::new(connection, endpoint),
                Err(reason) => {
                    turned_away::log_handshake(&peer, &session::explain(&reason, &peer, None));
                    return None;
                }
            };
            match clients {
                Some(clients) => admit(session, &clients).await,
                None => Some(session),
            }
        })
    }

    /// Draws a code for `fulmar pair`, if that was asked for: good from now on.
    pub fn invite(&self) -> Result<Option<String>, Failure> {
        let Some(clients) = self.clients.as_ref().filter(|_| self.invites) else { return Ok(None) };
        let code = clients.invitation().open().map_err(|e| Failure::Other(format!("no code: {e}")))?;
        Ok(Some(code.to_string()))
    }

    /// Where clients find it, for people.
    pub fn places(&self) -> String {
        let by_tcp = self.tcp.as_ref().map(|door| format!(" and TCP {}", door.address));
        let also = self.ports().map(|ports| format!(" (UDP ports {ports})")).unwrap_or_default();
        format!("{}{also}{}", self.address, by_tcp.unwrap_or_default())
    }

    /// All its ports of UDP, as people write them, if there are several.
    pub fn ports(&self) -> Option<String> {
        (!self.ports.is_empty()).then(|| Ports::new(self.ports.clone()).to_string())
    }

    /// Where they find it by TCP.
    pub fn tcp_address(&self) -> Option<String> {
        self.tcp.as_ref().map(|door| door.address.to_string())
    }

    /// Says goodbye to everybody who is there.
    pub async fn close(&self) {
        self.endpoint.close(0, b"shutting down");
        let _ = tokio::time::timeout(FAREWELL, self.endpoint.wait_idle()).await;
    }
}

/// A client has finished its handshake: who came to pair does so, and who came for more has to be known.
async fn admit(session: Session, clients: &Clients) -> Option<Session> {
    if session.connection().alpn().as_deref() == Some(Service::Pair.alpn()) {
        pair::serving::serve(session, clients.invitation()).await;
        return None;
    }
    // While an invitation is open, strangers come as far as this.
    let Some(key) = session.peer_public_key().filter(|key| !clients.is_known(key)) else {
        return Some(session);
    };
    turned_away::remember(key);
    let peer = session.peer();
    turned_away::log_handshake(
        &peer,
        &Failure::Untrusted(format!("{peer}: unknown key {}", key.fingerprint())),
    );
    session.connection().close(session::NOT_KNOWN, b"this key is not known here");
    None
}

/// Connects to a server that may not know this machine, nor be known to it: to pair, and nothing else. Its
/// key, which it has proved to hold, is not the one of another that was known before.
pub async fn connect_to_pair(host: &Host, time_max: Duration) -> Result<(Session, PublicKey), Failure> {
    let identity = trust::identity()?;
    let unresolved = |e| Failure::Unreachable(format!("{}: {e}", host.name()));
    let mut last = Failure::Unreachable(format!("{host} has no address"));
    for address in host.resolve().await.map_err(unresolved)? {
        let meeting = Arc::new(Meeting::new(host)?);
        let crypto = crypto::ClientConfig::raw_key(Some(&identity), Arc::clone(&meeting) as _)
            .with_alpn(&[Service::Pair.alpn()])
            .with_key_log();
        let transport = transport("auto", Windows::Few)?;
        let name = address.ip().to_string();
        let attempt = Attempt { address, name, config: config(crypto, transport), time_max, own_key: None };
        match attempt.open(host, WayArgs::default()).await {
            Ok(session) => {
                let key = session.peer_public_key();
                return key
                    .map(|key| (session, key))
                    .ok_or_else(|| Failure::Other(format!("{host} shows no key")));
            }
            Err(failure) => last = failure,
        }
        if let Some(failure) = meeting.take_finding() {
            return Err(failure);
        }
    }
    // A server that waits for no code does not know this key, or this service.
    Err(match last {
        Failure::Untrusted(_) | Failure::Other(_) => Failure::Untrusted(pair::serving::no_invitation(host)),
        failure => failure,
    })
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
        let attempt = || attempt((host, address), service, manner, &identity, Arc::clone(&judge));
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
    (host, address): (&Host, SocketAddr),
    service: Service,
    manner: &Manner,
    identity: &Identity,
    judge: Arc<Judge>,
) -> Result<Session, Failure> {
    let mut transport = transport(&manner.profile, Windows::of(&[service]))?;
    quiet::keep_alive(&mut transport, manner.keep_alive).map_err(|e| Failure::Usage(e.to_string()))?;
    let crypto =
        crypto::ClientConfig::raw_key(Some(identity), judge).with_alpn(&[service.alpn()]).with_key_log();
    let attempt = Attempt {
        address,
        name: address.ip().to_string(),
        config: config(crypto, transport),
        time_max: manner.connect_timeout,
        own_key: Some(identity.public_key().to_line("")),
    };
    let mut opening = std::pin::pin!(attempt.open(host, manner.way.clone()));
    tokio::select! {
        result = &mut opening => return result,
        () = tokio::time::sleep(SILENCE), if !manner.is_quiet => {}
    }
    eprintln!("No answer from {address} yet");
    opening.await
}

/// Listens for clients that are known.
pub fn listen(args: &ServerArgs, service: Service) -> Result<Listener, Failure> {
    listen_for(args, &[service])
}

/// As [`listen`], for clients of several services at one port.
pub fn listen_for(args: &ServerArgs, services: &[Service]) -> Result<Listener, Failure> {
    let names = services.iter().map(|service| service.alpn());
    let names: Vec<&[u8]> = names.chain([Service::Pair.alpn()]).collect();
    let identity = trust::identity()?;
    let clients = Arc::new(Clients::new(trust::authorized_clients(&identity)?, Arc::default()));
    let verifier = Arc::clone(&clients);
    let crypto = crypto::ServerConfig::raw_key(&identity, Some(verifier)).with_alpn(&names).with_key_log();
    let listener = bind(args, crypto, services, &identity)?;
    Ok(Listener { clients: Some(clients), invites: args.invites, ..listener })
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
    let taken = |e: std::io::Error| cannot_listen(&args.listen.address, &e);
    let socket = UdpSocket::bind(args.listen.address).map_err(taken)?;
    let door = args.tcp.bind(socket.local_addr().map_err(taken)?)?;
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
    let mut listener = listen_on(socket, args, Windows::of(services), crypto, identity, &config)?;
    listener._held = open_ports(&listener)?;
    let tcp = door.map(|door| door.open(&listener.endpoint)).transpose()?;
    Ok(Listener { tcp, ..listener })
}

/// Opens the other ports of a server, which count as clients' descriptors do.
fn open_ports(listener: &Listener) -> Result<Option<descriptors::Held>, Failure> {
    let ports = || listener.ports.iter().cloned().flatten().filter(|port| *port != listener.address.port());
    let count = u32::try_from(ports().count()).unwrap_or(u32::MAX);
    let Some(held) = Descriptors::of_process().try_take(count) else {
        return Err(Failure::Other(format!("{count} ports are more than this process may have descriptors")));
    };
    for port in ports() {
        let address = SocketAddr::new(listener.address.ip(), port);
        let opened = open_port(&listener.endpoint, address);
        opened.map_err(|error| cannot_listen(&address, &error))?;
    }
    Ok(Some(held))
}

fn open_port(endpoint: &Endpoint, address: SocketAddr) -> std::io::Result<()> {
    endpoint.open_port(UdpSocket::bind(address)?)
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
    let broken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen: {e}"));
    let ports = args.listen.ports(socket.local_addr().map_err(broken)?.port());
    transport.ports(ports.clone()).map_err(|e| Failure::Usage(e.to_string()))?;
    if windows == Windows::Many {
        let refused = |e: ConfigError| Failure::Usage(e.to_string());
        transport.streams_bi(STREAMS_UNKNOWN).map_err(refused)?;
    }
    config.transport = Arc::new(transport);
    let endpoint = Endpoint::new(endpoint_config, Some(config), socket).map_err(broken)?;
    let address = endpoint.local_addr().map_err(broken)?;
    let fingerprint = identity.public_key().fingerprint().to_string();
    Ok(Listener {
        endpoint,
        clients: None,
        invites: false,
        address,
        ports,
        _held: None,
        tcp: None,
        fingerprint,
    })
}

fn config(crypto: crypto::ClientConfig, transport: TransportConfig) -> ClientConfig {
    ClientConfig { crypto: Arc::new(crypto), transport: Arc::new(transport) }
}

fn transport(profile: &str, windows: Windows) -> Result<TransportConfig, Failure> {
    let profile = Profile::parse(profile).map_err(|e| Failure::Usage(e.to_string()))?;
    timers_and_windows(windows)
        .map(|mut transport| transport.profile(profile).clone())
        .map_err(|e| Failure::Usage(e.to_string()))
}

fn timers_and_windows(windows: Windows) -> Result<TransportConfig, ConfigError> {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(Some(IDLE_TIMEOUT))?.answer_timeout(Some(ANSWER_TIMEOUT))?;
    transport.trace_packets(qlog::events_max());
    transport.send_limit(Some(limits::send())).receive_limit(Some(limits::receive()));
    if windows == Windows::Many {
        transport.receive_window_bytes(TUNNEL_WINDOW_BYTES)?;
        transport.receive_window_initial_bytes(Some(TUNNEL_WINDOW_BYTES))?;
        transport.stream_receive_window_bytes(TUNNEL_STREAM_WINDOW_BYTES)?;
    }
    Ok(transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_profile_can_be_connected_with() {
        assert!(fulmar::profile_names().iter().all(|name| transport(name, Windows::Few).is_ok()));
    }
}
