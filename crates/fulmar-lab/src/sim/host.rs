//! One host: an endpoint of the protocol with its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fulmar_net::{Ecn as WireEcn, LinkRate, Rng};
use fulmar_proto::crypto::{self, Identity, PublicKey, Refusal, VerifyPeer};
use fulmar_proto::{
    AllowedProfiles, ClientConfig, ConfigError, Connection, ConnectionHandle, ConnectionStats, DatagramMeta,
    Ecn, Endpoint, EndpointConfig, Event, Instant, PacketEvent, Route, ServerConfig, Transmit,
    TransportConfig,
};

use super::drops::EVENTS_MAX;
use super::wires::Packet;
use crate::scenario::{FlowSpec, Scenario, Topology};

/// Datagrams a batch may hold, as GSO allows.
const SEGMENTS_MAX: usize = 10;
/// Silence after which a connection is given up: longer than any black-out worth an experiment, and than the
/// timers of an old TCP after several losses, of two minutes each.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// What decoders may hold of the program, at least: its own default.
const RECEIVE_MEMORY_BYTES: usize = 16 << 20;

/// Lets everyone in: who is at the other end is no question in a simulation.
#[derive(Debug)]
struct Anyone;

impl VerifyPeer for Anyone {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The keys of all clients and servers.
pub(super) struct Keys {
    client: Arc<crypto::ClientConfig>,
    server: Arc<crypto::ServerConfig>,
}

/// The same keys for every run.
pub(super) fn keys() -> Keys {
    let client = crypto::ClientConfig::raw_key(Some(&Identity::from_seed(&[1; 32])), Arc::new(Anyone));
    let server = crypto::ServerConfig::raw_key(&Identity::from_seed(&[2; 32]), Some(Arc::new(Anyone)));
    Keys { client: Arc::new(client), server: Arc::new(server) }
}

/// A connection, and when it wants to be called as of the last [`Host::settle`]: asking costs as much as
/// sealing a packet.
struct Slot {
    connection: Box<Connection>,
    wake: Option<Instant>,
}

/// An endpoint with its connections.
pub(super) struct Host {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    /// By handle.
    connections: Vec<Option<Slot>>,
    peer: SocketAddr,
    events: Vec<(ConnectionHandle, Event)>,
}

/// What both hosts of a flow are told of the transport, and whether they log their packets.
pub(super) fn transport(scenario: &Scenario, flow: &FlowSpec, is_logged: bool) -> Arc<TransportConfig> {
    let links = match &scenario.topology {
        Topology::Dumbbell(link) => std::slice::from_ref(link),
        Topology::ParkingLot(links) => links.as_slice(),
    };
    // Memory must not be what limits a transport. A symbol that is lost n times holds up what n + 1 round
    // trips bring, and of ten thousands a few are lost five times where a quarter is lost; queues may be long
    // as well.
    let rates = links.iter().filter_map(|link| match &link.rate {
        LinkRate::Unlimited => None,
        rate => rate.peak(),
    });
    let bdp = rates.min().map_or(0, |rate| rate.bytes_in(scenario.rtt(flow)));
    let window = (bdp * 8).clamp(64 << 20, 4 << 30);
    let symbols = flow.decoder_symbols.map(|symbols| symbols.count(bdp));
    let mut config = with_memory(window, symbols).unwrap_or_else(|error| unreachable!("{error}"));
    config.profile(flow.profile.clone()).allowed_profiles(AllowedProfiles::All);
    config.trace_packets(is_logged.then_some(EVENTS_MAX));
    Arc::new(config)
}

fn with_memory(bytes: u64, decoder_symbols: Option<u32>) -> Result<TransportConfig, ConfigError> {
    let mut config = TransportConfig::default();
    config
        .idle_timeout(Some(IDLE_TIMEOUT))?
        .receive_window_bytes(bytes)?
        .stream_receive_window_bytes(bytes)?
        .symbols_held_bytes(bytes + (bytes >> 1))?;
    if let Some(symbols) = decoder_symbols {
        // Each is as long as a packet, and decoders keep as many equations beside them.
        let memory = (symbols as usize * 4 * 1500).max(RECEIVE_MEMORY_BYTES);
        config.decoder_symbols(symbols)?.receive_memory_bytes(memory)?;
    }
    Ok(config)
}

fn endpoint_seed(mut random: Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&random.draw().to_le_bytes());
    }
    seed
}

impl Host {
    pub(super) fn client(transport: Arc<TransportConfig>, keys: &Keys, random: Rng) -> Self {
        let mut config = ClientConfig::new(keys.client.clone());
        config.transport = transport;
        let endpoint = Endpoint::new(&EndpointConfig::default(), None, endpoint_seed(random));
        let peer = SocketAddr::from(([10, 0, 0, 2], 4747));
        Self { endpoint, client: Some(config), connections: Vec::new(), peer, events: Vec::new() }
    }

    pub(super) fn server(transport: Arc<TransportConfig>, keys: &Keys, random: Rng) -> Self {
        let mut config = ServerConfig::new(keys.server.clone());
        config.transport = transport;
        let endpoint =
            Endpoint::new(&EndpointConfig::default(), Some(Arc::new(config)), endpoint_seed(random));
        let peer = SocketAddr::from(([10, 0, 0, 1], 1000));
        Self { endpoint, client: None, connections: Vec::new(), peer, events: Vec::new() }
    }

    /// Begins a connection to the peer; `None` on a server.
    pub(super) fn connect(&mut self, now: Instant) -> Option<ConnectionHandle> {
        let config = self.client.as_ref()?;
        let (handle, connection) = self.endpoint.connect(now, config, self.peer, "lab.test").ok()?;
        self.insert(handle, Box::new(connection));
        Some(handle)
    }

    fn insert(&mut self, handle: ConnectionHandle, connection: Box<Connection>) {
        if self.connections.len() <= handle.0 {
            self.connections.resize_with(handle.0 + 1, || None);
        }
        self.connections[handle.0] = Some(Slot { connection, wake: None });
    }

    pub(super) fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        Some(&mut *self.connections.get_mut(handle.0)?.as_mut()?.connection)
    }

    /// The first connection there is.
    pub(super) fn first(&mut self) -> Option<&mut Connection> {
        self.connections.iter_mut().flatten().next().map(|slot| &mut *slot.connection)
    }

    /// Takes a packet; returns an answer if the endpoint has one that belongs to no connection.
    pub(super) fn receive(&mut self, now: Instant, packet: &mut Packet) -> Option<Vec<u8>> {
        let meta = DatagramMeta { remote: self.peer, local_ip: None, ecn: ecn(packet.ecn) };
        let mut response = Vec::new();
        match self.endpoint.route(now, &meta, &packet.contents, &mut response) {
            Route::Connection(handle) => {
                if let Some(connection) = self.connection(handle) {
                    connection.handle_datagram(now, &meta, &mut packet.contents);
                }
            }
            Route::New(handle, mut connection) => {
                connection.handle_datagram(now, &meta, &mut packet.contents);
                self.insert(handle, connection);
            }
            Route::Respond(_) => return Some(response),
            Route::Reset(handle) => {
                if let Some(connection) = self.connection(handle) {
                    connection.handle_reset(now);
                }
            }
            Route::Drop => {}
        }
        None
    }

    pub(super) fn handle_timeouts(&mut self, now: Instant) {
        for slot in self.connections.iter_mut().flatten() {
            if slot.wake.is_some_and(|at| at <= now) {
                slot.connection.handle_timeout(now);
            }
        }
    }

    /// What happened on the connections since the last call. The vector should be given back by
    /// [`Self::recycle`].
    pub(super) fn take_events(&mut self) -> Vec<(ConnectionHandle, Event)> {
        for (index, slot) in self.connections.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            while let Some(event) = slot.connection.poll_event() {
                self.events.push((ConnectionHandle(index), event));
            }
        }
        std::mem::take(&mut self.events)
    }

    /// Keeps the memory of a vector of events.
    pub(super) fn recycle(&mut self, mut events: Vec<(ConnectionHandle, Event)>) {
        events.clear();
        self.events = events;
    }

    /// Fills `buffer` with the next batch of any connection.
    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.connections.iter_mut().flatten().find_map(|slot| {
            buffer.clear();
            slot.connection.poll_transmit(now, SEGMENTS_MAX, buffer)
        })
    }

    /// What happened to packets since the last call, where it is logged.
    pub(super) fn take_packet_events(&mut self) -> Vec<PacketEvent> {
        let slots = self.connections.iter_mut().flatten();
        slots.flat_map(|slot| slot.connection.take_packet_events().0).collect()
    }

    /// Tells the endpoint what its connections have to say, forgets those that are gone, and notes their
    /// wake-up times.
    pub(super) fn settle(&mut self) {
        for (index, entry) in self.connections.iter_mut().enumerate() {
            let Some(slot) = entry else { continue };
            while let Some(event) = slot.connection.poll_endpoint_event() {
                self.endpoint.handle_event(ConnectionHandle(index), event);
            }
            slot.wake = slot.connection.poll_timeout();
            if slot.connection.is_drained() {
                *entry = None;
            }
        }
    }

    /// Ends every connection in order.
    pub(super) fn shut_down(&mut self, now: Instant) {
        for slot in self.connections.iter_mut().flatten() {
            slot.connection.shutdown(now, 0, bytes::Bytes::new());
        }
    }

    /// No connection is left.
    pub(super) fn is_idle(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.connections.iter().flatten().filter_map(|slot| slot.wake).min()
    }

    /// Of the first connection there is.
    pub(super) fn stats(&self) -> Option<ConnectionStats> {
        self.connections.iter().flatten().next().map(|slot| slot.connection.stats())
    }
}

fn ecn(ecn: WireEcn) -> Option<Ecn> {
    match ecn {
        WireEcn::NotEct => None,
        WireEcn::Ect0 => Some(Ecn::Ect0),
        WireEcn::Ect1 => Some(Ecn::Ect1),
        WireEcn::Ce => Some(Ecn::Ce),
    }
}
