//! What is asked of a library, and how each is driven: many connections, a stream in each, from the client's
//! side to the server's.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::run::{DatagramBytes, HANDSHAKE, Load, Plan, Received, Result, Sides, WRITE_BYTES};

/// An end that connections come to.
pub(crate) trait Server: Send + 'static {
    type Incoming: Send + 'static;
    type Connection: Send + 'static;
    type Stream: Send + 'static;

    /// Waits for the next one; `None` is the end.
    fn accept(&mut self) -> impl Future<Output = Option<Self::Incoming>> + Send;
    /// Completes its handshake.
    fn establish(incoming: Self::Incoming) -> impl Future<Output = Result<Self::Connection>> + Send;
    /// Waits until the peer has closed it.
    fn closed(connection: Self::Connection) -> impl Future<Output = ()> + Send;
    /// Waits for its first stream.
    fn accept_stream(connection: &mut Self::Connection) -> impl Future<Output = Result<Self::Stream>> + Send;
    /// Bytes that were read now, without a copy; `None` is the end.
    fn read(stream: &mut Self::Stream) -> impl Future<Output = Result<Option<usize>>> + Send;
}

/// An end that opens connections, with a socket of its own.
pub(crate) trait Client: Send + Sync + 'static {
    type Connection: Send + 'static;
    type Stream: Send + 'static;

    /// Opens a connection and completes its handshake.
    fn connect(&self, server: SocketAddr) -> impl Future<Output = Result<Self::Connection>> + Send;
    fn close(connection: Self::Connection);
    fn open_stream(connection: &mut Self::Connection) -> impl Future<Output = Result<Self::Stream>> + Send;
    fn write(stream: &mut Self::Stream, data: &[u8]) -> impl Future<Output = Result<()>> + Send;
    /// Writes `data` without a copy.
    fn write_bytes(stream: &mut Self::Stream, data: Bytes) -> impl Future<Output = Result<()>> + Send;
    /// The size of its full datagrams now.
    fn datagram_bytes(connection: &Self::Connection) -> DatagramBytes;
}

/// Reads all that comes and counts it.
pub(crate) async fn serve<S: Server>(mut server: S, load: Load, received: Arc<Received>) {
    for place in 0.. {
        let Some(incoming) = server.accept().await else { return };
        let received = received.clone();
        tokio::spawn(async move {
            let mut connection = S::establish(incoming).await?;
            if load == Load::Handshakes {
                received.add(place, HANDSHAKE);
                S::closed(connection).await;
                return Ok(());
            }
            let mut stream = S::accept_stream(&mut connection).await?;
            while let Some(len) = S::read(&mut stream).await? {
                received.add(place, len);
            }
            Result::Ok(())
        });
    }
}

/// Opens the connections and lets them send for ever, if the plan says so.
pub(crate) fn send<C: Client>(
    plan: &Plan,
    sides: &Sides,
    server: SocketAddr,
    new_client: impl Fn() -> Result<C> + Send + 'static,
) -> Result<DatagramBytes> {
    let plan = plan.clone();
    sides.client.block_on(sides.client.spawn(async move {
        let clients = (0..plan.clients()).map(|_| Ok(Arc::new(new_client()?)));
        let clients: Vec<Arc<C>> = clients.collect::<Result<_>>()?;
        // Nobody sends before all are connected.
        let mut connected = Vec::new();
        for client in clients.into_iter().cycle().take(plan.connections) {
            if plan.load == Load::Handshakes {
                tokio::spawn(async move {
                    loop {
                        if let Ok(connection) = client.connect(server).await {
                            C::close(connection);
                        }
                    }
                });
                continue;
            }
            let mut connection = client.connect(server).await?;
            let mut stream = C::open_stream(&mut connection).await?;
            C::write(&mut stream, b"hello").await?;
            connected.push((connection, stream));
        }
        let last = connected.last().map(|(connection, _)| C::datagram_bytes(connection));
        for (connection, mut stream) in connected {
            tokio::spawn(async move {
                let _kept = connection;
                match plan.load {
                    Load::Bulk => {
                        let data = vec![0x55; WRITE_BYTES];
                        while C::write(&mut stream, &data).await.is_ok() {}
                    }
                    Load::BulkBytes => {
                        let data = Bytes::from(vec![0x55; WRITE_BYTES]);
                        while C::write_bytes(&mut stream, data.clone()).await.is_ok() {}
                    }
                    Load::Idle | Load::Handshakes => std::future::pending().await,
                }
            });
        }
        Ok(last.unwrap_or_else(|| Box::new(|| 0)))
    }))?
}
