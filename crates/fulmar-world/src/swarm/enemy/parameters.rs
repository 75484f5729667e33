//! What hostile ends say in the handshake: anything that can be said, often something that goes.

use std::time::Duration;

use fulmar_fec::CodeId;
use fulmar_proto::{ConnectionId, Parameters, Profile, Side, TransportConfig};
use fulmar_systems::codes::{NAMES, by_name, from_parameters};

use super::super::draw::Draw;
use super::super::plan::IN_RANGE;

/// Names of profiles that a client may wish for, and of some that are none.
const PROFILES: &[&str] = &[
    "auto",
    "newreno",
    "no-cc",
    "dfcp-raptorq:rate=2000,persistent=1",
    "dfcp:rate=100",
    "lt-tcp",
    "tcp-nc",
    "tcp-fec-interleave",
    "no-cc:rto_max=0",
    "\u{0}\u{1}:=,",
];

/// Makes an end lie in its handshake. Returns the number of the code that it names.
pub(super) fn forge(draw: &mut Draw, config: &mut TransportConfig, side: Side) -> u8 {
    let code = draw.between(1, NAMES.len() as u64 - 1) as u8;
    let numbers = code_parameters(draw, code);
    let symbol_bytes =
        draw.of(&[1, 16, 63, 1000, 1400, 9000, 65_507, 65_508]).min(draw.log_between(1, 1 << 40) * 50);
    let limits: [u64; 6] =
        [(); 6].map(|()| if draw.one_in(4) { draw.log_between(1, 1 << 61) } else { 1 << 30 });
    let is_wild = draw.one_in(6);
    let profile = draw.of(PROFILES);
    if let (true, Ok(profile)) = (side.is_server(), Profile::parse(profile)) {
        config.profile(profile);
    }
    let idle_timeout = draw.of(&[None, Some(Duration::from_secs(5)), Some(Duration::from_secs(4000))]);
    config.idle_timeout(idle_timeout).expect(IN_RANGE);
    let decoded: Vec<CodeId> = (0..9).filter(|_| !draw.one_in(8)).map(CodeId).collect();
    let ack_delay = Duration::from_micros(draw.log_between(1, 20_000_000));
    config.forge_parameters(move |parameters: &mut Parameters| {
        parameters.codes_sent = vec![CodeId(code)];
        parameters.code_parameters.clone_from(&numbers);
        parameters.symbol_bytes = symbol_bytes;
        parameters.codes_decoded.clone_from(&decoded);
        parameters.profile = profile.into();
        parameters.ack_delay_max = ack_delay;
        parameters.cids_kept = limits[0];
        parameters.decoder_symbols = limits[1];
        [parameters.initial_max_data, parameters.initial_max_stream_data] = [limits[2], limits[3]];
        parameters.initial_max_streams_bi = limits[4];
        parameters.udp_payload_max = limits[5].max(1200);
        if is_wild {
            parameters.codes_sent = vec![CodeId(9); 16];
            parameters.retry_cid = Some(ConnectionId::new([1; 8]));
        }
    });
    code
}

/// Parameters that the code has, or any.
fn code_parameters(draw: &mut Draw, code: u8) -> Vec<u32> {
    let any: Vec<u32> =
        (0..draw.between(0, 8)).map(|_| draw.log_between(1, u64::from(u32::MAX)) as u32).collect();
    if draw.one_in(8) {
        return any;
    }
    let lengths = [1, 2, 16, 48, 200, 256, 4096].map(|len| len.min(draw.log_between(1, 1 << 13)) as u32);
    let made = by_name(NAMES[usize::from(code)], draw.of(&lengths));
    let usual = made.map(|made| made.parameters()).unwrap_or_default();
    let largest = match code {
        1 => vec![65_535, 4096],
        2 => vec![199, 56],
        3 => vec![4096, draw.between(1, 256) as u32, draw.between(0, 1) as u32],
        4 => vec![4096, draw.between(1, 256) as u32],
        5 => vec![1, 2, 3],
        _ => vec![256],
    };
    if draw.one_in(2) && from_parameters(CodeId(code), &largest).is_ok() { largest } else { usual }
}
