//! How connections come to an endpoint: this end begins them, or a client knocks. Each gets a task of its
//! own.

use std::net::SocketAddr;
use std::sync::Arc;

use fulmar_proto as proto;
use proto::{ClientConfig, ConnectionHandle};

use super::memory::Room;
use super::shared::{EndpointShared, EndpointState};
use crate::clock;
use crate::connection::Incoming;
use crate::connection::driver::ConnectionDriver;
use crate::connection::shared::ConnectionShared;
use crate::error::ConnectError;
use crate::socket::Socket;

impl EndpointShared {
    /// Begins a connection.
    pub(super) fn connect(
        self: &Arc<Self>,
        config: &ClientConfig,
        address: SocketAddr,
        name: &str,
    ) -> Result<Arc<ConnectionShared>, ConnectError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(ConnectError::EndpointClosed);
        }
        if !state.socket.can_reach(address) {
            return Err(ConnectError::InvalidAddress(address));
        }
        let (handle, connection) = state.proto.connect(clock::now(), config, address, name)?;
        state.stats.connected += 1;
        let socket = state.socket.clone();
        Ok(self.begin(&mut state, handle, Box::new(connection), socket))
    }

    /// Takes a new connection in and starts its task.
    fn begin(
        self: &Arc<Self>,
        state: &mut EndpointState,
        handle: ConnectionHandle,
        connection: Box<proto::Connection>,
        socket: Arc<Socket>,
    ) -> Arc<ConnectionShared> {
        let shared = Arc::new(ConnectionShared::new(connection, socket, self.memory.clone()));
        if state.connections.len() <= handle.0 {
            state.connections.resize(handle.0 + 1, None);
        }
        state.connections[handle.0] = Some(shared.clone());
        tokio::spawn(ConnectionDriver::new(shared.clone(), self.clone(), handle));
        shared
    }

    /// A client knocks, at one of the sockets: takes its connection in and queues it for the application.
    pub(super) fn on_incoming(
        self: &Arc<Self>,
        state: &mut EndpointState,
        handle: ConnectionHandle,
        connection: Box<proto::Connection>,
        socket: &Arc<Socket>,
    ) {
        let incoming = Incoming::new(self.begin(state, handle, connection, socket.clone()));
        state.stats.accepted += 1;
        let is_full = state.incoming.len() >= self.config.incoming_max || self.memory.room() == Room::None;
        if state.is_closed || is_full {
            // Closes when it is dropped.
            state.stats.turned_away += 1;
            return;
        }
        state.incoming.push_back(incoming);
        self.incoming.notify_one();
    }
}
