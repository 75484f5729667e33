//! The tasks of one endpoint, one for each of its sockets: receive batches and hand their datagrams to the
//! connections; the first one rings their alarms as well.
//!
//! A datagram is decrypted where it was received; nothing is copied or queued on the way to its connection,
//! whose lock is taken once for all consecutive datagrams of a batch. Handshakes are the exception: they are
//! left to the connections' own tasks. Those who wait for a connection are woken once, when what came for it
//! at a time is decrypted.
//!
//! The endpoint's state is needed to find a datagram's connection, and let go before anything is decrypted. A
//! panic in what a connection makes of a datagram ends that connection.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::task::{Context, Poll};

use fulmar_proto::{ConnectionHandle, DatagramMeta, EndpointEvent, Instant, Route};
use quinn_udp::RecvMeta;

use super::loss::Loss;
use super::shared::{EndpointShared, EndpointState};
use crate::clock;
use crate::connection::shared::{ConnectionShared, State, Wakers, take_endpoint_events, wake_all};
use crate::origins;
use crate::panics::caught;
use crate::pipe::Pipe;
use crate::socket::{self, BATCH_BYTES_MAX, Batch, Socket};

/// Batches received by one system call: with receive offload each holds up to 64 datagrams.
const BATCHES: usize = 16;
/// Bytes received before other tasks get their turn, those that send the ACKs among them: a sender waits for
/// these. One call may bring more than is left.
const TURN_BYTES: usize = 256 << 10;
/// What a datagram costs beside its bytes, as bytes: ACKs are short.
const DATAGRAM_COST_BYTES: usize = 512;
/// Datagrams whose connections are looked up at once: how long others wait for the endpoint's state.
const ROUTED_AT_ONCE: usize = 64;
/// Errors in a row that are taken to be passing: a network that is down, an ICMP message.
const ERRORS_MAX: u32 = 100;

/// Receives from the endpoint's socket number `place`, until nobody needs it any more.
pub(super) async fn run(endpoint: Arc<EndpointShared>, place: usize, loss_ppm: u32) {
    drive(Driver::new(endpoint, place, loss_ppm)).await;
}

async fn drive(mut driver: Driver) {
    let endpoint = driver.endpoint.clone();
    let receiving = poll_fn(|cx| {
        // An endpoint that is deaf must not look alive.
        caught(|| driver.poll(cx)).unwrap_or_else(|panic| Poll::Ready(Err(io::Error::other(panic))))
    });
    if let Err(error) = receiving.await {
        tracing::error!(%error, "the endpoint fails");
        endpoint.close(0, bytes::Bytes::from_static(b"endpoint failed"));
    }
}

/// Receives at one more port, until nobody needs the endpoint any more.
pub(super) fn open_port(
    endpoint: &Arc<EndpointShared>,
    socket: std::net::UdpSocket,
) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let (socket, number) = endpoint.open_port(socket)?;
    let place = endpoint.socket_count() + number;
    let driver = Driver::new(endpoint.clone(), place, endpoint.config.loss_ppm);
    Ok(drive(Driver { port: Some((socket, number)), ..driver }))
}

thread_local! {
    /// One buffer of [`BATCHES`] parts per thread, not per endpoint.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A datagram, and where it came from.
type Origin<'a> = (DatagramMeta, &'a mut [u8]);

pub(super) struct Driver {
    endpoint: Arc<EndpointShared>,
    place: usize,
    /// Answers to datagrams of no connection, until they are sent.
    responses: Vec<Batch>,
    /// Who waits for something of the connection that the last datagrams were for.
    wakers: Wakers,
    wakes_for: Option<ConnectionHandle>,
    endpoint_events: Vec<EndpointEvent>,
    /// In a row.
    errors: u32,
    /// Something was received here.
    is_in_use: bool,
    /// What is lost on purpose.
    loss: Loss,
    /// Where all of it comes from, if it does not come by a socket.
    pipe: Option<Arc<Pipe>>,
    /// The socket at another port than the endpoint's first, and its number.
    port: Option<(Arc<Socket>, usize)>,
}

impl Driver {
    pub(super) fn new(endpoint: Arc<EndpointShared>, place: usize, loss_ppm: u32) -> Self {
        Self {
            place,
            responses: Vec::new(),
            wakers: Wakers::new(),
            wakes_for: None,
            endpoint_events: Vec::new(),
            errors: 0,
            is_in_use: false,
            loss: Loss::new(loss_ppm),
            pipe: None,
            port: None,
            endpoint,
        }
    }

    /// One for the datagrams of a pipe.
    pub(super) fn of_pipe(endpoint: Arc<EndpointShared>, pipe: Arc<Pipe>) -> Self {
        // It is no socket that receives.
        Self { is_in_use: true, pipe: Some(pipe), ..Self::new(endpoint, usize::MAX, 0) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (socket, previous) = {
            let mut state = self.endpoint.lock();
            if self.endpoint.is_abandoned() && state.proto.connection_count() == 0 {
                return Poll::Ready(Ok(()));
            }
            state.register_driver(self.place, cx);
            // The sockets beside the first are gone after a rebind.
            let own = self.port.as_ref().map(|(socket, _)| socket.clone());
            let Some(socket) = own.or_else(|| state.socket_at(self.place)) else {
                return Poll::Ready(Ok(()));
            };
            (socket, state.previous_socket.clone().filter(|_| self.place == 0))
        };
        if self.place == 0 {
            self.endpoint.alarms.poll(cx, &mut self.wakers);
            wake_all(&mut self.wakers);
        }
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
    fn poll_socket(&mut self, cx: &mut Context<'_>, socket: &Arc<Socket>) -> io::Result<Poll<()>> {
        let mut buffer = BUFFER.take();
        if buffer.is_empty() {
            // Asked for as zeros: the system gives memory only to the parts that batches reach.
            buffer = vec![0; BATCHES * BATCH_BYTES_MAX];
        }
        let result = self.receive(cx, socket, &mut buffer);
        BUFFER.set(buffer);
        self.wake_waiting();
        result
    }

    fn receive(
        &mut self,
        cx: &mut Context<'_>,
        socket: &Arc<Socket>,
        buffer: &mut [u8],
    ) -> io::Result<Poll<()>> {
        // Who came by another port is told apart by it, and is sent to from there.
        let number = self.port.as_ref().map(|(_, number)| *number);
        let by = if number.is_some() { self.endpoint.lock().socket.clone() } else { socket.clone() };
        let mut left_bytes = TURN_BYTES;
        while left_bytes > 0 {
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
                    left_bytes = left_bytes.saturating_sub(metas[..count].iter().map(cost_bytes).sum());
                    let batches = metas[..count].iter().zip(buffer.chunks_mut(BATCH_BYTES_MAX));
                    let datagrams = batches.flat_map(|(meta, bytes)| {
                        let origin = socket::origin(meta);
                        let remote = number.map(|number| origins::by_port(origin.remote, number));
                        let origin = DatagramMeta { remote: remote.unwrap_or(origin.remote), ..origin };
                        let len = meta.len.min(bytes.len());
                        bytes[..len].chunks_mut(meta.stride.max(1)).map(move |datagram| (origin, datagram))
                    });
                    self.deliver(&by, count as u64, datagrams);
                }
                Poll::Ready(Err(error)) => {
                    self.errors += 1;
                    if self.errors > ERRORS_MAX {
                        return Err(error);
                    }
                    tracing::debug!(%error, "receive failed");
                    return Ok(Poll::Ready(()));
                }
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Hands the datagrams of some batches to their connections.
    pub(super) fn deliver<'a>(
        &mut self,
        socket: &Arc<Socket>,
        mut batch_count: u64,
        mut datagrams: impl Iterator<Item = Origin<'a>>,
    ) {
        let now = clock::now();
        loop {
            let (routed, displaced) =
                self.route(now, socket, std::mem::take(&mut batch_count), &mut datagrams);
            for connection in displaced {
                connection.act(|state| state.proto.give_way(clock::now()));
            }
            for batch in &mut self.responses {
                // If the socket has no room the answer is lost, as it might be on the way.
                if socket.try_send(batch).is_err() {
                    tracing::debug!(destination = %batch.transmit.destination, "no room for an answer");
                }
            }
            self.responses.clear();
            if routed.is_empty() {
                return;
            }
            for run in routed {
                self.deliver_run(run);
            }
        }
    }

    /// Wakes those who wait for what has been decrypted.
    pub(super) fn wake_waiting(&mut self) {
        self.wakes_for = None;
        wake_all(&mut self.wakers);
    }

    /// Finds out where some datagrams belong: the part that needs the endpoint's state. Nothing if there are
    /// none left. Also, which connections others have taken the place of.
    fn route<'a>(
        &mut self,
        now: Instant,
        socket: &Arc<Socket>,
        batch_count: u64,
        datagrams: &mut impl Iterator<Item = Origin<'a>>,
    ) -> (Vec<Run<'a>>, Vec<Arc<ConnectionShared>>) {
        let endpoint = self.endpoint.clone();
        let mut guard = endpoint.lock();
        let state = &mut *guard;
        state.stats.received_batches += batch_count;
        state.stats.receiving_sockets += u64::from(!std::mem::replace(&mut self.is_in_use, true));
        let mut runs: Vec<Run<'a>> = Vec::new();
        let mut count = 0;
        // Strays alone are no reason to come back with nothing.
        while count < ROUTED_AT_ONCE || runs.is_empty() {
            let Some((meta, datagram)) = datagrams.next() else { break };
            count += 1;
            if self.loss.takes_next() {
                continue;
            }
            state.stats.received_datagrams += 1;
            state.stats.received_bytes += datagram.len() as u64;
            // A mistake here costs this datagram.
            let routed = caught(|| self.route_one(state, now, socket, meta, datagram));
            let routed = routed.inspect_err(|panic| tracing::error!(panic, "a mistake in this program"));
            let Some((handle, arrival)) = routed.ok().flatten() else { continue };
            match runs.last_mut() {
                Some(run) if run.handle == handle => run.arrivals.push(arrival),
                _ => {
                    let Some(connection) = state.connection(handle) else { continue };
                    runs.push(Run { handle, connection, arrivals: vec![arrival] });
                }
            }
        }
        if state.proto.connection_count() == 0 {
            endpoint.on_idle(state);
        }
        let displaced = std::iter::from_fn(|| state.proto.poll_displaced()).collect::<Vec<_>>();
        (runs, displaced.into_iter().filter_map(|handle| state.connection(handle)).collect())
    }

    /// The connection that a datagram is for. Those for none are dealt with here.
    fn route_one<'a>(
        &mut self,
        state: &mut EndpointState,
        now: Instant,
        socket: &Arc<Socket>,
        meta: DatagramMeta,
        datagram: &'a mut [u8],
    ) -> Option<(ConnectionHandle, Arrival<'a>)> {
        let mut response = Vec::new();
        match state.proto.route(now, &meta, datagram, &mut response) {
            Route::Connection(handle) => Some((handle, Arrival::Datagram(meta, datagram))),
            Route::New(handle, connection) => {
                self.endpoint.on_incoming(state, handle, connection, socket);
                Some((handle, Arrival::Datagram(meta, datagram)))
            }
            Route::Reset(handle) => Some((handle, Arrival::Reset)),
            Route::Respond(transmit) => {
                state.stats.stray_datagrams += 1;
                state.stats.answered_datagrams += 1;
                self.responses.push(Batch { transmit, bytes: response, sent_bytes: 0 });
                None
            }
            Route::Drop => {
                state.stats.stray_datagrams += 1;
                None
            }
        }
    }

    /// Gives a connection its datagrams, or leaves them to its own task.
    fn deliver_run(&mut self, run: Run<'_>) {
        let Run { handle, connection, arrivals } = run;
        let mut arrivals = arrivals.into_iter().peekable();
        if self.wakes_for.replace(handle) != Some(handle) {
            // Now, and not when all is done: they can begin while this task decrypts for others.
            wake_all(&mut self.wakers);
        }
        if !connection.inbox.is_bypassed() {
            while arrivals.next_if(|arrival| arrival.wait_in(&connection)).is_some() {}
            self.wakers.extend(connection.inbox.take_driver());
        }
        let mut driver = None;
        if arrivals.peek().is_some() {
            let mut state = connection.lock();
            // Not before: whoever had the lock has seen later times, and no connection's time goes back.
            let now = clock::now();
            let handled = caught(|| {
                arrivals.for_each(|arrival| arrival.handle(&mut state, now));
                connection.take_events(&mut state, &mut self.wakers);
                take_endpoint_events(&mut state, &mut self.endpoint_events);
            });
            if let Some(pipe) = &self.pipe
                && state.proto.remote() == pipe.address
                && !(state.proto.is_handshaking() || state.proto.is_closed())
            {
                pipe.on_known();
            }
            if let Err(panic) = handled {
                connection.fail_by_panic(&mut state, &panic, &mut self.wakers);
            }
            driver = state.take_driver();
        }
        if !self.endpoint_events.is_empty() {
            self.endpoint.take_events(handle, &connection, &mut self.endpoint_events);
        }
        driver.into_iter().for_each(|driver| self.endpoint.turns.wake(&connection, driver));
    }
}

/// What a batch costs to receive, as bytes; an empty datagram is not for nothing either.
fn cost_bytes(meta: &RecvMeta) -> usize {
    meta.len + meta.len.div_ceil(meta.stride.max(1)).max(1) * DATAGRAM_COST_BYTES
}

/// Datagrams for one connection, one after the other.
struct Run<'a> {
    handle: ConnectionHandle,
    connection: Arc<ConnectionShared>,
    arrivals: Vec<Arrival<'a>>,
}

/// What arrives at a connection.
enum Arrival<'a> {
    Datagram(DatagramMeta, &'a mut [u8]),
    /// The peer has lost the connection.
    Reset,
}

impl Arrival<'_> {
    /// Leaves it to the connection's task, if its handshake is under way.
    fn wait_in(&self, connection: &ConnectionShared) -> bool {
        match self {
            Self::Datagram(meta, datagram) => connection.inbox.hold(*meta, datagram),
            Self::Reset => false,
        }
    }

    fn handle(self, state: &mut State, now: Instant) {
        match self {
            _ if state.is_given_up => {}
            Self::Datagram(meta, datagram) => state.proto.handle_datagram(now, &meta, datagram),
            Self::Reset => state.proto.handle_reset(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datagram_costs_so_that_a_turn_ends() {
        let cost = |len, stride| cost_bytes(&RecvMeta { len, stride, ..RecvMeta::default() });
        assert_eq!(cost(0, 0), DATAGRAM_COST_BYTES);
        assert_eq!(cost(40, 40), 40 + DATAGRAM_COST_BYTES);
        assert_eq!(cost(3000, 1472), 3000 + 3 * DATAGRAM_COST_BYTES);
    }
}
