//! The task of one endpoint: receives batches and hands their datagrams to the connections, and rings their alarms.
//!
//! A datagram is decrypted where it was received; nothing is copied or queued on the way to its connection, whose lock is
//! taken once for all consecutive datagrams of a batch. Those who wait for a connection are woken once per batch.

use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::task::{Context, Poll};

use fulmar_proto::{ConnectionHandle, DatagramMeta, EndpointEvent, Instant, Route, Transmit};
use quinn_udp::RecvMeta;

use super::shared::{EndpointShared, EndpointState};
use crate::clock;
use crate::connection::shared::{ConnectionShared, State, Wakers, take_endpoint_events, wake_all};
use crate::socket::{self, BATCH_BYTES_MAX, Batch, Socket};

/// Batches received by one system call: with receive offload each holds up to 64 datagrams.
const BATCHES: usize = 16;
/// System calls before other tasks get their turn.
const CALLS_PER_TURN: usize = 2;
/// Errors in a row that are taken to be passing: a network that is down, an ICMP message.
const ERRORS_MAX: u32 = 100;

/// Receives until nobody needs the endpoint any more.
pub(super) async fn run(endpoint: Arc<EndpointShared>) {
    let mut driver = Driver {
        buffer: vec![0; BATCHES * BATCH_BYTES_MAX],
        response: Vec::new(),
        wakers: Wakers::new(),
        endpoint_events: Vec::new(),
        errors: 0,
        endpoint: endpoint.clone(),
    };
    if let Err(error) = poll_fn(|cx| driver.poll(cx)).await {
        tracing::error!(%error, "the endpoint's socket fails");
        endpoint.close(0, bytes::Bytes::from_static(b"socket failed"));
    }
}

struct Driver {
    endpoint: Arc<EndpointShared>,
    /// `BATCHES` parts, reused.
    buffer: Vec<u8>,
    response: Vec<u8>,
    wakers: Wakers,
    endpoint_events: Vec<EndpointEvent>,
    /// In a row.
    errors: u32,
}

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, previous) = {
            let mut state = self.endpoint.lock();
            if self.endpoint.is_abandoned() && state.proto.connection_count() == 0 {
                return Poll::Ready(Ok(()));
            }
            state.register_driver(cx);
            (state.socket.clone(), state.previous_socket.clone())
        };
        self.endpoint.alarms.poll(cx, &mut self.wakers);
        wake_all(&mut self.wakers);
        if let Some(previous) = previous {
            // The new socket alone has to live.
            let _ = self.poll_socket(cx, &previous)?;
        }
        match self.poll_socket(cx, &socket)? {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                // There is more. Comes back after the runtime has run others.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Receives for one turn; ready if there may be more.
    fn poll_socket(&mut self, cx: &mut Context<'_>, socket: &Socket) -> io::Result<Poll<()>> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.receive(cx, socket, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn receive(&mut self, cx: &mut Context<'_>, socket: &Socket, buffer: &mut [u8]) -> io::Result<Poll<()>> {
        for _ in 0..CALLS_PER_TURN {
            let mut metas = [RecvMeta::default(); BATCHES];
            let received = {
                let mut parts = buffer.chunks_mut(BATCH_BYTES_MAX).map(IoSliceMut::new);
                let mut slices: [IoSliceMut<'_>; BATCHES] =
                    std::array::from_fn(|_| parts.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
                socket.poll_recv(cx, &mut slices, &mut metas)
            };
            match received {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Ok(count)) => {
                    self.errors = 0;
                    self.deliver(socket, &metas[..count], buffer);
                }
                Poll::Ready(Err(error)) => {
                    self.errors += 1;
                    if self.errors > ERRORS_MAX {
                        return Err(error);
                    }
                    tracing::debug!(%error, "receive failed");
                }
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Hands the datagrams of some batches to their connections.
    fn deliver(&mut self, socket: &Socket, metas: &[RecvMeta], buffer: &mut [u8]) {
        let now = clock::now();
        let endpoint = self.endpoint.clone();
        let mut guard = endpoint.lock();
        let state = &mut *guard;
        let batches = metas.iter().zip(buffer.chunks_mut(BATCH_BYTES_MAX));
        let mut datagrams = batches.flat_map(|(meta, bytes)| {
            let origin = socket::origin(meta);
            let len = meta.len.min(bytes.len());
            bytes[..len].chunks_mut(meta.stride.max(1)).map(move |datagram| (origin, datagram))
        });
        state.stats.received_batches += metas.len() as u64;
        let mut next = self.route_next(state, socket, now, &mut datagrams);
        while let Some((handle, first)) = next {
            let Some(connection) = state.connection(handle) else {
                next = self.route_next(state, socket, now, &mut datagrams);
                continue;
            };
            let mut locked = connection.lock();
            first.handle(&mut locked, now);
            next = loop {
                match self.route_next(state, socket, now, &mut datagrams) {
                    Some((other, arrival)) if other == handle => arrival.handle(&mut locked, now),
                    other => break other,
                }
            };
            self.finish_run(&connection, &mut locked);
            drop(locked);
            state.take_events(handle, &mut self.endpoint_events);
            // Now, and not when all is done: they can begin while this task decrypts for others.
            wake_all(&mut self.wakers);
        }
        if state.proto.connection_count() == 0 {
            endpoint.on_idle(state);
        }
    }

    /// What a run of datagrams has brought about at one connection.
    fn finish_run(&mut self, connection: &ConnectionShared, state: &mut State) {
        connection.take_events(state, &mut self.wakers);
        take_endpoint_events(state, &mut self.endpoint_events);
        self.wakers.extend(state.take_driver());
    }

    /// The next datagram that belongs to a connection. Those that do not are dealt with here.
    fn route_next<'a>(
        &mut self,
        state: &mut EndpointState,
        socket: &Socket,
        now: Instant,
        datagrams: &mut impl Iterator<Item = (DatagramMeta, &'a mut [u8])>,
    ) -> Option<(ConnectionHandle, Arrival<'a>)> {
        for (meta, datagram) in datagrams {
            state.stats.received_datagrams += 1;
            state.stats.received_bytes += datagram.len() as u64;
            self.response.clear();
            match state.proto.route(now, &meta, datagram, &mut self.response) {
                Route::Connection(handle) => return Some((handle, Arrival::Datagram(meta, datagram))),
                Route::New(handle, connection) => {
                    self.endpoint.on_incoming(state, handle, connection);
                    return Some((handle, Arrival::Datagram(meta, datagram)));
                }
                Route::Reset(handle) => return Some((handle, Arrival::Reset)),
                Route::Respond(transmit) => {
                    state.stats.stray_datagrams += 1;
                    state.stats.answered_datagrams += 1;
                    self.respond(socket, transmit);
                }
                Route::Drop => state.stats.stray_datagrams += 1,
            }
        }
        None
    }

    /// Answers a datagram that belongs to no connection. If the socket has no room the answer is lost, as it might be on
    /// the way.
    fn respond(&mut self, socket: &Socket, transmit: Transmit) {
        let mut batch = Batch { transmit, bytes: std::mem::take(&mut self.response), sent_bytes: 0 };
        if socket.try_send(&mut batch).is_err() {
            tracing::debug!(destination = %batch.transmit.destination, "no room for an answer");
        }
        self.response = batch.bytes;
    }
}

/// What arrives at a connection.
enum Arrival<'a> {
    Datagram(DatagramMeta, &'a mut [u8]),
    /// The peer has lost the connection.
    Reset,
}

impl Arrival<'_> {
    fn handle(self, state: &mut State, now: Instant) {
        match self {
            Self::Datagram(meta, datagram) => state.proto.handle_datagram(now, &meta, datagram),
            Self::Reset => state.proto.handle_reset(now),
        }
    }
}
