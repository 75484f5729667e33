//! quinn as its users get it (ring, CUBIC), but for windows that are never what limits a run and datagrams of
//! Fulmar's size.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Incoming, MtuDiscoveryConfig,
    RecvStream, Runtime, SendStream, ServerConfig, TokioRuntime, TransportConfig, UdpPoller, VarInt,
};

use crate::library::{self, Client, Server};
use crate::run::{DatagramBytes, Losses, NAME, Plan, Result, Running, Sides, WINDOW_BYTES, udp_socket};

pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(plan.mtu_bytes);
    transport.mtu_discovery_config(Some(mtu));
    if plan.load.is_bulk() {
        transport
            .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
            .receive_window(VarInt::from_u32(WINDOW_BYTES))
            .send_window(WINDOW_BYTES.into());
    }
    let transport = Arc::new(transport);
    let mut server_config = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    server_config.transport_config(transport.clone());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone())?;
    let mut client_config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client_config.transport_config(transport);
    let loss_ppm = plan.loss_ppm;
    let server = sides.server.block_on(async { endpoint(Some(server_config), loss_ppm) })?;
    let address = server.local_addr()?;
    sides.server.spawn(library::serve(Accepting(server), plan.load, running.received.clone()));
    library::send(plan, sides, address, move || {
        let mut client = endpoint(None, 0)?;
        client.set_default_client_config(client_config.clone());
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
        Ok(stream.read_chunk(usize::MAX, true).await?.map(|chunk| chunk.bytes.len()))
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
        connection.close(VarInt::from_u32(0), b"");
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
        Box::new(move || connection.stats().path.current_mtu)
    }
}

fn endpoint(server: Option<ServerConfig>, loss_ppm: u32) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    let socket = runtime.wrap_udp_socket(udp_socket()?)?;
    let config = EndpointConfig::default();
    if loss_ppm == 0 {
        return Endpoint::new_with_abstract_socket(config, server, socket, runtime);
    }
    let lossy = Arc::new(Lossy { socket, losses: Losses::new(loss_ppm) });
    Endpoint::new_with_abstract_socket(config, server, lossy, runtime)
}

/// Throws datagrams away as they are received, as `EndpointConfig::lose_received_ppm` does for Fulmar.
struct Lossy {
    socket: Arc<dyn AsyncUdpSocket>,
    losses: Losses,
}

impl fmt::Debug for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lossy").field("losses", &self.losses).finish_non_exhaustive()
    }
}

impl Lossy {
    /// Moves the datagrams of a batch that are not lost together.
    fn thin(&self, buffer: &mut [u8], meta: &mut RecvMeta) {
        let stride = meta.stride.max(1);
        let mut kept = 0;
        for begin in (0..meta.len).step_by(stride) {
            let end = (begin + stride).min(meta.len);
            if !self.losses.take_next() {
                buffer.copy_within(begin..end, kept);
                kept += end - begin;
            }
        }
        meta.len = kept;
    }
}

impl AsyncUdpSocket for Lossy {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.socket.poll_recv(cx, buffers, metas);
        if let Poll::Ready(Ok(count)) = received {
            for (buffer, meta) in buffers.iter_mut().zip(metas.iter_mut()).take(count) {
                self.thin(buffer, meta);
            }
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
