//! The thread of a relay: sockets in, links, sockets out.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use fulmar_net::{Datagram, Direction, Ecn, Path};
use fulmar_units::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::config::{Command, RelayConfig, RelayStats};
use super::meddling::Meddling;
use super::port::{Buffers, Port, Received};

/// Calls per socket before it is the others' turn.
const RECEIVE_CALLS_MAX: usize = 4;
/// How old statistics may be.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(20);

/// A client and the socket that stands for it toward the server.
#[derive(Debug)]
struct Client {
    address: SocketAddr,
    /// The address the client sent to, where the relay has several.
    local_ip: Option<IpAddr>,
    port: Port,
    first_heard: Instant,
    last_heard: Instant,
}

/// Who uses the relay. Clients have numbers that are never used again: a packet for one that is gone is
/// dropped.
struct Clients {
    server: SocketAddr,
    known_max: usize,
    known: BTreeMap<u64, Client>,
    numbers: HashMap<SocketAddr, u64>,
    next_number: u64,
}

impl Clients {
    fn new(server: SocketAddr, known_max: usize) -> Self {
        Self {
            server,
            known_max: known_max.max(1),
            known: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
        }
    }

    /// The number of the client a datagram is from; a new client gets one, and a socket toward the server.
    fn number(&mut self, datagram: &Received<'_>, now: Instant) -> io::Result<u64> {
        if let Some(&number) = self.numbers.get(&datagram.from) {
            if let Some(client) = self.known.get_mut(&number) {
                (client.last_heard, client.local_ip) = (now, datagram.local_ip);
            }
            return Ok(number);
        }
        let port = Port::toward(self.server)?;
        while self.known.len() >= self.known_max {
            self.forget_most_silent();
        }
        let number = self.next_number;
        self.next_number += 1;
        self.numbers.insert(datagram.from, number);
        let (address, local_ip) = (datagram.from, datagram.local_ip);
        self.known.insert(number, Client { address, local_ip, port, first_heard: now, last_heard: now });
        Ok(number)
    }

    fn forget_most_silent(&mut self) {
        let silent = self.known.iter().min_by_key(|(_, client)| client.last_heard).map(|(&number, _)| number);
        if let Some(client) = silent.and_then(|number| self.known.remove(&number)) {
            self.numbers.remove(&client.address);
        }
    }

    /// Whether nothing passes any more from or to a client's port that is let through for so long.
    fn is_closed(&self, number: u64, life: Option<Duration>, now: Instant) -> bool {
        let since = self.known.get(&number).map(|client| client.first_heard);
        since.zip(life).is_some_and(|(since, life)| now - since > life)
    }

    /// New sockets for all; where there is none to be had the old one goes on.
    fn rebind(&mut self) {
        for client in self.known.values_mut() {
            if let Ok(port) = Port::toward(self.server) {
                client.port = port;
            }
        }
    }
}

/// What meddles: what it was told, the socket that copies come from, and packets since the last copy.
#[derive(Default)]
struct Meddler {
    told: Meddling,
    copier: Option<Port>,
    since_copy: u32,
}

impl Meddler {
    fn new(told: Meddling) -> Self {
        let from = told.copying.as_ref().map(|copying| SocketAddr::new(copying.from, 0));
        // Where there is no such address there are no copies, which the counts tell.
        Self { copier: from.and_then(|from| Port::bind(from).ok()), told, since_copy: 0 }
    }

    fn eats(&self, datagram: &Received<'_>) -> bool {
        self.told.eats_ecn && datagram.ecn != Ecn::NotEct
    }

    /// Sends a copy of a client's packet if it is its turn; true if it did.
    fn copies(&mut self, server: SocketAddr, datagram: &Received<'_>) -> bool {
        let (Some(copying), Some(copier)) = (&self.told.copying, &self.copier) else { return false };
        self.since_copy += 1;
        if self.since_copy < copying.every {
            return false;
        }
        self.since_copy = 0;
        let contents = datagram.contents.to_vec();
        copier.send(server, None, &Datagram { contents, ecn: datagram.ecn, flow: 0 }).is_ok()
    }
}

/// The thread's state.
pub(super) struct Worker {
    origin: std::time::Instant,
    held_bytes_max: u64,
    listener: Port,
    ear: UnixStream,
    inbox: mpsc::Receiver<Command>,
    clients: Clients,
    path: Path<Datagram>,
    meddler: Meddler,
    buffers: Buffers,
    counts: RelayStats,
    published: Arc<Mutex<RelayStats>>,
    /// When to publish what has changed; `None` if nothing has.
    publish_at: Option<Instant>,
}

/// Which sockets have something.
struct Ready {
    bell: bool,
    listener: bool,
    clients: Vec<u64>,
}

impl Worker {
    pub(super) fn new(
        config: &RelayConfig,
        listener: Port,
        ear: UnixStream,
        inbox: mpsc::Receiver<Command>,
        published: Arc<Mutex<RelayStats>>,
    ) -> io::Result<Self> {
        let receive_buffer_bytes = listener.receive_buffer_bytes()?;
        Ok(Self {
            origin: std::time::Instant::now(),
            held_bytes_max: config.held_bytes_max,
            listener,
            ear,
            inbox,
            clients: Clients::new(config.server, config.clients_max),
            path: Path::new(config.forward.clone(), config.backward.clone(), config.seed),
            meddler: Meddler::default(),
            buffers: Buffers::new(),
            counts: RelayStats { receive_buffer_bytes, ..RelayStats::default() },
            published,
            publish_at: Some(Instant::ZERO),
        })
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// Works until told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            self.deliver();
            if self.publish_at.is_some_and(|at| at <= self.now()) {
                self.publish();
            }
            let ready = self.wait()?;
            if ready.bell && !self.obey() {
                self.publish();
                return Ok(());
            }
            self.take_in(&ready);
        }
    }

    /// Waits until a socket has something, or a packet is due, or statistics are.
    fn wait(&self) -> io::Result<Ready> {
        let until = self.path.poll_timeout().into_iter().chain(self.publish_at).min();
        let timeout = until.map(|until| {
            let rest = until - self.now();
            Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: i64::from(rest.subsec_nanos()) }
        });
        let clients = &self.clients.known;
        let mut fds =
            vec![PollFd::new(&self.ear, PollFlags::IN), PollFd::new(&self.listener.socket, PollFlags::IN)];
        let upstream = clients.values().map(|client| client.port.socket.as_fd());
        fds.extend(upstream.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let has_something = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let heard =
            clients.keys().zip(&fds[2..]).filter(|(_, fd)| has_something(fd)).map(|(&number, _)| number);
        Ok(Ready { bell: has_something(&fds[0]), listener: has_something(&fds[1]), clients: heard.collect() })
    }

    /// Follows commands; false if the last was to stop.
    fn obey(&mut self) -> bool {
        let mut rung = [0; 64];
        while (&self.ear).read(&mut rung).is_ok_and(|count| count > 0) {}
        loop {
            match self.inbox.try_recv() {
                Ok(Command::Reconfigure(direction, config)) => {
                    let now = self.now();
                    self.path.link_mut(direction).reconfigure(now, *config);
                }
                Ok(Command::Rebind) => self.clients.rebind(),
                Ok(Command::Meddle(meddling)) => self.meddler = Meddler::new(meddling),
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    /// Hands everything that has arrived to the links.
    fn take_in(&mut self, ready: &Ready) {
        let Self { listener, clients, path, meddler, buffers, counts, .. } = self;
        let (origin, held_bytes_max) = (self.origin, self.held_bytes_max);
        let mut offer = |direction, number, datagram: &Received<'_>, counts: &mut RelayStats| {
            if path.link(direction).inside().bytes > held_bytes_max {
                counts.refused_packets += 1;
                return;
            }
            let contents = datagram.contents.to_vec();
            let now = Instant::ZERO + origin.elapsed();
            path.send(now, direction, Datagram { contents, ecn: datagram.ecn, flow: number });
        };
        let life = meddler.told.port_life;
        for _ in 0..if ready.listener { RECEIVE_CALLS_MAX } else { 0 } {
            let received = listener.receive(buffers, |datagram| {
                let now = Instant::ZERO + origin.elapsed();
                match clients.number(&datagram, now) {
                    Ok(number) if clients.is_closed(number, life, now) || meddler.eats(&datagram) => {
                        counts.meddled_packets += 1;
                    }
                    Ok(number) => {
                        counts.meddled_packets += u64::from(meddler.copies(clients.server, &datagram));
                        offer(Direction::Forward, number, &datagram, counts);
                    }
                    Err(_) => counts.refused_packets += 1,
                }
            });
            if received.is_err() {
                break;
            }
        }
        for &number in &ready.clients {
            let Some(client) = clients.known.get(&number) else { continue };
            let is_closed = clients.is_closed(number, life, Instant::ZERO + origin.elapsed());
            for _ in 0..RECEIVE_CALLS_MAX {
                let received = client.port.receive(buffers, |datagram| {
                    if is_closed || meddler.eats(&datagram) {
                        counts.meddled_packets += 1;
                    } else if datagram.from == clients.server {
                        offer(Direction::Backward, number, &datagram, counts);
                    }
                });
                if received.is_err() {
                    break;
                }
            }
        }
        if ready.listener || !ready.clients.is_empty() {
            self.note_change();
        }
    }

    /// Sends on what has come out of the links.
    fn deliver(&mut self) {
        while let Some((due, direction, datagram)) = self.path.poll_arrival(self.now()) {
            let is_sent = self.clients.known.get(&datagram.flow).is_some_and(|client| match direction {
                Direction::Forward => client.port.send(self.clients.server, None, &datagram).is_ok(),
                Direction::Backward => self.listener.send(client.address, client.local_ip, &datagram).is_ok(),
            });
            self.counts.unsent_packets += u64::from(!is_sent);
            self.counts.lateness.record(self.now() - due);
            self.note_change();
        }
    }

    fn note_change(&mut self) {
        if self.publish_at.is_none() {
            self.publish_at = Some(self.now() + PUBLISH_INTERVAL);
        }
    }

    fn publish(&mut self) {
        self.publish_at = None;
        self.counts.clients = self.clients.known.len();
        self.counts.backlog_bytes = self.path.link(Direction::Forward).backlog().bytes;
        self.counts.forward.clone_from(self.path.link(Direction::Forward).stats());
        self.counts.backward.clone_from(self.path.link(Direction::Backward).stats());
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.counts);
    }
}
