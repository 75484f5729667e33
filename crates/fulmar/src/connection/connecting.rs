//! Connections whose handshake is under way, at the one end and at the other.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fulmar_proto::ConnectionError;

use super::Connection;
use super::shared::{ConnectionShared, Handle};
use crate::clock;
use crate::origins;

/// A connection this end opens: a future that gives it once the server has proved its identity.
///
/// The server judges the client after that, so a client that is refused has a connection that ends at once;
/// see [`Connection::closed`]. Dropping this gives the attempt up.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Connecting(Option<Handle>);

impl Connecting {
    pub(crate) fn new(shared: Arc<ConnectionShared>) -> Self {
        Self(Some(Handle::new(shared)))
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        origins::visible(self.handle().lock().proto.remote())
    }

    fn handle(&self) -> &Handle {
        self.0.as_ref().expect("not used after it was ready")
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let connected = self.handle().lock().poll_connected(cx);
        connected.map(|result| {
            let handle = self.0.take().expect("not polled after it was ready");
            result.map(|()| Connection(handle))
        })
    }
}

/// A client that knocks: a future that gives the connection once the client has proved its identity and was
/// let in.
///
/// The handshake goes on meanwhile. Dropping this turns the client away.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Incoming(Connecting);

impl Incoming {
    pub(crate) fn new(shared: Arc<ConnectionShared>) -> Self {
        Self(Connecting::new(shared))
    }

    /// The client's address, which it may not have proved to be its own yet.
    pub fn remote_address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Turns the client away, with a code and a reason for its application.
    pub fn refuse(self, code: u64, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.0.handle().act(|state| state.proto.close(clock::now(), code, reason));
    }
}

impl Future for Incoming {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
