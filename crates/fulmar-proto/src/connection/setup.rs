//! What a connection begins with, and what its two ends agree on: parameters, codes, sizes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fulmar_fec::{Code, DecoderLimits, Geometry, NoCode};

use super::cids::{CidSource, Cids, KEPT};
use super::datagrams::CODED_DATAGRAM_BYTES_MAX;
use super::liveness::KeepAlive;
use super::path::Validation;
use crate::config::TransportConfig;
use crate::crypto::ResetToken;
use crate::params::Parameters;
use crate::profile::{MakeContext, Profile, WINDOW_SYMBOLS, code_ids, code_numbered};
use crate::recovery::{self, AckPolicy};
use crate::stream::StreamConfig;
use crate::wire::frame::REPAIR_HEADER_BYTES_MAX;
use crate::wire::packet::{TAG_BYTES, short_header_bytes};
use crate::{ConnectionId, Rate, Side, TransportError};

/// Window of a stream, and of a connection, before it grows to the bandwidth-delay product.
const INITIAL_STREAM_WINDOW_BYTES: u64 = 4 << 20;
const INITIAL_WINDOW_BYTES: u64 = 6 << 20;

/// What a connection receives besides symbols and datagrams: symbols in parts, handshake, packets that came
/// early.
const OTHER_BYTES: usize = 1 << 20;

/// Longest symbol that fits any UDP datagram.
const SYMBOL_BYTES_MAX: usize = 65_507;

/// What both ends' connections begin with.
pub(crate) struct Setup {
    pub(crate) side: Side,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) remote: SocketAddr,
    pub(crate) local_ip: Option<IpAddr>,
    /// Chosen by this end.
    pub(crate) local_cid: ConnectionId,
    /// Server: the client's. Client: drawn at random, until the server has chosen.
    pub(crate) peer_cid: ConnectionId,
    /// Destination of the client's very first packet.
    pub(crate) original_cid: ConnectionId,
    /// Destination of the client's first packet after a Retry, which a validated token proves.
    pub(crate) retry_cid: Option<ConnectionId>,
    /// How the endpoint makes more ids of its own.
    pub(crate) cid_source: CidSource,
    /// Of all that the connection draws: what observers may not guess too.
    pub(crate) seed: [u8; 32],
}

impl Setup {
    pub(super) fn cids(&self) -> Cids {
        let peer_chose = self.side.is_server().then_some(self.peer_cid);
        let source = self.cid_source.clone();
        Cids::new(source, self.local_cid, self.peer_cid, peer_chose, self.original_cid, self.retry_cid)
    }

    pub(super) fn validation(&self) -> Validation {
        // A proof of the address (a Retry) says that somebody is there, not that he wants more than he has
        // asked for: until he has answered a server sends no more than thrice that.
        if self.side.is_client() { Validation::Done } else { Validation::ByHandshake }
    }
}

/// The modules of `profile` that recovery needs.
pub(super) fn recovery_modules(profile: &Profile, context: &MakeContext) -> recovery::Modules {
    recovery::Modules {
        congestion: (profile.congestion)(context),
        loss: (profile.loss)(context),
        config: profile.recovery,
    }
}

/// How this end keeps the connection through silence, if it does.
pub(super) fn keep_alive(config: &TransportConfig) -> Option<KeepAlive> {
    let min = config.keep_alive?;
    let known = config.keep_alive_idle.unwrap_or(min);
    Some(KeepAlive::new(min, known, config.keep_alive_trial.unwrap_or(known)))
}

pub(super) fn path_limits(config: &TransportConfig) -> recovery::PathLimits {
    recovery::PathLimits {
        initial_mtu_bytes: config.initial_mtu_bytes,
        mtu_max_bytes: config.mtu_max_bytes,
        is_ecn_enabled: config.is_ecn_enabled,
    }
}

/// Bytes of a full source symbol where UDP payloads may have `mtu_bytes`, in packets to an id of `cid_bytes`:
/// with the longest header that a repair symbol over it can have, it fills a packet.
pub(super) fn symbol_bytes(mtu_bytes: u16, cid_bytes: usize) -> usize {
    usize::from(mtu_bytes) - short_header_bytes(cid_bytes) - TAG_BYTES - REPAIR_HEADER_BYTES_MAX
}

/// The length of symbols that all have one: it must fit every path from the start, to any id the other end
/// may choose.
fn fixed_symbol_bytes(config: &TransportConfig) -> usize {
    symbol_bytes(config.initial_mtu_bytes, ConnectionId::LEN_MAX)
}

/// What of the peer's parameters matters once all is agreed on.
#[derive(Copy, Clone, Debug)]
pub(super) struct PeerLimits {
    pub(super) udp_payload_max: u16,
    pub(super) datagram_bytes_max: u64,
    pub(super) coded_datagram_bytes_max: u64,
}

impl PeerLimits {
    pub(super) fn of(peer: &Parameters) -> Self {
        Self {
            udp_payload_max: u16::try_from(peer.udp_payload_max).unwrap_or(u16::MAX),
            datagram_bytes_max: peer.datagram_bytes_max,
            coded_datagram_bytes_max: peer.coded_datagram_bytes_max,
        }
    }
}

/// A code as both ends make it, and the length of its symbols.
#[derive(Clone, Debug)]
pub(super) struct AgreedCode {
    pub(super) code: Arc<dyn Code>,
    pub(super) symbol_bytes: usize,
}

impl AgreedCode {
    /// This end's own code.
    pub(super) fn own(code: &Arc<dyn Code>, config: &TransportConfig) -> Self {
        let is_fixed = !code.shape().is_systematic;
        let mtu = config.mtu_max_bytes.max(config.initial_mtu_bytes);
        let symbol_bytes =
            if is_fixed { fixed_symbol_bytes(config) } else { symbol_bytes(mtu, ConnectionId::LEN_MIN) };
        Self { code: code.clone(), symbol_bytes }
    }

    /// The code that the peer's parameters name first; none if this end cannot decode it, for then the peer
    /// sends without (wire 7.1).
    pub(super) fn of_peer(peer: &Parameters, config: &TransportConfig) -> Result<Self, TransportError> {
        let Some(&id) = peer.codes_sent.first() else { return Ok(Self::own(&none(), config)) };
        let Some(row) = code_numbered(id) else {
            tracing::info!(code = id.0, profile = ?peer.profile, "the peer's code is not built in: it sends without");
            return Ok(Self::own(&none(), config));
        };
        let code = (row.from_parameters)(&peer.code_parameters)
            .map_err(|error| TransportError::parameters(format!("code {}: {error}", id.0)))?;
        let mtu = config.mtu_max_bytes.max(config.initial_mtu_bytes);
        let longest = symbol_bytes(mtu, ConnectionId::LEN_MIN);
        if code.shape().is_systematic {
            return Ok(Self { code, symbol_bytes: longest });
        }
        let symbol_bytes =
            usize::try_from(peer.symbol_bytes).ok().filter(|bytes| (1..=SYMBOL_BYTES_MAX).contains(bytes));
        let symbol_bytes =
            symbol_bytes.ok_or_else(|| TransportError::parameters("length of symbols out of range"))?;
        Ok(Self { code, symbol_bytes })
    }

    /// The same with the code none, if the other end cannot decode this one.
    pub(super) fn or_none(self, peer: &Parameters, config: &TransportConfig) -> Self {
        if peer.codes_decoded.contains(&self.code.shape().id) { self } else { Self::own(&none(), config) }
    }

    /// What its decoder may hold. Blocks wait for a round trip, each with its own equations; a window has
    /// few.
    pub(super) fn limits(&self, config: &TransportConfig) -> DecoderLimits {
        let equations_max = match self.code.shape().geometry {
            Geometry::Block { .. } => (config.decoder_symbols / 2).max(WINDOW_SYMBOLS),
            Geometry::None | Geometry::Sliding { .. } => WINDOW_SYMBOLS,
        };
        let mut limits = DecoderLimits::new(config.decoder_symbols, equations_max);
        let others = config.datagram_buffer_bytes.saturating_add(OTHER_BYTES);
        limits.memory_bytes_max = config.receive_memory_bytes.saturating_sub(others);
        limits
    }
}

fn none() -> Arc<dyn Code> {
    Arc::new(NoCode)
}

pub(super) fn stream_config(config: &TransportConfig) -> StreamConfig {
    StreamConfig {
        streams_bi_max: config.streams_bi,
        streams_uni_max: config.streams_uni,
        stream_window_bytes: INITIAL_STREAM_WINDOW_BYTES.min(config.stream_receive_window_bytes),
        stream_window_bytes_max: config.stream_receive_window_bytes,
        connection_window_bytes: config
            .receive_window_initial_bytes
            .unwrap_or(INITIAL_WINDOW_BYTES)
            .min(config.receive_window_bytes),
        connection_window_bytes_max: config.receive_window_bytes,
        stream_send_buffer_bytes_max: config.stream_send_buffer_bytes,
        send_buffer_bytes_max: config.send_buffer_bytes,
        ..StreamConfig::default()
    }
}

pub(super) fn local_parameters(
    setup: &Setup,
    code: &Arc<dyn Code>,
    streams: &StreamConfig,
    reset_token: Option<ResetToken>,
    rate: Option<Rate>,
) -> Parameters {
    let config = &setup.transport;
    let limits = streams.limits();
    let mut parameters = Parameters::new(setup.local_cid);
    if setup.side.is_server() {
        parameters.original_cid = Some(setup.original_cid);
        parameters.retry_cid = setup.retry_cid;
        parameters.reset_token = reset_token;
        parameters.ports.clone_from(&config.ports);
    }
    parameters.idle_timeout = config.idle_timeout.unwrap_or_default();
    parameters.udp_payload_max = u64::from(config.udp_payload_bytes_max());
    parameters.initial_max_data = limits.max_data;
    parameters.initial_max_stream_data = limits.max_stream_data;
    parameters.initial_max_streams_bi = limits.max_streams_bi;
    parameters.initial_max_streams_uni = limits.max_streams_uni;
    parameters.datagram_bytes_max =
        if config.datagram_buffer_bytes > 0 { parameters.udp_payload_max } else { 0 };
    parameters.coded_datagram_bytes_max =
        if config.datagram_buffer_bytes > 0 { CODED_DATAGRAM_BYTES_MAX } else { 0 };
    parameters.ack_delay_max = AckPolicy::default().delay;
    // A server that adopts its client's profile cannot know yet which.
    if setup.side.is_client() || !config.follows_peer_profile {
        let own = AgreedCode::own(code, config);
        parameters.codes_sent = vec![own.code.shape().id];
        parameters.code_parameters = own.code.parameters();
    }
    parameters.symbol_bytes = fixed_symbol_bytes(config) as u64;
    parameters.cids_kept = KEPT;
    parameters.rate_max = Some(rate.map_or(0, Rate::bytes_per_second));
    parameters.codes_decoded = code_ids();
    parameters.decoder_symbols = u64::from(config.decoder_symbols);
    parameters.profile.clone_from(&config.profile.name);
    #[cfg(feature = "forge")]
    config.forgery.iter().for_each(|forgery| (forgery.0)(&mut parameters));
    parameters
}
