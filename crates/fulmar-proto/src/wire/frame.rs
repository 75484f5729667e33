//! Frames inside packets: everything that is not worth repeating (docs/internals/wire.md 5).
//!
//! Each is parsed once into a state that can only be valid. The frame that carries a symbol is the last of
//! its packet and reaches to its end.

use std::fmt;

use bytes::Bytes;
use fulmar_fec::{CodeId, RepairKey, SymbolId, Window};

use super::{Malformed, Reader, VARINT_MAX, put_varint, varint_len};
use crate::{PacketNumber, TransportError, TransportErrorCode};

const PADDING: u8 = 0x00;
pub(crate) const PING: u8 = 0x01;
const CRYPTO: u8 = 0x02;
/// Bit 0: ECN counts follow. Bit 1: coding state follows.
const ACK: u8 = 0x08;
const ACK_HAS_ECN: u8 = 0x01;
const ACK_HAS_CODING: u8 = 0x02;
const SOURCE: u8 = 0x10;
const REPAIR_WINDOW: u8 = 0x11;
const REPAIR_SET: u8 = 0x12;
const SOURCE_PART: u8 = 0x13;
const DATAGRAM: u8 = 0x18;
const PATH_CHALLENGE: u8 = 0x1a;
const PATH_RESPONSE: u8 = 0x1b;
const CLOSE_TRANSPORT: u8 = 0x1c;
const CLOSE_APPLICATION: u8 = 0x1d;

/// Most ranges an ACK may carry (docs/internals/wire.md 5.3). Older ranges were reported by earlier ACKs.
pub const ACK_RANGES_MAX: usize = 64;
/// Most open windows an ACK may report.
pub const OPEN_WINDOWS_MAX: usize = 16;
/// Most symbols an explicit set may name.
pub const SET_SYMBOLS_MAX: usize = 64;
/// Bytes of a SOURCE frame before its symbol.
pub const SOURCE_HEADER_BYTES: usize = 5;
/// Most bytes of a SOURCE_PART frame before its piece.
pub const PART_HEADER_BYTES_MAX: usize = 1 + 4 + 4 + 4;
/// Most bytes of a repair frame before its payload. A symbol is shorter than a packet by this much, so that a
/// repair symbol, which is as long as the longest symbol it covers, fits a packet too.
pub const REPAIR_HEADER_BYTES_MAX: usize = 15;

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
    /// Proves that the peer receives on this path.
    PathChallenge(u64),
    /// Answers a challenge.
    PathResponse(u64),
    /// Ends the connection.
    Close(Close),
}

/// A repair symbol on the wire.
#[derive(Clone, Debug)]
pub struct Repair<'a> {
    /// The code that made it.
    pub code: CodeId,
    /// Low 32 bits of the first symbol covered.
    pub first: u32,
    /// Which of the repair symbols over this cover.
    pub key: RepairKey,
    /// What it covers from `first` on.
    pub span: RepairSpan<'a>,
    /// The combination.
    pub payload: &'a [u8],
}

/// What a repair symbol covers, relative to its first symbol.
#[derive(Clone, Debug)]
pub enum RepairSpan<'a> {
    /// This many consecutive symbols.
    Window(u32),
    /// The first and, for each gap, the symbol `gap + 1` after the one before.
    Set(SetGaps<'a>),
}

/// The gaps of an explicit set, already checked.
#[derive(Clone, Debug)]
pub struct SetGaps<'a> {
    count: usize,
    reader: Reader<'a>,
}

impl SetGaps<'_> {
    /// The ids named, when the first is `first`; replaces the contents of `ids`.
    pub fn resolve(&self, first: SymbolId, ids: &mut Vec<SymbolId>) {
        ids.clear();
        ids.push(first);
        let mut reader = self.reader.clone();
        let mut last = first.0;
        for _ in 0..self.count {
            // Parsing has read these before, so they are there.
            last = last.saturating_add(reader.varint().unwrap_or(0)).saturating_add(1);
            ids.push(SymbolId(last));
        }
    }
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

/// Cumulative counts of ECN marks received (RFC 9000 19.3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct EcnCounts {
    /// Packets received with ECT(0).
    pub ect0: u64,
    /// Packets received with ECT(1).
    pub ect1: u64,
    /// Packets received with CE.
    pub ce: u64,
}

/// The receiver's state of coding, as each ACK reports it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CodingState {
    /// Every symbol below is decoded: the lowest undecoded symbol.
    pub decoded_below: SymbolId,
    /// Every symbol below is seen.
    pub seen_below: SymbolId,
    /// Windows that are not decoded, with the degrees of freedom each lacks.
    pub windows: Vec<OpenWindow>,
}

/// A window that is not decoded yet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OpenWindow {
    /// The window.
    pub window: Window,
    /// Degrees of freedom missing to decode all of it.
    pub deficit: u32,
}

/// An ACK frame, checked: iterating its ranges cannot fail.
#[derive(Clone)]
pub struct Ack<'a> {
    /// Largest packet number acknowledged.
    pub largest: PacketNumber,
    /// Microseconds between the arrival of the largest and the sending of the ACK.
    pub delay_us: u64,
    /// ECN counts, if the receiver sees ECN marks.
    pub ecn: Option<EcnCounts>,
    /// State of coding, in the data space.
    pub coding: Option<CodingState>,
    first_len: u64,
    gaps: usize,
    reader: Reader<'a>,
}

impl Ack<'_> {
    /// The packet numbers acknowledged, as inclusive ranges from the largest down.
    pub fn ranges(&self) -> impl Iterator<Item = (PacketNumber, PacketNumber)> + Clone + '_ {
        let mut reader = self.reader.clone();
        let mut high = self.largest.0;
        let mut low = high - self.first_len;
        let mut left = self.gaps;
        let mut first = true;
        std::iter::from_fn(move || {
            if first {
                first = false;
            } else {
                left = left.checked_sub(1)?;
                (low, high) = next_range(&mut reader, low).ok()?;
            }
            Some((PacketNumber(low), PacketNumber(high)))
        })
    }
}

impl fmt::Debug for Ack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ack")
            .field("ranges", &self.ranges().collect::<Vec<_>>())
            .field("delay_us", &self.delay_us)
            .field("ecn", &self.ecn)
            .field("coding", &self.coding)
            .finish()
    }
}

/// Reads one (gap, length) pair below `low` (docs/internals/wire.md 5.3).
fn next_range(reader: &mut Reader<'_>, low: u64) -> Result<(u64, u64), Malformed> {
    let gap = reader.varint()?;
    let len = reader.varint()?;
    let high = low.checked_sub(gap + 2).ok_or(Malformed)?;
    Ok((high.checked_sub(len).ok_or(Malformed)?, high))
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
            ACK..=0x0b => Frame::Ack(parse_ack(r, kind)?),
            SOURCE => Frame::Source { id: r.u32()?, symbol: r.take_rest() },
            SOURCE_PART => {
                Frame::SourcePart { id: r.u32()?, len: short(r)?, start: short(r)?, piece: r.take_rest() }
            }
            REPAIR_WINDOW | REPAIR_SET => Frame::Repair(parse_repair(r, kind)?),
            DATAGRAM => Frame::Datagram(r.prefixed()?),
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

fn parse_ack<'a>(r: &mut Reader<'a>, kind: u8) -> Result<Ack<'a>, Malformed> {
    let largest = r.varint()?;
    let delay_us = r.varint()?;
    let gaps = r.length()?;
    let first_len = r.varint()?;
    if gaps >= ACK_RANGES_MAX {
        return Err(Malformed);
    }
    let mut low = largest.checked_sub(first_len).ok_or(Malformed)?;
    let reader = r.clone();
    for _ in 0..gaps {
        (low, _) = next_range(r, low)?;
    }
    let ecn = (kind & ACK_HAS_ECN != 0)
        .then(|| Ok(EcnCounts { ect0: r.varint()?, ect1: r.varint()?, ce: r.varint()? }))
        .transpose()?;
    let coding = (kind & ACK_HAS_CODING != 0).then(|| parse_coding(r)).transpose()?;
    Ok(Ack { largest: PacketNumber(largest), delay_us, ecn, coding, first_len, gaps, reader })
}

fn parse_coding(r: &mut Reader<'_>) -> Result<CodingState, Malformed> {
    let decoded_below = r.varint()?;
    let seen_below = decoded_below.checked_add(r.varint()?).filter(|&s| s <= VARINT_MAX).ok_or(Malformed)?;
    let count = r.length()?;
    if count > OPEN_WINDOWS_MAX {
        return Err(Malformed);
    }
    let mut windows = Vec::with_capacity(count);
    let mut from = decoded_below;
    for _ in 0..count {
        let first = from.checked_add(r.varint()?).filter(|&s| s <= VARINT_MAX).ok_or(Malformed)?;
        let len = u32::try_from(r.varint()?).map_err(|_| Malformed)?;
        let deficit = u32::try_from(r.varint()?).map_err(|_| Malformed)?;
        from = first + u64::from(len);
        windows.push(OpenWindow { window: Window { first: SymbolId(first), len }, deficit });
    }
    Ok(CodingState { decoded_below: SymbolId(decoded_below), seen_below: SymbolId(seen_below), windows })
}

/// A number that counts bytes of one datagram.
fn short(r: &mut Reader<'_>) -> Result<usize, Malformed> {
    u16::try_from(r.varint()?).map(usize::from).map_err(|_| Malformed)
}

fn parse_repair<'a>(r: &mut Reader<'a>, kind: u8) -> Result<Repair<'a>, Malformed> {
    let code = CodeId(r.u8()?);
    let first = r.u32()?;
    let key = RepairKey(u32::try_from(r.varint()?).map_err(|_| Malformed)?);
    let span = if kind == REPAIR_WINDOW {
        let len = u32::try_from(r.varint()?).ok().filter(|&len| len > 0).ok_or(Malformed)?;
        RepairSpan::Window(len)
    } else {
        let count = r.length()?;
        if count >= SET_SYMBOLS_MAX {
            return Err(Malformed);
        }
        let reader = r.clone();
        for _ in 0..count {
            r.varint()?;
        }
        RepairSpan::Set(SetGaps { count, reader })
    };
    Ok(Repair { code, first, key, span, payload: r.take_rest() })
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

/// Appends the header of a SOURCE frame; the symbol follows to the end of the packet.
pub fn put_source_header(out: &mut Vec<u8>, id: SymbolId) {
    out.push(SOURCE);
    out.extend_from_slice(&(id.0 as u32).to_be_bytes());
}

/// Appends the header of a SOURCE_PART frame of at most [`PART_HEADER_BYTES_MAX`] bytes; the piece follows to
/// the end of the packet.
pub fn put_part_header(out: &mut Vec<u8>, id: SymbolId, len: usize, start: usize) {
    out.push(SOURCE_PART);
    out.extend_from_slice(&(id.0 as u32).to_be_bytes());
    put_varint(out, len as u64);
    put_varint(out, start as u64);
}

/// Appends the header of a repair frame over a window; the payload follows to the end of the packet.
pub fn put_repair_window_header(out: &mut Vec<u8>, code: CodeId, window: Window, key: RepairKey) {
    out.push(REPAIR_WINDOW);
    out.push(code.0);
    out.extend_from_slice(&(window.first.0 as u32).to_be_bytes());
    put_varint(out, u64::from(key.0));
    put_varint(out, u64::from(window.len));
}

/// Appends the header of a repair frame over a set, which must not be empty; the payload follows to the end
/// of the packet.
pub fn put_repair_set_header(out: &mut Vec<u8>, code: CodeId, ids: &[SymbolId], key: RepairKey) {
    out.push(REPAIR_SET);
    out.push(code.0);
    out.extend_from_slice(&(ids[0].0 as u32).to_be_bytes());
    put_varint(out, u64::from(key.0));
    put_varint(out, ids.len() as u64 - 1);
    ids.windows(2).for_each(|pair| put_varint(out, pair[1].0 - pair[0].0 - 1));
}

/// How many of the ascending `ids` a set header of at most [`REPAIR_HEADER_BYTES_MAX`] bytes can name with
/// key `key`.
pub fn set_prefix_that_fits(ids: &[SymbolId], key: RepairKey) -> usize {
    let mut bytes = 1 + 1 + 4 + varint_len(u64::from(key.0)) + 1;
    let more = ids.windows(2).take(SET_SYMBOLS_MAX - 1).take_while(|pair| {
        bytes += varint_len(pair[1].0 - pair[0].0 - 1);
        bytes <= REPAIR_HEADER_BYTES_MAX
    });
    ids.len().min(1) + more.count()
}

/// Appends a DATAGRAM frame.
pub fn put_datagram(out: &mut Vec<u8>, data: &[u8]) {
    out.push(DATAGRAM);
    put_varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

/// Bytes of a DATAGRAM frame that carries `len` bytes.
pub fn datagram_frame_bytes(len: usize) -> usize {
    1 + varint_len(len as u64) + len
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

/// Appends an ACK of `ranges` (inclusive, from the largest down, not touching each other), as many of them as
/// [`ACK_RANGES_MAX`] and `space_bytes` allow; false, with nothing appended, if not even one fits or there is
/// none.
pub fn put_ack(
    out: &mut Vec<u8>,
    mut ranges: impl Iterator<Item = (PacketNumber, PacketNumber)> + Clone,
    delay_us: u64,
    ecn: Option<EcnCounts>,
    coding: Option<&CodingState>,
    space_bytes: usize,
) -> bool {
    let Some((first_low, largest)) = ranges.next() else { return false };
    let mut tail = Vec::with_capacity(64); // One allocation, whatever is in it.
    if let Some(counts) = ecn {
        [counts.ect0, counts.ect1, counts.ce].iter().for_each(|&count| put_varint(&mut tail, count));
    }
    if let Some(state) = coding {
        put_coding(&mut tail, state);
    }
    let fixed = 1
        + varint_len(largest.0)
        + varint_len(delay_us)
        + 1
        + varint_len(largest.0 - first_low.0)
        + tail.len();
    if fixed > space_bytes {
        return false;
    }
    let (count, _) = ranges
        .clone()
        .take(ACK_RANGES_MAX - 1)
        .scan((first_low.0, fixed), |(low, bytes), range| {
            *bytes += varint_len(*low - range.1.0 - 2) + varint_len(range.1.0 - range.0.0);
            *low = range.0.0;
            (*bytes <= space_bytes).then_some(())
        })
        .fold((0usize, ()), |(count, ()), ()| (count + 1, ()));
    out.push(
        ACK | if ecn.is_some() { ACK_HAS_ECN } else { 0 } | if coding.is_some() { ACK_HAS_CODING } else { 0 },
    );
    put_varint(out, largest.0);
    put_varint(out, delay_us);
    put_varint(out, count as u64);
    put_varint(out, largest.0 - first_low.0);
    let mut low = first_low.0;
    for range in ranges.take(count) {
        put_varint(out, low - range.1.0 - 2);
        put_varint(out, range.1.0 - range.0.0);
        low = range.0.0;
    }
    out.extend_from_slice(&tail);
    true
}

fn put_coding(out: &mut Vec<u8>, state: &CodingState) {
    put_varint(out, state.decoded_below.0);
    put_varint(out, state.seen_below.0.saturating_sub(state.decoded_below.0));
    let windows = &state.windows[..state.windows.len().min(OPEN_WINDOWS_MAX)];
    put_varint(out, windows.len() as u64);
    let mut from = state.decoded_below.0;
    for open in windows {
        put_varint(out, open.window.first.0.saturating_sub(from));
        put_varint(out, u64::from(open.window.len));
        put_varint(out, u64::from(open.deficit));
        from = open.window.end().0;
    }
}

#[cfg(test)]
mod tests;
