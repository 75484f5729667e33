//! A peer that breaks a rule or exceeds a bound gets the error that names it: docs/internals/wire.md 5, 6, 9.
//! The packets are forged under the right keys.

use std::time::Duration;

use fulmar_fec::{CodeId, RepairKey, SymbolId, Window};
use fulmar_net::{Datagram, Direction};
use fulmar_proto::wire::frame::{self, CodingState};
use fulmar_proto::wire::symbol::{NewConnectionId, SymbolFrame};
use fulmar_proto::{
    AllowedProfiles, Connection, ConnectionError, ConnectionId, Dir, PacketNumber, Side, StreamId,
    TransportConfig, TransportErrorCode,
};

use crate::common::World;
use crate::work::{connected, link, profile};

/// What the server says to a packet of the client with these frames.
fn verdict(frames: &[u8]) -> Option<TransportErrorCode> {
    verdict_on(&[frames.to_vec()])
}

fn verdict_on(packets: &[Vec<u8>]) -> Option<TransportErrorCode> {
    let mut small = TransportConfig::default();
    small.streams_uni(10).and_then(|small| small.datagram_buffer_bytes(0)).expect("in range");
    let mut world = World::new(1, link(100, 5), TransportConfig::default(), small);
    world.connected();
    world.run_for(Duration::from_secs(1));
    for frames in packets {
        let contents = world.client.only().forge_packet(frames).expect("keys");
        let now = world.now;
        world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
    }
    world.run_for(Duration::from_millis(50));
    let server = world.server.connections.values().next();
    let ours = server.and_then(|c| match c.close_reason() {
        Some(ConnectionError::Transport(error)) => Some(error.code),
        _ => None,
    });
    // The client is told the same.
    let client = world.client.connections.values().next();
    let told = client.and_then(|c| match c.close_reason() {
        Some(ConnectionError::PeerTransport(error)) => Some(error.code),
        _ => None,
    });
    assert_eq!(ours, told);
    ours
}

fn source(id: u64, symbol: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_source_header(&mut out, SymbolId(id));
    out.extend_from_slice(symbol);
    out
}

/// Ids of symbols that were not used by the handshake's first frames.
fn symbol(frames: &[SymbolFrame<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| frame.put(&mut out));
    source(100, &out)
}

fn stream(index: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Uni, index)
}

fn data(id: StreamId, offset: u64, fin: bool) -> SymbolFrame<'static> {
    SymbolFrame::Stream { id, offset, data: b"data", fin }
}

#[test]
fn what_is_allowed_is_no_violation() {
    assert_eq!(verdict(&[1]), None);
    assert_eq!(verdict(&symbol(&[data(stream(0), 4, true), data(stream(0), 0, false)])), None);
}

#[test]
fn wire_5_0_1_frames_that_cannot_be_parsed() {
    for bytes in [&[0x7f][..], &[0x08], &[0x13, 0, 0, 0], &[0x12, 4, 0, 0, 0, 0, 0, 64]] {
        assert_eq!(verdict(bytes), Some(TransportErrorCode::FrameEncoding), "{bytes:?}");
    }
    assert_eq!(verdict(&source(100, &[0x7f])), Some(TransportErrorCode::FrameEncoding));
    let mut crypto = Vec::new();
    frame::put_crypto(&mut crypto, 0, b"hello");
    assert_eq!(verdict(&crypto), Some(TransportErrorCode::ProtocolViolation));
}

/// A client with so many packets under way of which it has heard nothing.
fn with_under_way(packets: u64) -> (World, StreamId) {
    let mut world = World::new(1, link(100, 5), profile("no-cc:cc=unlimited"), roomy());
    world.connected();
    world.run_for(Duration::from_secs(1));
    let now = world.now;
    let client = world.client.only();
    let id = client.open(Dir::Uni).expect("allowed");
    let before = client.stats().wire.sent_datagrams;
    let mut lost = Vec::new();
    while client.stats().wire.sent_datagrams < before + packets {
        client.write(id, &[7; 20]).expect("room");
        lost.clear();
        client.poll_transmit(now, 1, &mut lost).expect("nothing holds it back");
    }
    (world, id)
}

/// A server that lets its client send as much as it likes.
fn roomy() -> TransportConfig {
    let mut roomy = TransportConfig::default();
    roomy.allowed_profiles(AllowedProfiles::All);
    roomy
}

/// What the ACK frame with all numbers below says of them: all arrived.
fn ack_below(end: u64, state: Option<&CodingState>) -> Vec<u8> {
    let mut ack = Vec::new();
    let all = [(PacketNumber(0), PacketNumber(end - 1))];
    assert!(frame::put_ack(&mut ack, all.into_iter(), 0, None, state, 1000));
    ack
}

/// Hands the client a packet of the server with these frames, and returns how much that settled at once.
fn settled_by(world: &mut World, frames: &[u8]) -> u64 {
    let packet = world.server.only().forge_packet(frames).expect("keys");
    let before = world.client.only().settled();
    world.tell_client(packet);
    world.client.only().settled() - before
}

/// One packet cost 7.5 ms: an ACK for tens of thousands.
#[test]
fn an_ack_for_all_that_is_under_way_is_settled_a_part_at_a_time() {
    /// So many of the newest are left out: numbers that were skipped are remembered of them.
    const NEWEST: u64 = 17 * 1024;
    const ACKED: u64 = 12_000;
    let (mut world, _) = with_under_way(NEWEST + ACKED);
    let at_once = settled_by(&mut world, &ack_below(ACKED, None));
    assert!((1..=Connection::SETTLED_AT_ONCE_MAX).contains(&at_once), "{at_once} settled at once");
    let now = world.now;
    let client = world.client.only();
    assert!(client.close_reason().is_none());
    // The rest is due at once, a part at a time, and lost is what is not acknowledged only.
    let lost = client.stats().recovery.lost_packets;
    let mut parts = 0;
    while client.poll_timeout().is_some_and(|at| at <= now) {
        let before = client.settled();
        client.handle_timeout(now);
        let part = client.settled() - before;
        assert!(part <= Connection::SETTLED_AT_ONCE_MAX, "{part} settled at once");
        parts += 1;
        assert!(parts < 20, "there is no end to it");
    }
    assert!(client.settled() >= ACKED - 1024, "{} of {ACKED} settled", client.settled());
    assert_eq!(client.stats().recovery.lost_packets, lost);
}

/// A report that has everything decoded is booked a part at a time as well.
#[test]
fn a_report_of_all_that_was_sent_is_settled_a_part_at_a_time() {
    const SENT: u64 = 12_000;
    let (mut world, _) = with_under_way(SENT);
    let below = SymbolId(SENT - 100);
    let state = CodingState { decoded_below: below, seen_below: below, ..CodingState::default() };
    let at_once = settled_by(&mut world, &ack_below(200, Some(&state)));
    assert!((1..=Connection::SETTLED_AT_ONCE_MAX).contains(&at_once), "{at_once} settled at once");
    let now = world.now;
    let client = world.client.only();
    for _ in 0..20 {
        client.handle_timeout(now);
    }
    assert!(client.close_reason().is_none() && client.settled() >= below.0, "{} settled", client.settled());
}

#[test]
fn wire_5_3_5_a_second_ack_in_a_packet_is_ignored() {
    let (mut world, _) = with_under_way(100);
    let before = world.client.only().stats().wire.acks_received;
    let acks = [ack_below(2, None), ack_below(3, None), ack_below(4, None)].concat();
    settled_by(&mut world, &acks);
    assert_eq!(world.client.only().stats().wire.acks_received, before + 1);
}

#[test]
fn wire_7_3_what_is_longer_than_was_allowed_is_discarded() {
    let mut world = connected(1, link(100, 5));
    let max = usize::from(TransportConfig::default().udp_payload_bytes_max());
    for (longer, is_heard) in [(0, true), (1, false)] {
        let header = world.server.only().forge_packet(&[1]).expect("keys").len() - 1;
        let mut frames = vec![0; max - header + longer];
        frames[0] = 1;
        let before = world.client.only().stats().wire.opened_packets;
        settled_by(&mut world, &frames);
        assert_eq!(
            world.client.only().stats().wire.opened_packets > before,
            is_heard,
            "{longer} bytes longer"
        );
    }
}

#[test]
fn wire_5_3_1_acks_of_what_was_never_sent() {
    let ranges = [(PacketNumber(1_000_000), PacketNumber(1_000_000))];
    let mut ack = Vec::new();
    assert!(frame::put_ack(&mut ack, ranges.into_iter(), 0, None, None, 1000));
    assert_eq!(verdict(&ack), Some(TransportErrorCode::ProtocolViolation));
}

/// An ACK of one packet with a report of symbols that were never sent.
fn boasting_ack(packet: u64) -> Vec<u8> {
    let below = SymbolId(1_000_000);
    let state = CodingState { decoded_below: below, seen_below: below, ..CodingState::default() };
    let ranges = [(PacketNumber(packet), PacketNumber(packet))];
    let mut ack = Vec::new();
    assert!(frame::put_ack(&mut ack, ranges.into_iter(), 0, None, Some(&state), 1000));
    ack
}

#[test]
fn wire_5_3_3_the_report_of_an_ack_that_is_not_the_newest_is_ignored() {
    // The server has been told of more than its first packet by now.
    assert_eq!(verdict(&boasting_ack(0)), None);
    let newest = (1..10).find_map(|packet| verdict(&boasting_ack(packet)));
    assert!(newest.is_some_and(|code| code != TransportErrorCode::FrameEncoding), "{newest:?}");
}

#[test]
fn wire_5_4_symbols_beyond_every_bound() {
    assert_eq!(verdict(&source(1 << 20, b"\x00")), Some(TransportErrorCode::BufferExceeded));
    let mut part = Vec::new();
    frame::put_part_header(&mut part, SymbolId(100), 10, 8);
    part.extend_from_slice(b"four");
    assert_eq!(verdict(&part), Some(TransportErrorCode::Coding));
    let parts: Vec<Vec<u8>> = (0..20)
        .map(|id| {
            let mut part = Vec::new();
            frame::put_part_header(&mut part, SymbolId(100 + id), 1000, 0);
            part.extend_from_slice(b"a piece");
            part
        })
        .collect();
    assert_eq!(verdict_on(&parts), Some(TransportErrorCode::BufferExceeded));
}

#[test]
fn wire_5_4_4_codes_and_covers_that_were_not_agreed_on() {
    let repair = |code, len| {
        let mut out = Vec::new();
        frame::put_repair_window_header(
            &mut out,
            CodeId(code),
            Window { first: SymbolId(100), len },
            RepairKey(1),
        );
        out.extend_from_slice(&[1; 100]);
        out
    };
    assert_eq!(verdict(&repair(99, 4)), Some(TransportErrorCode::Coding));
    assert_eq!(verdict(&repair(4, 100_000)), Some(TransportErrorCode::Coding));
    assert_eq!(verdict(&repair(4, 4)), None);
}

#[test]
fn wire_5_5_1_a_datagram_to_an_end_that_takes_none() {
    let mut out = Vec::new();
    frame::put_datagram(&mut out, b"x");
    assert_eq!(verdict(&out), Some(TransportErrorCode::ProtocolViolation));
    let (mut symbol, mut repair) = (Vec::new(), Vec::new());
    frame::put_coded_datagram(&mut symbol, 0, &[3]);
    frame::put_datagram_repair(&mut repair, 0, 1, 0, &[0, 1, 3]);
    for frames in [symbol, repair] {
        assert_eq!(verdict(&frames), Some(TransportErrorCode::ProtocolViolation));
    }
}

#[test]
fn wire_6_6_connection_ids_that_were_not_issued_and_more_than_are_kept() {
    use TransportErrorCode::{BufferExceeded, FrameEncoding, ProtocolViolation};
    let new = |sequence, retire_below, bytes: usize| {
        let cid = ConnectionId::from_bytes(&vec![sequence as u8; bytes]).expect("short enough");
        SymbolFrame::NewConnectionId(NewConnectionId { sequence, retire_below, cid, reset_token: [7; 16] })
    };
    let cases: [(&[SymbolFrame<'_>], _); 6] = [
        (&[SymbolFrame::RetireConnectionId { sequence: 99 }], ProtocolViolation),
        (&[new(50, 51, 8)], FrameEncoding),
        (&[new(50, 0, 9)], ProtocolViolation),
        (&[new(50, 0, 7)], FrameEncoding),
        (&[new(50, 0, 8), new(50, 0, 8), new(51, 0, 8), new(52, 0, 8)], BufferExceeded),
        (&[new(0, 0, 8)], ProtocolViolation),
    ];
    for (frames, code) in cases {
        assert_eq!(verdict(&symbol(frames)), Some(code), "{frames:?}");
    }
    assert_eq!(verdict(&symbol(&[new(50, 50, 8), new(50, 50, 8), new(51, 50, 8)])), None);
}

#[test]
fn wire_6_1_streams_credit_and_sizes() {
    use TransportErrorCode::{FinalSize, FlowControl, ProtocolViolation, StreamLimit, StreamState};
    let cases: [(&[SymbolFrame<'_>], _); 8] = [
        (&[data(stream(10), 0, false)], StreamLimit),
        (&[data(StreamId::new(Side::Server, Dir::Uni, 0), 0, false)], StreamState),
        (&[data(StreamId::new(Side::Server, Dir::Bi, 0), 0, false)], StreamState),
        (&[data(stream(0), 1 << 40, false)], FlowControl),
        (&[data(stream(0), 0, true), data(stream(0), 4, false)], FinalSize),
        (&[data(stream(0), 8, true), data(stream(0), 0, true)], FinalSize),
        (&[data(stream(0), 0, false), data(stream(0), 2, false)], ProtocolViolation),
        (&[SymbolFrame::MaxStreamData { id: stream(0), max: 5 }], StreamState),
    ];
    for (frames, code) in cases {
        assert_eq!(verdict(&symbol(frames)), Some(code), "{frames:?}");
    }
}
