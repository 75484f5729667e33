//! The endpoint as the application holds it.

mod begin;
mod config;
mod driver;
mod loss;
mod machine;
pub(crate) mod memory;
mod pipes;
mod shared;
pub(crate) mod turns;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

pub use config::EndpointConfig;
pub use pipes::Carrying;
pub(crate) use shared::EndpointShared;
pub use shared::EndpointStats;

use crate::connection::{Connecting, Incoming};
use crate::error::ConnectError;
use crate::pipe::Pipe;
use crate::socket;
use shared::EndpointHandle;

/// A UDP address with any number of connections on it, as client and as server.
///
/// A server receives on all cores: beside its socket it opens others at the same address, one for each worker
/// of the runtime, over which the system spreads its clients by their addresses (Linux;
/// [`EndpointConfig::sockets_max`]).
///
/// Cloning gives another handle to the same endpoint. Its tasks run in the tokio runtime it was made in, and
/// end when the last handle and the last connection are gone.
#[derive(Clone)]
pub struct Endpoint(EndpointHandle);

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Endpoint {
    /// An endpoint that opens connections, bound to `address`: usually port 0 of `[::]` or `0.0.0.0`. One
    /// bound to an IPv6 wildcard reaches IPv4 peers as well, where the system allows it.
    ///
    /// With port 0 it takes another port where nothing is answered any more: see
    /// [`EndpointConfig::rebind_on_silence`].
    ///
    /// Must be called within a tokio runtime, as all that follow.
    pub fn client(address: SocketAddr) -> io::Result<Self> {
        let mut config = EndpointConfig::default();
        config.rebind_on_silence(address.port() == 0);
        Self::new(&config, None, socket::bind(address)?)
    }

    /// An endpoint that accepts connections at `address`; it can open some as well.
    pub fn server(config: ServerConfig, address: SocketAddr) -> io::Result<Self> {
        Self::new(&EndpointConfig::default(), Some(config), socket::bind(address)?)
    }

    /// An endpoint on a socket that was bound elsewhere.
    pub fn new(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        socket: std::net::UdpSocket,
    ) -> io::Result<Self> {
        let shared = Arc::new(EndpointShared::new(config, server, socket)?);
        // The task ends when there is no handle: first this one, then the task.
        let endpoint = Self(EndpointHandle::new(shared.clone()));
        shared.watch();
        for place in 0..shared.socket_count() {
            tokio::spawn(driver::run(shared.clone(), place, config.loss_ppm));
        }
        Ok(endpoint)
    }

    /// Settings of connections opened from now on.
    pub fn set_client_config(&self, config: ClientConfig) {
        self.0.lock().client_config = Some(config);
    }

    /// Settings of connections accepted from now on; `None`: no more are.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        let config = config.map(|config| Arc::new(self.0.shared().memory.bounding(config)));
        self.0.lock().proto.set_server(config);
    }

    /// Opens a connection to `address`, whose server has to prove that it is `name`: a DNS name or an IP
    /// address, which the settings' verification is asked about.
    pub fn connect(&self, address: SocketAddr, name: &str) -> Result<Connecting, ConnectError> {
        let config = self.0.lock().client_config.clone().ok_or(ConnectError::NoClientConfig)?;
        self.connect_with(&config, address, name)
    }

    /// As [`connect`](Self::connect), with settings for this connection only.
    pub fn connect_with(
        &self,
        config: &ClientConfig,
        address: SocketAddr,
        name: &str,
    ) -> Result<Connecting, ConnectError> {
        self.0.shared().connect(config, socket::plain(address), name).map(Connecting::new)
    }

    /// The next client that knocks; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        loop {
            let mut notified = std::pin::pin!(self.0.incoming.notified());
            notified.as_mut().enable();
            {
                let mut state = self.0.lock();
                if let Some(incoming) = state.incoming.pop_front() {
                    return Some(incoming);
                }
                if state.is_closed() {
                    return None;
                }
            }
            notified.await;
        }
    }

    /// Closes all connections at once, with this code and reason, and takes no new ones. See also
    /// [`Self::wait_idle`].
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.0.shared().close(code, Bytes::copy_from_slice(reason));
    }

    /// Resolves when no connection is left: all have ended, and their peers had the time to hear of it. To be
    /// awaited before the program ends.
    pub async fn wait_idle(&self) {
        loop {
            let mut notified = std::pin::pin!(self.0.idle.notified());
            notified.as_mut().enable();
            if self.0.lock().proto.connection_count() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.lock().socket.local_addr()
    }

    /// Goes on with another socket: connections this end opened move with it, those it accepted are lost
    /// unless their peers can send to it. On failure the old socket stays in use.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        self.0.shared().rebind(socket)
    }

    /// Receives at another port as well, of the same address as a rule: for connections that this endpoint
    /// accepts. Clients that were told of it ([`TransportConfig::ports`](crate::TransportConfig::ports)) come
    /// there when nothing is answered at the one that they know, on the same connection.
    pub fn open_port(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        tokio::spawn(driver::open_port(self.0.shared(), socket)?);
        Ok(())
    }

    /// Goes on from another port of its own, drawn by the system, and to another of the server's, if that has
    /// told of several. All connections that this end opened by UDP move with it. For a client whose network
    /// looks long at one flow; where nothing is answered, this happens by itself
    /// ([`EndpointConfig::rebind_on_silence`]).
    pub fn change_port(&self) -> io::Result<()> {
        self.0.shared().change_port()
    }

    /// Takes what a client sends by a byte stream, such as TLS over TCP, as if it came by UDP: where a network
    /// lets no UDP through. `peer` is the stream's other end. The stream is read and written as long as what
    /// is returned is polled; it is lost, with the path that it was, when that is dropped.
    ///
    /// Fails if there is no memory left.
    pub fn carry<S>(&self, stream: S, peer: SocketAddr) -> io::Result<Carrying>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let pipe = self.0.shared().pipes.open(socket::plain(peer));
        Carrying::new(self.0.shared().clone(), pipe, stream)
    }

    /// Goes on by a byte stream that leads to the server at `peer`, which is to [`carry`](Self::carry) it.
    /// Connections that this endpoint opened to there move with it, and others it opens later begin in it; no
    /// other address is within reach. The stream is used as long as what is returned is polled. What is sent
    /// into one that has ended is lost, until the endpoint moves on: to another stream, or
    /// [back to UDP](Self::move_to_udp).
    pub fn move_to_stream<S>(&self, stream: S, peer: SocketAddr) -> io::Result<Carrying>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let pipe = Pipe::new(socket::plain(peer));
        let carrying = Carrying::new(self.0.shared().clone(), pipe.clone(), stream)?;
        self.0.shared().change_way(Some(pipe))?;
        Ok(carrying)
    }

    /// Goes on by UDP, from a port that the system draws. What is still under way in a stream arrives as long
    /// as that is polled.
    pub fn move_to_udp(&self) -> io::Result<()> {
        self.0.shared().change_way(None)
    }

    /// Connections that have not ended completely.
    pub fn open_connections(&self) -> usize {
        self.0.lock().proto.connection_count()
    }

    /// Bytes that the connections hold together; see [`EndpointConfig::memory_bytes`].
    pub fn held_bytes(&self) -> usize {
        self.0.shared().memory.held_bytes()
    }

    /// What the socket has seen.
    pub fn stats(&self) -> EndpointStats {
        self.0.lock().stats
    }
}
