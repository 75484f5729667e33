//! Each rule a peer can break, by the code it is reported with.

use super::*;
use crate::TransportErrorCode;
use crate::wire::VARINT_MAX;

const PEER_BI: StreamId = StreamId(0);
const OWN_BI: StreamId = StreamId(1);
const PEER_UNI: StreamId = StreamId(2);
const OWN_UNI: StreamId = StreamId(3);

/// A server with one stream of each direction opened, which lets the client have 2 bidirectional and 1
/// unidirectional streams, 100 bytes on each and 150 on all.
fn server() -> Streams {
    let config = StreamConfig {
        streams_bi_max: 2,
        streams_uni_max: 1,
        stream_window_bytes: 100,
        stream_window_bytes_max: 100,
        connection_window_bytes: 150,
        connection_window_bytes_max: 150,
        fragments_max: 3,
        ..StreamConfig::default()
    };
    let mut server = Streams::new(Side::Server, &config);
    server.set_peer_limits(&StreamConfig::default().limits());
    assert_eq!(server.open(Dir::Bi), Some(OWN_BI));
    assert_eq!(server.open(Dir::Uni), Some(OWN_UNI));
    server
}

fn data(id: StreamId, offset: u64, len: usize) -> SymbolFrame<'static> {
    SymbolFrame::Stream { id, offset, data: &[7; 200][..len], fin: false }
}

fn fin(id: StreamId, offset: u64, len: usize) -> SymbolFrame<'static> {
    SymbolFrame::Stream { id, offset, data: &[7; 200][..len], fin: true }
}

fn reset(id: StreamId, final_size: u64) -> SymbolFrame<'static> {
    SymbolFrame::ResetStream { id, code: 9, final_size }
}

/// The last of `frames` is refused, the others are not.
fn refused(frames: &[SymbolFrame<'_>]) -> TransportErrorCode {
    let mut server = server();
    let (last, before) = frames.split_last().unwrap();
    for frame in before {
        assert_eq!(server.on_frame(*frame), Ok(()), "{frame:?}");
    }
    server.on_frame(*last).expect_err("accepted").code
}

fn accepted(frames: &[SymbolFrame<'_>]) -> Streams {
    let mut server = server();
    for frame in frames {
        assert_eq!(server.on_frame(*frame), Ok(()), "{frame:?}");
    }
    server
}

#[test]
fn no_byte_comes_twice() {
    for second in [data(PEER_BI, 0, 10), data(PEER_BI, 9, 2), data(PEER_BI, 25, 10), fin(PEER_BI, 35, 10)] {
        let frames = [data(PEER_BI, 0, 10), data(PEER_BI, 30, 10), second];
        assert_eq!(refused(&frames), TransportErrorCode::ProtocolViolation);
    }
}

#[test]
fn flow_control_holds_on_each_stream_and_on_all() {
    use TransportErrorCode::FlowControl;
    accepted(&[data(PEER_BI, 0, 100), data(PEER_UNI, 0, 50)]);
    assert_eq!(refused(&[data(PEER_BI, 0, 101)]), FlowControl);
    assert_eq!(refused(&[data(PEER_BI, 100, 1)]), FlowControl);
    assert_eq!(refused(&[data(PEER_BI, 0, 100), data(PEER_UNI, 0, 51)]), FlowControl);
    assert_eq!(refused(&[data(PEER_BI, 99, 1), data(PEER_UNI, 0, 51)]), FlowControl);
    // RFC 9000 4.5: a final size uses credit like data.
    assert_eq!(refused(&[reset(PEER_BI, 101)]), FlowControl);
    assert_eq!(refused(&[data(PEER_BI, 0, 100), reset(PEER_UNI, 51)]), FlowControl);
    // What is reset is not held, so its credit comes back.
    accepted(&[data(PEER_BI, 0, 100), reset(PEER_BI, 100), data(PEER_UNI, 0, 100)]);
}

#[test]
fn the_final_size_is_final() {
    use TransportErrorCode::FinalSize;
    accepted(&[fin(PEER_BI, 10, 10), data(PEER_BI, 0, 10), fin(PEER_BI, 20, 0), reset(PEER_BI, 20)]);
    assert_eq!(refused(&[fin(PEER_BI, 0, 10), data(PEER_BI, 10, 1)]), FinalSize);
    assert_eq!(refused(&[fin(PEER_BI, 0, 10), fin(PEER_BI, 11, 0)]), FinalSize);
    assert_eq!(refused(&[fin(PEER_BI, 10, 10), fin(PEER_BI, 0, 10)]), FinalSize);
    assert_eq!(refused(&[data(PEER_BI, 10, 10), fin(PEER_BI, 0, 10)]), FinalSize);
    assert_eq!(refused(&[data(PEER_BI, 10, 10), reset(PEER_BI, 19)]), FinalSize);
    assert_eq!(refused(&[fin(PEER_BI, 10, 10), reset(PEER_BI, 21)]), FinalSize);
    assert_eq!(refused(&[reset(PEER_BI, 10), reset(PEER_BI, 11)]), FinalSize);
    assert_eq!(refused(&[reset(PEER_BI, 10), data(PEER_BI, 5, 6)]), FinalSize);
}

#[test]
fn streams_are_limited_by_kind() {
    use TransportErrorCode::StreamLimit;
    accepted(&[data(StreamId(4), 0, 1), data(PEER_UNI, 0, 1)]);
    assert_eq!(refused(&[data(StreamId(8), 0, 1)]), StreamLimit);
    assert_eq!(refused(&[data(StreamId(6), 0, 1)]), StreamLimit);
    assert_eq!(refused(&[reset(StreamId(VARINT_MAX & !3), 0)]), StreamLimit);
    assert_eq!(refused(&[SymbolFrame::StopSending { id: StreamId(8), code: 0 }]), StreamLimit);
    assert_eq!(refused(&[SymbolFrame::MaxStreamData { id: StreamId(8), max: 0 }]), StreamLimit);
}

#[test]
fn frames_must_suit_the_stream() {
    use TransportErrorCode::StreamState;
    let stop = |id| SymbolFrame::StopSending { id, code: 0 };
    let max = |id| SymbolFrame::MaxStreamData { id, max: 1 << 30 };
    accepted(&[data(OWN_BI, 0, 1), stop(OWN_BI), stop(OWN_UNI), max(OWN_BI), max(OWN_UNI), max(PEER_BI)]);
    for frame in [data(OWN_UNI, 0, 1), reset(OWN_UNI, 0), stop(PEER_UNI), max(PEER_UNI)] {
        assert_eq!(refused(&[frame]), StreamState, "{frame:?}");
    }
    let (bi, uni) = (StreamId(OWN_BI.0 + 4), StreamId(OWN_UNI.0 + 4));
    for frame in [data(bi, 0, 1), reset(bi, 0), stop(bi), max(bi), stop(uni), max(uni)] {
        assert_eq!(refused(&[frame]), StreamState, "{frame:?}");
    }
}

#[test]
fn numbers_have_ends() {
    assert_eq!(refused(&[data(PEER_BI, VARINT_MAX, 1)]), TransportErrorCode::FrameEncoding);
    assert_eq!(refused(&[data(PEER_BI, u64::MAX, 1)]), TransportErrorCode::FrameEncoding);
    for dir in [Dir::Bi, Dir::Uni] {
        accepted(&[SymbolFrame::MaxStreams { dir, max: 1 << 60 }]);
        let beyond = SymbolFrame::MaxStreams { dir, max: (1 << 60) + 1 };
        assert_eq!(refused(&[beyond]), TransportErrorCode::FrameEncoding);
    }
}

#[test]
fn fragments_are_limited_over_all_streams() {
    let scattered = [data(PEER_BI, 2, 1), data(PEER_BI, 4, 1), data(PEER_UNI, 2, 1)];
    let mut streams = accepted(&scattered);
    assert_eq!(streams.stats().fragments, 3);
    let error = streams.on_frame(data(PEER_UNI, 4, 1)).unwrap_err();
    assert_eq!(error.code, TransportErrorCode::BufferExceeded);
    // Gaps that are filled, and streams that are stopped, make room.
    let mut streams = accepted(&scattered);
    streams.on_frame(data(PEER_BI, 3, 1)).unwrap();
    assert_eq!(streams.stats().fragments, 2);
    streams.stop(PEER_BI, 0).unwrap();
    assert_eq!(streams.stats().fragments, 1);
    streams.on_frame(data(PEER_UNI, 0, 2)).unwrap();
    assert_eq!(streams.stats().fragments, 0);
}

#[test]
fn late_frames_for_closed_streams_are_ignored() {
    let mut server = accepted(&[fin(PEER_UNI, 0, 1), reset(PEER_BI, 20)]);
    assert_eq!(read_all(&mut server, PEER_UNI), (vec![7], Ok(())));
    assert_eq!(read_all(&mut server, PEER_BI), (vec![], Err(ReadError::Reset(9))));
    assert!(!server.table.is_live(PEER_UNI));
    for frame in [data(PEER_UNI, 0, 1), reset(PEER_UNI, 5), data(PEER_BI, 0, 20), fin(PEER_BI, 20, 0)] {
        assert_eq!(server.on_frame(frame), Ok(()));
    }
    assert_eq!(server.stats().received_bytes, 21);
    assert_eq!(read_all(&mut server, PEER_BI).1, Err(ReadError::Closed));
}
