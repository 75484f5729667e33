//! Settings of endpoints and connections. Every bound on memory is here.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use rand_core::RngCore;

use crate::profile::{AllowedProfiles, Profile};
use crate::recovery::{ReceiveLimit, SendLimit};
use crate::stream::STREAMS_MAX;
use crate::wire::VARINT_MAX;
use crate::{ConnectionId, Side, crypto};

/// Settings of the transport, shared by many connections.
#[derive(Clone, Debug)]
pub struct TransportConfig {
    pub(crate) profile: Profile,
    pub(crate) follows_peer_profile: bool,
    pub(crate) allowed_profiles: AllowedProfiles,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) keep_alive_idle: Option<Duration>,
    pub(crate) keep_alive_trial: Option<Duration>,
    pub(crate) answer_timeout: Option<Duration>,
    pub(crate) send_limit: Option<SendLimit>,
    pub(crate) receive_limit: Option<ReceiveLimit>,
    pub(crate) handshake_timeout: Option<Duration>,
    pub(crate) receive_window_bytes: u64,
    pub(crate) receive_window_initial_bytes: Option<u64>,
    pub(crate) stream_receive_window_bytes: u64,
    pub(crate) send_buffer_bytes: u64,
    pub(crate) stream_send_buffer_bytes: u64,
    pub(crate) symbols_held_bytes: u64,
    pub(crate) decoder_symbols: u32,
    pub(crate) receive_memory_bytes: usize,
    pub(crate) streams_bi: u64,
    pub(crate) streams_uni: u64,
    pub(crate) datagram_buffer_bytes: usize,
    pub(crate) initial_mtu_bytes: u16,
    pub(crate) mtu_max_bytes: u16,
    pub(crate) is_ecn_enabled: bool,
    pub(crate) trace_packets: Option<usize>,
    pub(crate) ports: Vec<RangeInclusive<u16>>,
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
            keep_alive_idle: None,
            keep_alive_trial: None,
            answer_timeout: None,
            send_limit: None,
            receive_limit: None,
            handshake_timeout: None,
            receive_window_bytes: 64 << 20,
            receive_window_initial_bytes: None,
            stream_receive_window_bytes: 48 << 20,
            send_buffer_bytes: 4 << 20,
            stream_send_buffer_bytes: 256 << 10,
            symbols_held_bytes: 96 << 20,
            decoder_symbols: 4096,
            receive_memory_bytes: 16 << 20,
            streams_bi: 10_000,
            streams_uni: 10_000,
            datagram_buffer_bytes: 1 << 20,
            initial_mtu_bytes: 1200,
            mtu_max_bytes: 1472,
            is_ecn_enabled: true,
            trace_packets: None,
            ports: Vec::new(),
            #[cfg(feature = "forge")]
            forgery: None,
        }
    }
}

/// A value that a setting does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} is {value}: it takes {min} to {max}")]
pub struct ConfigError {
    /// The setting, by the name of its setter.
    pub setting: &'static str,
    /// What was given.
    pub value: String,
    /// The least it takes.
    pub min: String,
    /// The most it takes.
    pub max: String,
}

/// A UDP payload that every path carries (RFC 9000 14), and the largest there is.
const UDP_PAYLOADS: RangeInclusive<u16> = 1200..=65_527;
/// What a varint holds.
const BYTES: RangeInclusive<u64> = 1..=VARINT_MAX;
/// Timers have a millisecond's resolution, and time does not overflow.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(365 * 24 * 3600);
/// Decoder and handshake of one connection, without datagrams.
const RECEIVE_MEMORY_BYTES_MIN: usize = 10 << 20;

fn within<T: PartialOrd + fmt::Debug>(
    setting: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<T, ConfigError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let [value, min, max] = [&value, range.start(), range.end()].map(|value| format!("{value:?}"));
    Err(ConfigError { setting, value, min, max })
}

/// How long a handshake may take unless it is said.
const HANDSHAKE_TIMEOUT_CLIENT: Duration = Duration::from_secs(60);
const HANDSHAKE_TIMEOUT_SERVER: Duration = Duration::from_secs(10);

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl TransportConfig {
            $($(#[$doc])* pub fn $name(&mut self, value: $type) -> &mut Self { self.$name = value; self })*
        }
    };
}

/// Setters of what has a range.
macro_rules! bounded_setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $range:expr;)*) => {
        impl TransportConfig {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// If the value is out of range; nothing is changed then.
                pub fn $name(&mut self, value: $type) -> Result<&mut Self, ConfigError> {
                    self.$name = within(stringify!($name), value, &$range)?;
                    Ok(self)
                }
            )*
        }
    };
}

/// The same where `None` switches off.
macro_rules! optional_setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $range:expr;)*) => {
        impl TransportConfig {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// If the value is out of range; nothing is changed then.
                pub fn $name(&mut self, value: Option<$type>) -> Result<&mut Self, ConfigError> {
                    self.$name = value.map(|value| within(stringify!($name), value, &$range)).transpose()?;
                    Ok(self)
                }
            )*
        }
    };
}

setters! {
    /// The modules this end sends with. Default: [`Profile::auto`].
    profile: Profile;
    /// A server sends with the profile its client names, if it knows it and [`Self::allowed_profiles`] has
    /// it. Default: yes.
    follows_peer_profile: bool;
    /// Profiles that a server follows its clients in besides those that obey congestion. To a client that
    /// names another it sends with its own congestion control. Default: none.
    allowed_profiles: AllowedProfiles;
    /// Mark packets as ECN-capable where the path proves to be. Default: yes.
    is_ecn_enabled: bool;
    /// A rate that connections keep together when they send, whatever their congestion control allows.
    /// Default: none.
    send_limit: Option<SendLimit>;
    /// A rate that connections keep together when they receive: their peers are asked. Default: none.
    receive_limit: Option<ReceiveLimit>;
    /// Remember what happens to each packet, for a log: so many events, of some 100 bytes each, until they
    /// are taken ([`Connection::take_packet_events`](crate::Connection::take_packet_events)); more are
    /// counted. Default: no log.
    trace_packets: Option<usize>;
}

optional_setters! {
    /// Silence after which the connection is given up; the smaller of both ends' values holds. Default: 30 s.
    idle_timeout: Duration = TIMES;
    /// Silence after which this end sends something to keep the connection and its NAT bindings. Default:
    /// never.
    keep_alive: Duration = TIMES;
    /// Where nothing of the application's comes or goes for long, the silence grows up to this: what every
    /// NAT remembers. Default: it does not grow.
    keep_alive_idle: Duration = TIMES;
    /// And from there up to this, as far as the NAT on the way is found to remember: the peer asks for a sign
    /// of life where it has forgotten. Default: nothing is tried.
    keep_alive_trial: Duration = TIMES;
    /// What was sent and is not answered for so long ends the connection, and so does a silence that is so
    /// much longer than those that [`Self::keep_alive_idle`] lets a peer have, however much longer
    /// [`Self::idle_timeout`] is, which counts where nothing was asked as well. Default: never.
    answer_timeout: Duration = TIMES;
    /// What the window of [`Self::receive_window_bytes`] is at first. `None`: a few MiB. A connection whose
    /// streams are read by many, some of them slowly, begins with all of it: the window of the connection
    /// would grow with the fast ones only, and the unread bytes of the slow ones fill it.
    receive_window_initial_bytes: u64 = BYTES;
}

bounded_setters! {
    /// Stream bytes the peer may have under way or unread, at most: bounds the memory of a connection's
    /// receiving side. The window starts small and grows to the bandwidth-delay product. Default: 64 MiB.
    receive_window_bytes: u64 = BYTES;
    /// The same for one stream. Default: 48 MiB.
    stream_receive_window_bytes: u64 = BYTES;
    /// Bytes written and not yet packed into symbols, at most, over all streams. Default: 4 MiB.
    send_buffer_bytes: u64 = BYTES;
    /// The same for one stream: a writer that waits is woken when half of it has left. Writers in threads of
    /// their own, which are woken at a price, want more. Default: 256 KiB.
    stream_send_buffer_bytes: u64 = BYTES;
    /// Bytes of symbols sent and not yet known to be decoded, at most. Default: 96 MiB.
    symbols_held_bytes: u64 = BYTES;
    /// Symbols the decoder retains for repair symbols to refer to, with long symbols fewer. Default: 4096.
    decoder_symbols: u32 = 1..=1 << 20;
    /// Bidirectional streams the peer may have open. Default: 10,000.
    streams_bi: u64 = 0..=STREAMS_MAX;
    /// Unidirectional streams the peer may have open. Default: 10,000.
    streams_uni: u64 = 0..=STREAMS_MAX;
    /// Size of UDP payloads that every path is trusted to carry, at least 1200. Default: 1200.
    initial_mtu_bytes: u16 = UDP_PAYLOADS;
    /// Largest UDP payload that is probed for. Default: 1472, Ethernet's with IPv4.
    mtu_max_bytes: u16 = UDP_PAYLOADS;
}

impl TransportConfig {
    /// Ports of its address at which a server takes what comes, the one that its clients know among them: it
    /// tells them, and they go to another of these where nothing is answered any more. Ranges in order, that
    /// have no port in common. Default: none, which says that there is one port.
    ///
    /// # Errors
    /// If they are not in order, or more than 16; nothing is changed then.
    pub fn ports(&mut self, ranges: Vec<RangeInclusive<u16>>) -> Result<&mut Self, ConfigError> {
        if !crate::params::are_ports(&ranges) {
            let [value, min, max] = [format!("{ranges:?}"), "1 range in order".into(), "16".into()];
            return Err(ConfigError { setting: "ports", value, min, max });
        }
        self.ports = ranges;
        Ok(self)
    }

    /// How long the handshake may take. A client waits for a server that may be out of reach for a while, a
    /// server only for the rest of what has begun. Default: 60 s for a client, 10 s for a server.
    ///
    /// # Errors
    /// If the value is out of range; nothing is changed then.
    pub fn handshake_timeout(&mut self, value: Duration) -> Result<&mut Self, ConfigError> {
        self.handshake_timeout = Some(within("handshake_timeout", value, &TIMES)?);
        Ok(self)
    }

    /// Memory that a peer can make a connection hold besides the bytes that flow control grants: the
    /// decoder's, datagrams', the handshake's. Up to 8 MiB more are for packets sent whose fate is not known.
    /// Default: 16 MiB.
    ///
    /// # Errors
    /// If it is below 10 MiB and the datagrams' buffer; nothing is changed then.
    pub fn receive_memory_bytes(&mut self, value: usize) -> Result<&mut Self, ConfigError> {
        let min = RECEIVE_MEMORY_BYTES_MIN.saturating_add(self.datagram_buffer_bytes);
        self.receive_memory_bytes = within("receive_memory_bytes", value, &(min..=usize::MAX))?;
        Ok(self)
    }

    /// Bytes of unreliable datagrams queued in each direction, at most; zero refuses datagrams. What waits to
    /// be sent may be more on a fast path: what that carries in two seconds, and eight times as much.
    /// Default: 1 MiB.
    ///
    /// # Errors
    /// If it leaves less than 10 MiB of [`Self::receive_memory_bytes`] to the rest; nothing is changed then.
    pub fn datagram_buffer_bytes(&mut self, value: usize) -> Result<&mut Self, ConfigError> {
        let max = self.receive_memory_bytes - RECEIVE_MEMORY_BYTES_MIN;
        self.datagram_buffer_bytes = within("datagram_buffer_bytes", value, &(0..=max))?;
        Ok(self)
    }
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
    pub(crate) fn handshake_timeout_of(&self, side: Side) -> Duration {
        let default = if side.is_client() { HANDSHAKE_TIMEOUT_CLIENT } else { HANDSHAKE_TIMEOUT_SERVER };
        self.handshake_timeout.unwrap_or(default)
    }

    /// Largest UDP payload that this end takes, and tells its peers that it takes.
    pub fn udp_payload_bytes_max(&self) -> u16 {
        self.mtu_max_bytes.max(self.initial_mtu_bytes)
    }

    /// What a server takes of the profile that its client names.
    pub(crate) fn adopting(&self, profile: &str) -> Adopted {
        let is_other = self.follows_peer_profile && !profile.is_empty() && profile != self.profile.name;
        if !is_other {
            return Adopted::Nothing;
        }
        match Profile::parse(profile) {
            Ok(profile) if self.allowed_profiles.allows(&profile) => Adopted::All(profile),
            Ok(profile) => Adopted::Coding(profile),
            Err(error) => {
                // Of the peer: whatever is in it is shown, not printed.
                let reason = error.to_string();
                tracing::info!(?reason, "the client's profile is not followed");
                Adopted::Nothing
            }
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
    /// Handshakes under way, at most. Beyond it the oldest one of the network that has most of them ends for
    /// a new one, if it has had a second; until then new ones go unheard, and clients ask again.
    pub handshakes_max: usize,
    /// The same for clients of one network: a /24 of IPv4, a /56 of IPv6.
    pub handshakes_per_network_max: usize,
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
            handshakes_max: 4_000,
            handshakes_per_network_max: 2_000,
            token_lifetime: Duration::from_secs(15),
        }
    }
}

/// Settings of an endpoint as a whole.
#[derive(Clone, Debug, Default)]
pub struct EndpointConfig {
    /// Key of stateless resets. The same key across restarts lets peers notice a restart at once; without one
    /// it is drawn from the endpoint's seed.
    pub reset_key: Option<[u8; 32]>,
    /// What the endpoint's connections are called.
    pub connection_ids: ConnectionIds,
}

/// What the connections of an endpoint are called. All ids of one endpoint have one length, which packets do
/// not tell. A balancer before several servers can route by what the ids of each begin with.
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
    /// Ids of `bytes` bytes that begin with `prefix`. `None` unless there are at least 8 bytes besides it,
    /// and at most 20 in all: what is not the prefix is drawn at random.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_range_is_refused_by_name_and_changes_nothing() {
        let mut config = TransportConfig::default();
        let before = format!("{config:?}");
        let refused =
            |result: Result<&mut TransportConfig, ConfigError>| result.map(drop).expect_err("refused");
        let errors = [
            refused(config.initial_mtu_bytes(43)),
            refused(config.initial_mtu_bytes(1199)),
            refused(config.mtu_max_bytes(0)),
            refused(config.mtu_max_bytes(65_528)),
            refused(config.idle_timeout(Some(Duration::ZERO))),
            refused(config.idle_timeout(Some(Duration::MAX))),
            refused(config.keep_alive(Some(Duration::from_micros(999)))),
            refused(config.handshake_timeout(Duration::ZERO)),
            refused(config.receive_window_bytes(0)),
            refused(config.receive_window_bytes(1 << 62)),
            refused(config.receive_window_initial_bytes(Some(0))),
            refused(config.stream_receive_window_bytes(0)),
            refused(config.send_buffer_bytes(0)),
            refused(config.stream_send_buffer_bytes(0)),
            refused(config.symbols_held_bytes(0)),
            refused(config.decoder_symbols(0)),
            refused(config.streams_bi((1 << 60) + 1)),
            refused(config.streams_uni(u64::MAX)),
            refused(config.receive_memory_bytes((11 << 20) - 1)),
            refused(config.datagram_buffer_bytes(usize::MAX)),
        ];
        assert_eq!(errors[0].to_string(), "initial_mtu_bytes is 43: it takes 1200 to 65527");
        assert_eq!(errors[6].to_string(), "keep_alive is 999µs: it takes 1ms to 31536000s");
        assert_eq!(format!("{config:?}"), before);
    }

    #[test]
    fn datagrams_and_the_memory_they_are_part_of_go_together() {
        let mut config = TransportConfig::default();
        assert!(config.datagram_buffer_bytes((6 << 20) + 1).is_err());
        config.receive_memory_bytes(20 << 20).expect("more").datagram_buffer_bytes(10 << 20).expect("room");
        assert!(config.receive_memory_bytes(16 << 20).is_err());
    }
}
