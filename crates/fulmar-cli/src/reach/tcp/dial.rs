//! How a client gets a stream to a server: TCP, through an HTTP proxy where the environment names one, and
//! TLS in it.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::coat;
use super::http_proxy::Proxy;
use super::kernel::prepare;

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// And with its coat.
pub type Tls = TlsStream<Box<dyn Stream>>;

/// Where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dial {
    /// What people call the server: what a proxy is asked for, and what TLS says of it.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
}

impl Dial {
    /// A stream to there.
    pub async fn stream(&self) -> io::Result<Tls> {
        let stream: Box<dyn Stream> = match Proxy::of_environment(&self.name)? {
            Some(proxy) => Box::new(proxy.connect(&self.name, self.address.port()).await?),
            None => {
                let stream = TcpStream::connect(self.address).await?;
                prepare(&stream);
                Box::new(stream)
            }
        };
        let name = ServerName::try_from(self.name.clone()).unwrap_or_else(|_| self.address.ip().into());
        let coat = coat::of_client().map_err(io::Error::other)?;
        TlsConnector::from(coat).connect(name, stream).await
    }
}
