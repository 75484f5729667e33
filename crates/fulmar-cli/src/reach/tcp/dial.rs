//! How a client gets a stream to a server: TCP, through an HTTP proxy where the environment names one, TLS in
//! it, and a WebSocket in that where nothing else goes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::coat;
use super::http_proxy::Proxy;
use super::kernel::prepare;
use super::web_socket::{self, WebSocketUrl};

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where to.
#[derive(Debug)]
pub struct Dial {
    /// What people call the server: what a proxy is asked for, and what TLS says of it.
    name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// A WebSocket that leads there.
    url: Option<WebSocketUrl>,
    /// Without a URL too a WebSocket is asked for: nothing else was taken.
    is_web: AtomicBool,
}

impl Dial {
    /// To a server at `address`, which leads there by a WebSocket at `url`, if there is one.
    pub fn new(name: &str, address: SocketAddr, url: Option<WebSocketUrl>) -> Self {
        Self { name: name.to_owned(), address, url, is_web: AtomicBool::new(false) }
    }

    /// What was sent there was not taken. Whether there is something else to try: from now on it is a
    /// WebSocket, or none any more.
    pub fn change_coat(&self) -> bool {
        self.url.is_none() && !self.is_web.fetch_xor(true, Ordering::Relaxed)
    }

    /// A stream to there.
    pub async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        let is_web = self.is_web.load(Ordering::Relaxed);
        let url = self.url.clone();
        let url = url.or_else(|| is_web.then(|| WebSocketUrl::of_server(&self.name, self.address.port())));
        let (name, port) = match &self.url {
            Some(url) => (&url.host, url.port),
            None => (&self.name, self.address.port()),
        };
        let stream: Box<dyn Stream> = match Proxy::of_environment(name)? {
            Some(proxy) => Box::new(proxy.connect(name, port).await?),
            None => {
                let stream = match self.url {
                    Some(_) => TcpStream::connect((name.as_str(), port)).await?,
                    None => TcpStream::connect(self.address).await?,
                };
                prepare(&stream);
                Box::new(stream)
            }
        };
        let name = ServerName::try_from(name.clone()).unwrap_or_else(|_| self.address.ip().into());
        let coat = coat::of_client().map_err(io::Error::other)?;
        let stream = TlsConnector::from(coat).connect(name, stream).await?;
        match url {
            Some(url) => Ok(Box::new(web_socket::ask(stream, &url).await?)),
            None => Ok(Box::new(stream)),
        }
    }
}
