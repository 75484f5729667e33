//! What the two ends see of each other: data, ends, resets, stops, order.

use super::*;

fn pair() -> Pair {
    Pair::new(&StreamConfig::default(), &StreamConfig::default())
}

#[test]
fn a_message_and_its_answer_leave_nothing_behind() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Bi).unwrap();
    assert_eq!(pair.client.write(id, b"question"), Ok(8));
    pair.client.finish(id).unwrap();
    pair.settle();
    assert_eq!(events(&mut pair.server), [StreamEvent::Opened { dir: Dir::Bi }, StreamEvent::Readable(id)]);
    assert_eq!((pair.server.accept(Dir::Bi), pair.server.accept(Dir::Bi)), (Some(id), None));
    assert_eq!(read_all(&mut pair.server, id), (b"question".to_vec(), Ok(())));
    assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Closed));
    assert_eq!(read_all(&mut pair.client, id).1, Err(ReadError::Blocked));
    assert_eq!(pair.server.write(id, b"answer"), Ok(6));
    pair.server.finish(id).unwrap();
    pair.settle();
    assert_eq!(events(&mut pair.client), [StreamEvent::Readable(id)]);
    assert_eq!(read_all(&mut pair.client, id), (b"answer".to_vec(), Ok(())));
    for streams in [&mut pair.client, &mut pair.server] {
        assert_eq!(streams.stats().streams, 0);
        assert!(streams.is_idle() && !streams.has_pending());
        assert_eq!(streams.write(id, b"more"), Err(WriteError::Closed));
        assert_eq!(streams.finish(id), Err(FinishError::Closed));
        assert_eq!(streams.reset(id, 0), Err(ClosedStream));
        assert_eq!(streams.stop(id, 0), Err(ClosedStream));
        assert_eq!(streams.set_priority(id, 0), Err(ClosedStream));
    }
}

#[test]
fn the_last_bytes_carry_the_end_and_an_end_without_bytes_goes_alone() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, b"abc").unwrap();
    pair.client.finish(id).unwrap();
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol), [SymbolFrame::Stream { id, offset: 0, data: b"abc", fin: true }]);
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, b"abc").unwrap();
    fill(&mut pair.client);
    assert!(!pair.client.has_pending());
    pair.client.finish(id).unwrap();
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol), [SymbolFrame::Stream { id, offset: 3, data: b"", fin: true }]);
    assert_eq!(pair.client.stats().streams, 0);
}

#[test]
fn a_missing_symbol_holds_up_only_its_own_stream() {
    let mut pair = pair();
    let (a, b) = (pair.client.open(Dir::Uni).unwrap(), pair.client.open(Dir::Uni).unwrap());
    pair.client.write(a, &[1; 1000]).unwrap();
    let missing = fill(&mut pair.client);
    pair.client.write(b, b"b").unwrap();
    pair.client.write(a, b"a").unwrap();
    pair.client.finish(a).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.server, b), (b"b".to_vec(), Err(ReadError::Blocked)));
    assert_eq!(read_all(&mut pair.server, a), (vec![], Err(ReadError::Blocked)));
    events(&mut pair.server);
    deliver(&mut pair.server, &missing);
    assert_eq!(events(&mut pair.server), [StreamEvent::Readable(a)]);
    let (data, end) = read_all(&mut pair.server, a);
    assert_eq!((data.len(), end), (1001, Ok(())));
}

#[test]
fn priorities_come_first_and_equals_take_turns() {
    let mut pair = pair();
    let ids: Vec<_> = (0..4).map(|_| pair.client.open(Dir::Uni).unwrap()).collect();
    for (&id, priority) in ids.iter().zip([0, 7, 7, -7]) {
        pair.client.write(id, &[0; 3000]).unwrap();
        pair.client.set_priority(id, priority).unwrap();
        assert_eq!(pair.client.priority(id), Ok(priority));
    }
    let mut order = Vec::new();
    while pair.client.has_pending() {
        let symbol = fill(&mut pair.client);
        order.extend(frames(&symbol).iter().map(|frame| match frame {
            SymbolFrame::Stream { id, .. } => ids.iter().position(|x| x == id).unwrap(),
            other => panic!("{other:?}"),
        }));
    }
    // What a stream leaves of a symbol goes to the next.
    assert_eq!(order, [1, 2, 1, 2, 1, 2, 2, 0, 0, 0, 3, 3, 3, 3]);
}

#[test]
fn small_messages_share_a_symbol_and_none_is_cut_small() {
    let mut pair = pair();
    let ids: Vec<_> = (0..3).map(|_| pair.client.open(Dir::Uni).unwrap()).collect();
    pair.client.write(ids[0], &[0; 20]).unwrap();
    pair.client.write(ids[1], &[0; 1120]).unwrap();
    pair.client.write(ids[2], &[0; 300]).unwrap();
    // 1200 bytes less two frames leaves some 50: too little to cut the third.
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol).len(), 2);
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol), [SymbolFrame::Stream { id: ids[2], offset: 0, data: &[0; 300], fin: false }]);
    assert!(!pair.client.has_pending());
}

#[test]
fn control_frames_go_before_data() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Bi).unwrap();
    pair.client.write(id, b"hi").unwrap();
    pair.settle();
    pair.server.write(id, &[0; 5000]).unwrap();
    pair.server.stop(id, 3).unwrap();
    let symbol = fill(&mut pair.server);
    assert_eq!(frames(&symbol)[0], SymbolFrame::StopSending { id, code: 3 });
    assert!(matches!(frames(&symbol)[1], SymbolFrame::Stream { offset: 0, .. }));
    assert!(symbol.len() > SYMBOL_BYTES - 3, "{}", symbol.len());
}

#[test]
fn a_reset_drops_what_is_queued_and_tells_the_reader() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, &[0; 5000]).unwrap();
    let first = fill(&mut pair.client);
    pair.client.reset(id, 42).unwrap();
    assert_eq!(pair.client.queued_bytes(), 0);
    assert_eq!(pair.client.write(id, b"x"), Err(WriteError::Closed));
    let sent = pair.client.stats().sent_bytes;
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol), [SymbolFrame::ResetStream { id, code: 42, final_size: sent }]);
    assert!(pair.client.is_idle() && pair.client.stats().streams == 0);
    // The reset overtakes the data.
    deliver(&mut pair.server, &symbol);
    deliver(&mut pair.server, &first);
    assert_eq!(pair.server.stats().received_bytes, sent);
    assert_eq!(read_all(&mut pair.server, id), (vec![], Err(ReadError::Reset(42))));
    assert_eq!(pair.server.stats().streams, 0);
}

#[test]
fn a_reset_instead_of_a_fin_is_no_end() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, b"all").unwrap();
    pair.settle();
    pair.client.reset(id, 1).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.server, id), (vec![], Err(ReadError::Reset(1))));
}

#[test]
fn a_finished_stream_can_be_reset_until_its_end_is_packed() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.finish(id).unwrap();
    pair.client.reset(id, 5).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Reset(5)));
}

#[test]
fn a_stop_is_answered_by_a_reset_and_told_to_the_writer() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, &[0; 1000]).unwrap();
    pair.settle();
    pair.client.write(id, &[0; 1000]).unwrap();
    events(&mut pair.server);
    pair.server.stop(id, 8).unwrap();
    assert_eq!(pair.server.stop(id, 8), Err(ClosedStream));
    assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Closed));
    let stop = fill(&mut pair.server);
    deliver(&mut pair.client, &stop);
    deliver(&mut pair.client, &stop);
    assert_eq!(events(&mut pair.client), [StreamEvent::Stopped { id, code: 8 }]);
    let symbol = fill(&mut pair.client);
    assert_eq!(frames(&symbol), [SymbolFrame::ResetStream { id, code: 8, final_size: 1000 }]);
    deliver(&mut pair.server, &symbol);
    assert_eq!((pair.server.stats().streams, events(&mut pair.server)), (0, vec![]));
    // The writer learns of it whenever it looks, until it lets go.
    assert_eq!(pair.client.write(id, b"x"), Err(WriteError::Stopped(8)));
    assert_eq!(pair.client.write(id, b"x"), Err(WriteError::Stopped(8)));
    assert_eq!(pair.client.finish(id), Err(FinishError::Stopped(8)));
    assert_eq!(pair.client.write(id, b"x"), Err(WriteError::Closed));
    assert_eq!(pair.client.stats().streams, 0);
}

#[test]
fn a_stop_after_the_end_needs_no_frame() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, b"x").unwrap();
    pair.client.finish(id).unwrap();
    pair.settle();
    assert_eq!(pair.server.stats().unread_bytes, 1);
    pair.server.stop(id, 1).unwrap();
    assert!(pair.server.is_idle() && pair.server.stats().streams == 0);
    // A gateway that went by bytes received and not read took streams that were given up for readers that are
    // slow.
    assert_eq!((pair.server.stats().unread_bytes, pair.server.stats().read_bytes), (0, 0));
}

#[test]
fn a_chunk_is_read_without_copying() {
    let mut pair = pair();
    let id = pair.client.open(Dir::Uni).unwrap();
    pair.client.write(id, b"abcdef").unwrap();
    pair.settle();
    let chunk = |pair: &mut Pair, max| pair.server.read_chunk(id, max, Instant::ZERO, RTT);
    assert_eq!(chunk(&mut pair, 4), Ok(Read::Data(bytes::Bytes::from_static(b"abcd"))));
    assert_eq!(chunk(&mut pair, 0), Ok(Read::Data(bytes::Bytes::new())));
    assert_eq!(chunk(&mut pair, 4), Ok(Read::Data(bytes::Bytes::from_static(b"ef"))));
    assert_eq!(chunk(&mut pair, 4), Err(ReadError::Blocked));
    assert_eq!(pair.server.stats().read_bytes, 6);
}
