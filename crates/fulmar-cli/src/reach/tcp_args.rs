//! What servers can be told of TCP, and the port that they listen at then.

use std::net::SocketAddr;
use std::path::PathBuf;

use fulmar::Endpoint;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use super::tcp::coat::{self, Certificate};
use super::tcp::door;
use crate::exit::Failure;
use crate::listen::parse_listen;

/// Options of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct TcpArgs {
    /// Also take clients over TCP, in TLS 1.3, where UDP is blocked: at the same port, or at ADDR
    #[arg(long, value_name = "ADDR", num_args = 0..=1, require_equals = true, value_parser = parse_listen)]
    #[expect(clippy::option_option, reason = "clap's way to say that the value may be left out")]
    tcp: Option<Option<SocketAddr>>,
    /// Certificate that strangers at the TCP port see, in PEM [default: one made at each start]
    #[arg(long, value_name = "FILE", requires_all = ["tcp", "tcp_key"])]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    tcp_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tcp_cert", value_hint = clap::ValueHint::FilePath)]
    tcp_key: Option<PathBuf>,
}

/// A port of TCP that is bound, and its coat.
pub(super) struct Bound {
    listener: std::net::TcpListener,
    tls: TlsAcceptor,
}

/// Where clients come by TCP, until this is dropped.
#[derive(Debug)]
pub struct Door {
    /// Where.
    pub address: SocketAddr,
    serving: AbortHandle,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl TcpArgs {
    /// As a file says it.
    pub fn new(is_wanted: bool, certificate: Option<Certificate>) -> Self {
        let (tcp_cert, tcp_key) = certificate.map(|pair| (pair.chain, pair.key)).unzip();
        Self { tcp: is_wanted.then_some(None), tcp_cert, tcp_key }
    }

    /// These, or others if they say nothing.
    pub fn or(self, others: Self) -> Self {
        if self == Self::default() { others } else { self }
    }

    /// Binds the port, if that is wanted: `udp` is the server's own.
    pub(super) fn bind(&self, udp: SocketAddr) -> Result<Option<Bound>, Failure> {
        let Some(wanted) = self.tcp else { return Ok(None) };
        let files = self.tcp_cert.clone().zip(self.tcp_key.clone());
        let tls = coat::of_server(files.map(|(chain, key)| Certificate { chain, key }).as_ref())?;
        let address = wanted.unwrap_or(udp);
        let taken = |error: std::io::Error| {
            Failure::Unreachable(format!("cannot listen at {address} (TCP): {error}"))
        };
        let listener = bind(address).map_err(taken)?;
        Ok(Some(Bound { listener, tls: tls.into() }))
    }
}

/// An IPv6 socket takes IPv4 as well, as that of UDP does. A port whose last connections are not quite over
/// is free.
fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    const BACKLOG: i32 = 1024;
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

impl Bound {
    /// Begins to serve.
    pub(super) fn open(self, endpoint: &Endpoint) -> Result<Door, Failure> {
        let broken = |e: std::io::Error| Failure::Unreachable(format!("cannot listen: {e}"));
        let address = self.listener.local_addr().map_err(broken)?;
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(broken)?;
        let serving = tokio::spawn(door::serve(listener, self.tls, endpoint.clone()));
        Ok(Door { address, serving: serving.abort_handle() })
    }
}
