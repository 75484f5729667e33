//! Sockets that are listened at, of both kinds, and what comes to them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;

use super::halves::BoxedHalves;
use super::tcp::{self, Carried, boxed_tcp};
use super::unix_sockets::UnixListener;
use crate::tunnel::wire::error::OpenError;
use crate::tunnel::wire::target::{Place, Target};

/// How long a client may take to say what it wants (slowloris).
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// A socket for streams that is listened at.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket; its name goes away with it.
    Unix(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    /// Listens at a TCP port or a Unix socket.
    pub async fn bind(at: &Target) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::of_connect(&error, format!("cannot listen at {at}"));
        match at {
            Target::Unix(path) => {
                let listener = UnixListener::bind(path).await.map_err(failed)?;
                Ok(Self::Unix(listener, path.into()))
            }
            Target::Tcp(place) | Target::Udp(place) => {
                Self::at(address(place).await.map_err(failed)?, at).await
            }
        }
    }

    /// Listens at a TCP port of this address; `named` is how it was asked for.
    pub async fn at(address: SocketAddr, named: &Target) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::of_connect(&error, format!("cannot listen at {named}"));
        tcp::listen(address).await.map(Self::Tcp).map_err(failed)
    }

    /// Where; a Unix socket has no address.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// The next one who comes, and where from.
    pub async fn accept(&self) -> (BoxedHalves, String) {
        loop {
            let accepted = match self {
                Self::Tcp(listener) => {
                    listener.accept().await.map(|(stream, peer)| (boxed_tcp(stream), peer.to_string()))
                }
                Self::Unix(listener, path) => {
                    listener.accept().await.map(|stream| (stream, path.display().to_string()))
                }
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) => rest(&error).await,
            }
        }
    }
}

/// The next who comes. Without descriptors or memory nobody can be let in; whoever waits will still be there
/// in a moment.
pub async fn accept(listener: &TcpListener) -> Carried {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return Carried::new(stream),
            Err(error) => rest(&error).await,
        }
    }
}

/// Accepting has failed: it is said, and tried again a moment later.
pub async fn rest(error: &io::Error) {
    tracing::warn!("cannot accept a connection: {error}");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// The address that a place to listen at stands for.
pub async fn address(place: &Place) -> io::Result<SocketAddr> {
    let mut found = tokio::net::lookup_host((place.host.as_str(), place.port)).await?;
    found.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}
