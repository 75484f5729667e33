//! s2n-quic as its users get it (s2n-tls, CUBIC), but for windows that are never what limits a run and
//! datagrams of Fulmar's size.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::Connection;
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events};
use s2n_quic::provider::io::tokio::{Builder, Provider};
use s2n_quic::provider::limits::Limits;
use s2n_quic::stream::{ReceiveStream, SendStream};
use s2n_quic_core::packet::interceptor::{Datagram, DecoderBufferMut, Interceptor};
use tokio::io::AsyncWriteExt;

use crate::library::{self, Client, Server};
use crate::run::{DatagramBytes, Load, Losses, NAME, Plan, Result, Running, Sides, WINDOW_BYTES, udp_socket};

/// Headers of IPv4 and UDP, which its MTU counts.
const HEADERS_BYTES: u16 = 28;

pub(crate) fn start(plan: &Plan, sides: &Sides, running: &Running) -> Result<DatagramBytes> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let limits = limits(plan.load)?;
    let mtu_bytes = plan.mtu_bytes;
    let losses = Lossy(Losses::new(plan.loss_ppm));
    let server = sides.server.block_on(async {
        let server = s2n_quic::Server::builder()
            .with_tls((&*certificate, &*key))?
            .with_io(socket(mtu_bytes)?)?
            .with_limits(limits)?
            .with_packet_interceptor(losses)?;
        Result::Ok(server.start()?)
    })?;
    let address = server.local_addr()?;
    sides.server.spawn(library::serve(Accepting(server), plan.load, running.received.clone()));
    library::send(plan, sides, address, move || {
        let datagram_bytes = Arc::new(AtomicU16::new(0));
        let client = s2n_quic::Client::builder()
            .with_tls(&*certificate)?
            .with_io(socket(mtu_bytes)?)?
            .with_limits(limits)?
            .with_event(Mtu(datagram_bytes.clone()))?;
        Ok(Connecting { client: client.start()?, datagram_bytes })
    })
}

fn limits(load: Load) -> Result<Limits> {
    if !load.is_bulk() {
        return Ok(Limits::new());
    }
    Ok(Limits::new()
        .with_data_window(WINDOW_BYTES.into())?
        .with_unidirectional_data_window(WINDOW_BYTES.into())?)
}

fn socket(mtu_bytes: u16) -> Result<Provider> {
    Ok(Builder::default().with_rx_socket(udp_socket()?)?.with_max_mtu(mtu_bytes + HEADERS_BYTES)?.build()?)
}

/// Throws datagrams away as they are received.
struct Lossy(Losses);

impl Interceptor for Lossy {
    fn intercept_rx_datagram<'a>(
        &mut self,
        _: &events::Subject,
        _: &Datagram<'_>,
        payload: DecoderBufferMut<'a>,
    ) -> DecoderBufferMut<'a> {
        if self.0.take_next() { DecoderBufferMut::new(&mut []) } else { payload }
    }
}

/// Keeps the size of the last connection's datagrams.
struct Mtu(Arc<AtomicU16>);

impl Subscriber for Mtu {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo<'_>) {}

    fn on_mtu_updated(&mut self, (): &mut (), _: &ConnectionMeta, event: &events::MtuUpdated) {
        self.0.store(event.mtu, Ordering::Relaxed);
    }
}

struct Accepting(s2n_quic::Server);

impl Server for Accepting {
    type Incoming = Connection;
    type Connection = Connection;
    type Stream = ReceiveStream;

    async fn accept(&mut self) -> Option<Connection> {
        self.0.accept().await
    }

    async fn establish(incoming: Connection) -> Result<Connection> {
        Ok(incoming)
    }

    async fn closed(mut connection: Connection) {
        while let Ok(Some(_)) = connection.accept().await {}
    }

    async fn accept_stream(connection: &mut Connection) -> Result<ReceiveStream> {
        Ok(connection.accept_receive_stream().await?.ok_or("the peer opened no stream")?)
    }

    async fn read(stream: &mut ReceiveStream) -> Result<Option<usize>> {
        Ok(stream.receive().await?.map(|data| data.len()))
    }
}

struct Connecting {
    client: s2n_quic::Client,
    datagram_bytes: Arc<AtomicU16>,
}

impl Client for Connecting {
    type Connection = (Connection, Arc<AtomicU16>);
    type Stream = SendStream;

    async fn connect(&self, server: SocketAddr) -> Result<Self::Connection> {
        let connection = self.client.connect(Connect::new(server).with_server_name(NAME)).await?;
        Ok((connection, self.datagram_bytes.clone()))
    }

    fn close((connection, _): Self::Connection) {
        connection.close(0u32.into());
    }

    async fn open_stream((connection, _): &mut Self::Connection) -> Result<SendStream> {
        Ok(connection.open_send_stream().await?)
    }

    async fn write(stream: &mut SendStream, data: &[u8]) -> Result<()> {
        Ok(stream.write_all(data).await?)
    }

    async fn write_bytes(stream: &mut SendStream, data: Bytes) -> Result<()> {
        Ok(stream.send(data).await?)
    }

    fn datagram_bytes((_, datagram_bytes): &Self::Connection) -> DatagramBytes {
        let datagram_bytes = datagram_bytes.clone();
        Box::new(move || datagram_bytes.load(Ordering::Relaxed))
    }
}
