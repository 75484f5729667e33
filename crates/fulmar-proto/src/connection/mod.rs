//! One connection: recovery, coding, streams and crypto wired together. Each of them is a struct of its own;
//! here is only what passes between them.
//!
//! `receive` opens packets and hands out frames, `establish` those of the handshake, `feedback` turns ACKs
//! into the record the algorithms are fed, `transmit` fills packets, `timers` keeps time, `handshake` agrees
//! on keys, `path` holds what is measured, `moves` follows a peer to another address, `close` ends it, `api`
//! is the application's side, `trace` tells of single packets.

mod agree;
mod api;
mod batch;
mod challenge;
mod cids;
mod close;
mod crypto_stream;
mod datagrams;
mod elsewhere;
mod establish;
mod feedback;
mod flight;
#[cfg(feature = "forge")]
mod forge;
mod handshake;
mod intake;
mod liveness;
mod moves;
mod packet_log;
mod path;
mod ports;
mod quiet;
mod receive;
mod rest_of_ack;
mod setup;
mod stash;
mod stats;
mod timers;
mod trace;
mod transmit;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fulmar_fec::{Code, DecoderLimits, NoCode};
use rand_core::RngCore;

pub use datagrams::{DatagramClass, DatagramOptions, DatagramStats, SendDatagramError};
pub use packet_log::{Packet, PacketEvent, PacketEventKind, PacketSpace, PathMetrics};
pub use stats::{ConnectionStats, PathStats, WireStats};

use crate::chance::Chance;
use crate::coding::{Coding, SymbolReceiver};
use crate::config::TransportConfig;
use crate::crypto::{KeySchedule, PacketKeys, ResetToken, Session};
use crate::profile::MakeContext;
use crate::recovery::{AckPolicy, Ecn, Received, Recovery};
use crate::stream::Streams;
use crate::{ConnectionError, ConnectionId, Dir, Instant, Side, StreamId};
pub(crate) use cids::CidSource;
use cids::{CidNews, Cids};
use close::{Shutdown, State};
use datagrams::Datagrams;
use elsewhere::Elsewhere;
use handshake::Handshake;
use intake::Intake;
use liveness::Liveness;
use packet_log::PacketLog;
use path::Path;
use ports::Ports;
use quiet::Quiet;
use rest_of_ack::RestOfAck;
pub(crate) use setup::Setup;
use setup::{PeerLimits, keep_alive, local_parameters, path_limits, recovery_modules, stream_config};
use stash::Stash;
use stats::Counts;

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
    /// Nothing that this client sends is answered any more. The path may be down; or a NAT or a firewall has
    /// closed it for this port: another may help ([`Connection::handle_fresh_port`]). Comes again ever more
    /// seldom.
    PathSilent,
    /// The connection has ended.
    Closed(ConnectionError),
}

/// Something the endpoint must know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// This token alone would prove that the peer has lost the connection.
    ResetToken(ResetToken),
    /// The connection has another name.
    CidIssued(ConnectionId),
    /// One of its names is not used any more.
    CidRetired(ConnectionId),
    /// The handshake is over: the peer has proved who it is, not only said hello.
    HandshakeDone,
    /// The connection is gone; its ids may be forgotten.
    Drained,
}

impl From<CidNews> for EndpointEvent {
    fn from(news: CidNews) -> Self {
        match news {
            CidNews::Issued(cid) => Self::CidIssued(cid),
            CidNews::Retired(cid) => Self::CidRetired(cid),
            CidNews::PeerToken(token) => Self::ResetToken(token),
        }
    }
}

/// One end of one connection.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    /// Cryptographic: challenges and skipped packet numbers come from it.
    rng: Chance,
    state: State,
    close_reason: Option<ConnectionError>,
    shutdown: Option<Shutdown>,
    liveness: Liveness,
    quiet: Box<Quiet>,

    cids: Cids,
    handshake: Handshake,
    keys: Option<Box<KeySchedule>>,
    peer: Option<PeerLimits>,
    is_confirmed: bool,
    /// Datagrams that came before the keys to open them.
    early: Vec<(DatagramMeta, Vec<u8>)>,

    path: Path,
    /// Where the peer may be instead.
    elsewhere: Box<Elsewhere>,
    /// Those of the server, for a client.
    ports: Ports,
    is_ping_pending: bool,
    /// What the peer is asked to send at most, if there is a limit.
    intake: Option<Box<Intake>>,
    received: Received,
    /// What is left of the newest ACK.
    rest_of_ack: Option<RestOfAck>,
    /// Since when there is something to do that packets led to and that was too much for one call.
    unsettled_at: Option<Instant>,
    /// A packet built for the batch before that was too long for it.
    stash: Option<Box<Stash>>,

    /// What this end sends with.
    profile_name: String,
    /// The profile's code, with what this connection drew for it.
    own_code: Arc<dyn Code>,
    coding: Coding,
    symbols_in: SymbolReceiver,
    /// When the decoder's memory goes, unless symbols keep coming.
    release_at: Option<Instant>,
    streams: Streams,
    datagrams: Box<Datagrams>,

    events: VecDeque<Event>,
    endpoint_events: VecDeque<EndpointEvent>,
    is_delivery_awaited: bool,
    counts: Counts,
    packet_log: Option<Box<PacketLog>>,
}

impl Connection {
    /// A connection about to begin its handshake, with the keys of its Initial packets. `start` makes the TLS
    /// session from this end's parameters.
    pub(crate) fn new<E>(
        now: Instant,
        setup: Setup,
        keys: PacketKeys,
        reset_token: Option<ResetToken>,
        start: impl FnOnce(Vec<u8>) -> Result<Session, E>,
    ) -> Result<Self, E> {
        let mut rng = Chance::new(setup.seed);
        let config = setup.transport.clone();
        let streams = stream_config(&config);
        let own_code = config.profile.code.clone();
        let own_code = own_code.for_connection(&mut || rng.next_u32()).unwrap_or(own_code);
        let intake = config.receive_limit.as_ref().map(|limit| Box::new(Intake::new(now, limit)));
        let rate = intake.as_ref().and_then(|intake| intake.first());
        let session = start(local_parameters(&setup, &own_code, &streams, reset_token, rate).encode())?;
        let profile = &config.profile;
        let context = MakeContext::new(u32::from(config.initial_mtu_bytes), rng.next_u64());
        let mut recovery = Recovery::new(now, recovery_modules(profile, &context), path_limits(&config));
        recovery.skip_numbers(rng.split());
        config.send_limit.iter().for_each(|limit| recovery.keep_limit(limit));
        let packet_log = config.trace_packets.map(PacketLog::new).map(Box::new);
        recovery.keep_lost(packet_log.is_some());
        let mut connection = Self {
            side: setup.side,
            state: State::Handshaking,
            close_reason: None,
            shutdown: None,
            liveness: Liveness::new(
                now,
                config.handshake_timeout_of(setup.side),
                config.answer_timeout,
                keep_alive(&config),
            ),
            quiet: Box::default(),
            cids: setup.cids(),
            handshake: Handshake::new(session, keys, profile.handshake_timer),
            keys: None,
            peer: None,
            is_confirmed: false,
            early: Vec::new(),
            path: Path::new(setup.remote, setup.local_ip, setup.validation(), recovery),
            elsewhere: Box::default(),
            ports: Ports::default(),
            is_ping_pending: false,
            intake,
            rest_of_ack: None,
            unsettled_at: None,
            received: Received::new(AckPolicy::default()),
            stash: None,
            profile_name: profile.name.clone(),
            own_code,
            coding: Coding::new(
                (profile.redundancy)(&context),
                (profile.sizing)(&context),
                config.symbols_held_bytes,
            ),
            symbols_in: SymbolReceiver::new(&NoCode, 0, DecoderLimits::new(0, 0)),
            release_at: None,
            streams: Streams::new(setup.side, &streams),
            datagrams: Box::new(Datagrams::new(config.datagram_buffer_bytes, profile.favor)),
            events: VecDeque::new(),
            endpoint_events: VecDeque::new(),
            is_delivery_awaited: false,
            counts: Counts::default(),
            packet_log,
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

    /// A symbol arrived or left: its memory is kept for repair symbols that refer to it, and for as long as
    /// any may be under way.
    fn on_symbol_passed(&mut self, now: Instant) {
        self.liveness.on_used(now);
        let rtt = self.path.recovery.rtt().smoothed();
        self.release_at = Some(now + std::time::Duration::from_secs(1) + rtt * 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten thousand may be idle: what is needed in the handshake alone, or seldom, does not lie in here.
    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 3656, "{}", size_of::<Connection>());
        assert!(size_of::<Session>() <= 32, "{}", size_of::<Session>());
    }
}
