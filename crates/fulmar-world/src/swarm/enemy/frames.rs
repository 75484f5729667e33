//! Frames that a sound peer would not send.

use fulmar_fec::{CodeId, RepairKey, SymbolId, Window};
use fulmar_proto::wire::frame::{self, CodingState, EcnCounts, OpenWindow};
use fulmar_proto::wire::put_varint;
use fulmar_proto::wire::symbol::{NewConnectionId, SymbolFrame};
use fulmar_proto::{ConnectionId, Dir, PacketNumber, Side, StreamId};

use super::super::draw::Draw;

/// Frames of one packet take so much at most.
pub(super) const PAYLOAD_BYTES: usize = 1100;

/// What a liar may know: about where the numbers stand.
#[derive(Copy, Clone, Debug)]
pub(super) struct Standing {
    /// Packets that the other end has sent, about.
    pub(super) packets: u64,
    /// Symbols that this end has sent.
    pub(super) symbols: u64,
    /// Symbols that the other end has sent.
    pub(super) their_symbols: u64,
    pub(super) code: u8,
    /// One number in so many is nowhere near.
    pub(super) wild_one_in: u64,
}

/// Bytes of chance, of which many are small or name a frame.
pub(super) fn noise(draw: &mut Draw, count: u64) -> Vec<u8> {
    // The low byte, and above it how small it is.
    let byte = |bits: u64| match bits >> 8 & 3 {
        0 => bits as u8 & 3,
        1 => bits as u8 & 0x3f,
        _ => bits as u8,
    };
    let mut bytes = Vec::with_capacity(count as usize);
    while bytes.len() < count as usize {
        let bits = draw.bits();
        let left = count as usize - bytes.len();
        bytes.extend((0..6).map(|i| byte(bits >> (10 * i))).take(left));
    }
    bytes
}

/// Mostly near `about`, sometimes anything that can be written.
fn number(draw: &mut Draw, about: u64, standing: &Standing) -> u64 {
    if draw.one_in(standing.wild_one_in) {
        return draw.log_between(1, (1 << 62) - 1);
    }
    match draw.between(0, 7) {
        0 => draw.between(0, 3),
        1 => about + draw.between(0, 2000),
        _ => (about + draw.between(0, 20)).saturating_sub(draw.between(0, 20)),
    }
}

/// Handshake bytes at odd places.
pub(super) fn handshake(draw: &mut Draw, out: &mut Vec<u8>) {
    for _ in 0..draw.between(1, 60) {
        let offset = match draw.between(0, 3) {
            0 => draw.log_between(1, 1 << 40),
            _ => draw.log_between(1, 70_000),
        };
        let length = draw.between(0, 12);
        let data = noise(draw, length);
        if out.len() + 40 < PAYLOAD_BYTES {
            frame::put_crypto(out, offset, &data);
        }
    }
    if draw.one_in(4) {
        let length = draw.between(0, 40);
        out.extend(noise(draw, length));
    }
}

/// A lie about what arrived.
pub(super) fn ack(draw: &mut Draw, standing: &Standing, out: &mut Vec<u8>) {
    let mut ranges = Vec::new();
    let mut high = match draw.between(0, 3) {
        0 => number(draw, standing.packets, standing),
        _ => standing.packets.saturating_sub(draw.between(0, 10)),
    };
    for _ in 0..draw.between(1, 64) {
        let low = high.saturating_sub(draw.log_between(1, 4000) - 1);
        ranges.push((PacketNumber(low), PacketNumber(high)));
        let Some(next) = low.checked_sub(2 + draw.between(0, 3)) else { break };
        high = next;
    }
    let below = match draw.between(0, 3) {
        0 => number(draw, standing.their_symbols, standing),
        _ => standing.their_symbols.saturating_sub(draw.between(0, 10)),
    };
    let windows = (0..draw.between(0, 16)).map(|_| {
        let first = SymbolId(below + draw.log_between(1, 5000));
        let window = Window { first, len: draw.log_between(1, 1 << 20) as u32 };
        OpenWindow { window, deficit: draw.log_between(1, 1 << 20) as u32 }
    });
    let mut windows: Vec<OpenWindow> = windows.collect();
    windows.sort_by_key(|open| open.window.first);
    let seen_below = SymbolId(below + draw.log_between(1, 100) - 1);
    let state = CodingState { decoded_below: SymbolId(below), seen_below, windows: windows.into() };
    let ecn = draw.one_in(3).then(|| EcnCounts {
        ect0: number(draw, standing.packets, standing),
        ect1: 0,
        ce: number(draw, 0, standing),
    });
    let delay = draw.log_between(1, 1 << 40);
    let coding = (!draw.one_in(4)).then_some(&state);
    frame::put_ack(out, ranges.into_iter(), delay, ecn, coding, PAYLOAD_BYTES);
}

/// A combination over anything, of the length of a packet.
pub(super) fn repair(draw: &mut Draw, standing: &Standing, out: &mut Vec<u8>) {
    let is_other = draw.one_in(standing.wild_one_in);
    let code = if is_other { draw.between(0, 8) as u8 } else { standing.code };
    let first = SymbolId(number(draw, standing.symbols, standing) % (1 << 33));
    let key = match draw.between(0, 2) {
        0 => draw.log_between(1, u64::from(u32::MAX)) as u32,
        _ => draw.between(0, 300) as u32,
    };
    if draw.one_in(4) {
        let mut ids = vec![first];
        for _ in 0..draw.between(0, 63) {
            ids.push(SymbolId(ids[ids.len() - 1].0 + draw.log_between(1, 300)));
        }
        frame::put_repair_set_header(out, CodeId(code), &ids, RepairKey(key));
    } else {
        let len = draw.log_between(1, 1 << 13).min(draw.of(&[16, 64, 256, 4096])) as u32;
        frame::put_repair_window_header(out, CodeId(code), Window { first, len }, RepairKey(key));
    }
    payload(draw, out);
}

/// Zeros, whose combinations agree, or noise.
fn payload(draw: &mut Draw, out: &mut Vec<u8>) {
    let left = PAYLOAD_BYTES.saturating_sub(out.len());
    let count = if draw.one_in(2) { left } else { draw.between(0, left as u64) as usize };
    if draw.one_in(20) {
        out.extend(noise(draw, count as u64));
    } else {
        out.resize(out.len() + count, 0);
    }
}

/// A symbol, or a piece of one, with anything in it.
pub(super) fn source(draw: &mut Draw, standing: &Standing, out: &mut Vec<u8>) {
    let id = SymbolId(number(draw, standing.symbols, standing) % (1 << 33));
    if draw.one_in(4) {
        let len = if draw.one_in(standing.wild_one_in) { draw.log_between(1, 70_000) as usize } else { 1000 };
        frame::put_part_header(out, id, len, draw.between(0, len as u64) as usize);
        payload(draw, out);
        return;
    }
    frame::put_source_header(out, id);
    if !draw.one_in(standing.wild_one_in.min(8)) {
        return payload(draw, out);
    }
    for _ in 0..draw.between(1, 60) {
        if out.len() + 100 < PAYLOAD_BYTES {
            symbol_frame(draw, standing, out);
        }
    }
}

fn symbol_frame(draw: &mut Draw, standing: &Standing, out: &mut Vec<u8>) {
    let dir = draw.of(&[Dir::Bi, Dir::Uni]);
    let is_wild = draw.one_in(standing.wild_one_in);
    let initiator = if is_wild { Side::Server } else { Side::Client };
    let index = if is_wild { draw.log_between(1, 1 << 60) } else { draw.between(0, 8) };
    let id = StreamId::new(initiator, dir, index % (1 << 60));
    let large = if is_wild { draw.log_between(1, (1 << 62) - 1) } else { draw.log_between(1, 30_000) };
    let cid = ConnectionId::new([draw.between(0, 255) as u8; 8]);
    let (sequence, beyond) = (draw.between(0, 6), draw.between(0, 1));
    let retire_below = draw.between(0, sequence + beyond);
    let frame = match draw.between(0, 19) {
        0 => SymbolFrame::ResetStream { id, code: 7, final_size: large },
        1 => SymbolFrame::StopSending { id, code: large },
        2 => SymbolFrame::MaxData(large),
        3 => SymbolFrame::MaxStreamData { id, max: large },
        4 => SymbolFrame::MaxStreams { dir, max: large },
        5 => SymbolFrame::AckPolicy { every_packets: large, delay_us: large, repeats: large },
        6 => SymbolFrame::RetireConnectionId { sequence },
        7 => SymbolFrame::NewConnectionId(NewConnectionId {
            sequence,
            retire_below,
            cid,
            reset_token: [sequence as u8; 16],
        }),
        8 => SymbolFrame::MaxRate { sequence, bytes_per_second: large },
        _ => SymbolFrame::Stream {
            id,
            offset: large,
            data: &[5; 20][..sequence as usize],
            fin: draw.one_in(20),
        },
    };
    frame.put(out);
}

/// What asks for answers, and small change.
pub(super) fn small(draw: &mut Draw, out: &mut Vec<u8>) {
    let kind = draw.between(0, 3);
    while out.len() + 20 < PAYLOAD_BYTES {
        match kind {
            0 => frame::put_datagram(out, b""),
            1 => frame::put_path_challenge(out, draw.between(0, 9)),
            2 => frame::put_path_response(out, draw.between(0, 9)),
            _ => frame::put_ping(out),
        }
        if draw.one_in(300) {
            return;
        }
    }
}

/// Two of the frames about paths, in a packet as small as they are.
pub(super) fn path(draw: &mut Draw, out: &mut Vec<u8>) {
    frame::put_path_challenge(out, draw.between(0, 9));
    frame::put_path_response(out, draw.between(0, 9));
}

/// An unreliable datagram, or symbols of such and repair over them, of which some have sense.
pub(super) fn datagram(draw: &mut Draw, out: &mut Vec<u8>) {
    let kind = draw.between(0, 3);
    if kind == 0 {
        let length = draw.between(0, 1000);
        frame::put_datagram(out, &noise(draw, length));
        return;
    }
    let first = if draw.one_in(20) { draw.between(0, 0xffff) } else { draw.between(0, 300) };
    let most = if draw.one_in(50) { 20 } else { 16 };
    for index in 0..draw.between(1, most) {
        let length = draw.of(&[0, 1, 5, 60, 1000]);
        if out.len() + length as usize + 20 > PAYLOAD_BYTES {
            return;
        }
        let (id, mut payload) = ((first + index * kind) as u16, noise(draw, length));
        if draw.one_in(4) {
            let covered = if draw.one_in(100) { draw.between(0, 255) } else { draw.between(1, 128) };
            frame::put_datagram_repair(out, id, covered as u8, draw.between(0, 255) as u8, &payload);
        } else {
            let flags = if draw.one_in(100) { draw.between(0, 255) } else { draw.between(0, 7) };
            payload.insert(0, flags as u8);
            frame::put_coded_datagram(out, id, &payload);
        }
    }
}

/// A frame that is none, or a number that does not end.
pub(super) fn nonsense(draw: &mut Draw, out: &mut Vec<u8>) {
    let length = draw.between(1, 60);
    out.extend(noise(draw, length));
    put_varint(out, draw.log_between(1, (1 << 62) - 1));
}
