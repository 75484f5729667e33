//! The task of one connection: sends what may leave, keeps its timer, and hears of the end.
//!
//! Receiving is the endpoint's task's, which wakes this one; but a handshake is done here ([`super::inbox`]).
//! Batches are made under the lock and sent without it.
//!
//! **Timer.** Short waits, which pace what is sent, are for the endpoint's exact
//! [`Alarms`](crate::alarm::Alarms); others for tokio. One that was set for an earlier time than is needed
//! now is left alone: it rings for nothing once, which costs less than moving it for every batch.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fulmar_proto::{ConnectionHandle, EndpointEvent, Instant, TransportError, TransportErrorCode};
use tokio::time::Sleep;

use super::inbox::Held;
use super::shared::{ConnectionShared, State, Wakers, take_endpoint_events, wake_all};
use crate::alarm;
use crate::clock;
use crate::endpoint::EndpointShared;
use crate::endpoint::memory::{CONNECTION_BYTES, HANDSHAKE_BYTES, Room, Share};
use crate::panics::caught;
use crate::socket::{BATCH_BYTES_MAX, Batch, Socket};

/// Batches sent before other tasks get their turn: up to 128 KiB, about 0.1 ms. Half of what a stream may
/// have queued, so that its writer comes before the queue is empty.
const BATCHES_PER_TURN: usize = 2;
/// Wait before looking again at a time that has come and yet left nothing to do.
const RETRY: Duration = Duration::from_millis(1);

/// Drives one connection to its end.
pub(crate) struct ConnectionDriver {
    connection: Arc<ConnectionShared>,
    endpoint: Arc<EndpointShared>,
    handle: ConnectionHandle,
    sleep: Option<Pin<Box<Sleep>>>,
    /// When `sleep` rings, if it will.
    armed_at: Option<Instant>,
    /// When the endpoint's alarm rings or rang.
    alarm_at: Option<Instant>,
    blocked: Option<Blocked>,
    share: Share,
    endpoint_events: Vec<EndpointEvent>,
    /// Nothing is answered that was sent there.
    silent: Option<SocketAddr>,
}

/// A batch the socket had no room for.
struct Blocked {
    batch: Batch,
    socket: Arc<Socket>,
    writable: Pin<Box<dyn Future<Output = io::Result<()>> + Send>>,
}

/// What a turn ended with.
enum Turn {
    /// Nothing to send before this time, or ever without an event.
    Idle(Option<Instant>),
    /// There may be more to send.
    Unfinished,
    /// The socket takes no more now.
    Blocked,
    /// The connection is gone.
    Drained,
}

thread_local! {
    /// One buffer for batches per thread, not per connection.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl ConnectionDriver {
    pub(crate) fn new(
        connection: Arc<ConnectionShared>,
        endpoint: Arc<EndpointShared>,
        handle: ConnectionHandle,
    ) -> Self {
        let mut share = Share::new(endpoint.memory.clone());
        share.set(HANDSHAKE_BYTES);
        Self {
            share,
            connection,
            endpoint,
            handle,
            sleep: None,
            armed_at: None,
            alarm_at: None,
            blocked: None,
            endpoint_events: Vec::new(),
            silent: None,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Turn {
        let mut wakers = Wakers::new();
        for _ in 0..BATCHES_PER_TURN {
            let mut bytes = BUFFER.take();
            bytes.clear();
            bytes.reserve(BATCH_BYTES_MAX);
            let (step, socket) = self.step(cx, bytes, &mut wakers);
            wake_all(&mut wakers);
            if !self.endpoint_events.is_empty() {
                // They are rare: no room is kept for them.
                let mut events = std::mem::take(&mut self.endpoint_events);
                self.endpoint.take_events(self.handle, &self.connection, &mut events);
            }
            if let Some(remote) = self.silent.take() {
                self.endpoint.renew_port(remote);
            }
            match step {
                Step::Send(batch) => {
                    if !self.send(cx, batch, socket) {
                        return Turn::Blocked;
                    }
                }
                Step::Again => {}
                Step::Wait(at) => return Turn::Idle(at),
                Step::Drained => return Turn::Drained,
            }
        }
        Turn::Unfinished
    }

    /// Turns until there is nothing to do; an idle one waits for its time.
    fn turn_and_wait(&mut self, cx: &mut Context<'_>) -> Turn {
        loop {
            match self.turn(cx) {
                Turn::Idle(at) if self.poll_timer(cx, at).is_ready() => {}
                turn => return turn,
            }
        }
    }

    /// Looks at what has come and at the time, takes one batch and what there is to tell.
    fn step(&mut self, cx: &mut Context<'_>, bytes: Vec<u8>, wakers: &mut Wakers) -> (Step, Arc<Socket>) {
        let connection = self.connection.clone();
        let held = connection.inbox.take(cx);
        let mut guard = connection.lock();
        let state = &mut *guard;
        state.register_driver(cx);
        if !state.is_given_up {
            match caught(|| self.advance(held, state, bytes, wakers)) {
                Ok(step) => return (step, state.socket.clone()),
                Err(panic) => connection.fail_by_panic(state, &panic, wakers),
            }
        }
        self.endpoint_events.clear();
        self.endpoint_events.push(EndpointEvent::Drained);
        (Step::Drained, state.socket.clone())
    }

    fn advance(
        &mut self,
        held: VecDeque<Held>,
        state: &mut State,
        mut bytes: Vec<u8>,
        wakers: &mut Wakers,
    ) -> Step {
        let now = clock::now();
        for (meta, mut datagram) in held {
            state.proto.handle_datagram(now, &meta, &mut datagram);
        }
        if !self.connection.inbox.is_bypassed() && !state.proto.is_handshaking() {
            self.connection.inbox.bypass();
        }
        if state.linger_until.is_some_and(|until| until <= now) {
            state.linger_until = None;
            state.proto.close(now, 0, bytes::Bytes::new());
        }
        if state.proto.poll_timeout().is_some_and(|at| at <= now) {
            state.proto.handle_timeout(now);
        }
        self.weigh(now, state);
        let transmit = state.proto.poll_transmit(now, state.socket.segments_max(), &mut bytes);
        self.connection.take_events(state, wakers);
        take_endpoint_events(state, &mut self.endpoint_events);
        if std::mem::take(&mut state.is_path_silent) {
            self.silent = Some(state.proto.remote());
        }
        if let Some(transmit) = transmit {
            return Step::Send(Batch { transmit, bytes, sent_bytes: 0 });
        }
        BUFFER.set(bytes);
        if state.proto.is_closed() && !std::mem::replace(&mut state.is_close_sent, true) {
            self.connection.ended.notify_waiters();
        }
        if state.proto.is_busy() {
            return Step::Again;
        }
        let linger = state.linger_until.filter(|_| !state.proto.is_closed());
        let at = [state.proto.poll_timeout(), linger].into_iter().flatten().min();
        let at = at.map(|at| if at <= now { now + RETRY } else { at });
        if state.proto.is_drained() {
            self.leave(state);
            return Step::Drained;
        }
        Step::Wait(at)
    }

    /// Nobody drives the connection any more: what can still be read of it counts until nobody holds it.
    /// Where memory is short nothing is left to read.
    fn leave(&mut self, state: &mut State) {
        let memory = self.share.memory().clone();
        let mut share = std::mem::replace(&mut self.share, Share::new(memory));
        share.end();
        share.set(state.proto.memory_bytes());
        if share.memory().room() != Room::Enough {
            state.proto.discard_unread();
            share.set(state.proto.memory_bytes());
        }
        state.remains = Some(share);
    }

    /// Tells the endpoint what the connection holds, and what that means for it.
    fn weigh(&mut self, now: Instant, state: &mut State) {
        if !state.is_to_be_weighed(now) {
            return;
        }
        state.weighed_at = Some(now);
        let own_bytes = if state.proto.is_handshaking() { HANDSHAKE_BYTES } else { CONNECTION_BYTES };
        if state.proto.is_closed() {
            // Soon it lets go of nearly everything.
            self.share.end();
            self.share.set(own_bytes);
            return;
        }
        self.share.set_with(own_bytes + state.proto.memory_bytes(), self.connection.taken_bytes());
        state.proto.keep_windows(self.share.memory().room() != Room::Enough);
        if self.share.has_to_go() {
            let max = self.share.memory().bytes_max();
            let reason = format!("connections hold more than {max} bytes together, and this one much of it");
            tracing::warn!(remote = %state.proto.remote(), reason, "a connection ends");
            state.proto.fail(now, TransportError::new(TransportErrorCode::Internal, reason));
            self.share.end();
            self.share.set(own_bytes);
        }
    }

    /// Sends a batch; false if the socket has no room.
    fn send(&mut self, cx: &mut Context<'_>, mut batch: Batch, socket: Arc<Socket>) -> bool {
        loop {
            if socket.try_send(&mut batch).is_ok() {
                BUFFER.set(batch.bytes);
                return true;
            }
            let (for_waiting, destination) = (socket.clone(), batch.transmit.destination);
            let mut writable: Pin<Box<dyn Future<Output = _> + Send>> =
                Box::pin(async move { for_waiting.writable(destination).await });
            match writable.as_mut().poll(cx) {
                Poll::Pending => {
                    self.blocked = Some(Blocked { batch, socket, writable });
                    return false;
                }
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Self::give_up(batch, &error),
            }
        }
    }

    /// Goes on with a batch that was blocked; false if it still is.
    fn resume(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(mut blocked) = self.blocked.take() else { return true };
        match blocked.writable.as_mut().poll(cx) {
            Poll::Pending => {
                self.blocked = Some(blocked);
                false
            }
            Poll::Ready(Ok(())) => self.send(cx, blocked.batch, blocked.socket),
            Poll::Ready(Err(error)) => Self::give_up(blocked.batch, &error),
        }
    }

    /// A batch is lost that cannot leave; true: what comes next may.
    fn give_up(batch: Batch, error: &io::Error) -> bool {
        tracing::debug!(%error, destination = %batch.transmit.destination, "a batch is lost");
        BUFFER.set(batch.bytes);
        true
    }

    /// Waits until `at`; ready if that has come.
    fn poll_timer(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else { return Poll::Pending };
        let now = clock::now();
        if self.endpoint.alarms.are_available() && at - now <= alarm::WAIT_MAX {
            self.set_alarm(cx, now, at.max(now + alarm::WAIT_MIN));
            return Poll::Pending;
        }
        self.poll_sleep(cx, at)
    }

    fn set_alarm(&mut self, cx: &Context<'_>, now: Instant, at: Instant) {
        if self.alarm_at.is_some_and(|alarm_at| alarm_at > now && alarm_at <= at) {
            return;
        }
        self.cancel_alarm();
        self.endpoint.alarms.set((at, self.handle), cx.waker());
        self.alarm_at = Some(at);
    }

    fn cancel_alarm(&mut self) {
        if let Some(at) = self.alarm_at.take() {
            self.endpoint.alarms.cancel((at, self.handle));
        }
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>, at: Instant) -> Poll<()> {
        if self.armed_at.is_none_or(|armed_at| at < armed_at) {
            self.armed_at = Some(at);
            let at = clock::to_tokio(at);
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(at),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
            }
        }
        let Some(sleep) = &mut self.sleep else { return Poll::Pending };
        if sleep.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.armed_at = None;
        Poll::Ready(())
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.cancel_alarm();
        self.endpoint.turns.leave(&self.connection);
    }
}

/// What one look at the connection gave.
enum Step {
    Send(Batch),
    /// Something is left to be done, and others may have the connection in between.
    Again,
    Wait(Option<Instant>),
    Drained,
}

impl Future for ConnectionDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.endpoint.turns.begin(&self.connection, cx.waker()) {
            return Poll::Pending;
        }
        let turn = if self.resume(cx) { self.turn_and_wait(cx) } else { Turn::Blocked };
        let again = matches!(turn, Turn::Unfinished).then(|| cx.waker());
        let is_queued = self.endpoint.turns.end(&self.connection, again);
        match turn {
            Turn::Drained => return Poll::Ready(()),
            Turn::Unfinished if !is_queued => {
                // Comes back only after the runtime has looked at its sockets: the ACKs that matter now are
                // there.
                let _ = pin!(tokio::task::yield_now()).poll(cx);
            }
            Turn::Unfinished | Turn::Idle(_) | Turn::Blocked => {}
        }
        Poll::Pending
    }
}
