//! Where it happens: ends with addresses, and the mail between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar_proto::crypto::PacketKeys;
use fulmar_proto::wire::packet::{LongType, PacketHeader, Peeked, peek};
use fulmar_proto::{
    AllowedProfiles, ClientConfig, ConnectionHandle, ConnectionId, ConnectionIds, DatagramMeta, Dir,
    Endpoint, EndpointConfig, Event, Instant, PacketNumber, Route, Side, TransportConfig,
};

use super::super::draw::Draw;
use super::super::plan::IN_RANGE;
use super::budget::{Budget, Clock, RECEIVE_MEMORY_BYTES};
use super::halves::{self, Half};
use super::parameters;
use super::pipes::{self, Letter, Pipe};
use super::service::{answer, drain};
use crate::settings::{client_config, server_config};
use crate::world::Node;

/// The place of the server among the parties.
pub(super) const SERVER: usize = 0;
/// Handshakes of strangers that the server has at once, in some seeds.
const HALF_OPEN: usize = 12;
/// Handshakes of one network (/24) that a server lets be under way: more than there are parties.
const HANDSHAKES_OF_NETWORK: usize = 8;
/// Strangers who go no further than a proof of their address, at a time.
const HALVES_MAX: usize = 40;
/// What is kept for somebody to send again.
const CAUGHT: usize = 64;
/// A client begins at most so many connections.
const CONNECTS_MAX: u32 = 20;
/// What the server does for a hostile client's stream.
const ANSWER_BYTES: usize = 30_000;

/// One end.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) node: Node,
    pub(super) is_hostile: bool,
    /// It hears nothing.
    pub(super) is_deaf: bool,
    /// The code that it names in the handshake.
    pub(super) code: u8,
    /// What a client connects with.
    client: Option<ClientConfig>,
    connects_left: u32,
    /// Connections to which something has happened since they were last asked what they have to say: the
    /// others have nothing to say.
    stirred: BTreeSet<ConnectionHandle>,
    /// When the next of its timers is due.
    timeout: Option<Instant>,
}

impl Party {
    fn new(node: Node, is_hostile: bool, code: u8, client: Option<ClientConfig>) -> Self {
        let (connects_left, stirred) = (CONNECTS_MAX, BTreeSet::new());
        Self { node, is_hostile, is_deaf: false, code, client, connects_left, stirred, timeout: None }
    }

    /// Something has happened since it was last asked what it has to say.
    pub(super) fn is_stirred(&self) -> bool {
        !self.stirred.is_empty()
    }

    /// Something may have happened on each of its connections.
    pub(super) fn stir(&mut self) {
        self.stirred.extend(self.node.connections.keys());
    }
}

/// Everything there is.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) now: Instant,
    pub(super) parties: Vec<Party>,
    pub(super) budget: Budget,
    pub(super) mail: BTreeMap<(Instant, u64), Letter>,
    pub(super) count: u64,
    pub(super) chance: Draw,
    loss_percent: u64,
    /// The server reads what hostile clients send.
    reads_all: bool,
    /// Datagrams that were on their way, for those who repeat them.
    caught: VecDeque<(usize, Vec<u8>)>,
    /// What clients are to get back, and has not found room yet.
    unanswered: BTreeMap<ConnectionHandle, Vec<u8>>,
    halves: VecDeque<Half>,
    /// Streams, each way, by where they lead and from where.
    pub(super) pipes: BTreeMap<(SocketAddr, SocketAddr), Pipe>,
    /// What strangers were told to call the server.
    pub(super) told: Vec<ConnectionId>,
}

impl Field {
    pub(super) fn new(seed: u64, draw: &mut Draw, is_server_hostile: bool, clock: Clock) -> Self {
        let mut honest = TransportConfig::default();
        honest.receive_memory_bytes(RECEIVE_MEMORY_BYTES).expect(IN_RANGE);
        let window_bytes = draw.log_between(20_000, 4 << 20);
        honest.receive_window_bytes(window_bytes).expect(IN_RANGE);
        honest.stream_receive_window_bytes(window_bytes).expect(IN_RANGE);
        honest.streams_bi(draw.log_between(1, 1000)).expect(IN_RANGE);
        honest.streams_uni(draw.log_between(1, 1000)).expect(IN_RANGE);
        if draw.one_in(2) {
            honest.allowed_profiles(AllowedProfiles::All);
        }
        let mut field = Self {
            now: Instant::ZERO + Duration::from_secs(1),
            parties: Vec::new(),
            budget: Budget::new(seed, clock, window_bytes),
            mail: BTreeMap::new(),
            count: 0,
            chance: Draw::new(seed, 79),
            loss_percent: draw.between(0, 10),
            reads_all: draw.one_in(2),
            caught: VecDeque::new(),
            unanswered: BTreeMap::new(),
            halves: VecDeque::new(),
            pipes: BTreeMap::new(),
            told: Vec::new(),
        };
        field.add_server(seed, draw, is_server_hostile, &honest);
        let (friends, enemies) =
            if is_server_hostile { (draw.between(1, 2), 0) } else { (1, draw.between(1, 3)) };
        for place in 1..=friends + enemies {
            field.add_client(seed, draw, place, place > friends, &honest);
        }
        field
    }

    fn add_server(&mut self, seed: u64, draw: &mut Draw, is_hostile: bool, honest: &TransportConfig) {
        let mut config = honest.clone();
        let code = if is_hostile { parameters::forge(draw, &mut config, Side::Server) } else { 0 };
        let mut config = server_config(config);
        config.handshakes_per_network_max = HANDSHAKES_OF_NETWORK;
        if draw.one_in(3) {
            config.retry_above_handshakes = draw.of(&[0, HALF_OPEN]);
        }
        let prefix = b"balance";
        let connection_ids = match draw.between(0, 3) {
            0 => ConnectionIds::new(prefix, draw.between(15, 20) as usize).expect("a length there is"),
            _ => ConnectionIds::default(),
        };
        let endpoint_config = EndpointConfig { connection_ids, ..EndpointConfig::default() };
        let endpoint = Endpoint::new(&endpoint_config, Some(Arc::new(config)), seed_bytes(seed, 0));
        let node = Node::new(endpoint, "10.0.0.2:4747");
        self.parties.push(Party::new(node, is_hostile, code, None));
    }

    fn add_client(
        &mut self,
        seed: u64,
        draw: &mut Draw,
        place: u64,
        is_hostile: bool,
        honest: &TransportConfig,
    ) {
        let mut transport = honest.clone();
        let code = if is_hostile { parameters::forge(draw, &mut transport, Side::Client) } else { 0 };
        let endpoint = Endpoint::new(&EndpointConfig::default(), None, seed_bytes(seed, place));
        let node = Node::new(endpoint, &format!("10.0.1.{place}:1000"));
        self.parties.push(Party::new(node, is_hostile, code, Some(client_config(transport))));
        self.connect(place as usize);
    }

    /// A client without a living connection begins one. True if it does.
    pub(super) fn connect(&mut self, place: usize) -> bool {
        let server = self.parties[SERVER].node.addr;
        let party = &mut self.parties[place];
        let has_connection = party.node.connections.values().any(|connection| !connection.is_closed());
        let Some(config) = party.client.as_ref().filter(|_| !has_connection && party.connects_left > 0)
        else {
            return false;
        };
        party.connects_left -= 1;
        party.is_deaf = false;
        let connected = party.node.endpoint.connect(self.now, config, server, "server.test");
        let (handle, connection) = connected.expect("an address");
        party.node.connections.insert(handle, connection);
        party.stirred.insert(handle);
        true
    }

    /// Hostile ends, by place.
    pub(super) fn hostile(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.parties.len()).filter(|&party| self.parties[party].is_hostile)
    }

    /// Honest clients, by place.
    pub(super) fn friends(&self) -> impl Iterator<Item = usize> + '_ {
        (1..self.parties.len()).filter(|&party| !self.parties[party].is_hostile)
    }

    /// What there is to say leaves, and what happens next does; false if that is not before `end`.
    pub(super) fn step(&mut self, end: Instant) -> bool {
        for place in 0..self.parties.len() {
            self.flush(place);
        }
        let timeouts = self.parties.iter().filter_map(|party| party.timeout);
        let next = timeouts.chain(self.mail.keys().next().map(|(at, _)| *at)).min();
        match next.filter(|&at| at <= end) {
            Some(at) => self.now = self.now.max(at),
            None => {
                self.now = end;
                return false;
            }
        }
        let now = self.now;
        for party in self.parties.iter_mut().filter(|party| party.timeout.is_some_and(|at| at <= now)) {
            party.node.handle_timeouts(now);
            party.stir();
        }
        while self.mail.keys().next().is_some_and(|(at, _)| *at <= now) {
            let Some((_, Letter { to, from, bytes, piece_of })) = self.mail.pop_first() else { break };
            match piece_of {
                Some(pipe) => self.deliver_piece(pipe, to, &bytes),
                None => self.deliver(to, from, bytes),
            }
        }
        true
    }

    pub(super) fn deliver(&mut self, to: usize, from: SocketAddr, mut bytes: Vec<u8>) {
        let code = self.code_of(to, from);
        let party = &mut self.parties[to];
        if party.is_deaf {
            return;
        }
        let meta = DatagramMeta { remote: from, local_ip: None, ecn: None };
        let (now, mut response) = (self.now, Vec::new());
        let route = party.node.endpoint.route(now, &meta, &bytes, &mut response);
        let handle = match route {
            Route::Connection(handle) => handle,
            Route::New(handle, connection) => {
                party.node.connections.insert(handle, *connection);
                party.stirred.extend(party.node.displace(now));
                self.unanswered.remove(&handle);
                handle
            }
            Route::Respond(transmit) => {
                // A refusal names the id in the packet that it refuses. Were that an honest client's, who
                // sent a copy of it would know the keys of a handshake, as an observer does: he could end it.
                if !is_refusal(&response) {
                    self.hear_as_stranger(transmit.destination, &response);
                }
                return self.post(to, transmit.destination, response);
            }
            Route::Reset(handle) => {
                if let Some(connection) = party.node.connections.get_mut(&handle) {
                    connection.handle_reset(now);
                    party.stirred.insert(handle);
                }
                return;
            }
            Route::Drop => return,
        };
        let Some(connection) = party.node.connections.get_mut(&handle) else { return };
        party.stirred.insert(handle);
        if party.is_hostile {
            connection.handle_datagram(now, &meta, &mut bytes);
        } else {
            self.budget.watch(code, connection, |connection| {
                connection.handle_datagram(now, &meta, &mut bytes);
            });
        }
    }

    /// The code that the other end of a letter to `to` has named.
    fn code_of(&self, to: usize, from: SocketAddr) -> u8 {
        let party = self.parties.iter().find(|party| party.node.addr == from);
        party.map_or(0, |party| party.code).max(self.parties[to].code)
    }

    /// Hears out the connections of a party to which something has happened, and sends what they have to
    /// send.
    fn flush(&mut self, place: usize) {
        let now = self.now;
        let mut out: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
        let party = &mut self.parties[place];
        if !party.is_stirred() {
            return;
        }
        for handle in std::mem::take(&mut party.stirred) {
            let Some(connection) = party.node.connections.get_mut(&handle) else { continue };
            loop {
                let mut bytes = Vec::new();
                let transmit = connection.poll_transmit(now, 10, &mut bytes);
                let Some(transmit) = transmit else { break };
                let segment = transmit.segment_bytes.unwrap_or(bytes.len()).max(1);
                out.extend(bytes.chunks(segment).map(|chunk| (transmit.destination, chunk.to_vec())));
            }
            party.node.collect_events_of(handle);
        }
        party.timeout = party.node.timeout();
        for (to, bytes) in out {
            self.hear_as_stranger(to, &bytes);
            self.post(place, to, bytes);
        }
    }

    /// A datagram leaves a party.
    fn post(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) {
        let (party, from) = (from, self.parties[from].node.addr);
        match self.parties.iter().position(|party| party.node.addr == to) {
            Some(to) if self.is_piped(from, to) => self.send(from, to, bytes),
            Some(to) if self.chance.between(1, 100) > self.loss_percent => self.send(from, to, bytes),
            // A stream that has ended takes nothing.
            None if pipes::number(to).is_some() => {}
            Some(_) => {}
            None => {
                if !self.parties[party].is_hostile {
                    self.budget.on_sent(to, bytes.len());
                }
                let (now, mut halves) = (self.now, self.halves.iter_mut());
                let half = halves.find(|half| half.address == to);
                if let Some(answer) = half.and_then(|half| half.hear(now, from, &bytes)) {
                    self.send(to, SERVER, answer);
                }
            }
        }
    }

    /// A datagram is on its way to a party, from anywhere.
    pub(super) fn send(&mut self, from: SocketAddr, to: usize, bytes: Vec<u8>) {
        if !self.parties.iter().any(|party| party.node.addr == from) {
            self.budget.on_received(from, bytes.len());
        }
        self.caught.push_back((to, bytes.clone()));
        if self.caught.len() > CAUGHT {
            self.caught.pop_front();
        }
        if self.is_piped(from, to) {
            return self.write(from, to, &pipes::framed(&bytes), false);
        }
        self.count += 1;
        let at = self.now + self.chance.millis(1, 15);
        self.mail.insert((at, self.count), Letter { to, from, bytes, piece_of: None });
    }

    /// One of the last datagrams that were on their way, and to whom.
    pub(super) fn caught(&self, draw: &mut Draw) -> Option<(usize, Vec<u8>)> {
        let last = self.caught.len().checked_sub(1)? as u64;
        self.caught.get(draw.between(0, last) as usize).cloned()
    }

    /// Strangers hear what is sent to where nobody lives.
    fn hear_as_stranger(&mut self, to: SocketAddr, bytes: &[u8]) {
        if let Ok(Peeked::Long { scid, .. }) = peek(bytes, ConnectionId::LEN_MIN)
            && self.told.len() < CAUGHT
            && !self.parties.iter().any(|party| party.node.addr == to)
        {
            self.told.push(scid);
        }
    }

    /// A stranger does something: begins a handshake, goes on with one wrongly, or makes noise.
    pub(super) fn strange(&mut self, draw: &mut Draw) {
        let from = SocketAddr::from(([10, 6, 6, draw.between(1, 40) as u8], 666));
        let bytes = match draw.between(0, 3) {
            0 => {
                let length = draw.between(0, 1400);
                super::frames::noise(draw, length)
            }
            1 => match (self.told.len() as u64).checked_sub(1) {
                None => return,
                Some(last) => {
                    let dcid = self.told[draw.between(0, last) as usize];
                    let first = draw.of(&[0x40, 0xc3, 0xe3]);
                    let tail = super::frames::noise(draw, 60);
                    [&[first], dcid.as_bytes(), &tail].concat()
                }
            },
            2 => match self.caught(draw) {
                Some((SERVER, mut bytes)) if !bytes.is_empty() => {
                    let at = draw.between(0, bytes.len() as u64 - 1) as usize;
                    bytes[at] ^= draw.of(&[0, 1, 0x80]);
                    bytes
                }
                _ => return,
            },
            _ => self.initial(draw),
        };
        self.send(from, SERVER, bytes);
    }

    /// A stranger begins a handshake that goes no further than a proof of his address.
    pub(super) fn half_open(&mut self, draw: &mut Draw) {
        let (half, first) = Half::new(self.now, draw, self.parties[SERVER].node.addr);
        self.send(half.address, SERVER, first);
        self.halves.push_back(half);
        if self.halves.len() > HALVES_MAX {
            self.halves.pop_front();
        }
        self.check_halves(HANDSHAKES_OF_NETWORK);
    }

    /// No network of theirs has more handshakes under way at an honest server than that. Whose first packet
    /// was copied by somebody else, ahead of it, has his place in that one's network: he is heard twice.
    pub(super) fn check_halves(&self, most: usize) {
        let mut networks = BTreeMap::<[u8; 3], usize>::new();
        for connection in self.parties[SERVER].node.connections.values() {
            if let IpAddr::V4(ip) = connection.remote().ip()
                && halves::is_one(connection.remote())
                && !connection.is_closed()
                && (most == 0 || connection.stats().wire.opened_packets == 1)
            {
                let [a, b, c, _] = ip.octets();
                *networks.entry([a, b, c]).or_default() += 1;
            }
        }
        assert!(networks.values().all(|&count| count <= most), "{networks:?} handshakes, at most {most}");
    }

    /// A client's first packet with frames of a liar: its keys are everybody's.
    fn initial(&mut self, draw: &mut Draw) -> Vec<u8> {
        let dcid = match self.told.first() {
            Some(&told) if draw.one_in(2) => told,
            _ => ConnectionId::new([draw.between(0, 20) as u8; 8]),
        };
        let token = if draw.one_in(4) { super::frames::noise(draw, 70) } else { Vec::new() };
        let header = PacketHeader::Initial { dcid, scid: ConnectionId::new([9; 8]), token: &token };
        let number = PacketNumber(draw.between(0, 30));
        let mut packet = Vec::new();
        let span = header.put(number, &mut packet);
        super::frames::handshake(draw, &mut packet);
        packet.resize(packet.len().max(1184), 0);
        let keys = PacketKeys::initial(&dcid, Side::Client);
        keys.seal(number, &mut packet, span).expect("keys that were never used");
        packet
    }

    /// What the server does for its clients: it sends back what comes on the first stream, and something on
    /// every other. It cannot tell friends from enemies, for a stranger's copy of a packet may have moved
    /// either.
    pub(super) fn serve(&mut self) {
        let (now, reads_all) = (self.now, self.reads_all);
        let party = &mut self.parties[SERVER];
        party.node.events.retain(|(_, event)| matches!(event, Event::Closed(_)));
        for handle in &party.stirred {
            let connection = party.node.connections.get_mut(handle);
            let Some(connection) = connection.filter(|connection| !connection.is_closed()) else { continue };
            for dir in [Dir::Bi, Dir::Uni] {
                while let Some(id) = connection.accept(dir) {
                    if dir == Dir::Bi && id.index() > 0 {
                        let _ = connection.write(id, &[7; ANSWER_BYTES]);
                    }
                }
            }
            answer(now, connection, self.unanswered.entry(*handle).or_default());
            if reads_all {
                drain(now, connection);
            }
            while connection.recv_datagram().is_some() {}
        }
    }

    /// The enemy is gone, without a word.
    pub(super) fn silence(&mut self) {
        for party in self.parties.iter_mut().filter(|party| party.is_hostile) {
            party.is_deaf = true;
            party.timeout = None;
            for (handle, _) in std::mem::take(&mut party.node.connections) {
                party.node.endpoint.handle_event(handle, fulmar_proto::EndpointEvent::Drained);
            }
        }
    }

    /// The connection of a client: the one that lives, if there is one.
    pub(super) fn connection(&mut self, party: usize) -> Option<&mut fulmar_proto::Connection> {
        self.parties[party].node.connections.values_mut().min_by_key(|connection| connection.is_closed())
    }

    /// Handles of a party's connections.
    pub(super) fn handles(&self, party: usize) -> Vec<ConnectionHandle> {
        self.parties[party].node.connections.keys().copied().collect()
    }
}

/// An endpoint's answer is one of its refusals.
fn is_refusal(answer: &[u8]) -> bool {
    matches!(peek(answer, ConnectionId::LEN_MIN), Ok(Peeked::Long { ty: LongType::Initial, .. }))
}

fn seed_bytes(seed: u64, place: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..16].copy_from_slice(&place.to_be_bytes());
    bytes
}
