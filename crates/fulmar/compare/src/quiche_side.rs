//! quiche in tokio-quiche as its users get it (BoringSSL, CUBIC), but for windows that are never what limits
//! a run and datagrams of Fulmar's size. Its connections call the application, and a client's socket has one
//! connection: this is not driven as the others are.

use std::env::temp_dir;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use tokio::net::UdpSocket;
use tokio::sync::{oneshot, watch};
use tokio_quiche::metrics::DefaultMetrics;
use tokio_quiche::quic::{HandshakeInfo, QuicheConnection, connect_with_config};
use tokio_quiche::settings::{CertificateKind, Hooks, QuicSettings, TlsCertificatePaths};
use tokio_quiche::socket::Socket;
use tokio_quiche::{ApplicationOverQuic, ConnectionParams, QuicConnection, QuicResult, quiche};

use crate::run::{
    DatagramBytes, HANDSHAKE, Load, NAME, Plan, Received, Result, Running, Sides, WINDOW_BYTES, WRITE_BYTES,
    udp_socket,
};

/// A client's first unidirectional stream (RFC 9000, 2.1).
const STREAM: u64 = 2;
const READ_BYTES: usize = 1 << 18;
const CONNECTING_AT_ONCE: usize = 32;

pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    if plan.loss_ppm > 0 {
        return Err("a listener of tokio-quiche takes a socket of tokio's alone: nothing can be lost".into());
    }
    if plan.load == Load::BulkBytes {
        return Err("it copies what it is given".into());
    }
    let files = Files::new()?;
    let (certificate, key) = (files.0[0].to_string_lossy(), files.0[1].to_string_lossy());
    let paths = TlsCertificatePaths { cert: &certificate, private_key: &key, kind: CertificateKind::X509 };
    let params = ConnectionParams::new_server(settings(plan), paths, Hooks::default());
    let socket = udp_socket()?;
    let address = socket.local_addr()?;
    let mut listener =
        sides.server.block_on(async { tokio_quiche::listen([socket], params, DefaultMetrics) })?.remove(0);
    let (load, received) = (plan.load, running.received.clone());
    sides.server.spawn(async move {
        for place in 0.. {
            let Some(Ok(incoming)) = listener.next().await else { return };
            incoming.start(Reading { load, place, received: received.clone(), buffer: vec![0; READ_BYTES] });
        }
    });
    let plan = plan.clone();
    sides.client.block_on(sides.client.spawn(async move {
        let (go, going) = watch::channel(false);
        let client = Arc::new(Client { plan, server: address, datagram_bytes: AtomicU16::new(0), going });
        if load == Load::Handshakes {
            for _ in 0..client.plan.connections {
                let client = client.clone();
                tokio::spawn(async move {
                    loop {
                        // It closes itself.
                        let _ = client.connect().await;
                    }
                });
            }
        } else {
            let connecting = (0..client.plan.connections).map(|_| client.connect());
            let connected: Vec<_> =
                stream::iter(connecting).buffer_unordered(CONNECTING_AT_ONCE).try_collect().await?;
            go.send_replace(true);
            tokio::spawn(async move {
                let _kept = (go, connected);
                pending::<()>().await;
            });
        }
        Ok(Box::new(move || client.datagram_bytes.load(Ordering::Relaxed)) as DatagramBytes)
    }))?
}

fn settings(plan: &Plan) -> QuicSettings {
    let mut settings = QuicSettings::default();
    settings.max_recv_udp_payload_size = plan.mtu_bytes.into();
    settings.max_send_udp_payload_size = plan.mtu_bytes.into();
    settings.disable_client_ip_validation = true;
    if plan.load.is_bulk() {
        settings.initial_max_data = WINDOW_BYTES.into();
        settings.initial_max_stream_data_uni = WINDOW_BYTES.into();
        settings.max_connection_window = WINDOW_BYTES.into();
        settings.max_stream_window = WINDOW_BYTES.into();
    }
    settings
}

/// What its connections have in common.
struct Client {
    plan: Plan,
    server: SocketAddr,
    /// Of whoever sent last.
    datagram_bytes: AtomicU16,
    /// Nobody sends before all are connected.
    going: watch::Receiver<bool>,
}

impl Client {
    /// Opens a connection and completes its handshake.
    async fn connect(self: &Arc<Self>) -> Result<QuicConnection> {
        let socket = udp_socket()?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        socket.connect(self.server).await?;
        let mut socket: Socket<Arc<UdpSocket>, Arc<UdpSocket>> = socket.try_into()?;
        socket.apply_max_capabilities();
        let params = ConnectionParams::new_client(settings(&self.plan), None, Hooks::default());
        let (established, wait) = oneshot::channel();
        let writing = Writing {
            client: self.clone(),
            established: Some(established),
            going: self.going.clone(),
            is_going: false,
            data: vec![0x55; if self.plan.load == Load::Bulk { WRITE_BYTES } else { 0 }],
        };
        let connection = connect_with_config(socket, Some(NAME), &params, writing).await?;
        wait.await?;
        Ok(connection)
    }
}

/// The server's application: reads all that comes and counts it.
struct Reading {
    load: Load,
    place: usize,
    received: Arc<Received>,
    buffer: Vec<u8>,
}

impl ApplicationOverQuic for Reading {
    fn on_conn_established(&mut self, _: &mut QuicheConnection, _: &HandshakeInfo) -> QuicResult<()> {
        if self.load == Load::Handshakes {
            self.received.add(self.place, HANDSHAKE);
        }
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        while let Some(stream) = connection.stream_readable_next() {
            while let Ok((len, _)) = connection.stream_recv(stream, &mut self.buffer) {
                self.received.add(self.place, len);
            }
        }
        Ok(())
    }

    fn process_writes(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        Ok(())
    }
}

/// The client's application: sends for ever, or closes the connection at once.
struct Writing {
    client: Arc<Client>,
    established: Option<oneshot::Sender<()>>,
    going: watch::Receiver<bool>,
    is_going: bool,
    data: Vec<u8>,
}

impl ApplicationOverQuic for Writing {
    fn on_conn_established(
        &mut self,
        connection: &mut QuicheConnection,
        _: &HandshakeInfo,
    ) -> QuicResult<()> {
        if self.client.plan.load == Load::Handshakes {
            connection.close(true, 0, b"")?;
        } else {
            connection.stream_send(STREAM, b"hello", false)?;
        }
        if let Some(established) = self.established.take() {
            let _ = established.send(());
        }
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        if self.is_going || self.client.plan.load != Load::Bulk {
            return pending().await;
        }
        self.going.wait_for(|is_going| *is_going).await?;
        self.is_going = true;
        Ok(())
    }

    fn process_reads(&mut self, _: &mut QuicheConnection) -> QuicResult<()> {
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let datagram_bytes = connection.max_send_udp_payload_size().try_into()?;
        self.client.datagram_bytes.store(datagram_bytes, Ordering::Relaxed);
        if !self.is_going {
            return Ok(());
        }
        loop {
            match connection.stream_send(STREAM, &self.data, false) {
                Ok(0) | Err(quiche::Error::Done) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A certificate and its key, which it takes as files; they go with this.
struct Files([PathBuf; 2]);

impl Files {
    fn new() -> Result<Self> {
        let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let files = ["certificate", "key"]
            .map(|what| temp_dir().join(format!("fulmar-compare-{}-{what}.pem", std::process::id())));
        std::fs::write(&files[0], own.cert.pem())?;
        std::fs::write(&files[1], own.signing_key.serialize_pem())?;
        Ok(Self(files))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in &self.0 {
            let _ = std::fs::remove_file(file);
        }
    }
}
