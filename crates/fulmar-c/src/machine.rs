//! The protocol of one socket without I/O: an endpoint of `fulmar_proto` with its connections, by number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fulmar_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramMeta, Endpoint, EndpointConfig, Event, Instant,
    Route, ServerConfig, Transmit,
};

use crate::address::ful_transmit;
use crate::code::{FUL_ERR_ARGUMENT, FUL_ERR_FAILED, FUL_ERR_TOO_SMALL, FUL_WOULDBLOCK, Outcome};

/// Room that any batch of datagrams fits in.
pub(crate) const BATCH_BYTES: usize = 1 << 16;
/// Answers that wait for the caller, at most; clients ask again.
const ANSWERS_MAX: usize = 256;

/// All of it.
pub(crate) struct Machine {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    connections: BTreeMap<u64, (ConnectionHandle, Connection)>,
    by_handle: BTreeMap<usize, u64>,
    next: u64,
    /// Something was done to them: they may have something to send, to tell, or another timer.
    touched: BTreeSet<u64>,
    timers: BTreeSet<(Instant, u64)>,
    timer_of: BTreeMap<u64, Instant>,
    answers: VecDeque<(Transmit, Vec<u8>)>,
    /// New connections, then what happens on all.
    pub(crate) accepted: VecDeque<u64>,
    events: VecDeque<(u64, Event)>,
    scratch: Vec<u8>,
}

impl Machine {
    pub(crate) fn new(client: Option<ClientConfig>, server: Option<ServerConfig>, seed: [u8; 32]) -> Self {
        Self {
            endpoint: Endpoint::new(&EndpointConfig::default(), server.map(Arc::new), seed),
            client,
            connections: BTreeMap::new(),
            by_handle: BTreeMap::new(),
            next: 1,
            touched: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            answers: VecDeque::new(),
            accepted: VecDeque::new(),
            events: VecDeque::new(),
            scratch: Vec::new(),
        }
    }

    fn insert(&mut self, handle: ConnectionHandle, connection: Connection) -> u64 {
        let id = self.next;
        self.next += 1;
        self.connections.insert(id, (handle, connection));
        self.by_handle.insert(handle.0, id);
        self.touched.insert(id);
        id
    }

    pub(crate) fn connect(&mut self, now: Instant, remote: std::net::SocketAddr, name: &str) -> Outcome<u64> {
        let config = self.client.clone().ok_or(FUL_ERR_ARGUMENT)?;
        let begun = self.endpoint.connect(now, &config, remote, name);
        let (handle, connection) = begun.map_err(|_| FUL_ERR_FAILED)?;
        Ok(self.insert(handle, connection))
    }

    /// A connection that something is done to.
    pub(crate) fn act<T>(&mut self, id: u64, action: impl FnOnce(&mut Connection) -> T) -> Outcome<T> {
        let (_, connection) = self.connections.get_mut(&id).ok_or(FUL_ERR_ARGUMENT)?;
        self.touched.insert(id);
        Ok(action(connection))
    }

    /// A connection that is only looked at.
    pub(crate) fn look<T>(&self, id: u64, look: impl FnOnce(&Connection) -> T) -> Outcome<T> {
        self.connections.get(&id).map(|(_, connection)| look(connection)).ok_or(FUL_ERR_ARGUMENT)
    }

    /// A datagram has come.
    pub(crate) fn feed(&mut self, now: Instant, meta: &DatagramMeta, datagram: &mut [u8]) {
        let mut answer = Vec::new();
        let handle = match self.endpoint.route(now, meta, datagram, &mut answer) {
            Route::Connection(handle) => handle,
            Route::New(handle, connection) => {
                let id = self.insert(handle, *connection);
                self.accepted.push_back(id);
                handle
            }
            Route::Respond(transmit) => {
                if self.answers.len() < ANSWERS_MAX {
                    self.answers.push_back((transmit, answer));
                }
                return;
            }
            Route::Reset(handle) => {
                if let Some(&id) = self.by_handle.get(&handle.0) {
                    let _ = self.act(id, |connection| connection.handle_reset(now));
                }
                return;
            }
            Route::Drop => return,
        };
        if let Some(&id) = self.by_handle.get(&handle.0) {
            let _ = self.act(id, |connection| connection.handle_datagram(now, meta, datagram));
        }
        while let Some(displaced) = self.endpoint.poll_displaced() {
            if let Some(&id) = self.by_handle.get(&displaced.0) {
                let _ = self.act(id, |connection| connection.give_way(now));
            }
        }
    }

    /// Takes what the touched connections have to tell, and their timers.
    fn settle(&mut self) {
        let Self { connections, endpoint, events, by_handle, timers, timer_of, .. } = self;
        for id in &self.touched {
            let Some((handle, connection)) = connections.get_mut(id) else { continue };
            while let Some(event) = connection.poll_endpoint_event() {
                endpoint.handle_event(*handle, event);
            }
            while let Some(event) = connection.poll_event() {
                events.push_back((*id, event));
            }
            if connection.is_drained() && by_handle.get(&handle.0) == Some(id) {
                by_handle.remove(&handle.0);
            }
            let at = connection.poll_timeout().filter(|_| !connection.is_drained());
            let before = match at {
                Some(at) => timer_of.insert(*id, at),
                None => timer_of.remove(id),
            };
            if before != at {
                before.map(|before| timers.remove(&(before, *id)));
                at.map(|at| timers.insert((at, *id)));
            }
        }
    }

    /// Fills `buffer` with what is to be sent now. Connections that have more stay touched.
    pub(crate) fn harvest(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        out: &mut [ful_transmit],
    ) -> Outcome<usize> {
        if buffer.len() < BATCH_BYTES || out.is_empty() {
            return Err(FUL_ERR_TOO_SMALL);
        }
        let (mut used, mut count) = (0, 0);
        while count < out.len()
            && buffer.len() - used >= BATCH_BYTES
            && let Some((transmit, bytes)) = self.answers.pop_front()
        {
            buffer[used..used + bytes.len()].copy_from_slice(&bytes);
            out[count] = ful_transmit::new(&transmit, used);
            (used, count) = (used + bytes.len(), count + 1);
        }
        let mut quiet = Vec::new();
        // In turns, so that none keeps the buffer to itself.
        let mut open: VecDeque<u64> = self.touched.iter().copied().collect();
        while let Some(id) = open.pop_front() {
            if count == out.len() || buffer.len() - used < BATCH_BYTES {
                break;
            }
            self.scratch.clear();
            let connection = self.connections.get_mut(&id).map(|(_, connection)| connection);
            match connection.and_then(|connection| connection.poll_transmit(now, 64, &mut self.scratch)) {
                None => quiet.push(id),
                Some(transmit) => {
                    let bytes = self.scratch.len();
                    buffer[used..used + bytes].copy_from_slice(&self.scratch);
                    out[count] = ful_transmit::new(&transmit, used);
                    (used, count) = (used + bytes, count + 1);
                    open.push_back(id);
                }
            }
        }
        self.settle();
        self.touched.retain(|id| !quiet.contains(id));
        Ok(count)
    }

    /// When [`expire`](Self::expire) is to be called.
    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        self.settle();
        self.timers.first().map(|(at, _)| *at)
    }

    /// Time has passed.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.settle();
        let due: Vec<u64> = self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        for id in due {
            let _ = self.act(id, |connection| connection.handle_timeout(now));
        }
    }

    /// What happened next.
    pub(crate) fn event(&mut self) -> Option<(u64, Event)> {
        self.settle();
        self.events.pop_front()
    }

    /// The caller has no more use for a connection that is over.
    pub(crate) fn forget(&mut self, id: u64) -> Outcome {
        let is_over = self.look(id, |connection| connection.is_drained())?;
        if !is_over {
            return Err(FUL_WOULDBLOCK);
        }
        self.connections.remove(&id);
        self.touched.remove(&id);
        if let Some(at) = self.timer_of.remove(&id) {
            self.timers.remove(&(at, id));
        }
        self.events.retain(|(of, _)| *of != id);
        Ok(())
    }
}
