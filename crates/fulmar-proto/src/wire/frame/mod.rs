//! Frames inside packets: everything that is not worth repeating (docs/internals/wire.md 5).
//!
//! Each is parsed once into a state that can only be valid. The frame that carries a symbol is the last of
//! its packet and reaches to its end.

mod ack;
mod coded;
mod datagrams;

use bytes::Bytes;

pub use self::ack::{
    ACK_RANGES_MAX, Ack, CodingState, EcnCounts, OPEN_WINDOWS_MAX, OpenWindow, OpenWindows, put_ack,
};
pub use self::coded::{
    PART_HEADER_BYTES_MAX, REPAIR_HEADER_BYTES_MAX, Repair, RepairSpan, SET_SYMBOLS_MAX, SOURCE_HEADER_BYTES,
    SetGaps, put_part_header, put_repair_set_header, put_repair_window_header, put_source_header,
    set_prefix_that_fits,
};
use self::datagrams::{CODED_DATAGRAM, DATAGRAM, DATAGRAM_REPAIR};
pub use self::datagrams::{
    CodedDatagram, DATAGRAM_LENGTH_BYTES, DATAGRAM_REPAIR_HEADER_BYTES_MAX, DatagramRepair,
    datagram_frame_bytes, put_coded_datagram, put_datagram, put_datagram_repair,
};
use super::{Malformed, Reader, VARINT_MAX, put_varint};
use crate::{TransportError, TransportErrorCode};

const PADDING: u8 = 0x00;
pub(crate) const PING: u8 = 0x01;
const CRYPTO: u8 = 0x02;
const PATH_CHALLENGE: u8 = 0x1a;
const PATH_RESPONSE: u8 = 0x1b;
const CLOSE_TRANSPORT: u8 = 0x1c;
const CLOSE_APPLICATION: u8 = 0x1d;

/// One frame of a packet.
#[derive(Clone, Debug)]
pub enum Frame<'a> {
    /// Filler.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// Bytes of the TLS handshake.
    Crypto {
        /// Offset of the first byte in the handshake stream of this packet-number space.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
    },
    /// What arrived.
    Ack(Ack<'a>),
    /// A source symbol, to the end of the packet.
    Source {
        /// Low 32 bits of its id.
        id: u32,
        /// Its bytes, unpadded.
        symbol: &'a [u8],
    },
    /// Part of a source symbol, to the end of the packet.
    SourcePart {
        /// Low 32 bits of its id.
        id: u32,
        /// Bytes of the whole symbol.
        len: usize,
        /// Where in it the piece stands.
        start: usize,
        /// The piece.
        piece: &'a [u8],
    },
    /// A repair symbol, to the end of the packet.
    Repair(Repair<'a>),
    /// An unreliable datagram.
    Datagram(&'a [u8]),
    /// A symbol of datagrams that may be repaired.
    CodedDatagram(CodedDatagram<'a>),
    /// A combination of such symbols.
    DatagramRepair(DatagramRepair<'a>),
    /// Proves that the peer receives on this path.
    PathChallenge(u64),
    /// Answers a challenge.
    PathResponse(u64),
    /// Ends the connection.
    Close(Close),
}

/// How a connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Close {
    /// By the transport.
    Transport(TransportError),
    /// By the application.
    Application {
        /// Its code.
        code: u64,
        /// Its reason.
        reason: Bytes,
    },
}

/// The frames of one packet's payload. Ends after the first malformed frame.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// The frames in `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }

    fn parse(&mut self) -> Result<Frame<'a>, Malformed> {
        let r = &mut self.reader;
        let kind = r.u8()?;
        Ok(match kind {
            PADDING => {
                skip_padding(r);
                Frame::Padding
            }
            PING => Frame::Ping,
            CRYPTO => Frame::Crypto { offset: r.varint()?, data: r.prefixed()? },
            ack::ACK..=ack::ACK_LAST => Frame::Ack(ack::parse(r, kind)?),
            coded::SOURCE => Frame::Source { id: r.u32()?, symbol: r.take_rest() },
            coded::SOURCE_PART => {
                let (id, len, start) = (r.u32()?, coded::short(r)?, coded::short(r)?);
                Frame::SourcePart { id, len, start, piece: r.take_rest() }
            }
            coded::REPAIR_WINDOW | coded::REPAIR_SET => Frame::Repair(coded::parse_repair(r, kind)?),
            DATAGRAM => Frame::Datagram(r.prefixed()?),
            CODED_DATAGRAM => Frame::CodedDatagram(CodedDatagram::parse(r)?),
            DATAGRAM_REPAIR => Frame::DatagramRepair(DatagramRepair::parse(r)?),
            PATH_CHALLENGE => Frame::PathChallenge(u64::from_be_bytes(r.array()?)),
            PATH_RESPONSE => Frame::PathResponse(u64::from_be_bytes(r.array()?)),
            CLOSE_TRANSPORT => {
                let code = TransportErrorCode::from_wire(r.varint()?);
                Frame::Close(Close::Transport(TransportError::new(
                    code,
                    String::from_utf8_lossy(r.prefixed()?),
                )))
            }
            CLOSE_APPLICATION => {
                let code = r.varint()?;
                Frame::Close(Close::Application { code, reason: Bytes::copy_from_slice(r.prefixed()?) })
            }
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = self.parse();
        if frame.is_err() {
            self.reader.take_rest();
        }
        Some(frame)
    }
}

fn skip_padding(reader: &mut Reader<'_>) {
    let zeros = reader.rest().iter().take_while(|&&byte| byte == PADDING).count();
    // Cannot fail: that many bytes were just counted.
    let _ = reader.bytes(zeros);
}

/// Appends a PING.
pub fn put_ping(out: &mut Vec<u8>) {
    out.push(PING);
}

/// Appends a CRYPTO frame.
pub fn put_crypto(out: &mut Vec<u8>, offset: u64, data: &[u8]) {
    out.push(CRYPTO);
    put_varint(out, offset);
    put_varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// Appends a PATH_CHALLENGE.
pub fn put_path_challenge(out: &mut Vec<u8>, token: u64) {
    out.push(PATH_CHALLENGE);
    out.extend_from_slice(&token.to_be_bytes());
}

/// Appends a PATH_RESPONSE.
pub fn put_path_response(out: &mut Vec<u8>, token: u64) {
    out.push(PATH_RESPONSE);
    out.extend_from_slice(&token.to_be_bytes());
}

/// Appends a CLOSE whose reason is cut to what `space_bytes` leaves.
pub fn put_close(out: &mut Vec<u8>, close: &Close, space_bytes: usize) {
    let (kind, code, reason) = match close {
        Close::Transport(error) => (CLOSE_TRANSPORT, error.code.to_wire(), error.reason.as_bytes()),
        Close::Application { code, reason } => (CLOSE_APPLICATION, *code, reason.as_ref()),
    };
    let room = space_bytes.saturating_sub(1 + 8 + 2).min(reason.len());
    out.push(kind);
    put_varint(out, code.min(VARINT_MAX));
    put_varint(out, room as u64);
    out.extend_from_slice(&reason[..room]);
}

#[cfg(test)]
mod tests;
