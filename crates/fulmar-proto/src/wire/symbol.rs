//! Frames inside source symbols: everything that must arrive (docs/internals/wire.md 6).
//!
//! A symbol delivers its frames exactly once, in any order with respect to other symbols. A zero byte ends
//! it: what a code recovers is padded with zeros, so every frame states its own length.

use super::packet::{cid_of, valid_cid};
use super::{Malformed, Reader, put_varint, varint_len};
use crate::{ConnectionId, Dir, StreamId};

const END: u8 = 0x00;
const RESET_STREAM: u8 = 0x04;
const STOP_SENDING: u8 = 0x05;
const STREAM: u8 = 0x08;
const STREAM_FIN: u8 = 0x09;
const MAX_DATA: u8 = 0x10;
const MAX_STREAM_DATA: u8 = 0x11;
const MAX_STREAMS_BI: u8 = 0x12;
const MAX_STREAMS_UNI: u8 = 0x13;
const ACK_POLICY: u8 = 0x14;
const MAX_RATE: u8 = 0x15;
const NEW_CONNECTION_ID: u8 = 0x18;
const RETIRE_CONNECTION_ID: u8 = 0x19;

/// One frame of a symbol.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SymbolFrame<'a> {
    /// Bytes of a stream.
    Stream {
        /// Which stream.
        id: StreamId,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// They end the stream.
        fin: bool,
    },
    /// The sender abandons a stream.
    ResetStream {
        /// Which stream.
        id: StreamId,
        /// The application's code.
        code: u64,
        /// Bytes of the stream that count against flow control.
        final_size: u64,
    },
    /// The receiver wants no more of a stream.
    StopSending {
        /// Which stream.
        id: StreamId,
        /// The application's code.
        code: u64,
    },
    /// Stream bytes the connection may carry in total.
    MaxData(u64),
    /// Offset up to which a stream may be sent.
    MaxStreamData {
        /// Which stream.
        id: StreamId,
        /// The offset.
        max: u64,
    },
    /// Streams of one direction that the peer may open in total.
    MaxStreams {
        /// Which direction.
        dir: Dir,
        /// How many.
        max: u64,
    },
    /// How the peer should space its acknowledgements (after draft-ietf-quic-ack-frequency).
    AckPolicy {
        /// Acknowledge at least after so many ack-eliciting packets.
        every_packets: u64,
        /// Acknowledge at least after so many microseconds.
        delay_us: u64,
        /// How often an ACK is sent again when nothing follows, at most.
        repeats: u64,
    },
    /// The peer is asked to send no faster.
    MaxRate {
        /// Number of this word: that with the highest holds.
        sequence: u64,
        /// In UDP payloads; 0 for as fast as it likes.
        bytes_per_second: u64,
    },
    /// Another id by which the sender may be called (RFC 9000 19.15).
    NewConnectionId(NewConnectionId),
    /// The sender does not use an id of the receiver's any more (RFC 9000 19.16).
    RetireConnectionId {
        /// Its number.
        sequence: u64,
    },
}

/// Another id by which an end may be called.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NewConnectionId {
    /// Its number: they count from 0, which the handshake's has.
    pub sequence: u64,
    /// Those with lower numbers are to be retired.
    pub retire_below: u64,
    /// The id.
    pub cid: ConnectionId,
    /// Proves a stateless reset of packets to it.
    pub reset_token: [u8; 16],
}

/// Appends what comes before the data of a STREAM frame that carries `len` bytes; the caller appends the
/// data.
pub fn put_stream_header(out: &mut Vec<u8>, id: StreamId, offset: u64, len: usize, fin: bool) {
    out.push(if fin { STREAM_FIN } else { STREAM });
    put_varint(out, id.0);
    put_varint(out, offset);
    put_varint(out, len as u64);
}

/// Bytes of a STREAM frame besides its data, when it carries `len` bytes.
pub fn stream_overhead(id: StreamId, offset: u64, len: usize) -> usize {
    1 + varint_len(id.0) + varint_len(offset) + varint_len(len as u64)
}

impl SymbolFrame<'_> {
    /// Appends the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Stream { id, offset, data, fin } => {
                put_stream_header(out, id, offset, data.len(), fin);
                out.extend_from_slice(data);
            }
            Self::ResetStream { id, code, final_size } => {
                put_all(out, RESET_STREAM, &[id.0, code, final_size])
            }
            Self::StopSending { id, code } => put_all(out, STOP_SENDING, &[id.0, code]),
            Self::MaxData(max) => put_all(out, MAX_DATA, &[max]),
            Self::MaxStreamData { id, max } => put_all(out, MAX_STREAM_DATA, &[id.0, max]),
            Self::MaxStreams { dir: Dir::Bi, max } => put_all(out, MAX_STREAMS_BI, &[max]),
            Self::MaxStreams { dir: Dir::Uni, max } => put_all(out, MAX_STREAMS_UNI, &[max]),
            Self::AckPolicy { every_packets, delay_us, repeats } => {
                put_all(out, ACK_POLICY, &[every_packets, delay_us, repeats])
            }
            Self::MaxRate { sequence, bytes_per_second } => {
                put_all(out, MAX_RATE, &[sequence, bytes_per_second])
            }
            Self::NewConnectionId(new) => {
                put_all(out, NEW_CONNECTION_ID, &[new.sequence, new.retire_below]);
                out.push(new.cid.wire_bytes() as u8);
                out.extend_from_slice(new.cid.as_bytes());
                out.extend_from_slice(&new.reset_token);
            }
            Self::RetireConnectionId { sequence } => put_all(out, RETIRE_CONNECTION_ID, &[sequence]),
        }
    }

    /// Bytes [`Self::put`] appends.
    pub fn wire_bytes(&self) -> usize {
        match *self {
            Self::Stream { id, offset, data, .. } => stream_overhead(id, offset, data.len()) + data.len(),
            Self::ResetStream { id, code, final_size } => len_all(&[id.0, code, final_size]),
            Self::StopSending { id, code } => len_all(&[id.0, code]),
            Self::MaxData(max) | Self::MaxStreams { max, .. } => len_all(&[max]),
            Self::MaxStreamData { id, max } => len_all(&[id.0, max]),
            Self::AckPolicy { every_packets, delay_us, repeats } => {
                len_all(&[every_packets, delay_us, repeats])
            }
            Self::MaxRate { sequence, bytes_per_second } => len_all(&[sequence, bytes_per_second]),
            Self::NewConnectionId(new) => {
                let token_bytes = new.reset_token.len();
                len_all(&[new.sequence, new.retire_below]) + 1 + new.cid.wire_bytes() + token_bytes
            }
            Self::RetireConnectionId { sequence } => len_all(&[sequence]),
        }
    }
}

fn put_all(out: &mut Vec<u8>, kind: u8, fields: &[u64]) {
    out.push(kind);
    fields.iter().for_each(|&field| put_varint(out, field));
}

fn len_all(fields: &[u64]) -> usize {
    1 + fields.iter().map(|&field| varint_len(field)).sum::<usize>()
}

/// The frames of one symbol. Ends after the first malformed frame.
#[derive(Clone, Debug)]
pub struct SymbolFrames<'a> {
    reader: Reader<'a>,
}

impl<'a> SymbolFrames<'a> {
    /// The frames in `symbol`.
    pub fn new(symbol: &'a [u8]) -> Self {
        Self { reader: Reader::new(symbol) }
    }

    fn parse(&mut self, kind: u8) -> Result<SymbolFrame<'a>, Malformed> {
        let r = &mut self.reader;
        Ok(match kind {
            STREAM | STREAM_FIN => SymbolFrame::Stream {
                id: StreamId(r.varint()?),
                offset: r.varint()?,
                data: r.prefixed()?,
                fin: kind == STREAM_FIN,
            },
            RESET_STREAM => SymbolFrame::ResetStream {
                id: StreamId(r.varint()?),
                code: r.varint()?,
                final_size: r.varint()?,
            },
            STOP_SENDING => SymbolFrame::StopSending { id: StreamId(r.varint()?), code: r.varint()? },
            MAX_DATA => SymbolFrame::MaxData(r.varint()?),
            MAX_STREAM_DATA => SymbolFrame::MaxStreamData { id: StreamId(r.varint()?), max: r.varint()? },
            MAX_STREAMS_BI => SymbolFrame::MaxStreams { dir: Dir::Bi, max: r.varint()? },
            MAX_STREAMS_UNI => SymbolFrame::MaxStreams { dir: Dir::Uni, max: r.varint()? },
            ACK_POLICY => SymbolFrame::AckPolicy {
                every_packets: r.varint()?,
                delay_us: r.varint()?,
                repeats: r.varint()?,
            },
            MAX_RATE => SymbolFrame::MaxRate { sequence: r.varint()?, bytes_per_second: r.varint()? },
            NEW_CONNECTION_ID => SymbolFrame::NewConnectionId(NewConnectionId {
                sequence: r.varint()?,
                retire_below: r.varint()?,
                cid: valid_cid(cid_of(r)?)?,
                reset_token: r.array()?,
            }),
            RETIRE_CONNECTION_ID => SymbolFrame::RetireConnectionId { sequence: r.varint()? },
            _ => return Err(Malformed),
        })
    }
}

impl<'a> Iterator for SymbolFrames<'a> {
    type Item = Result<SymbolFrame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.reader.u8().ok()?;
        if kind == END {
            self.reader.take_rest();
            return None;
        }
        let frame = self.parse(kind);
        if frame.is_err() {
            self.reader.take_rest();
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Side;

    fn samples() -> Vec<SymbolFrame<'static>> {
        let id = StreamId::new(Side::Client, Dir::Bi, 3);
        vec![
            SymbolFrame::Stream { id, offset: 1 << 33, data: b"abc", fin: false },
            SymbolFrame::Stream { id, offset: 0, data: b"", fin: true },
            SymbolFrame::ResetStream { id, code: 7, final_size: 9000 },
            SymbolFrame::StopSending { id, code: 70 },
            SymbolFrame::MaxData(1 << 40),
            SymbolFrame::MaxStreamData { id, max: 65536 },
            SymbolFrame::MaxStreams { dir: Dir::Bi, max: 100 },
            SymbolFrame::MaxStreams { dir: Dir::Uni, max: 3 },
            SymbolFrame::AckPolicy { every_packets: 10, delay_us: 5000, repeats: 3 },
            SymbolFrame::MaxRate { sequence: 7, bytes_per_second: 1_250_000 },
            SymbolFrame::NewConnectionId(NewConnectionId {
                sequence: 70,
                retire_below: 1,
                cid: ConnectionId::from_bytes(&[3; 17]).unwrap(),
                reset_token: [8; 16],
            }),
            SymbolFrame::RetireConnectionId { sequence: 1 << 20 },
        ]
    }

    #[test]
    fn frames_come_back_and_zeros_end_the_symbol() {
        let mut out = Vec::new();
        for frame in samples() {
            let before = out.len();
            frame.put(&mut out);
            assert_eq!(out.len() - before, frame.wire_bytes(), "{frame:?}");
        }
        out.extend_from_slice(&[0; 40]);
        let read: Vec<_> = SymbolFrames::new(&out).collect::<Result<_, _>>().unwrap();
        assert_eq!(read, samples());
    }

    #[test]
    fn a_cut_frame_is_malformed_and_the_last() {
        let mut out = Vec::new();
        samples()[0].put(&mut out);
        for len in 1..out.len() {
            let frames: Vec<_> = SymbolFrames::new(&out[..len]).collect();
            assert_eq!(frames, [Err(Malformed)]);
        }
    }

    #[test]
    fn unknown_frames_are_refused() {
        assert_eq!(SymbolFrames::new(&[0x7f, 1, 2]).collect::<Vec<_>>(), [Err(Malformed)]);
    }
}
