//! Both ends in one program, with keys that exist only there: for the demo.

use super::{
    AllowedProfiles, Arc, Attempt, Duration, Endpoint, EndpointConfig, Failure, Identity, Listener,
    ServerArgs, Service, Session, SocketAddr, TcpArgs, UdpSocket, Windows, crypto,
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
    let crypto = crypto::ServerConfig::raw_key(&keys.server, Some(only)).with_alpn(&[Service::Copy.alpn()]);
    let listen = socket.local_addr().map_err(|e| Failure::Unreachable(e.to_string()))?;
    let allowed = AllowedProfiles::All;
    let args = ServerArgs {
        listen: listen.into(),
        profile: "auto".into(),
        allowed,
        memory_bytes: None,
        invites: false,
        tcp: TcpArgs::default(),
    };
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
    let crypto = crypto::ClientConfig::raw_key(Some(&keys.client), only).with_alpn(&[Service::Copy.alpn()]);
    let (time_max, transport) = (Duration::from_secs(60), super::transport(profile, Windows::Few)?);
    let config = super::config(crypto, transport);
    let attempt = Attempt { address, name: "demo".into(), config, time_max, own_key: None };
    attempt.open_from(endpoint).await
}
