//! What a connection begins with, and what its two ends agree on: parameters, codes, sizes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fulmar_fec::{Code, CodeId, NoCode, RlcWindow};

use crate::config::TransportConfig;
use crate::crypto::ResetToken;
use crate::params::Parameters;
use crate::profile::WINDOW_SYMBOLS;
use crate::recovery::AckPolicy;
use crate::stream::StreamConfig;
use crate::wire::frame::REPAIR_HEADER_BYTES_MAX;
use crate::wire::packet::{SHORT_HEADER_BYTES, TAG_BYTES};
use crate::{ConnectionId, Side};

/// Window of a stream, and of a connection, before it grows to the bandwidth-delay product.
const INITIAL_STREAM_WINDOW_BYTES: u64 = 1 << 20;
const INITIAL_WINDOW_BYTES: u64 = 2 << 20;

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
    pub(crate) is_address_validated: bool,
    pub(crate) seed: u64,
}

/// Bytes of a full source symbol where UDP payloads may have `mtu_bytes`: with the longest header that a repair symbol over it
/// can have, it fills a packet.
pub(super) fn symbol_bytes(mtu_bytes: u16) -> usize {
    usize::from(mtu_bytes) - SHORT_HEADER_BYTES - TAG_BYTES - REPAIR_HEADER_BYTES_MAX
}

/// Codes this implementation can decode.
pub(super) fn codes_decoded() -> Vec<CodeId> {
    [NoCode.shape().id].into_iter().chain(rlc().map(|code| code.shape().id)).collect()
}

fn rlc() -> Option<RlcWindow> {
    RlcWindow::new(WINDOW_SYMBOLS).ok()
}

/// The first code on `list` that this implementation has and that is among `others`.
pub(super) fn common_code(list: &[CodeId], others: &[CodeId]) -> Arc<dyn Code> {
    let known = codes_decoded();
    let chosen = list.iter().find(|id| known.contains(id) && others.contains(id));
    match (chosen, rlc()) {
        (Some(id), Some(code)) if *id == code.shape().id => Arc::new(code),
        _ => Arc::new(NoCode),
    }
}

pub(super) fn stream_config(config: &TransportConfig) -> StreamConfig {
    StreamConfig {
        streams_bi_max: config.streams_bi,
        streams_uni_max: config.streams_uni,
        stream_window_bytes: INITIAL_STREAM_WINDOW_BYTES.min(config.stream_receive_window_bytes),
        stream_window_bytes_max: config.stream_receive_window_bytes,
        connection_window_bytes: INITIAL_WINDOW_BYTES.min(config.receive_window_bytes),
        connection_window_bytes_max: config.receive_window_bytes,
        send_buffer_bytes_max: config.send_buffer_bytes,
        ..StreamConfig::default()
    }
}

pub(super) fn local_parameters(
    setup: &Setup,
    streams: &StreamConfig,
    reset_token: Option<ResetToken>,
) -> Parameters {
    let config = &setup.transport;
    let limits = streams.limits();
    let mut parameters = Parameters::new(setup.local_cid);
    if setup.side.is_server() {
        parameters.original_cid = Some(setup.original_cid);
        parameters.retry_cid = setup.retry_cid;
        parameters.reset_token = reset_token;
    }
    parameters.idle_timeout = config.idle_timeout.unwrap_or_default();
    parameters.udp_payload_max = u64::from(config.mtu_max_bytes.max(config.initial_mtu_bytes));
    parameters.initial_max_data = limits.max_data;
    parameters.initial_max_stream_data = limits.max_stream_data;
    parameters.initial_max_streams_bi = limits.max_streams_bi;
    parameters.initial_max_streams_uni = limits.max_streams_uni;
    parameters.datagram_bytes_max =
        if config.datagram_buffer_bytes > 0 { parameters.udp_payload_max } else { 0 };
    parameters.ack_delay_max = AckPolicy::default().delay;
    // A server that adopts its client's profile cannot know yet which.
    if setup.side.is_client() || !config.follows_peer_profile {
        parameters.codes_sent = vec![config.profile.code.shape().id];
    }
    parameters.codes_decoded = codes_decoded();
    parameters.decoder_symbols = u64::from(config.decoder_symbols);
    parameters.profile.clone_from(&config.profile.name);
    parameters
}
