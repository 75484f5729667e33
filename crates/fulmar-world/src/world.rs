//! A world in virtual time: a client and a server endpoint joined by the links of `fulmar-net`.
//! One model of the path, faults and all, joins them; whoever drives it calls [`World::run_until`].

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar_net::{Datagram, Direction, Ecn as WireEcn, LinkConfig, Path};
use fulmar_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionIds, DatagramMeta, Ecn, Endpoint, EndpointConfig,
    Event, Instant, Route, ServerConfig, TransportConfig,
};

use crate::observer::Observer;
use crate::settings::{client_config, server_config};

/// One end: an endpoint with its connections.
#[derive(Debug)]
pub struct Node {
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// Its connections that are not over.
    pub connections: BTreeMap<ConnectionHandle, Connection>,
    /// Where it is.
    pub addr: SocketAddr,
    /// Connections accepted and not looked at yet.
    pub accepted: VecDeque<ConnectionHandle>,
    /// What happened on its connections and was not looked at yet.
    pub events: VecDeque<(ConnectionHandle, Event)>,
}

impl Node {
    pub(crate) fn new(endpoint: Endpoint, addr: &str) -> Self {
        Self {
            endpoint,
            connections: BTreeMap::new(),
            addr: addr.parse().unwrap(),
            accepted: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The only connection there is.
    pub fn only(&mut self) -> &mut Connection {
        self.connections.values_mut().next().expect("a connection")
    }

    /// Handshakes that newer ones have taken the place of give way.
    pub(crate) fn displace(&mut self, now: Instant) -> Vec<ConnectionHandle> {
        let displaced: Vec<_> = std::iter::from_fn(|| self.endpoint.poll_displaced()).collect();
        for handle in &displaced {
            if let Some(connection) = self.connections.get_mut(handle) {
                connection.give_way(now);
            }
        }
        displaced
    }

    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.connections.values().filter_map(Connection::poll_timeout).min()
    }

    /// Rings those of its connections whose time has come.
    pub fn handle_timeouts(&mut self, now: Instant) {
        for connection in self.connections.values_mut() {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
        }
    }

    pub(crate) fn collect_events(&mut self) {
        for (&handle, connection) in &mut self.connections {
            hear(handle, connection, &mut self.endpoint, &mut self.events);
        }
        self.connections.retain(|_, connection| !connection.is_drained());
    }

    /// The same for one connection.
    pub(crate) fn collect_events_of(&mut self, handle: ConnectionHandle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        hear(handle, connection, &mut self.endpoint, &mut self.events);
        if connection.is_drained() {
            self.connections.remove(&handle);
        }
    }
}

/// What a connection has to tell its endpoint and its application.
fn hear(
    handle: ConnectionHandle,
    connection: &mut Connection,
    endpoint: &mut Endpoint,
    events: &mut VecDeque<(ConnectionHandle, Event)>,
) {
    while let Some(event) = connection.poll_endpoint_event() {
        endpoint.handle_event(handle, event);
    }
    while let Some(event) = connection.poll_event() {
        events.push_back((handle, event));
    }
}

/// Key of the server's stateless resets, which outlives a restart.
pub const RESET_KEY: [u8; 32] = [7; 32];

/// Client and server with the path between them.
pub struct World {
    /// Virtual time.
    pub now: Instant,
    /// The end that connects.
    pub client: Node,
    /// The end that accepts.
    pub server: Node,
    /// What joins them.
    pub path: Path<Datagram>,
    /// What [`Self::connect`] connects with.
    pub client_config: ClientConfig,
    /// Datagrams each batch may hold, as GSO allows.
    pub segments_max: usize,
    restarts: u8,
    /// Where the client's datagrams seem to come from, the last entry now: grows when its NAT rebinds or it
    /// moves.
    client_addrs: Vec<SocketAddr>,
    /// Since when it has the last of them.
    address_since: Instant,
    /// A NAT or a firewall lets packets from and to one of its addresses through for so long, and then never
    /// again.
    pub address_lives: Option<Duration>,
    /// The client takes another port when its connection asks for one.
    pub takes_fresh_ports: bool,
    /// So many it took.
    pub fresh_ports: u32,
    /// Somebody outside wants to be called at this time.
    pub alarm: Option<Instant>,
    /// The path takes ECN marks off.
    pub bleaches_ecn: bool,
    /// The path drops packets with ECN bits that go this way at this time.
    pub eats_ecn: Option<fn(Direction, Instant) -> bool>,
    /// Somebody copies what the client sends.
    pub observer: Option<Observer>,
    /// Between events, asks connections whether they have something to send: they must not.
    pub checks_silence: bool,
}

impl World {
    /// A world whose two directions are alike.
    pub fn new(seed: u64, link: LinkConfig, client: TransportConfig, server: TransportConfig) -> Self {
        Self::with_links(seed, link.clone(), link, client, server)
    }

    /// A world with a link for each direction.
    pub fn with_links(
        seed: u64,
        forward: LinkConfig,
        backward: LinkConfig,
        client: TransportConfig,
        server: TransportConfig,
    ) -> Self {
        let mut seed_bytes = [0; 32];
        seed_bytes[..8].copy_from_slice(&seed.to_be_bytes());
        let client_endpoint = Endpoint::new(&EndpointConfig::default(), None, seed_bytes);
        seed_bytes[31] = 1;
        let endpoint_config = EndpointConfig { reset_key: Some(RESET_KEY), ..EndpointConfig::default() };
        let server_endpoint =
            Endpoint::new(&endpoint_config, Some(Arc::new(server_config(server))), seed_bytes);
        let client_node = Node::new(client_endpoint, "10.0.0.1:1000");
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            client_addrs: vec![client_node.addr],
            address_since: Instant::ZERO + Duration::from_secs(1),
            address_lives: None,
            takes_fresh_ports: false,
            fresh_ports: 0,
            client: client_node,
            server: Node::new(server_endpoint, "10.0.0.2:4747"),
            path: Path::new(forward, backward, seed),
            client_config: client_config(client),
            segments_max: 10,
            restarts: 0,
            alarm: None,
            bleaches_ecn: false,
            eats_ecn: None,
            observer: None,
            checks_silence: false,
        }
    }

    /// Where the client's datagrams seem to come from.
    pub fn client_addr(&self) -> SocketAddr {
        self.client_addrs[self.client_addrs.len() - 1]
    }

    /// From now on the client's datagrams come from `addr`, and what was sent to where it was before
    /// vanishes.
    pub fn move_client(&mut self, addr: SocketAddr) {
        self.client_addrs.push(addr);
        self.address_since = self.now;
    }

    /// Does what its connection asks for in silence.
    fn take_fresh_port(&mut self) {
        let before = self.client.events.len();
        self.client.events.retain(|(_, event)| *event != Event::PathSilent);
        if self.client.events.len() < before && self.takes_fresh_ports {
            self.fresh_ports += 1;
            self.rebind();
            self.client.connections.values_mut().for_each(Connection::handle_fresh_port);
        }
    }

    /// The client's NAT takes another port.
    pub fn rebind(&mut self) {
        let addr = self.client_addr();
        self.move_client(SocketAddr::new(addr.ip(), addr.port() % 60_000 + 1));
    }

    /// The server loses all it knew, except the key of its resets.
    pub fn restart_server(&mut self, config: ServerConfig) {
        self.restart_server_as(ConnectionIds::default(), config);
    }

    /// The same; from now on its connections are called so.
    pub fn restart_server_as(&mut self, connection_ids: ConnectionIds, config: ServerConfig) {
        self.restarts += 1;
        let endpoint_config = EndpointConfig { reset_key: Some(RESET_KEY), connection_ids };
        let endpoint = Endpoint::new(&endpoint_config, Some(Arc::new(config)), [8 + self.restarts; 32]);
        self.server = Node { addr: self.server.addr, ..Node::new(endpoint, "10.0.0.2:4747") };
    }

    /// Begins a connection.
    pub fn connect(&mut self) -> ConnectionHandle {
        let (handle, connection) = self
            .client
            .endpoint
            .connect(self.now, &self.client_config, self.server.addr, "server.test")
            .unwrap();
        self.client.connections.insert(handle, connection);
        self.settle();
        handle
    }

    /// Begins a connection and completes its handshake, within a minute.
    pub fn connected(&mut self) -> ConnectionHandle {
        let handle = self.connect();
        let is_up = self.run_until(Duration::from_secs(60), |w| {
            w.client.connections.get(&handle).is_some_and(|c| !c.is_handshaking())
                && w.server.connections.values().next_back().is_some_and(|c| !c.is_handshaking())
        });
        assert!(is_up, "no connection within a minute");
        handle
    }

    /// Lets everything happen that happens now. Whoever wants to be called at once gets what it wants, but
    /// not for ever: a report on hundreds of blocks is worked off in hundreds of turns (seed 3000945).
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            self.client.handle_timeouts(self.now);
            self.server.handle_timeouts(self.now);
            self.deliver();
            self.transmit();
            self.client.collect_events();
            self.server.collect_events();
            self.take_fresh_port();
            let timeouts = [self.client.timeout(), self.server.timeout()];
            if timeouts.into_iter().flatten().all(|at| at > self.now) {
                return;
            }
        }
        panic!("somebody wants to be called again and again: {}", self.describe());
    }

    /// Goes to the next event, or to `until`. False if nothing will ever happen again.
    pub fn step(&mut self, until: Instant) -> bool {
        let next = [self.client.timeout(), self.server.timeout(), self.path.poll_timeout(), self.alarm];
        let held = self.observer.as_ref().and_then(Observer::timeout);
        let Some(at) = next.into_iter().chain([held]).flatten().min() else {
            self.now = until;
            return false;
        };
        let at = self.now.max(at).min(until);
        // A pacer's rounding, a thousandth of a byte, is up to 80 ns at 100 kb/s.
        if self.checks_silence && at - self.now > Duration::from_micros(1) {
            self.check_silence(at);
        }
        self.now = at;
        self.settle();
        true
    }

    /// Rule 5 of the core: `poll_timeout() == t` implies that nothing is to be done before.
    fn check_silence(&mut self, before: Instant) {
        let between = self.now + (before - self.now) / 2;
        let mut buf = Vec::new();
        for connection in self.client.connections.values_mut().chain(self.server.connections.values_mut()) {
            let side = connection.side();
            let transmit = connection.poll_transmit(between, 1, &mut buf);
            assert!(transmit.is_none(), "{side:?} sends at {between:?} although it waits for {before:?}");
        }
    }

    /// Hands the server a datagram of somebody at `remote` and returns what it answers without state.
    pub fn ask_server(&mut self, remote: SocketAddr, mut datagram: Vec<u8>) -> Option<Vec<u8>> {
        let meta = DatagramMeta { remote, local_ip: None, ecn: None };
        let mut response = Vec::new();
        match self.server.endpoint.route(self.now, &meta, &datagram, &mut response) {
            Route::Respond(transmit) => {
                assert_eq!((transmit.destination, transmit.bytes), (remote, response.len()));
                Some(response)
            }
            Route::Connection(handle) => {
                if let Some(connection) = self.server.connections.get_mut(&handle) {
                    connection.handle_datagram(self.now, &meta, &mut datagram);
                }
                None
            }
            Route::New(handle, mut connection) => {
                connection.handle_datagram(self.now, &meta, &mut datagram);
                self.server.connections.insert(handle, *connection);
                self.server.displace(self.now);
                self.server.collect_events();
                None
            }
            _ => None,
        }
    }

    /// Hands the client a datagram of the server's address.
    pub fn tell_client(&mut self, mut datagram: Vec<u8>) {
        let meta = DatagramMeta { remote: self.server.addr, local_ip: None, ecn: None };
        let mut response = Vec::new();
        if let Route::Connection(handle) =
            self.client.endpoint.route(self.now, &meta, &datagram, &mut response)
            && let Some(connection) = self.client.connections.get_mut(&handle)
        {
            connection.handle_datagram(self.now, &meta, &mut datagram);
        }
    }

    /// Runs until `done`, at most for `limit`. True if done.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        let (mut stuck_at, mut stuck) = (self.now, 0u32);
        loop {
            if done(self) {
                self.settle();
                return true;
            }
            if self.now >= end {
                return false;
            }
            let events = self.client.events.len() + self.server.events.len();
            self.settle();
            if self.client.events.len() + self.server.events.len() == events {
                self.step(end);
            }
            stuck = if self.now == stuck_at { stuck + 1 } else { 0 };
            stuck_at = self.now;
            assert!(stuck < 100_000, "time stands still at {:?}: {}", self.now, self.describe());
        }
    }

    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    fn deliver(&mut self) {
        while let Some((direction, packet)) = self.path.poll_deliver(self.now) {
            if let Some(eater) = &self.eats_ecn
                && eater(direction, self.now)
                && packet.ecn != WireEcn::NotEct
            {
                continue;
            }
            if self.address_lives.is_some_and(|lives| self.now - self.address_since > lives) {
                continue;
            }
            match (direction, &mut self.observer) {
                (Direction::Forward, Some(observer)) => {
                    if let Some(remote) = observer.on_packet(self.now, &packet) {
                        self.arrive(direction, remote, packet);
                    }
                }
                _ => self.arrive_from_its_place(direction, packet),
            }
        }
        while let Some(packet) = self.observer.as_mut().and_then(|observer| observer.poll(self.now)) {
            self.arrive_from_its_place(Direction::Forward, packet);
        }
    }

    fn arrive_from_its_place(&mut self, direction: Direction, packet: Datagram) {
        // The flow number tells which of its addresses the client had when the datagram left.
        let place = packet.flow as usize;
        match direction {
            Direction::Forward => self.arrive(direction, self.client_addrs[place], packet),
            Direction::Backward if place + 1 < self.client_addrs.len() => {}
            Direction::Backward => self.arrive(direction, self.server.addr, packet),
        }
    }

    fn arrive(&mut self, direction: Direction, remote: SocketAddr, packet: Datagram) {
        let node = match direction {
            Direction::Forward => &mut self.server,
            Direction::Backward => &mut self.client,
        };
        let ecn = if self.bleaches_ecn { None } else { from_wire(packet.ecn) };
        let meta = DatagramMeta { remote, local_ip: None, ecn };
        let mut response = Vec::new();
        let mut bytes = packet.contents;
        match node.endpoint.route(self.now, &meta, &bytes, &mut response) {
            Route::Connection(handle) => {
                if let Some(connection) = node.connections.get_mut(&handle) {
                    connection.handle_datagram(self.now, &meta, &mut bytes);
                }
            }
            Route::New(handle, mut connection) => {
                connection.handle_datagram(self.now, &meta, &mut bytes);
                node.connections.insert(handle, *connection);
                node.accepted.push_back(handle);
                node.displace(self.now);
            }
            Route::Respond(_) => {
                let back = Datagram { contents: response, flow: packet.flow, ..Datagram::default() };
                self.path.send(self.now, direction.reversed(), back);
            }
            Route::Reset(handle) => {
                if let Some(connection) = node.connections.get_mut(&handle) {
                    connection.handle_reset(self.now);
                }
            }
            Route::Drop => {}
        }
    }

    fn transmit(&mut self) {
        let mut buf = Vec::new();
        for (direction, node) in
            [(Direction::Forward, &mut self.client), (Direction::Backward, &mut self.server)]
        {
            for connection in node.connections.values_mut() {
                loop {
                    buf.clear();
                    let Some(transmit) = connection.poll_transmit(self.now, self.segments_max, &mut buf)
                    else {
                        break;
                    };
                    assert_eq!(transmit.bytes, buf.len());
                    let segment = transmit.segment_bytes.unwrap_or(buf.len()).max(1);
                    let newest = self.client_addrs.len() - 1;
                    let place = match direction {
                        Direction::Forward => Some(newest),
                        Direction::Backward => self
                            .client_addrs
                            .iter()
                            .rposition(|&addr| addr == transmit.destination)
                            .or_else(|| self.observer.as_mut()?.on_answer(&transmit).then_some(newest)),
                    };
                    let Some(place) = place.filter(|&place| place == newest) else { continue };
                    for contents in buf.chunks(segment) {
                        let ecn = if transmit.ecn.is_some() { WireEcn::Ect0 } else { WireEcn::NotEct };
                        self.path.send(
                            self.now,
                            direction,
                            Datagram { contents: contents.to_vec(), ecn, flow: place as u64 },
                        );
                    }
                }
            }
        }
    }

    /// What is going on, for a test that failed.
    pub fn describe(&self) -> String {
        let side = |node: &Node| {
            node.connections
                .values()
                .map(|c| format!("{:?}\n{c:?}\n  timeout {:?}\n", c.stats(), c.poll_timeout()))
                .collect::<String>()
        };
        format!("at {:?}\nclient {}\nserver {}", self.now, side(&self.client), side(&self.server))
    }
}

fn from_wire(ecn: WireEcn) -> Option<Ecn> {
    match ecn {
        WireEcn::NotEct => None,
        WireEcn::Ect0 => Some(Ecn::Ect0),
        WireEcn::Ect1 => Some(Ecn::Ect1),
        WireEcn::Ce => Some(Ecn::Ce),
    }
}
