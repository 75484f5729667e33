//! quinn as its users get it (ring, CUBIC), but for windows that are never what limits a run and datagrams of
//! Fulmar's size.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, Runtime, ServerConfig,
    TokioRuntime, TransportConfig, UdpPoller, VarInt,
};

use crate::run::{DatagramBytes, HANDSHAKE, Load, Plan, Result, Running, Sides, WRITE_BYTES, udp_socket};

const NAME: &str = "localhost";
const WINDOW_BYTES: u32 = 16 << 20;

/// Opens the connections and lets them send for ever, if the plan says so.
pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(plan.mtu_bytes);
    transport.mtu_discovery_config(Some(mtu));
    if plan.load == Load::Bulk {
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
    let (received, load) = (running.received.clone(), plan.load);
    sides.server.spawn(async move {
        for place in 0.. {
            let Some(incoming) = server.accept().await else { return };
            let received = received.clone();
            tokio::spawn(async move {
                let connection = incoming.await?;
                if load == Load::Handshakes {
                    received.add(place, HANDSHAKE);
                    connection.closed().await;
                    return Ok(());
                }
                let mut stream = connection.accept_uni().await?;
                while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
                    received.add(place, chunk.bytes.len());
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
            });
        }
    });
    let plan = plan.clone();
    sides.client.block_on(sides.client.spawn(async move {
        let clients = (0..plan.clients()).map(|_| {
            let mut client = endpoint(None, 0)?;
            client.set_default_client_config(client_config.clone());
            Ok::<_, io::Error>(client)
        });
        let clients: Vec<Endpoint> = clients.collect::<io::Result<_>>()?;
        // Nobody sends before all are connected.
        let mut connected = Vec::new();
        for client in clients.into_iter().cycle().take(plan.connections) {
            if load == Load::Handshakes {
                tokio::spawn(async move {
                    while let Ok(connecting) = client.connect(address, NAME) {
                        if let Ok(connection) = connecting.await {
                            connection.close(VarInt::from_u32(0), b"");
                        }
                    }
                });
                continue;
            }
            let connection = client.connect(address, NAME)?.await?;
            let mut stream = connection.open_uni().await?;
            stream.write_all(b"hello").await?;
            connected.push((connection, stream));
        }
        let last = connected.last().map(|(connection, _)| connection.clone());
        for (connection, mut stream) in connected {
            tokio::spawn(async move {
                let _kept = connection;
                let data = vec![0x55; if load == Load::Idle { 0 } else { WRITE_BYTES }];
                while load == Load::Bulk && stream.write_all(&data).await.is_ok() {}
                std::future::pending::<()>().await;
            });
        }
        let mtu = move || last.as_ref().map_or(0, |connection| connection.stats().path.current_mtu);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Box::new(mtu) as DatagramBytes)
    }))?
}

fn endpoint(server: Option<ServerConfig>, loss_ppm: u32) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    let socket = runtime.wrap_udp_socket(udp_socket()?)?;
    let config = EndpointConfig::default();
    if loss_ppm == 0 {
        return Endpoint::new_with_abstract_socket(config, server, socket, runtime);
    }
    let lossy = Arc::new(Lossy { socket, ppm: loss_ppm, drawn: AtomicU64::new(0) });
    Endpoint::new_with_abstract_socket(config, server, lossy, runtime)
}

/// Throws datagrams away as they are received, as `EndpointConfig::lose_received_ppm` does for Fulmar.
struct Lossy {
    socket: Arc<dyn AsyncUdpSocket>,
    ppm: u32,
    drawn: AtomicU64,
}

impl fmt::Debug for Lossy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lossy").field("ppm", &self.ppm).finish_non_exhaustive()
    }
}

impl Lossy {
    /// Splitmix64 of a counter.
    fn takes_next(&self) -> bool {
        let mut z = self.drawn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32) * 1_000_000) >> 32 < u64::from(self.ppm)
    }

    /// Moves the datagrams of a batch that are not lost together.
    fn thin(&self, buffer: &mut [u8], meta: &mut RecvMeta) {
        let stride = meta.stride.max(1);
        let mut kept = 0;
        for begin in (0..meta.len).step_by(stride) {
            let end = (begin + stride).min(meta.len);
            if !self.takes_next() {
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
