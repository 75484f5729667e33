//! Connection parameters, exchanged and authenticated inside the handshake (docs/internals/wire.md 7).
//!
//! Each end says what it can receive and decode; what it sends is its own affair within that. The one thing
//! to agree on is the code of each direction: the first of the sender's list that the receiver can decode.

use std::ops::RangeInclusive;
use std::time::Duration;

use fulmar_fec::CodeId;

use crate::crypto::ResetToken;
use crate::wire::{Malformed, Reader, VARINT_MAX, put_varint};
use crate::{ConnectionId, TransportError};

/// Codes one end may list.
const CODES_MAX: usize = 16;
/// Bytes of the name of a profile.
const PROFILE_NAME_MAX: usize = 255;
/// Most parameters of a code.
const CODE_PARAMETERS_MAX: usize = 8;
/// Fewest connection ids to keep: the one in use, and one to change to (RFC 9000 18.2).
const CIDS_KEPT_MIN: u64 = 2;
/// Ranges of ports that a server may have.
pub(crate) const PORT_RANGES_MAX: usize = 16;
/// Smallest datagram an endpoint must take (RFC 9000 14).
const DATAGRAM_BYTES_MIN: u64 = 1200;

/// What one end tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The connection id this end chose, as seen in its first packets: binds the headers to the handshake.
    pub source_cid: ConnectionId,
    /// Server only: the destination of the client's very first packet.
    pub original_cid: Option<ConnectionId>,
    /// Server only, after a Retry: the connection id the Retry chose.
    pub retry_cid: Option<ConnectionId>,
    /// Server only: proves a stateless reset.
    pub reset_token: Option<ResetToken>,
    /// Silence after which this end gives up; zero for never.
    pub idle_timeout: Duration,
    /// Largest UDP payload this end takes.
    pub udp_payload_max: u64,
    /// Stream bytes the connection may carry at first.
    pub initial_max_data: u64,
    /// Bytes each stream may carry at first.
    pub initial_max_stream_data: u64,
    /// Bidirectional streams the peer may open at first.
    pub initial_max_streams_bi: u64,
    /// Unidirectional streams the peer may open at first.
    pub initial_max_streams_uni: u64,
    /// Largest unreliable datagram this end takes; zero for none.
    pub datagram_bytes_max: u64,
    /// Longest time for which this end holds back an ACK unasked.
    pub ack_delay_max: Duration,
    /// Codes this end would send with, best first.
    pub codes_sent: Vec<CodeId>,
    /// Codes this end can decode.
    pub codes_decoded: Vec<CodeId>,
    /// Symbols this end retains for repair symbols to refer to.
    pub decoder_symbols: u64,
    /// Parameters of the first of the codes sent with ([`fulmar_fec::Code::parameters`]).
    pub code_parameters: Vec<u32>,
    /// Length of every symbol of that code, if it is one that sends no source symbols; else 0.
    pub symbol_bytes: u64,
    /// Connection ids of the other end that this end keeps.
    pub cids_kept: u64,
    /// Rate that this end asks the other to keep, in bytes per second, zero for none; `None` if it would not
    /// keep one itself.
    pub rate_max: Option<u64>,
    /// Name of the profile this end sends with. A server that follows its clients adopts it.
    pub profile: String,
    /// Largest datagram this end takes in symbols that are repaired; zero for none.
    pub coded_datagram_bytes_max: u64,
    /// Server only: the ports of its address that it is at, if there are several; in order, and apart.
    pub ports: Vec<RangeInclusive<u16>>,
}

/// Makes of parameters what is not so: for tests.
#[cfg(feature = "forge")]
#[derive(Clone)]
pub(crate) struct Forgery(pub(crate) std::sync::Arc<dyn Fn(&mut Parameters) + Send + Sync>);

#[cfg(feature = "forge")]
impl std::fmt::Debug for Forgery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forgery")
    }
}

macro_rules! numbered {
    ($($name:ident = $value:expr;)*) => { $(const $name: u64 = $value;)* };
}

numbered! {
    SOURCE_CID = 0x00; ORIGINAL_CID = 0x01; RETRY_CID = 0x02; RESET_TOKEN = 0x03; IDLE_TIMEOUT_MS = 0x04;
    UDP_PAYLOAD_MAX = 0x05; MAX_DATA = 0x06; MAX_STREAM_DATA = 0x07; MAX_STREAMS_BI = 0x08; MAX_STREAMS_UNI = 0x09;
    DATAGRAM_BYTES_MAX = 0x0a; ACK_DELAY_MAX_US = 0x0b; CODES_SENT = 0x0c; CODES_DECODED = 0x0d; DECODER_SYMBOLS = 0x0e;
    PROFILE = 0x0f; CODE_PARAMETERS = 0x10; SYMBOL_BYTES = 0x11; CIDS_KEPT = 0x12;
    RATE_MAX = 0x13; CODED_DATAGRAM_BYTES_MAX = 0x14; PORTS = 0x15;
}

impl Parameters {
    /// Parameters with everything optional left out: no datagrams, no streams, no codes.
    pub fn new(source_cid: ConnectionId) -> Self {
        Self {
            source_cid,
            original_cid: None,
            retry_cid: None,
            reset_token: None,
            idle_timeout: Duration::ZERO,
            udp_payload_max: DATAGRAM_BYTES_MIN,
            initial_max_data: 0,
            initial_max_stream_data: 0,
            initial_max_streams_bi: 0,
            initial_max_streams_uni: 0,
            datagram_bytes_max: 0,
            ack_delay_max: Duration::from_millis(25),
            codes_sent: Vec::new(),
            codes_decoded: Vec::new(),
            decoder_symbols: 0,
            code_parameters: Vec::new(),
            symbol_bytes: 0,
            cids_kept: CIDS_KEPT_MIN,
            rate_max: None,
            profile: String::new(),
            coded_datagram_bytes_max: 0,
            ports: Vec::new(),
        }
    }

    /// The bytes to hand to the handshake.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(160);
        let mut put = |id: u64, value: &[u8]| {
            put_varint(&mut out, id);
            put_varint(&mut out, value.len() as u64);
            out.extend_from_slice(value);
        };
        put(SOURCE_CID, self.source_cid.as_bytes());
        for (id, cid) in [(ORIGINAL_CID, &self.original_cid), (RETRY_CID, &self.retry_cid)] {
            cid.iter().for_each(|cid| put(id, cid.as_bytes()));
        }
        self.reset_token.iter().for_each(|token| put(RESET_TOKEN, token.as_bytes()));
        put(CODES_SENT, &self.codes_sent.iter().map(|code| code.0).collect::<Vec<_>>());
        put(CODES_DECODED, &self.codes_decoded.iter().map(|code| code.0).collect::<Vec<_>>());
        put(PROFILE, self.profile.as_bytes());
        let mut parameters = Vec::new();
        self.code_parameters.iter().for_each(|value| put_varint(&mut parameters, u64::from(*value)));
        put(CODE_PARAMETERS, &parameters);
        if !self.ports.is_empty() {
            let ends = self.ports.iter().flat_map(|range| [*range.start(), *range.end()]);
            put(PORTS, &ends.flat_map(u16::to_be_bytes).collect::<Vec<_>>());
        }
        let numbers = [
            (IDLE_TIMEOUT_MS, self.idle_timeout.as_millis() as u64),
            (UDP_PAYLOAD_MAX, self.udp_payload_max),
            (MAX_DATA, self.initial_max_data),
            (MAX_STREAM_DATA, self.initial_max_stream_data),
            (MAX_STREAMS_BI, self.initial_max_streams_bi),
            (MAX_STREAMS_UNI, self.initial_max_streams_uni),
            (DATAGRAM_BYTES_MAX, self.datagram_bytes_max),
            (ACK_DELAY_MAX_US, self.ack_delay_max.as_micros() as u64),
            (DECODER_SYMBOLS, self.decoder_symbols),
            (SYMBOL_BYTES, self.symbol_bytes),
            (CIDS_KEPT, self.cids_kept),
            (CODED_DATAGRAM_BYTES_MAX, self.coded_datagram_bytes_max),
        ];
        for (id, number) in numbers.into_iter().chain(self.rate_max.map(|rate| (RATE_MAX, rate))) {
            let mut value = Vec::with_capacity(8);
            put_varint(&mut value, number.min(VARINT_MAX));
            put(id, &value);
        }
        out
    }

    /// Reads what the peer sent. Parameters of unknown number are skipped; one that comes twice or makes no
    /// sense is an error.
    pub fn decode(bytes: &[u8]) -> Result<Self, TransportError> {
        Self::parse(bytes).map_err(|Malformed| TransportError::parameters("malformed connection parameters"))
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut parameters = None;
        let mut seen = 0u64;
        while !reader.is_empty() {
            let id = reader.varint()?;
            let value = reader.prefixed()?;
            if id < 64 {
                if seen & (1 << id) != 0 {
                    return Err(Malformed);
                }
                seen |= 1 << id;
            }
            // The connection id is written first, and the rest hangs on it.
            match (&mut parameters, id) {
                (None, SOURCE_CID) => {
                    parameters = Some(Self::new(ConnectionId::from_bytes(value).ok_or(Malformed)?))
                }
                (None, _) => return Err(Malformed),
                (Some(parameters), _) => parameters.set(id, value)?,
            }
        }
        let parameters = parameters.ok_or(Malformed)?;
        let is_sane = parameters.udp_payload_max >= DATAGRAM_BYTES_MIN
            && parameters.cids_kept >= CIDS_KEPT_MIN
            && parameters.ack_delay_max <= Duration::from_secs(16)
            && parameters.initial_max_streams_bi <= 1 << 60
            && parameters.initial_max_streams_uni <= 1 << 60;
        is_sane.then_some(parameters).ok_or(Malformed)
    }

    fn set(&mut self, id: u64, value: &[u8]) -> Result<(), Malformed> {
        let cid = || ConnectionId::from_bytes(value).ok_or(Malformed);
        let number = || {
            let mut reader = Reader::new(value);
            reader.varint().and_then(|number| if reader.is_empty() { Ok(number) } else { Err(Malformed) })
        };
        let codes = || {
            let codes = value.iter().map(|&id| CodeId(id)).collect::<Vec<_>>();
            if codes.len() > CODES_MAX { Err(Malformed) } else { Ok(codes) }
        };
        match id {
            ORIGINAL_CID => self.original_cid = Some(cid()?),
            RETRY_CID => self.retry_cid = Some(cid()?),
            RESET_TOKEN => {
                self.reset_token = Some(ResetToken::from(<[u8; 16]>::try_from(value).map_err(|_| Malformed)?))
            }
            IDLE_TIMEOUT_MS => self.idle_timeout = Duration::from_millis(number()?),
            UDP_PAYLOAD_MAX => self.udp_payload_max = number()?,
            MAX_DATA => self.initial_max_data = number()?,
            MAX_STREAM_DATA => self.initial_max_stream_data = number()?,
            MAX_STREAMS_BI => self.initial_max_streams_bi = number()?,
            MAX_STREAMS_UNI => self.initial_max_streams_uni = number()?,
            DATAGRAM_BYTES_MAX => self.datagram_bytes_max = number()?,
            ACK_DELAY_MAX_US => self.ack_delay_max = Duration::from_micros(number()?),
            CODES_SENT => self.codes_sent = codes()?,
            CODES_DECODED => self.codes_decoded = codes()?,
            DECODER_SYMBOLS => self.decoder_symbols = number()?,
            SYMBOL_BYTES => self.symbol_bytes = number()?,
            CIDS_KEPT => self.cids_kept = number()?,
            RATE_MAX => self.rate_max = Some(number()?),
            CODED_DATAGRAM_BYTES_MAX => self.coded_datagram_bytes_max = number()?,
            PORTS => self.ports = ports(value)?,
            CODE_PARAMETERS => {
                let mut reader = Reader::new(value);
                while !reader.is_empty() {
                    let parameter = u32::try_from(reader.varint()?).map_err(|_| Malformed)?;
                    self.code_parameters.push(parameter);
                }
                if self.code_parameters.len() > CODE_PARAMETERS_MAX {
                    return Err(Malformed);
                }
            }
            PROFILE => {
                let name = std::str::from_utf8(value).map_err(|_| Malformed)?;
                if name.len() > PROFILE_NAME_MAX {
                    return Err(Malformed);
                }
                name.clone_into(&mut self.profile);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Ranges of ports: the first and the last of each.
fn ports(value: &[u8]) -> Result<Vec<RangeInclusive<u16>>, Malformed> {
    let (ends, []) = value.as_chunks::<4>() else { return Err(Malformed) };
    let ends = ends.iter().map(|[a, b, c, d]| u16::from_be_bytes([*a, *b])..=u16::from_be_bytes([*c, *d]));
    let ranges: Vec<_> = ends.collect();
    if are_ports(&ranges) { Ok(ranges) } else { Err(Malformed) }
}

/// Whether these are ranges that a server may have.
pub(crate) fn are_ports(ranges: &[RangeInclusive<u16>]) -> bool {
    let is_apart = |pair: &[RangeInclusive<u16>]| pair[0].end() < pair[1].start();
    ranges.len() <= PORT_RANGES_MAX
        && ranges.iter().all(|range| !range.is_empty() && *range.start() > 0)
        && ranges.windows(2).all(is_apart)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Parameters {
        let mut p = Parameters::new(ConnectionId::new([1; 8]));
        p.original_cid = Some(ConnectionId::new([2; 8]));
        p.reset_token = Some(ResetToken::from([9; 16]));
        p.idle_timeout = Duration::from_secs(30);
        p.udp_payload_max = 1472;
        p.initial_max_data = 1 << 20;
        p.rate_max = Some(1_250_000);
        p.codes_sent = vec![CodeId(4)];
        p.codes_decoded = vec![CodeId(0), CodeId(4)];
        p.profile = "auto".into();
        p.coded_datagram_bytes_max = 65_535;
        p.ports = vec![443..=443, 20_000..=20_100];
        p
    }

    #[test]
    fn wire_7_parameters_come_back() {
        assert_eq!(Parameters::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn wire_7_unknown_parameters_are_skipped_and_doubled_ones_refused() {
        let mut bytes = sample().encode();
        bytes.extend_from_slice(&[0x40, 99, 3, 1, 2, 3]);
        assert_eq!(Parameters::decode(&bytes), Ok(sample()));
        bytes.extend_from_slice(&[DATAGRAM_BYTES_MAX as u8, 1, 5]);
        assert!(Parameters::decode(&bytes).is_err());
    }

    #[test]
    fn wire_7_senseless_values_are_refused() {
        let mut p = sample();
        p.udp_payload_max = 500;
        assert!(Parameters::decode(&p.encode()).is_err());
        let backwards = RangeInclusive::new(5, 4);
        for ports in [vec![0..=5], vec![backwards], vec![5..=9, 9..=12], vec![7..=7, 5..=5], vec![1..=1; 17]]
        {
            let mut p = sample();
            p.ports = ports;
            assert!(Parameters::decode(&p.encode()).is_err(), "{:?}", p.ports);
        }
        let whole = sample().encode();
        for len in 0..whole.len() {
            let _ = Parameters::decode(&whole[..len]);
        }
        assert!(Parameters::decode(&[]).is_err());
    }
}
