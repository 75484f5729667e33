//! What the handles, the tasks and the endpoint of one connection share.
//!
//! One mutex guards the protocol's state and who waits for it. Whoever holds it hands nothing to the
//! scheduler: wakers are collected and called after it is released, so that nobody is woken only to wait for
//! the lock, nor holds the endpoint's state: see `endpoint::shared`.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use fulmar_proto as proto;
use proto::stream::WriteError;
use proto::{
    ConnectionError, Dir, EndpointEvent, Event, Instant, StreamId, TransportError, TransportErrorCode,
};
use tokio::sync::Notify;

use super::inbox::Inbox;
use crate::clock;
use crate::endpoint::memory::{Memory, Share};
use crate::endpoint::turns::Place;
use crate::panics::caught;
use crate::socket::Socket;

/// After its last handle is gone, a connection may go on for so long to deliver what was written.
const LINGER: Duration = Duration::from_secs(30);

/// What a connection holds is looked at so often, at most: one Gb/s brings a megabyte in that time.
const WEIGH_EVERY: Duration = Duration::from_millis(10);

/// One connection.
pub(crate) struct ConnectionShared {
    state: Mutex<State>,
    /// Among the tasks of the endpoint's connections.
    place: Place,
    /// Datagrams of the handshake.
    pub(crate) inbox: Inbox,
    /// The peer opened a stream, by direction.
    pub(crate) opened: [Notify; 2],
    /// The peer allows more streams, by direction.
    pub(crate) available: [Notify; 2],
    pub(crate) datagram_received: Notify,
    pub(crate) datagrams_unblocked: Notify,
    /// Nothing is answered any more.
    pub(crate) silent: Notify,
    /// The connection has ended, or its close was sent.
    pub(crate) ended: Notify,
    /// `Connection`s and streams the application holds.
    handles: AtomicUsize,
    /// Streams that are dropped unfinished end regularly.
    pub(crate) finishes_dropped: AtomicBool,
    /// What the endpoint's connections hold together.
    memory: Arc<Memory>,
    /// Bytes of it that the application has taken for this one.
    taken_bytes: AtomicUsize,
}

/// What the mutex guards.
pub(crate) struct State {
    pub(crate) proto: Box<proto::Connection>,
    pub(crate) socket: Arc<Socket>,
    /// The driver, when it waits.
    driver: Option<Waker>,
    connecting: Option<Waker>,
    readers: HashMap<StreamId, Waker>,
    writers: HashMap<StreamId, Waker>,
    /// Sending halves the application holds.
    sending: HashMap<StreamId, Sending>,
    /// [`Self::shutdown`] was called.
    is_shutting_down: bool,
    /// Why it was given up by this end beside the protocol's own reasons.
    failure: Option<ConnectionError>,
    /// The protocol is in disorder: nothing is asked of it any more.
    pub(crate) is_given_up: bool,
    /// Nothing is left to be sent after the end.
    pub(crate) is_close_sent: bool,
    /// Another port may help, as the endpoint has not heard yet.
    pub(crate) is_path_silent: bool,
    /// When what it holds was last looked at.
    pub(crate) weighed_at: Option<Instant>,
    /// When the connection is closed although not everything is delivered: set once nobody holds it any more.
    pub(crate) linger_until: Option<Instant>,
    /// What it holds of the endpoint's memory, once nobody drives it any more.
    pub(crate) remains: Option<Share>,
}

/// What is known of a sending half that somebody asked about.
#[derive(Debug, Default)]
struct Sending {
    fate: Option<Fate>,
    is_released: bool,
    waiter: Option<Waker>,
}

/// How a sending half ended at the peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Everything up to the end, or the reset, has reached the peer.
    Delivered,
    /// The peer wanted no more.
    Stopped(u64),
}

/// Memory that an application holds for a connection: it counts until this is dropped
/// ([`Connection::hold_memory`](crate::Connection::hold_memory)).
#[derive(Debug)]
pub struct HeldMemory {
    connection: Arc<ConnectionShared>,
    bytes: usize,
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.connection.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.connection.memory.give_back(self.bytes);
    }
}

/// Collected under the lock, to be called after its release.
pub(crate) type Wakers = Vec<Waker>;

/// Calls and empties `wakers`.
pub(crate) fn wake_all(wakers: &mut Wakers) {
    wakers.drain(..).for_each(Waker::wake);
}

/// Which connection it is; all of its state would fill pages.
impl fmt::Debug for ConnectionShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Connection");
        if let Ok(state) = self.state.try_lock() {
            out.field("side", &state.proto.side()).field("remote", &state.proto.remote());
            out.field("close_reason", &state.proto.close_reason());
        }
        out.finish_non_exhaustive()
    }
}

impl AsRef<Place> for ConnectionShared {
    fn as_ref(&self) -> &Place {
        &self.place
    }
}

impl ConnectionShared {
    pub(crate) fn new(proto: Box<proto::Connection>, socket: Arc<Socket>, memory: Arc<Memory>) -> Self {
        Self {
            state: Mutex::new(State {
                proto,
                socket,
                driver: None,
                connecting: None,
                readers: HashMap::new(),
                writers: HashMap::new(),
                sending: HashMap::new(),
                is_shutting_down: false,
                failure: None,
                is_given_up: false,
                is_close_sent: false,
                is_path_silent: false,
                weighed_at: None,
                linger_until: None,
                remains: None,
            }),
            place: Place::default(),
            inbox: Inbox::default(),
            opened: [Notify::new(), Notify::new()],
            available: [Notify::new(), Notify::new()],
            datagram_received: Notify::new(),
            datagrams_unblocked: Notify::new(),
            silent: Notify::new(),
            ended: Notify::new(),
            handles: AtomicUsize::new(0),
            finishes_dropped: AtomicBool::new(false),
            memory,
            taken_bytes: AtomicUsize::new(0),
        }
    }

    /// The application takes so much of the endpoint's memory for this connection; `None` if nothing is left.
    pub(crate) fn take_memory(self: &Arc<Self>, bytes: usize) -> Option<HeldMemory> {
        self.memory.take(bytes).then(|| {
            self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
            HeldMemory { connection: self.clone(), bytes }
        })
    }

    /// What it has taken.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// The state. A panic of another holder leaves at worst one connection in disorder, which its timeout
    /// ends; to panic as well, perhaps while dropping handles, would help nobody.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something to the protocol's state that may leave something to be sent.
    pub(crate) fn act<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        self.act_if(|state| (action(state), true))
    }

    /// As [`Self::act`], if the action says that it may.
    pub(crate) fn act_if<T>(&self, action: impl FnOnce(&mut State) -> (T, bool)) -> T {
        let (result, driver) = {
            let mut state = self.lock();
            let (result, has_acted) = action(&mut state);
            (result, if has_acted { state.driver.take() } else { None })
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    /// Takes the events of the protocol: tells those who wait through `Notify`, collects the others' wakers.
    pub(crate) fn take_events(&self, state: &mut State, wakers: &mut Wakers) {
        while let Some(event) = state.proto.poll_event() {
            match event {
                Event::Connected => wakers.extend(state.connecting.take()),
                Event::StreamOpened { dir } => self.opened[dir as usize].notify_waiters(),
                Event::StreamsAvailable { dir } => self.available[dir as usize].notify_waiters(),
                Event::Readable(id) => wakers.extend(state.readers.remove(&id)),
                Event::Writable(id) => wakers.extend(state.writers.remove(&id)),
                Event::Stopped { id, code } => {
                    wakers.extend(state.writers.remove(&id));
                    state.on_stopped(id, code, wakers);
                }
                Event::DatagramReceived => self.datagram_received.notify_waiters(),
                Event::DatagramsUnblocked => self.datagrams_unblocked.notify_waiters(),
                Event::Delivered => state.on_delivered(wakers),
                Event::PathSilent => {
                    state.is_path_silent = true;
                    self.silent.notify_waiters();
                }
                Event::Closed(_) => self.on_closed(state, wakers),
                _ => {}
            }
        }
    }

    /// Ends the connection for a reason that the protocol has not: everybody who waits hears it.
    pub(crate) fn fail(&self, state: &mut State, why: TransportError, wakers: &mut Wakers) {
        state.failure.get_or_insert(ConnectionError::Transport(why.clone()));
        // It may be in disorder; a closed one is asked for little.
        if caught(|| state.proto.fail(clock::now(), why)).is_err() {
            tracing::debug!("not even closing works");
        }
        self.on_closed(state, wakers);
        wakers.extend(state.take_driver());
    }

    /// A mistake has shown itself as a panic: ends the connection, and nothing else.
    pub(crate) fn fail_by_panic(&self, state: &mut State, panic: &str, wakers: &mut Wakers) {
        let remote = caught(|| state.proto.remote().to_string()).unwrap_or_default();
        tracing::error!(remote, panic, "a mistake in this program ends a connection");
        let why = TransportError::new(TransportErrorCode::Internal, "a mistake in this program");
        self.fail(state, why, wakers);
        state.is_given_up = true;
    }

    fn on_closed(&self, state: &mut State, wakers: &mut Wakers) {
        wakers.extend(state.connecting.take());
        wakers.extend(state.readers.drain().map(|(_, waker)| waker));
        wakers.extend(state.writers.drain().map(|(_, waker)| waker));
        wakers.extend(state.sending.values_mut().filter_map(|sending| sending.waiter.take()));
        let all = [&self.datagram_received, &self.datagrams_unblocked, &self.ended];
        all.into_iter().chain(&self.opened).chain(&self.available).for_each(Notify::notify_waiters);
    }

    /// Waits until `attempt` gives something, trying again whenever `notify` says that it may.
    pub(crate) async fn wait_for<T>(
        &self,
        notify: &Notify,
        mut attempt: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        loop {
            let mut notified = std::pin::pin!(notify.notified());
            // From here on nothing is missed: the attempt is made under the lock that events are taken under.
            notified.as_mut().enable();
            let result = self.act_if(|state| {
                let result = attempt(state);
                let has_acted = result.is_some();
                (result, has_acted)
            });
            if let Some(result) = result {
                return result;
            }
            notified.await;
        }
    }
}

impl State {
    /// Why the connection has ended, if it has.
    pub(crate) fn closed(&self) -> Option<ConnectionError> {
        let by_protocol = || {
            let reason = || self.proto.close_reason().cloned().unwrap_or(ConnectionError::LocallyClosed);
            self.proto.is_closed().then(reason)
        };
        self.failure.clone().or_else(by_protocol)
    }

    /// As [`Self::closed`], or that it is being shut down and takes no more.
    pub(crate) fn ending(&self) -> Option<ConnectionError> {
        self.closed().or(self.is_shutting_down.then_some(ConnectionError::LocallyClosed))
    }

    /// Ends in order: see [`proto::Connection::shutdown`].
    pub(crate) fn shutdown(&mut self, now: Instant, code: u64, reason: Bytes) {
        self.is_shutting_down = true;
        self.proto.shutdown(now, code, reason);
    }

    /// It is time to look at what the connection holds.
    pub(crate) fn is_to_be_weighed(&self, now: Instant) -> bool {
        self.weighed_at.is_none_or(|at| now >= at + WEIGH_EVERY)
    }

    /// Something was read: whether that leaves something to do for the driver, most often a window that the
    /// peer waits for. To wake it in another thread for nothing costs more than reading does.
    pub(crate) fn has_work_after_read(&self, now: Instant) -> bool {
        self.proto.has_pending() || self.is_to_be_weighed(now)
    }

    /// The driver of this connection is to be woken when there is something to do.
    pub(crate) fn register_driver(&mut self, cx: &Context<'_>) {
        register(&mut self.driver, cx);
    }

    pub(crate) fn take_driver(&mut self) -> Option<Waker> {
        self.driver.take()
    }

    pub(crate) fn poll_connected(&mut self, cx: &Context<'_>) -> Poll<Result<(), ConnectionError>> {
        if let Some(error) = self.closed() {
            return Poll::Ready(Err(error));
        }
        if !self.proto.is_handshaking() {
            return Poll::Ready(Ok(()));
        }
        register(&mut self.connecting, cx);
        Poll::Pending
    }

    pub(crate) fn await_readable(&mut self, id: StreamId, cx: &Context<'_>) {
        self.readers.insert(id, cx.waker().clone());
    }

    pub(crate) fn await_writable(&mut self, id: StreamId, cx: &Context<'_>) {
        self.writers.insert(id, cx.waker().clone());
    }

    /// A sending half was handed out.
    pub(crate) fn on_sending(&mut self, id: StreamId) {
        // One that the peer opened may have been stopped before it was accepted.
        let fate = match self.proto.write(id, &[]) {
            Err(WriteError::Stopped(code)) => Some(Fate::Stopped(code)),
            _ => None,
        };
        self.sending.insert(id, Sending { fate, ..Sending::default() });
    }

    /// The application finished or reset a sending half.
    pub(crate) fn on_released(&mut self, id: StreamId) {
        if let Some(sending) = self.sending.get_mut(&id) {
            sending.is_released = true;
        }
    }

    pub(crate) fn poll_fate(
        &mut self,
        id: StreamId,
        cx: &Context<'_>,
    ) -> Poll<Result<Fate, ConnectionError>> {
        let sending = self.sending.entry(id).or_default();
        if let Some(fate) = sending.fate {
            return Poll::Ready(Ok(fate));
        }
        register(&mut sending.waiter, cx);
        self.closed().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    /// The application has let go of a sending half.
    pub(crate) fn forget_sending(&mut self, id: StreamId) {
        self.sending.remove(&id);
        self.writers.remove(&id);
        release_if_empty(&mut self.sending);
        release_if_empty(&mut self.writers);
    }

    /// The application has let go of a receiving half.
    pub(crate) fn forget_receiving(&mut self, id: StreamId) {
        self.readers.remove(&id);
        release_if_empty(&mut self.readers);
    }

    fn on_stopped(&mut self, id: StreamId, code: u64, wakers: &mut Wakers) {
        if let Some(sending) = self.sending.get_mut(&id) {
            sending.fate.get_or_insert(Fate::Stopped(code));
            wakers.extend(sending.waiter.take());
        }
    }

    /// Everything written so far has reached the peer, including the ends of streams.
    fn on_delivered(&mut self, wakers: &mut Wakers) {
        for sending in self.sending.values_mut().filter(|sending| sending.is_released) {
            sending.fate.get_or_insert(Fate::Delivered);
            wakers.extend(sending.waiter.take());
        }
    }
}

/// A connection that rests has no streams.
fn release_if_empty<T>(by_stream: &mut HashMap<StreamId, T>) {
    if by_stream.is_empty() {
        by_stream.shrink_to_fit();
    }
}

fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

/// A share in a connection, as every `Connection` and stream has one. The connection ends in order when the
/// last one goes.
pub(crate) struct Handle(Arc<ConnectionShared>);

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Handle {
    pub(crate) fn new(shared: Arc<ConnectionShared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }

    pub(crate) fn shared(&self) -> &Arc<ConnectionShared> {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl std::ops::Deref for Handle {
    type Target = ConnectionShared;
    fn deref(&self) -> &ConnectionShared {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.0.act(|state| {
            let now = clock::now();
            if std::thread::panicking() || state.proto.is_handshaking() {
                state.proto.close(now, 0, Bytes::new());
            } else {
                state.shutdown(now, 0, Bytes::new());
                state.linger_until = Some(now + LINGER);
            }
        });
    }
}

/// What the endpoint is to be told about a connection.
pub(crate) fn take_endpoint_events(state: &mut State, out: &mut Vec<EndpointEvent>) {
    out.extend(std::iter::from_fn(|| state.proto.poll_endpoint_event()));
}

/// Both directions, as indices of `opened` and `available`.
pub(crate) const fn index(dir: Dir) -> usize {
    dir as usize
}
