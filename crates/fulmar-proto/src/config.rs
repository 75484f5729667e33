//! Settings of endpoints and connections. Every bound on memory is here.

use std::sync::Arc;
use std::time::Duration;

use rand_core::RngCore;

use crate::profile::{AllowedProfiles, Profile};
use crate::{ConnectionId, crypto};

/// Settings of the transport, shared by many connections.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    pub(crate) profile: Profile,
    pub(crate) follows_peer_profile: bool,
    pub(crate) allowed_profiles: AllowedProfiles,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) handshake_timeout: Duration,
    pub(crate) receive_window_bytes: u64,
    pub(crate) receive_window_initial_bytes: Option<u64>,
    pub(crate) stream_receive_window_bytes: u64,
    pub(crate) send_buffer_bytes: u64,
    pub(crate) symbols_held_bytes: u64,
    pub(crate) decoder_symbols: u32,
    pub(crate) receive_memory_bytes: usize,
    pub(crate) streams_bi: u64,
    pub(crate) streams_uni: u64,
    pub(crate) datagram_buffer_bytes: usize,
    pub(crate) initial_mtu_bytes: u16,
    pub(crate) mtu_max_bytes: u16,
    pub(crate) is_ecn_enabled: bool,
    #[cfg(feature = "forge")]
    pub(crate) forgery: Option<crate::params::Forgery>,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            profile: Profile::auto(),
            follows_peer_profile: true,
            allowed_profiles: AllowedProfiles::Obeying,
            idle_timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            handshake_timeout: Duration::from_secs(60),
            receive_window_bytes: 64 << 20,
            receive_window_initial_bytes: None,
            stream_receive_window_bytes: 48 << 20,
            send_buffer_bytes: 4 << 20,
            symbols_held_bytes: 96 << 20,
            decoder_symbols: 4096,
            receive_memory_bytes: 16 << 20,
            streams_bi: 10_000,
            streams_uni: 10_000,
            datagram_buffer_bytes: 1 << 20,
            initial_mtu_bytes: 1200,
            mtu_max_bytes: 1472,
            is_ecn_enabled: true,
            #[cfg(feature = "forge")]
            forgery: None,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl TransportConfig {
            $($(#[$doc])* pub fn $name(&mut self, value: $type) -> &mut Self { self.$name = value; self })*
        }
    };
}

setters! {
    /// The modules this end sends with. Default: [`Profile::auto`].
    profile: Profile;
    /// A server sends with the profile its client names, if it knows it and [`Self::allowed_profiles`] has it. Default: yes.
    follows_peer_profile: bool;
    /// Profiles that a server follows its clients in besides those that obey congestion. To a client that names another it
    /// sends with its own congestion control. Default: none.
    allowed_profiles: AllowedProfiles;
    /// Silence after which the connection is given up; the smaller of both ends' values holds. Default: 30 s.
    idle_timeout: Option<Duration>;
    /// Silence after which this end sends something to keep the connection and its NAT bindings. Default: never.
    keep_alive: Option<Duration>;
    /// How long the handshake may take: at 50 % loss both ways it needs tens of seconds once in a while. Default: 60 s.
    handshake_timeout: Duration;
    /// Stream bytes the peer may have under way or unread, at most: bounds the memory of a connection's receiving side.
    /// The window starts small and grows to the bandwidth-delay product. Default: 64 MiB.
    receive_window_bytes: u64;
    /// What that window is at first. `None`: a few MiB. A connection whose streams are read by many, some of them slowly,
    /// begins with all of it: the window of the connection would grow with the fast ones only, and the unread bytes of
    /// the slow ones fill it.
    receive_window_initial_bytes: Option<u64>;
    /// The same for one stream. Default: 48 MiB.
    stream_receive_window_bytes: u64;
    /// Bytes written and not yet packed into symbols, at most, over all streams. Default: 4 MiB.
    send_buffer_bytes: u64;
    /// Bytes of symbols sent and not yet known to be decoded, at most. Default: 96 MiB.
    symbols_held_bytes: u64;
    /// Symbols the decoder retains for repair symbols to refer to, with long symbols fewer. Default: 4096.
    decoder_symbols: u32;
    /// Memory that a peer can make a connection hold besides the bytes that flow control grants: the decoder's, datagrams',
    /// the handshake's. At least 10 MiB and the datagrams' buffer. Up to 8 MiB more are for packets sent whose fate is not known.
    /// Default: 16 MiB.
    receive_memory_bytes: usize;
    /// Bidirectional streams the peer may have open. Default: 10,000.
    streams_bi: u64;
    /// Unidirectional streams the peer may have open. Default: 10,000.
    streams_uni: u64;
    /// Bytes of unreliable datagrams queued in each direction, at most; zero refuses datagrams. Default: 1 MiB.
    datagram_buffer_bytes: usize;
    /// Size of UDP payloads that every path is trusted to carry, at least 1200. Default: 1200.
    initial_mtu_bytes: u16;
    /// Largest UDP payload that is probed for. Default: 1472, Ethernet's with IPv4.
    mtu_max_bytes: u16;
    /// Mark packets as ECN-capable where the path proves to be. Default: yes.
    is_ecn_enabled: bool;
}

#[cfg(feature = "forge")]
impl TransportConfig {
    /// Connections tell their peers what `forge` makes of their parameters: for tests.
    #[doc(hidden)]
    pub fn forge_parameters(&mut self, forge: impl Fn(&mut crate::Parameters) + Send + Sync + 'static) {
        self.forgery = Some(crate::params::Forgery(Arc::new(forge)));
    }
}

impl TransportConfig {
    /// What a server takes of the profile that its client names.
    pub(crate) fn adopting(&self, profile: &str) -> Adopted {
        let is_other = self.follows_peer_profile && !profile.is_empty() && profile != self.profile.name;
        match is_other.then(|| Profile::parse(profile).ok()).flatten() {
            None => Adopted::Nothing,
            Some(profile) if self.allowed_profiles.allows(&profile) => Adopted::All(profile),
            Some(profile) => Adopted::Coding(profile),
        }
    }
}

/// What of a client's profile its server sends with.
#[derive(Clone, Debug)]
pub(crate) enum Adopted {
    /// The server's own does.
    Nothing,
    /// How symbols are coded, for that is how the client decodes; the rest is the server's own.
    Coding(Profile),
    /// All of it.
    All(Profile),
}

/// Settings of connections this end opens.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Keys and whom to trust.
    pub crypto: Arc<crypto::ClientConfig>,
    /// The transport.
    pub transport: Arc<TransportConfig>,
}

impl ClientConfig {
    /// Settings with the default transport.
    pub fn new(crypto: Arc<crypto::ClientConfig>) -> Self {
        Self { crypto, transport: Arc::default() }
    }
}

/// Settings of connections this end accepts.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Keys and whom to trust.
    pub crypto: Arc<crypto::ServerConfig>,
    /// The transport.
    pub transport: Arc<TransportConfig>,
    /// Connections that may exist at once; more are refused.
    pub connections_max: usize,
    /// Handshakes under way above which new clients must first prove their address by a Retry.
    pub retry_above_handshakes: usize,
    /// How long a Retry token is good for.
    pub token_lifetime: Duration,
}

impl ServerConfig {
    /// Settings with the default transport.
    pub fn new(crypto: Arc<crypto::ServerConfig>) -> Self {
        Self {
            crypto,
            transport: Arc::default(),
            connections_max: 100_000,
            retry_above_handshakes: 1_000,
            token_lifetime: Duration::from_secs(15),
        }
    }
}

/// Settings of an endpoint as a whole.
#[derive(Clone, Debug, Default)]
pub struct EndpointConfig {
    /// Key of stateless resets. The same key across restarts lets peers notice a restart at once; without one it is drawn from
    /// the endpoint's seed.
    pub reset_key: Option<[u8; 32]>,
    /// What the endpoint's connections are called.
    pub connection_ids: ConnectionIds,
}

/// What the connections of an endpoint are called. All ids of one endpoint have one length, which packets do not tell. A
/// balancer before several servers can route by what the ids of each begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionIds {
    prefix: Vec<u8>,
    bytes: usize,
}

impl Default for ConnectionIds {
    fn default() -> Self {
        Self { prefix: Vec::new(), bytes: ConnectionId::LEN_MIN }
    }
}

impl ConnectionIds {
    /// Ids of `bytes` bytes that begin with `prefix`. `None` unless there are at least 8 bytes besides it, and at most 20 in
    /// all: what is not the prefix is drawn at random.
    pub fn new(prefix: &[u8], bytes: usize) -> Option<Self> {
        let is_right = bytes <= ConnectionId::LEN_MAX && prefix.len() + ConnectionId::LEN_MIN <= bytes;
        is_right.then(|| Self { prefix: prefix.to_vec(), bytes })
    }

    /// Length of each.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn draw(&self, random: &mut impl RngCore) -> ConnectionId {
        let mut bytes = [0; ConnectionId::LEN_MAX];
        let bytes = &mut bytes[..self.bytes];
        random.fill_bytes(bytes);
        bytes[..self.prefix.len()].copy_from_slice(&self.prefix);
        ConnectionId::from_bytes(bytes).expect("no longer than connection ids may be")
    }
}
