//! What arrived, and what of coding: ACK frames (docs/internals/wire.md 5.3).

use std::fmt;

use fulmar_fec::{SymbolId, Window};
use smallvec::SmallVec;

use crate::PacketNumber;
use crate::wire::{Malformed, Reader, VARINT_MAX, put_varint, varint_len};

/// Bit 0: ECN counts follow. Bit 1: coding state follows.
pub(super) const ACK: u8 = 0x08;
const ACK_HAS_ECN: u8 = 0x01;
const ACK_HAS_CODING: u8 = 0x02;
pub(super) const ACK_LAST: u8 = ACK | ACK_HAS_ECN | ACK_HAS_CODING;
/// Most ranges an ACK may carry (docs/internals/wire.md 5.3). Older ranges were reported by earlier ACKs.
pub const ACK_RANGES_MAX: usize = 64;
/// Most open windows an ACK may report.
pub const OPEN_WINDOWS_MAX: usize = 16;
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
    pub windows: OpenWindows,
}

/// Windows that are not decoded, ascending: one with a sliding code, for which nothing is allocated.
pub type OpenWindows = SmallVec<[OpenWindow; 1]>;

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

pub(super) fn parse<'a>(r: &mut Reader<'a>, kind: u8) -> Result<Ack<'a>, Malformed> {
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
    let mut windows = OpenWindows::with_capacity(count);
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

/// Appends an ACK of `ranges` (inclusive, from the largest down, not touching each other), as many of them as
/// [`ACK_RANGES_MAX`] and `space_bytes` allow; false, with nothing appended, if not even one fits or there is
/// none.
pub fn put_ack(
    out: &mut Vec<u8>,
    mut ranges: impl Iterator<Item = (PacketNumber, PacketNumber)>,
    delay_us: u64,
    ecn: Option<EcnCounts>,
    coding: Option<&CodingState>,
    space_bytes: usize,
) -> bool {
    let Some((first_low, largest)) = ranges.next() else { return false };
    // What stands behind the ranges is written first, for it decides how many of them there may be.
    let begin = out.len();
    if let Some(counts) = ecn {
        [counts.ect0, counts.ect1, counts.ce].into_iter().for_each(|count| put_varint(out, count));
    }
    if let Some(state) = coding {
        put_coding(out, state);
    }
    let behind = out.len() - begin;
    let first_len = largest.0 - first_low.0;
    let fixed = 1 + varint_len(largest.0) + varint_len(delay_us) + 1 + varint_len(first_len) + behind;
    if fixed > space_bytes {
        out.truncate(begin);
        return false;
    }
    let kind =
        ACK | if ecn.is_some() { ACK_HAS_ECN } else { 0 } | if coding.is_some() { ACK_HAS_CODING } else { 0 };
    out.push(kind);
    put_varint(out, largest.0);
    put_varint(out, delay_us);
    // How many ranges follow is known after them: fewer than 64, so one byte.
    let count_at = out.len();
    out.push(0);
    put_varint(out, first_len);
    let (mut room, mut above) = (space_bytes - fixed, first_low);
    for (low, high) in ranges.take(ACK_RANGES_MAX - 1) {
        let (gap, len) = (above.0 - high.0 - 2, high.0 - low.0);
        let Some(rest) = room.checked_sub(varint_len(gap) + varint_len(len)) else { break };
        put_varint(out, gap);
        put_varint(out, len);
        out[count_at] += 1;
        (room, above) = (rest, low);
    }
    out[begin..].rotate_left(behind);
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
