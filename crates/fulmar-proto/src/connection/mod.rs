//! One connection: recovery, coding, streams and crypto wired together. Each of them is a struct of its own; here is only
//! what passes between them.
//!
//! `receive` opens packets and hands out frames, `feedback` turns ACKs into the record the algorithms are fed, `transmit`
//! fills packets, `timers` keeps time, `handshake` agrees on keys, `path` holds what is measured, `close` ends it, `api`
//! is the application's side.

mod api;
mod close;
mod crypto_stream;
mod datagrams;
mod feedback;
mod flight;
mod forge;
mod handshake;
mod path;
mod receive;
mod setup;
mod stats;
mod timers;
mod transmit;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fulmar_control::{RedundancyPolicy, Sizing};
use fulmar_fec::{DecoderLimits, NoCode};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub use datagrams::SendDatagramError;
pub use stats::ConnectionStats;

use crate::coding::{SymbolReceiver, SymbolSender, symbol_sender};
use crate::config::TransportConfig;
use crate::crypto::{KeySchedule, PacketKeys, ResetToken, Session};
use crate::params::Parameters;
use crate::profile::{MakeContext, Profile};
use crate::recovery::{AckPolicy, Acked, Ecn, Lost, Received, SentPackets};
use crate::stream::{PeerStreamLimits, Streams};
use crate::{ConnectionError, ConnectionId, Dir, Instant, PacketNumber, Side, StreamId, TransportError};
use close::{Shutdown, State};
use datagrams::Datagrams;
use handshake::Handshake;
use path::{Path, Validation};
pub(crate) use setup::Setup;
use setup::{AgreedCode, local_parameters, stream_config, symbol_bytes};

/// Where a datagram came from.
#[derive(Copy, Clone, Debug)]
pub struct DatagramMeta {
    /// The sender's address.
    pub remote: SocketAddr,
    /// The address of this host it was sent to, where the system tells.
    pub local_ip: Option<IpAddr>,
    /// Its ECN codepoint, where the system tells.
    pub ecn: Option<Ecn>,
}

/// Where the bytes that were written into the buffer are to be sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub destination: SocketAddr,
    /// From which address of this host, if it matters.
    pub src_ip: Option<IpAddr>,
    /// With which ECN codepoint.
    pub ecn: Option<Ecn>,
    /// Bytes in the buffer.
    pub bytes: usize,
    /// They are several datagrams of this size, the last perhaps shorter.
    pub segment_bytes: Option<usize>,
}

/// Something the application may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The peer has opened at least one stream.
    StreamOpened {
        /// Of this direction.
        dir: Dir,
    },
    /// The peer allows more streams after it had refused one.
    StreamsAvailable {
        /// Of this direction.
        dir: Dir,
    },
    /// There is something to read. Comes again only after a read that found nothing.
    Readable(StreamId),
    /// A stream whose last write was refused takes data again.
    Writable(StreamId),
    /// The peer wants no more of a stream.
    Stopped {
        /// Which stream.
        id: StreamId,
        /// The application's code.
        code: u64,
    },
    /// An unreliable datagram arrived.
    DatagramReceived,
    /// There is room for unreliable datagrams again.
    DatagramsUnblocked,
    /// Everything written so far has reached the peer.
    Delivered,
    /// The connection has ended.
    Closed(ConnectionError),
}

/// Something the endpoint must know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// This token would prove that the peer has lost the connection.
    ResetToken(ResetToken),
    /// The handshake is over.
    HandshakeDone,
    /// The connection is gone; its ids may be forgotten.
    Drained,
}

/// One end of one connection.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    rng: Pcg64Mcg,
    state: State,
    close_reason: Option<ConnectionError>,
    shutdown: Option<Shutdown>,

    local_cid: ConnectionId,
    peer_cid: ConnectionId,
    /// The connection id the peer put into its first packet; it must say the same inside the handshake.
    peer_chose_cid: Option<ConnectionId>,
    original_cid: ConnectionId,
    retry_cid: Option<ConnectionId>,
    token: Vec<u8>,
    handshake: Handshake,
    keys: Option<Box<KeySchedule>>,
    peer_parameters: Option<Box<Parameters>>,
    is_confirmed: bool,
    /// Datagrams that came before the keys to open them.
    early: Vec<(DatagramMeta, Vec<u8>)>,

    path: Path,
    previous_path: Option<(SocketAddr, Option<IpAddr>)>,
    path_response: Option<u64>,

    sent: SentPackets,
    received: Received,
    last_lost: Option<PacketNumber>,
    /// A loss of a packet below this belongs to a recovery that has begun.
    recovery_below: PacketNumber,
    acked_scratch: Vec<Acked>,
    lost_scratch: Vec<Lost>,
    /// A packet built for the batch before that was too long for it.
    stash: Option<Vec<u8>>,
    /// How the peer was asked to space its ACKs.
    ack_policy_asked: AckPolicy,
    ack_policy_pending: Option<AckPolicy>,
    last_ack_asked_at: Instant,
    received_since_eliciting: u64,

    profile_name: String,
    redundancy: Box<dyn RedundancyPolicy>,
    sizing: Box<dyn Sizing>,
    symbols_out: Box<dyn SymbolSender>,
    symbols_in: SymbolReceiver,
    streams: Streams,
    datagrams: Datagrams,

    events: VecDeque<Event>,
    endpoint_events: VecDeque<EndpointEvent>,
    is_datagram_event_pending: bool,
    is_delivery_awaited: bool,
    is_ping_pending: bool,
    is_window_limited: bool,
    has_sent_since_heard: bool,
    probes_pending: u32,
    probe_expiries: u32,

    loss_at: Option<Instant>,
    pacer_at: Option<Instant>,
    policy_at: Option<Instant>,
    /// When the decoder's memory goes, unless symbols keep coming.
    release_at: Option<Instant>,
    handshake_deadline: Option<Instant>,
    idle_timeout: Option<Duration>,
    last_eliciting_at: Instant,
    last_activity_at: Instant,
    last_heard_or_pinged_at: Instant,
    stats: ConnectionStats,
}

impl Connection {
    /// A connection about to begin its handshake. `start` makes the TLS session from this end's parameters.
    pub(crate) fn new<E>(
        now: Instant,
        setup: Setup,
        reset_token: Option<ResetToken>,
        start: impl FnOnce(Vec<u8>) -> Result<Session, E>,
    ) -> Result<Self, E> {
        let mut rng = Pcg64Mcg::seed_from_u64(setup.seed);
        let config = setup.transport.clone();
        let stream_config = stream_config(&config);
        let session = start(local_parameters(&setup, &stream_config, reset_token).encode())?;
        // After a Retry the keys follow from the connection id that it chose.
        let keys_cid = setup.retry_cid.unwrap_or(setup.original_cid);
        let validation = if setup.is_address_validated || setup.side.is_client() {
            Validation::Done
        } else {
            Validation::ByHandshake
        };
        let profile = config.profile.clone();
        let context = MakeContext::new(u32::from(config.initial_mtu_bytes), rng.next_u64());
        let mut connection = Self {
            side: setup.side,
            state: State::Handshaking,
            close_reason: None,
            shutdown: None,
            local_cid: setup.local_cid,
            peer_cid: setup.peer_cid,
            peer_chose_cid: setup.side.is_server().then_some(setup.peer_cid),
            original_cid: setup.original_cid,
            retry_cid: setup.retry_cid,
            token: Vec::new(),
            handshake: Handshake::new(session, PacketKeys::initial(&keys_cid, setup.side)),
            keys: None,
            peer_parameters: None,
            is_confirmed: false,
            early: Vec::new(),
            path: Path::new(now, setup.remote, setup.local_ip, validation, &config, &profile, rng.next_u64()),
            previous_path: None,
            path_response: None,
            sent: SentPackets::default(),
            received: Received::new(AckPolicy::default()),
            last_lost: None,
            recovery_below: PacketNumber(0),
            acked_scratch: Vec::new(),
            lost_scratch: Vec::new(),
            stash: None,
            ack_policy_asked: AckPolicy::default(),
            ack_policy_pending: None,
            last_ack_asked_at: Instant::ZERO,
            received_since_eliciting: 0,
            profile_name: profile.name.clone(),
            redundancy: (profile.redundancy)(&context),
            sizing: (profile.sizing)(&context),
            symbols_out: symbol_sender(Arc::new(NoCode), 0, 0),
            symbols_in: SymbolReceiver::new(&NoCode, 0, DecoderLimits::new(0, 0)),
            streams: Streams::new(setup.side, &stream_config),
            datagrams: Datagrams::new(config.datagram_buffer_bytes),
            events: VecDeque::new(),
            endpoint_events: VecDeque::new(),
            is_datagram_event_pending: false,
            is_delivery_awaited: false,
            is_ping_pending: false,
            is_window_limited: false,
            has_sent_since_heard: false,
            probes_pending: 0,
            probe_expiries: 0,
            loss_at: None,
            pacer_at: None,
            policy_at: None,
            release_at: None,
            handshake_deadline: Some(now + config.handshake_timeout),
            idle_timeout: None,
            last_eliciting_at: now,
            last_activity_at: now,
            last_heard_or_pinged_at: now,
            stats: ConnectionStats::default(),
            rng,
            config,
        };
        // The client speaks first.
        let keys = connection.handshake.pump();
        debug_assert!(keys.is_none());
        Ok(connection)
    }

    /// A random number.
    fn draw(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// The peer has said what it can receive and decode.
    fn on_peer_parameters(&mut self, now: Instant, peer: Parameters) -> Result<(), TransportError> {
        self.check_connection_ids(&peer)?;
        if self.side.is_server()
            && let Some(profile) = self.config.adopting(&peer.profile)
        {
            self.adopt(now, &profile);
        }
        let sent = self.code_to_send(&peer)?.or_none(&peer, &self.config);
        let reach = u32::try_from(peer.decoder_symbols).unwrap_or(u32::MAX);
        self.symbols_out = symbol_sender(sent.code, sent.symbol_bytes, reach);
        let decoded = self.code_to_decode(&peer)?;
        let limits = decoded.limits(&self.config);
        self.symbols_in = SymbolReceiver::new(&*decoded.code, decoded.symbol_bytes, limits);
        self.streams.set_peer_limits(&PeerStreamLimits {
            max_data: peer.initial_max_data,
            max_stream_data: peer.initial_max_stream_data,
            max_streams_bi: peer.initial_max_streams_bi,
            max_streams_uni: peer.initial_max_streams_uni,
        });
        self.path.mtu.set_limit(u16::try_from(peer.udp_payload_max).unwrap_or(u16::MAX));
        let timeouts = [self.config.idle_timeout, Some(peer.idle_timeout).filter(|t| !t.is_zero())];
        self.idle_timeout = timeouts.into_iter().flatten().min();
        if let Some(token) = &peer.reset_token {
            self.endpoint_events.push_back(EndpointEvent::ResetToken(*token));
        }
        self.endpoint_events.push_back(EndpointEvent::HandshakeDone);
        self.peer_parameters = Some(Box::new(peer));
        Ok(())
    }

    /// The handshake must confirm the connection ids that travelled outside it (RFC 9000 7.3).
    fn check_connection_ids(&self, peer: &Parameters) -> Result<(), TransportError> {
        let mut is_right = self.peer_chose_cid == Some(peer.source_cid);
        if self.side.is_client() {
            is_right &= peer.original_cid == Some(self.original_cid) && peer.retry_cid == self.retry_cid;
        } else {
            is_right &= peer.original_cid.is_none() && peer.retry_cid.is_none() && peer.reset_token.is_none();
        }
        is_right
            .then_some(())
            .ok_or_else(|| TransportError::parameters("connection ids differ from those in the packets"))
    }

    fn adopt(&mut self, now: Instant, profile: &Profile) {
        let seed = self.draw();
        self.path.adopt(now, profile, seed);
        let context = MakeContext::new(u32::from(self.path.mtu.current_bytes()), seed);
        self.redundancy = (profile.redundancy)(&context);
        self.sizing = (profile.sizing)(&context);
        self.profile_name.clone_from(&profile.name);
    }

    /// The profile in use at this end.
    fn profile(&self) -> Profile {
        self.config.adopting(&self.profile_name).unwrap_or_else(|| self.config.profile.clone())
    }

    /// The code this end sends with: its own. A server that follows its clients named none, and takes the client's.
    fn code_to_send(&self, peer: &Parameters) -> Result<AgreedCode, TransportError> {
        if self.side.is_server() && self.config.follows_peer_profile {
            let theirs = AgreedCode::of_peer(peer, &self.config)?;
            return Ok(AgreedCode::own(&theirs.code, &self.config));
        }
        Ok(AgreedCode::own(&self.profile().code, &self.config))
    }

    /// The code the peer sends with. A server that follows its clients cannot name it, for it does not know yet: it is the
    /// client's own.
    fn code_to_decode(&self, peer: &Parameters) -> Result<AgreedCode, TransportError> {
        if self.side.is_client() && peer.codes_sent.is_empty() {
            let mut own = AgreedCode::own(&self.config.profile.code, &self.config);
            if !own.code.shape().is_systematic {
                own.symbol_bytes = usize::try_from(peer.symbol_bytes).unwrap_or(0).max(1);
            }
            return Ok(own.or_none(peer, &self.config));
        }
        AgreedCode::of_peer(peer, &self.config)
    }

    /// Measures of another path do not hold: begin anew.
    fn reset_path_measures(&mut self, now: Instant) {
        let view = fulmar_control::PathView::unknown(u32::from(self.path.mtu.current_bytes()));
        self.path.reset_rtt();
        self.path.congestion.on_path_change(now, &view);
        self.path.mtu =
            crate::recovery::MtuDiscovery::new(self.config.initial_mtu_bytes, self.config.mtu_max_bytes);
        if let Some(peer) = &self.peer_parameters {
            self.path.mtu.set_limit(u16::try_from(peer.udp_payload_max).unwrap_or(u16::MAX));
        }
        self.path.ecn = crate::recovery::EcnState::new(self.config.is_ecn_enabled);
        let budget = self.path.budget();
        self.path.pacer.on_budget(now, budget);
    }

    /// Longest time for which the peer may hold back an ACK.
    fn ack_delay_max(&self) -> Duration {
        let peers_own = self.peer_parameters.as_ref().map_or(Duration::from_millis(25), |p| p.ack_delay_max);
        self.ack_policy_asked.delay.max(peers_own)
    }

    /// A symbol arrived: its memory is kept for repair symbols that refer to it, and for as long as any may be under way.
    fn on_symbol_received(&mut self, now: Instant) {
        self.release_at = Some(now + Duration::from_secs(1) + self.path.rtt.smoothed() * 4);
    }

    /// Bytes of a full source symbol on this path now.
    fn symbol_bytes_max(&self) -> usize {
        symbol_bytes(self.path.mtu.current_bytes())
    }

    fn keys_acked(&mut self, number: PacketNumber) {
        if let Some(keys) = &mut self.keys {
            keys.on_acked(number);
        }
    }

    /// Asks the peer for ACKs that suit the window: about eight per round trip, and none held back for longer than an eighth
    /// of it.
    fn update_ack_policy(&mut self) {
        const PER_ROUND: u64 = 8;
        const EVERY_MAX: u64 = 64;
        if !self.path.rtt.has_sample() {
            return;
        }
        let packets = self.path.budget().window_bytes / u64::from(self.path.mtu.current_bytes());
        let every_packets = (packets / PER_ROUND).clamp(2, EVERY_MAX) as u32;
        let delay = (self.path.rtt.smoothed() / PER_ROUND as u32)
            .clamp(Duration::from_millis(1), Duration::from_millis(25));
        let asked = self.ack_policy_asked;
        let is_near = |new: f64, old: f64| new <= old * 1.5 && new * 1.5 >= old;
        let is_fine = is_near(f64::from(every_packets), f64::from(asked.every_packets))
            && is_near(delay.as_secs_f64(), asked.delay.as_secs_f64());
        if !is_fine {
            self.ack_policy_asked = AckPolicy { every_packets, delay };
            self.ack_policy_pending = Some(self.ack_policy_asked);
        }
    }
}
