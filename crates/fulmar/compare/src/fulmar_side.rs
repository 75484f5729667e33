//! Fulmar, with its own settings but for the profile.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fulmar::crypto::{self, Identity, TrustKeys};
use fulmar::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, Profile, RecvStream, SendStream,
    ServerConfig, TransportConfig,
};

use crate::library::{self, Client, Server};
use crate::run::{DatagramBytes, NAME, Plan, Result, Running, Sides, udp_socket};

pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    let mut transport = TransportConfig::default();
    transport.profile(Profile::parse(&plan.profile)?).mtu_max_bytes(plan.mtu_bytes)?;
    let transport = Arc::new(transport);
    let (alice, bob) = (Identity::generate(), Identity::generate());
    let server_crypto = crypto::ServerConfig::raw_key(&bob, Some(Arc::new(TrustKeys::new([alice.public_key()]))));
    let mut server_config =
        ServerConfig { transport: transport.clone(), ..ServerConfig::new(Arc::new(server_crypto)) };
    server_config.retry_above_handshakes = usize::MAX;
    server_config.handshakes_max = usize::MAX;
    server_config.handshakes_per_network_max = usize::MAX;
    let client_crypto = crypto::ClientConfig::raw_key(Some(&alice), Arc::new(TrustKeys::new([bob.public_key()])));
    let mut lossy = EndpointConfig::default();
    lossy.lose_received_ppm(plan.loss_ppm);
    let server =
        sides.server.block_on(async { Endpoint::new(&lossy, Some(server_config), udp_socket()?) })?;
    let config = ClientConfig { crypto: Arc::new(client_crypto), transport };
    let address = server.local_addr()?;
    sides.server.spawn(library::serve(Accepting(server), plan.load, running.received.clone()));
    library::send(plan, sides, address, move || {
        let client = Endpoint::new(&EndpointConfig::default(), None, udp_socket()?)?;
        client.set_client_config(config.clone());
        Ok(Connecting(client))
    })
}

struct Accepting(Endpoint);

impl Server for Accepting {
    type Incoming = Incoming;
    type Connection = Connection;
    type Stream = RecvStream;

    async fn accept(&mut self) -> Option<Incoming> {
        self.0.accept().await
    }

    async fn establish(incoming: Incoming) -> Result<Connection> {
        Ok(incoming.await?)
    }

    async fn closed(connection: Connection) {
        connection.closed().await;
    }

    async fn accept_stream(connection: &mut Connection) -> Result<RecvStream> {
        Ok(connection.accept_uni().await?)
    }

    async fn read(stream: &mut RecvStream) -> Result<Option<usize>> {
        Ok(stream.read_chunk(usize::MAX).await?.map(|data| data.len()))
    }
}

struct Connecting(Endpoint);

impl Client for Connecting {
    type Connection = Connection;
    type Stream = SendStream;

    async fn connect(&self, server: SocketAddr) -> Result<Connection> {
        Ok(self.0.connect(server, NAME)?.await?)
    }

    fn close(connection: Connection) {
        connection.close(0, b"");
    }

    async fn open_stream(connection: &mut Connection) -> Result<SendStream> {
        Ok(connection.open_uni().await?)
    }

    async fn write(stream: &mut SendStream, data: &[u8]) -> Result<()> {
        Ok(stream.write_all(data).await?)
    }

    async fn write_bytes(stream: &mut SendStream, data: Bytes) -> Result<()> {
        Ok(stream.write_chunk(data).await?)
    }

    fn datagram_bytes(connection: &Connection) -> DatagramBytes {
        let connection = connection.clone();
        Box::new(move || connection.stats().path.mtu_bytes)
    }
}
