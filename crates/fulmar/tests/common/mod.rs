//! What the tests over real sockets share. Everything stays on the loopback interface; the only clock is a
//! generous limit.
#![allow(dead_code, missing_docs, unreachable_pub)] // Not every test uses everything.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TransportConfig};

/// No test takes nearly as long on any machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// `future`, which must not take for ever.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("done long before")
}

/// Two people who trust each other, and how they talk.
pub struct Pair {
    pub client_identity: Identity,
    pub server_identity: Identity,
    pub transport: TransportConfig,
}

impl Pair {
    pub fn new() -> Self {
        let client_identity = Identity::from_seed(&[1; 32]);
        let server_identity = Identity::from_seed(&[2; 32]);
        Self { client_identity, server_identity, transport: TransportConfig::default() }
    }

    pub fn with(transport: TransportConfig) -> Self {
        Self { transport, ..Self::new() }
    }

    pub fn server_config(&self) -> ServerConfig {
        let trust = Arc::new(TrustKeys::new([self.client_identity.public_key()]));
        let crypto = crypto::ServerConfig::raw_key(&self.server_identity, Some(trust));
        ServerConfig { transport: Arc::new(self.transport.clone()), ..ServerConfig::new(Arc::new(crypto)) }
    }

    pub fn client_config(&self) -> ClientConfig {
        let trust = Arc::new(TrustKeys::new([self.server_identity.public_key()]));
        let crypto = crypto::ClientConfig::raw_key(Some(&self.client_identity), trust);
        ClientConfig { crypto: Arc::new(crypto), transport: Arc::new(self.transport.clone()) }
    }

    pub fn server(&self) -> Endpoint {
        Endpoint::server(self.server_config(), loopback()).unwrap()
    }

    pub fn server_with(&self, config: &EndpointConfig) -> Endpoint {
        let socket = std::net::UdpSocket::bind(loopback()).unwrap();
        Endpoint::new(config, Some(self.server_config()), socket).unwrap()
    }

    pub fn client(&self) -> Endpoint {
        self.client_with(&EndpointConfig::default())
    }

    pub fn client_with(&self, config: &EndpointConfig) -> Endpoint {
        let socket = std::net::UdpSocket::bind(loopback()).unwrap();
        let client = Endpoint::new(config, None, socket).unwrap();
        client.set_client_config(self.client_config());
        client
    }

    /// Both endpoints, and both ends of a connection between them.
    pub async fn connect(&self) -> Connected {
        let (client_endpoint, server_endpoint) = (self.client(), self.server());
        let (client, server) = connect(&client_endpoint, &server_endpoint).await;
        Connected { client_endpoint, server_endpoint, client, server }
    }
}

pub struct Connected {
    pub client_endpoint: Endpoint,
    pub server_endpoint: Endpoint,
    pub client: Connection,
    pub server: Connection,
}

/// Both ends of a new connection.
pub async fn connect(client: &Endpoint, server: &Endpoint) -> (Connection, Connection) {
    let address = server.local_addr().unwrap();
    let connecting = client.connect(address, "localhost").unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = soon(async { tokio::join!(connecting, accepting) }).await;
    (connected.unwrap(), accepted)
}

pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Bytes that depend on `seed` and look random.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // Steele, Lea and Flood, SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Sends back whatever comes on streams, until the connection ends.
pub async fn echo(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            tokio::io::copy(&mut receive, &mut send).await?;
            send.finish().map_err(std::io::Error::from)
        });
    }
}

/// Asks over a stream of a connection whose other end is an [`echo`], and gets the question back.
pub async fn ask(connection: &Connection, seed: u64) {
    let question = noise(seed, 300_000);
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    let asked = question.clone();
    let asking = tokio::spawn(async move {
        send.write_all(&asked).await.unwrap();
        send.finish().unwrap();
    });
    assert!(soon(receive.read_to_end(1 << 20)).await.unwrap() == question);
    soon(asking).await.unwrap();
}

/// Resolves when it is so, which must not take for ever.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    soon(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
