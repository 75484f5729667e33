//! The endpoint: to which connection a datagram belongs, and what to answer those that belong to none.
//!
//! It holds no connection, only their names. Answers without state (version negotiation, Retry, refusal,
//! reset) never exceed what they answer by more than the amplification limit allows, and cost no memory.

mod beginners;
mod client_network;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use crate::config::{ClientConfig, EndpointConfig, ServerConfig};
use crate::connection::{CidSource, Connection, DatagramMeta, EndpointEvent, Setup, Transmit};
use crate::crypto::{PacketKeys, ResetKey, ResetToken, Session, StartError, TokenKey, retry};
use crate::wire::frame::{self, Close};
use crate::wire::packet::{self, LongType, PacketHeader, PacketKind, Peeked, TAG_BYTES};
use crate::{ConnectionId, Instant, PacketNumber, Side, TransportError, TransportErrorCode};
use beginners::{Beginners, Limits, Place, Room};
pub use client_network::ClientNetwork;

/// A datagram that opens a connection is at least this long (RFC 9000 14.1).
const INITIAL_DATAGRAM_BYTES_MIN: usize = 1200;

/// Name of a connection within its endpoint: a small number, used again after the connection has drained.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// Why no connection could be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nothing can be sent to this address.
    #[error("{0} is not an address to connect to")]
    InvalidAddress(SocketAddr),
    /// The handshake cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Where a datagram belongs.
#[derive(Debug)]
pub enum Route {
    /// To this connection: give it the datagram.
    Connection(ConnectionHandle),
    /// It opens this connection: give it the datagram.
    New(ConnectionHandle, Box<Connection>),
    /// Nowhere, but it is to be answered with the bytes in `response`.
    Respond(Transmit),
    /// It says that the peer of this connection has lost it: call [`Connection::handle_reset`].
    Reset(ConnectionHandle),
    /// Nowhere.
    Drop,
}

#[derive(Debug, Default)]
struct Slot {
    cids: Vec<ConnectionId>,
    original: Option<ConnectionId>,
    reset_token: Option<ResetToken>,
    /// As long as the handshake goes on.
    beginner: Option<Place>,
}

/// The connections of one socket, by name.
pub struct Endpoint {
    server: Option<Arc<ServerConfig>>,
    rng: ChaCha20Rng,
    cid_source: CidSource,
    token_key: TokenKey,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    by_cid: BTreeMap<ConnectionId, usize>,
    /// Whom the last packet was for: so is the next, most of the time.
    latest: Option<(ConnectionId, usize)>,
    /// By the destination of a client's first packet, until the handshake is over.
    by_original: BTreeMap<ConnectionId, usize>,
    by_reset_token: BTreeMap<[u8; 16], usize>,
    beginners: Beginners,
    /// Handshakes that others have taken the place of.
    displaced: VecDeque<usize>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("connections", &self.connection_count())
            .field("handshakes", &self.beginners.count())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint that accepts connections if it has a `server`. All its random numbers follow from `seed`,
    /// which therefore must be secret outside of simulations.
    pub fn new(config: &EndpointConfig, server: Option<Arc<ServerConfig>>, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let ids = config.connection_ids.clone();
        let reset_key = match &config.reset_key {
            Some(key) => ResetKey::new(key),
            None => ResetKey::generate(&mut rng),
        };
        let mut token_secret = [0; 32];
        rng.fill_bytes(&mut token_secret);
        let lifetime = server.as_ref().map_or(TokenKey::LIFETIME_DEFAULT, |server| server.token_lifetime);
        Self {
            server,
            rng,
            cid_source: CidSource { ids, reset_key: Arc::new(reset_key) },
            token_key: TokenKey::new(&token_secret, lifetime),
            slots: Vec::new(),
            free: Vec::new(),
            by_cid: BTreeMap::new(),
            latest: None,
            by_original: BTreeMap::new(),
            by_reset_token: BTreeMap::new(),
            beginners: Beginners::default(),
            displaced: VecDeque::new(),
        }
    }

    /// Accepts connections with these settings from now on, or none.
    pub fn set_server(&mut self, server: Option<Arc<ServerConfig>>) {
        if let Some(server) = &server {
            self.token_key.set_lifetime(server.token_lifetime);
        }
        self.server = server;
    }

    /// Connections that have not drained.
    pub fn connection_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Names by which connections are found.
    pub fn connection_id_count(&self) -> usize {
        self.by_cid.len() + self.by_original.len()
    }

    /// Begins a connection to `remote`, to be verified as `server_name` (a DNS name or an IP address).
    pub fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        if remote.port() == 0 || remote.ip().is_unspecified() {
            return Err(ConnectError::InvalidAddress(remote));
        }
        let local_cid = self.new_cid();
        let peer_cid = self.new_cid();
        let setup = Setup {
            side: Side::Client,
            transport: config.transport.clone(),
            remote,
            local_ip: None,
            local_cid,
            peer_cid,
            original_cid: peer_cid,
            retry_cid: None,
            cid_source: self.cid_source.clone(),
            seed: self.draw_seed(),
        };
        let start = |parameters| Session::start_client(&config.crypto, server_name, parameters);
        let keys = PacketKeys::initial(&peer_cid, Side::Client);
        let connection = Connection::new(now, setup, keys, None, start)?;
        let handle = self.insert(Slot { cids: vec![local_cid], ..Slot::default() });
        Ok((handle, connection))
    }

    /// Where `datagram` belongs. An answer, if there is one, is appended to the empty `response`.
    pub fn route(
        &mut self,
        now: Instant,
        meta: &DatagramMeta,
        datagram: &[u8],
        response: &mut Vec<u8>,
    ) -> Route {
        match packet::peek(datagram, self.cid_source.ids.wire_bytes()) {
            Ok(Peeked::Short { dcid }) => self.route_short(meta, &dcid, datagram, response),
            Ok(Peeked::Long { ty, dcid, scid }) => {
                let known = self.by_cid.get(&dcid).or_else(|| self.by_original.get(&dcid));
                match known {
                    Some(&at) => Route::Connection(ConnectionHandle(at)),
                    None if ty == LongType::Initial => {
                        let initial = InitialPacket::parse(meta, dcid, scid, datagram);
                        initial.map_or(Route::Drop, |initial| self.accept(now, &initial, response))
                    }
                    None => Route::Drop,
                }
            }
            Ok(Peeked::VersionNegotiation { dcid, .. }) => {
                let known = ConnectionId::from_bytes(dcid).and_then(|dcid| self.by_cid.get(&dcid));
                known.map_or(Route::Drop, |&at| Route::Connection(ConnectionHandle(at)))
            }
            Ok(Peeked::UnknownVersion { dcid, scid, .. }) => {
                // RFC 9000 6.1: only to what could have opened a connection.
                if self.server.is_none() || datagram.len() < INITIAL_DATAGRAM_BYTES_MIN {
                    return Route::Drop;
                }
                packet::put_version_negotiation(scid, dcid, self.rng.next_u32() as u8, response);
                respond(meta, response)
            }
            Err(_) => Route::Drop,
        }
    }

    fn route_short(
        &mut self,
        meta: &DatagramMeta,
        dcid: &ConnectionId,
        datagram: &[u8],
        response: &mut Vec<u8>,
    ) -> Route {
        if let Some((_, at)) = self.latest.filter(|(latest, _)| latest == dcid) {
            return Route::Connection(ConnectionHandle(at));
        }
        if let Some(&at) = self.by_cid.get(dcid) {
            self.latest = Some((*dcid, at));
            return Route::Connection(ConnectionHandle(at));
        }
        // The token is found by a search and confirmed in constant time (RFC 9000 10.3.1).
        if let Some(token) = ResetToken::at_end_of(datagram)
            && let Some(&at) = self.by_reset_token.get(token.as_bytes())
            && self.slots[at].as_ref().and_then(|slot| slot.reset_token.as_ref()) == Some(&token)
        {
            return Route::Reset(ConnectionHandle(at));
        }
        // Only servers have given out tokens that a reset could prove anything by.
        let key = &self.cid_source.reset_key;
        if self.server.is_some() && key.put_reset(dcid, datagram.len(), &mut self.rng, response) {
            return respond(meta, response);
        }
        Route::Drop
    }

    /// A client knocks.
    fn accept(&mut self, now: Instant, initial: &InitialPacket<'_>, response: &mut Vec<u8>) -> Route {
        let Some(server) = self.server.clone() else { return Route::Drop };
        if initial.token.is_empty() && self.beginners.count() >= server.retry_above_handshakes {
            // Whether the packet is authentic costs more to find out than the answer, which is shorter.
            self.put_retry(now, initial, response);
            return respond(initial.meta, response);
        }
        // After a Retry as well they follow from the connection id that the client was told to use.
        let keys = PacketKeys::initial(&initial.dcid, Side::Server);
        if !initial.is_authentic(&keys) {
            return Route::Drop;
        }
        match self.admit(now, initial, &server) {
            Ok(entry) => self.begin(now, initial, keys, &server, entry),
            Err(Some(error)) => {
                put_refusal(&keys, initial, error, response);
                respond(initial.meta, response)
            }
            Err(None) => Route::Drop,
        }
    }

    /// Whether the server takes one more, and this one. A refusal without a word is of a client that asks
    /// again soon.
    fn admit(
        &self,
        now: Instant,
        initial: &InitialPacket<'_>,
        server: &ServerConfig,
    ) -> Result<Entry, Option<TransportError>> {
        let refused = |code, reason: String| Some(TransportError::new(code, reason));
        let original_dcid = match initial.token {
            [] => None,
            // RFC 9000 8.1.2: the client takes no second Retry, so it has to begin anew.
            token => match self.token_key.open(token, initial.meta.remote, &initial.dcid, now) {
                Ok(validated) => Some(validated.original_dcid),
                Err(refusal) => {
                    return Err(refused(TransportErrorCode::InvalidToken, refusal.to_string()));
                }
            },
        };
        if self.connection_count() >= server.connections_max {
            return Err(refused(TransportErrorCode::ConnectionRefused, "too many connections".into()));
        }
        let limits = Limits { of_all: server.handshakes_max, of_network: server.handshakes_per_network_max };
        let displaces = match self.beginners.room(now, initial.meta.remote, limits) {
            Room::Free => None,
            Room::InsteadOf(connection) => Some(connection),
            Room::None => return Err(None),
        };
        Ok(Entry { original_dcid, displaces })
    }

    fn begin(
        &mut self,
        now: Instant,
        initial: &InitialPacket<'_>,
        keys: PacketKeys,
        server: &ServerConfig,
        entry: Entry,
    ) -> Route {
        let InitialPacket { meta, dcid, scid, .. } = *initial;
        let local_cid = self.new_cid();
        let setup = Setup {
            side: Side::Server,
            transport: server.transport.clone(),
            remote: meta.remote,
            local_ip: meta.local_ip,
            local_cid,
            peer_cid: scid,
            original_cid: entry.original_dcid.unwrap_or(dcid),
            retry_cid: entry.original_dcid.map(|_| dcid),
            cid_source: self.cid_source.clone(),
            seed: self.draw_seed(),
        };
        let reset_token = self.cid_source.reset_key.token(&local_cid);
        let start = |parameters| Session::start_server(&server.crypto, parameters);
        let connection = match Connection::new(now, setup, keys, Some(reset_token), start) {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "server cannot begin a handshake");
                return Route::Drop;
            }
        };
        if let Some(at) = entry.displaces {
            self.leave_beginners(at);
            self.displaced.push_back(at);
        }
        let handle = self.insert(Slot { cids: vec![local_cid], original: Some(dcid), ..Slot::default() });
        if let Some(slot) = &mut self.slots[handle.0] {
            slot.beginner = Some(self.beginners.enter(now, meta.remote, handle.0));
        }
        Route::New(handle, Box::new(connection))
    }

    /// Asks a client to come again and prove its address.
    fn put_retry(&mut self, now: Instant, initial: &InitialPacket<'_>, response: &mut Vec<u8>) {
        let InitialPacket { meta, dcid, scid, .. } = initial;
        let new_cid = self.new_cid();
        let token = self.token_key.seal(meta.remote, dcid, &new_cid, now, &mut self.rng);
        retry::put(scid, &new_cid, dcid, &token, response);
    }

    /// A connection whose handshake has to give way to another: call [`Connection::give_way`].
    pub fn poll_displaced(&mut self) -> Option<ConnectionHandle> {
        self.displaced.pop_front().map(ConnectionHandle)
    }

    /// Takes notice of what a connection has to tell.
    pub fn handle_event(&mut self, handle: ConnectionHandle, event: EndpointEvent) {
        let Some(Some(slot)) = self.slots.get_mut(handle.0) else { return };
        match event {
            EndpointEvent::ResetToken(token) => {
                if let Some(old) = slot.reset_token.replace(token) {
                    self.by_reset_token.remove(old.as_bytes());
                }
                self.by_reset_token.insert(*token.as_bytes(), handle.0);
            }
            EndpointEvent::CidIssued(cid) => {
                // Drawn at random, so that one which is another's has never been seen.
                self.by_cid.entry(cid).or_insert_with(|| {
                    slot.cids.push(cid);
                    handle.0
                });
            }
            EndpointEvent::CidRetired(cid) => {
                let known = slot.cids.len();
                slot.cids.retain(|own| *own != cid);
                if slot.cids.len() < known {
                    self.by_cid.remove(&cid);
                    self.latest = None;
                }
            }
            EndpointEvent::HandshakeDone => self.leave_beginners(handle.0),
            EndpointEvent::Drained => self.remove(handle),
        }
    }

    fn insert(&mut self, slot: Slot) -> ConnectionHandle {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        for cid in &slot.cids {
            self.by_cid.insert(*cid, at);
        }
        if let Some(original) = slot.original {
            self.by_original.insert(original, at);
        }
        self.slots[at] = Some(slot);
        ConnectionHandle(at)
    }

    fn remove(&mut self, handle: ConnectionHandle) {
        let Some(slot) = self.slots[handle.0].take() else { return };
        self.latest = None;
        for cid in &slot.cids {
            self.by_cid.remove(cid);
        }
        if let Some(original) = &slot.original {
            self.by_original.remove(original);
        }
        if let Some(token) = &slot.reset_token {
            self.by_reset_token.remove(token.as_bytes());
        }
        slot.beginner.into_iter().for_each(|place| self.beginners.leave(place));
        self.displaced.retain(|&at| at != handle.0);
        self.free.push(handle.0);
    }

    /// The handshake of this connection is over, or given up.
    fn leave_beginners(&mut self, at: usize) {
        if let Some(Some(slot)) = self.slots.get_mut(at)
            && let Some(place) = slot.beginner.take()
        {
            self.beginners.leave(place);
        }
    }

    fn draw_seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        seed
    }

    /// A connection id that is not in use.
    fn new_cid(&mut self) -> ConnectionId {
        loop {
            let cid = self.cid_source.ids.draw(&mut self.rng);
            if !self.by_cid.contains_key(&cid) {
                return cid;
            }
        }
    }
}

fn respond(meta: &DatagramMeta, response: &[u8]) -> Route {
    Route::Respond(Transmit {
        destination: meta.remote,
        src_ip: meta.local_ip,
        ecn: None,
        bytes: response.len(),
        segment_bytes: None,
    })
}

/// What is known of a client that is let in.
struct Entry {
    /// Where its first packet went, if it was asked to come again.
    original_dcid: Option<ConnectionId>,
    /// The handshake that it takes the place of.
    displaces: Option<usize>,
}

/// A client's first packet, not opened.
struct InitialPacket<'a> {
    meta: &'a DatagramMeta,
    dcid: ConnectionId,
    scid: ConnectionId,
    packet: &'a [u8],
    pn_offset: usize,
    token: &'a [u8],
}

impl<'a> InitialPacket<'a> {
    fn parse(
        meta: &'a DatagramMeta,
        dcid: ConnectionId,
        scid: ConnectionId,
        datagram: &'a [u8],
    ) -> Option<Self> {
        if datagram.len() < INITIAL_DATAGRAM_BYTES_MIN {
            return None;
        }
        // What has a short header is no Initial packet, whatever the length of its id.
        let parsed = packet::parse(datagram, ConnectionId::LEN_MIN).ok()?;
        let PacketKind::Initial { token, .. } = &parsed.kind else { return None };
        let (packet, token) = (datagram.get(..parsed.end)?, datagram.get(token.clone())?);
        Some(Self { meta, dcid, scid, packet, pn_offset: parsed.pn_offset, token })
    }

    /// It was made by someone who follows the protocol. Anything else costs a server no state.
    fn is_authentic(&self, keys: &PacketKeys) -> bool {
        keys.open(&mut self.packet.to_vec(), self.pn_offset, PacketNumber(0)).is_ok()
    }
}

/// Tells a client why no connection is taken, without keeping anything of it.
fn put_refusal(keys: &PacketKeys, initial: &InitialPacket<'_>, error: TransportError, out: &mut Vec<u8>) {
    let header = PacketHeader::Initial { dcid: initial.scid, scid: initial.dcid, token: &[] };
    let span = header.put(PacketNumber(0), out);
    frame::put_close(out, &Close::Transport(error), INITIAL_DATAGRAM_BYTES_MIN - out.len() - TAG_BYTES);
    if keys.seal(PacketNumber(0), out, span).is_err() {
        out.clear();
    }
}
