//! What the handles, the receiving task and the connections of one endpoint share.
//!
//! Nobody holds the endpoint's state and a connection's at the same time: who is at work on a connection,
//! however long, holds up that connection only.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use fulmar_proto as proto;
use proto::{
    ClientConfig, ConnectionHandle, EndpointEvent, ServerConfig, TransportError, TransportErrorCode,
};
use tokio::sync::Notify;

use super::config::EndpointConfig;
use super::memory::Memory;
use super::turns::Turns;
use crate::alarm::Alarms;
use crate::clock;
use crate::connection::Incoming;
use crate::connection::shared::{ConnectionShared, Wakers, wake_all};
use crate::pipe::{Pipe, Pipes};
use crate::socket::{self, Ports, Socket, siblings};

/// A port that was taken because nothing was answered has so long to prove itself, whatever others want: less
/// than any connection waits.
const RENEWED_FOR: Duration = Duration::from_millis(900);

/// There may be hundreds of ports: the buffers of each are so much smaller than the first one's.
const PORT_BUFFER_PART: usize = 8;

/// Counts of an endpoint, from its beginning.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Connections opened.
    pub connected: u64,
    /// Connections that clients began.
    pub accepted: u64,
    /// Clients turned away because too many waited for [`Endpoint::accept`](crate::Endpoint::accept), or
    /// there was no memory left for them.
    pub turned_away: u64,
    /// Sockets on which something was received: a server has one for each core.
    pub receiving_sockets: u64,
    /// Datagrams received.
    pub received_datagrams: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Batches in which they were received.
    pub received_batches: u64,
    /// Datagrams that belonged to no connection.
    pub stray_datagrams: u64,
    /// Datagrams of those that were answered: version negotiation, Retry, refusal, stateless reset.
    pub answered_datagrams: u64,
}

/// One endpoint.
pub(crate) struct EndpointShared {
    state: Mutex<EndpointState>,
    pub(super) config: EndpointConfig,
    /// It was made without being a server: it listens for what the network says about closed ports.
    is_client: bool,
    /// What the connections hold.
    pub(crate) memory: Arc<Memory>,
    /// Short waits of the connections' tasks.
    pub(crate) alarms: Alarms,
    /// By which clients come without UDP.
    pub(super) pipes: Arc<Pipes>,
    /// At which they come besides the first.
    ports: Arc<Ports>,
    /// Which of these tasks may run.
    pub(crate) turns: Turns<ConnectionShared>,
    /// A client knocks, or the endpoint was closed.
    pub(super) incoming: Notify,
    /// The last connection is gone.
    pub(super) idle: Notify,
    /// `Endpoint`s the application holds.
    handles: AtomicUsize,
}

/// What the mutex guards.
pub(super) struct EndpointState {
    pub(super) proto: proto::Endpoint,
    /// By handle.
    pub(super) connections: Vec<Option<Arc<ConnectionShared>>>,
    pub(super) socket: Arc<Socket>,
    /// Others at the same address, for the other cores.
    siblings: Vec<Arc<Socket>>,
    /// The socket before the last `rebind`, until something comes through the new one.
    pub(super) previous_socket: Option<Arc<Socket>>,
    pub(super) client_config: Option<ClientConfig>,
    pub(super) incoming: VecDeque<Incoming>,
    pub(super) is_closed: bool,
    /// By socket.
    drivers: Vec<Option<Waker>>,
    watch: Option<Watch>,
    /// When another port was last taken because nothing was answered.
    renewed_at: Option<proto::Instant>,
    pub(super) stats: EndpointStats,
}

/// A task that ends with this.
struct Watch(tokio::task::AbortHandle);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EndpointShared {
    pub(super) fn new(
        config: &EndpointConfig,
        server: Option<ServerConfig>,
        socket: std::net::UdpSocket,
    ) -> io::Result<Self> {
        let is_client = server.is_none();
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        let count = if is_client { 1 } else { workers.min(config.sockets_max) };
        let (pipes, ports) = (Arc::<Pipes>::default(), Arc::<Ports>::default());
        let open = |socket| {
            let socket = Socket::new(socket, config.socket_buffer_bytes, config.may_segment, is_client)?;
            Ok(Arc::new(socket.beside(pipes.clone(), ports.clone())))
        };
        let siblings = siblings(&socket, count);
        let socket = open(socket)?;
        let siblings = siblings.into_iter().map(open).collect::<io::Result<_>>()?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        let memory = Memory::new(config.memory());
        let server = server.map(|server| Arc::new(memory.bounding(server)));
        let proto_config = proto::EndpointConfig {
            reset_key: config.reset_key,
            connection_ids: config.connection_ids.clone(),
        };
        Ok(Self {
            state: Mutex::new(EndpointState {
                proto: proto::Endpoint::new(&proto_config, server, seed),
                connections: Vec::new(),
                socket,
                siblings,
                previous_socket: None,
                client_config: None,
                incoming: VecDeque::new(),
                is_closed: false,
                drivers: Vec::new(),
                watch: None,
                renewed_at: None,
                stats: EndpointStats::default(),
            }),
            config: config.clone(),
            is_client,
            memory,
            alarms: Alarms::new(),
            pipes,
            ports,
            turns: Turns::new(workers),
            incoming: Notify::new(),
            idle: Notify::new(),
            handles: AtomicUsize::new(0),
        })
    }

    /// The state; see [`ConnectionShared::lock`] about panics.
    pub(super) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Receives at one more port. Returns its socket, and its number.
    pub(super) fn open_port(&self, socket: std::net::UdpSocket) -> io::Result<(Arc<Socket>, usize)> {
        let EndpointConfig { socket_buffer_bytes, may_segment, .. } = self.config;
        let bytes = socket_buffer_bytes / PORT_BUFFER_PART;
        let socket = Arc::new(Socket::new(socket, bytes, may_segment, self.is_client)?);
        Ok((socket.clone(), self.ports.add(socket)))
    }

    pub(super) fn socket_count(&self) -> usize {
        1 + self.lock().siblings.len()
    }

    /// What a connection has to tell its endpoint.
    pub(crate) fn take_events(
        &self,
        handle: ConnectionHandle,
        connection: &Arc<ConnectionShared>,
        events: &mut Vec<EndpointEvent>,
    ) {
        let mut state = self.lock();
        state.take_events(handle, connection, events);
        if state.proto.connection_count() == 0 {
            self.on_idle(&mut state);
        }
    }

    /// The last connection is gone.
    pub(super) fn on_idle(&self, state: &mut EndpointState) {
        self.idle.notify_waiters();
        if self.is_abandoned() {
            state.wake_drivers();
            self.pipes.ended.notify_waiters();
        }
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    pub(super) fn close(&self, code: u64, reason: Bytes) {
        let (connections, unaccepted) = {
            let mut state = self.lock();
            state.is_closed = true;
            self.incoming.notify_waiters();
            (state.all_connections(), std::mem::take(&mut state.incoming))
        };
        for connection in connections {
            connection.act(|state| state.proto.close(clock::now(), code, reason.clone()));
        }
        // Dropped without the lock: dropping may lock a connection.
        drop(unaccepted);
    }

    /// Starts to listen for what the network says about closed ports, instead of an answer.
    pub(super) fn watch(self: &Arc<Self>) {
        if !self.is_client {
            return;
        }
        let socket = self.lock().socket.clone();
        let endpoint = Arc::downgrade(self);
        let watching = tokio::spawn(async move {
            while let Ok(refused) = socket.refusals().await {
                let Some(endpoint) = endpoint.upgrade() else { return };
                endpoint.on_refused(&refused);
            }
        });
        self.lock().watch = Some(Watch(watching.abort_handle()));
    }

    /// Nobody listens at these addresses: what is only beginning there ends. One word from the network, which
    /// somebody may have forged, is no reason to end more.
    fn on_refused(&self, refused: &[SocketAddr]) {
        let connections = self.lock().all_connections();
        let mut wakers = Wakers::new();
        for connection in connections {
            let mut state = connection.lock();
            let is_beginning =
                state.proto.is_handshaking() && state.proto.stats().wire.received_datagrams == 0;
            if is_beginning && refused.contains(&state.proto.remote()) {
                let why =
                    TransportError::new(TransportErrorCode::ConnectionRefused, "nobody listens at this port");
                connection.fail(&mut state, why, &mut wakers);
            }
        }
        wake_all(&mut wakers);
    }

    /// Nothing is answered that a connection sends to `remote`: goes on at another port, if that may help.
    pub(crate) fn renew_port(self: &Arc<Self>, remote: SocketAddr) {
        if !(self.is_client && self.config.rebinds_on_silence) {
            return;
        }
        let now = clock::now();
        {
            let mut state = self.lock();
            let is_fresh = state.renewed_at.is_some_and(|at| now - at < RENEWED_FOR);
            // Another connection has wanted it for all, or ports do not matter.
            if is_fresh || state.is_closed || state.socket.is_pipe(remote) {
                return;
            }
            state.renewed_at = Some(now);
        }
        match socket::find_way(remote).and_then(|()| self.change_port()) {
            Ok(()) => tracing::info!(%remote, "nothing is answered; going on from another port"),
            Err(error) => {
                tracing::debug!(%error, %remote, "nothing is answered, and another port would not help")
            }
        }
    }

    /// Goes on from a port that the system draws.
    pub(super) fn change_port(self: &Arc<Self>) -> io::Result<()> {
        let current = self.lock().socket.clone();
        if current.leads_into_pipe() {
            return Ok(());
        }
        let socket = socket::bind(SocketAddr::new(current.local_addr()?.ip(), 0))?;
        self.move_to(socket, None, proto::Connection::handle_fresh_port)
    }

    pub(super) fn rebind(self: &Arc<Self>, socket: std::net::UdpSocket) -> io::Result<()> {
        self.move_to(socket, None, |proto| proto.handle_path_change(clock::now()))
    }

    /// Goes on at another port, or by a stream: it was the other of these before.
    pub(super) fn change_way(self: &Arc<Self>, pipe: Option<Arc<Pipe>>) -> io::Result<()> {
        let local = self.lock().socket.local_addr()?;
        let socket = socket::bind(SocketAddr::new(local.ip(), 0))?;
        self.move_to(socket, pipe, |proto| proto.handle_other_way(clock::now()))
    }

    /// Goes on with another socket, and tells each connection.
    fn move_to(
        self: &Arc<Self>,
        socket: std::net::UdpSocket,
        pipe: Option<Arc<Pipe>>,
        tell: impl Fn(&mut proto::Connection),
    ) -> io::Result<()> {
        let EndpointConfig { socket_buffer_bytes, may_segment, .. } = self.config;
        let socket = Socket::new(socket, socket_buffer_bytes, may_segment, self.is_client)?;
        let socket = socket.beside(self.pipes.clone(), self.ports.clone());
        let socket = Arc::new(match pipe {
            Some(pipe) => socket.into_pipe(pipe),
            None => socket,
        });
        let connections = {
            let mut state = self.lock();
            state.previous_socket = Some(std::mem::replace(&mut state.socket, socket.clone()));
            state.siblings.clear();
            state.wake_drivers();
            state.all_connections()
        };
        self.watch();
        for connection in connections {
            connection.act(|state| {
                state.socket = socket.clone();
                tell(&mut state.proto);
            });
        }
        Ok(())
    }
}

impl EndpointState {
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn connection(&self, handle: ConnectionHandle) -> Option<Arc<ConnectionShared>> {
        self.connections.get(handle.0).cloned().flatten()
    }

    /// What `connection` has to tell, unless it has been forgotten: its handle may be another's by now.
    pub(super) fn take_events(
        &mut self,
        handle: ConnectionHandle,
        connection: &Arc<ConnectionShared>,
        events: &mut Vec<EndpointEvent>,
    ) {
        for event in events.drain(..) {
            let known = self.connections.get(handle.0).and_then(Option::as_ref);
            if known.is_none_or(|known| !Arc::ptr_eq(known, connection)) {
                continue;
            }
            if event == EndpointEvent::Drained {
                self.connections[handle.0] = None;
            }
            self.proto.handle_event(handle, event);
        }
    }

    /// Those there are. They are not to be locked while the endpoint is: one may be at work for a while.
    pub(super) fn all_connections(&self) -> Vec<Arc<ConnectionShared>> {
        self.connections.iter().flatten().cloned().collect()
    }

    /// The socket number `place`; `None` if there is none any more.
    pub(super) fn socket_at(&self, place: usize) -> Option<Arc<Socket>> {
        place.checked_sub(1).map_or(Some(&self.socket), |at| self.siblings.get(at)).cloned()
    }

    /// The task of the socket number `place` is to be woken when the endpoint has changed.
    pub(super) fn register_driver(&mut self, place: usize, cx: &Context<'_>) {
        if self.drivers.len() <= place {
            self.drivers.resize(place + 1, None);
        }
        match &mut self.drivers[place] {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
    }

    fn wake_drivers(&mut self) {
        self.drivers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

/// A share in an endpoint, as every `Endpoint` has one.
pub(super) struct EndpointHandle(Arc<EndpointShared>);

impl fmt::Debug for EndpointHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Endpoint");
        if let Ok(state) = self.0.state.try_lock() {
            out.field("local_addr", &state.socket.local_addr());
            out.field("connections", &state.proto.connection_count());
        }
        out.finish_non_exhaustive()
    }
}

impl EndpointHandle {
    pub(super) fn new(shared: Arc<EndpointShared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    pub(super) fn shared(&self) -> &Arc<EndpointShared> {
        &self.0
    }
}

impl Clone for EndpointHandle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Deref for EndpointHandle {
    type Target = EndpointShared;
    fn deref(&self) -> &EndpointShared {
        &self.0
    }
}

impl Drop for EndpointHandle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // Nobody can accept any more.
        let unaccepted = {
            let mut state = self.0.lock();
            state.is_closed = true;
            state.wake_drivers();
            std::mem::take(&mut state.incoming)
        };
        self.0.pipes.ended.notify_waiters();
        drop(unaccepted);
    }
}
