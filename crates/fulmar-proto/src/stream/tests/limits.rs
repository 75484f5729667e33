//! Windows, buffers, counts of streams, events: what is bounded, and that what was held up goes on.

use super::*;

fn small() -> StreamConfig {
    StreamConfig {
        streams_bi_max: 2,
        streams_uni_max: 2,
        stream_window_bytes: 1000,
        stream_window_bytes_max: 1000,
        connection_window_bytes: 1500,
        connection_window_bytes_max: 1500,
        ..StreamConfig::default()
    }
}

#[test]
fn nothing_may_be_opened_before_the_peer_allows_it() {
    let mut client = Streams::new(Side::Client, &StreamConfig::default());
    assert_eq!((client.open(Dir::Bi), client.open(Dir::Bi)), (None, None));
    client.set_peer_limits(&small().limits());
    assert_eq!(events(&mut client), [StreamEvent::Available { dir: Dir::Bi }]);
    assert_eq!(client.open(Dir::Bi), Some(StreamId(0)));
}

#[test]
fn closed_streams_make_room_for_new_ones() {
    let mut pair = Pair::new(&small(), &small());
    for round in 0..20 {
        let id = pair.client.open(Dir::Uni).unwrap();
        assert_eq!(id.index(), round);
        pair.client.finish(id).unwrap();
        pair.settle();
        assert_eq!(read_all(&mut pair.server, id).1, Ok(()));
        pair.settle();
    }
    let ids = [pair.client.open(Dir::Uni).unwrap(), pair.client.open(Dir::Uni).unwrap()];
    assert_eq!((pair.client.open(Dir::Uni), events(&mut pair.client)), (None, vec![]));
    pair.client.reset(ids[1], 0).unwrap();
    pair.settle();
    assert_eq!(read_all(&mut pair.server, ids[1]).1, Err(ReadError::Reset(0)));
    pair.settle();
    assert_eq!(events(&mut pair.client), [StreamEvent::Available { dir: Dir::Uni }]);
    assert_eq!(pair.client.open(Dir::Uni).unwrap().index(), 22);
}

#[test]
fn announcements_of_more_streams_are_few() {
    let config = StreamConfig { streams_uni_max: 80, ..StreamConfig::default() };
    let mut pair = Pair::new(&config, &config);
    let mut announced = 0;
    for _ in 0..200 {
        let id = pair.client.open(Dir::Uni).unwrap();
        pair.client.finish(id).unwrap();
        let symbol = fill(&mut pair.client);
        deliver(&mut pair.server, &symbol);
        assert_eq!(read_all(&mut pair.server, id).1, Ok(()));
        if pair.server.has_pending() {
            let symbol = fill(&mut pair.server);
            deliver(&mut pair.client, &symbol);
            announced += 1;
        }
    }
    assert_eq!(announced, 200 / 10);
}

#[test]
fn opening_a_stream_opens_those_below() {
    let mut pair = Pair::new(&StreamConfig::default(), &StreamConfig::default());
    let ids: Vec<_> = (0..3).map(|_| pair.client.open(Dir::Bi).unwrap()).collect();
    pair.client.write(ids[2], b"x").unwrap();
    pair.settle();
    assert_eq!(
        events(&mut pair.server),
        [StreamEvent::Opened { dir: Dir::Bi }, StreamEvent::Readable(ids[2])]
    );
    let accepted: Vec<_> = std::iter::from_fn(|| pair.server.accept(Dir::Bi)).collect();
    assert_eq!(accepted, ids);
    assert_eq!(pair.server.write(ids[0], b"first word"), Ok(10));
    pair.settle();
    assert_eq!(read_all(&mut pair.client, ids[0]).0, b"first word");
}

#[test]
fn credit_stops_the_writer_and_reading_lets_it_go_on() {
    let mut pair = Pair::new(&small(), &small());
    let id = pair.client.open(Dir::Uni).unwrap();
    assert_eq!(pair.client.write(id, &[1; 5000]), Ok(1000));
    assert_eq!(pair.client.write(id, &[1; 5000]), Err(WriteError::Blocked));
    pair.settle();
    assert_eq!((pair.client.has_pending(), events(&mut pair.client)), (false, vec![]));
    let mut out = [0; 249];
    assert_eq!(pair.server.read(id, &mut out, Instant::ZERO, RTT), Ok(Read::Data(249)));
    assert!(!pair.server.has_pending());
    assert_eq!(pair.server.read(id, &mut out[..1], Instant::ZERO, RTT), Ok(Read::Data(1)));
    let symbol = fill(&mut pair.server);
    assert_eq!(frames(&symbol), [SymbolFrame::MaxStreamData { id, max: 1250 }]);
    deliver(&mut pair.client, &symbol);
    deliver(&mut pair.client, &symbol);
    assert_eq!(events(&mut pair.client), [StreamEvent::Writable(id)]);
    assert_eq!(pair.client.write(id, &[1; 5000]), Ok(250));
}

#[test]
fn the_connection_holds_back_data_but_not_control_frames() {
    let mut pair = Pair::new(&small(), &small());
    let (a, b) = (pair.client.open(Dir::Uni).unwrap(), pair.client.open(Dir::Uni).unwrap());
    assert_eq!((pair.client.write(a, &[1; 1000]), pair.client.write(b, &[1; 1000])), (Ok(1000), Ok(1000)));
    pair.settle();
    assert_eq!((pair.client.queued_bytes(), pair.client.is_idle()), (500, false));
    let c = pair.client.open(Dir::Bi).unwrap();
    pair.client.finish(c).unwrap();
    assert!(pair.client.has_pending());
    pair.settle();
    assert_eq!(read_all(&mut pair.server, c).1, Ok(()));
    // Stopping a stream that fills the window gives its credit back.
    pair.server.stop(a, 0).unwrap();
    pair.settle();
    assert_eq!((pair.client.queued_bytes(), pair.client.is_idle()), (0, true));
    assert_eq!(read_all(&mut pair.server, b).0.len(), 1000);
}

#[test]
fn a_reset_gives_back_credit_that_was_never_used() {
    let mut pair = Pair::new(&small(), &small());
    for _ in 0..10 {
        let id = pair.client.open(Dir::Uni).unwrap();
        assert_eq!(pair.client.write(id, &[0; 1000]), Ok(1000));
        while pair.client.queued_bytes() > 0 {
            fill(&mut pair.client);
        }
        pair.client.reset(id, 0).unwrap();
        pair.settle();
        assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Reset(0)));
        pair.settle();
    }
}

#[test]
fn what_arrives_after_a_stop_gives_its_credit_back() {
    let mut pair = Pair::new(&small(), &small());
    for _ in 0..10 {
        let id = pair.client.open(Dir::Uni).unwrap();
        assert_eq!(pair.client.write(id, &[0; 900]), Ok(900));
        let first = fill(&mut pair.client);
        assert_eq!(pair.client.write(id, &[0; 50]), Ok(50));
        let second = fill(&mut pair.client);
        deliver(&mut pair.server, &first);
        pair.server.stop(id, 0).unwrap();
        deliver(&mut pair.server, &second);
        pair.settle();
        assert_eq!(pair.client.finish(id), Err(FinishError::Stopped(0)));
        assert_eq!(pair.server.receiving.window.consumed(), pair.client.stats().sent_bytes);
    }
}

#[test]
fn buffers_are_bounded_and_writers_woken_at_half() {
    let config = StreamConfig {
        stream_send_buffer_bytes_max: 10_000,
        send_buffer_bytes_max: 25_000,
        ..StreamConfig::default()
    };
    let mut pair = Pair::new(&config, &config);
    let ids: Vec<_> = (0..4).map(|_| pair.client.open(Dir::Uni).unwrap()).collect();
    for (&id, taken) in ids.iter().zip([Ok(10_000), Ok(10_000), Ok(5000), Err(WriteError::Blocked)]) {
        assert_eq!(pair.client.write(id, &[0; 20_000]), taken);
        assert_eq!(pair.client.write(id, &[0; 20_000]), Err(WriteError::Blocked));
    }
    assert_eq!(pair.client.queued_bytes(), 25_000);
    let mut woken = Vec::new();
    while pair.client.has_pending() {
        fill(&mut pair.client);
        let queued = pair.client.queued_bytes();
        woken.extend(events(&mut pair.client).into_iter().map(|event| (event, queued)));
    }
    woken.sort_by_key(|(event, _)| event.stream());
    let ids_woken: Vec<_> = woken.iter().map(|(event, _)| *event).collect();
    assert_eq!(ids_woken, ids.iter().map(|&id| StreamEvent::Writable(id)).collect::<Vec<_>>());
    assert!(woken[2..].iter().all(|&(_, queued)| (10_000..=12_500).contains(&queued)), "{woken:?}");
}

#[test]
fn a_high_priority_gets_into_a_full_buffer_first() {
    let config = StreamConfig { send_buffer_bytes_max: 1 << 20, ..StreamConfig::default() };
    let mut pair = Pair::new(&config, &config);
    let ids: Vec<_> = (0..20).map(|_| pair.client.open(Dir::Uni).unwrap()).collect();
    let refused = |pair: &mut Pair, id| while pair.client.write(id, &[0; 100_000]).is_ok() {};
    ids.iter().for_each(|&id| refused(&mut pair, id));
    pair.client.set_priority(ids[19], 1).unwrap();
    let mut symbols = 0;
    while events(&mut pair.client).is_empty() {
        fill(&mut pair.client);
        symbols += 1;
        assert!(symbols < 20);
    }
    assert!(pair.client.write(ids[19], &[0; 1000]).is_ok());
    let symbol = fill(&mut pair.client);
    assert!(matches!(frames(&symbol)[0], SymbolFrame::Stream { id, .. } if id == ids[19]));
}

/// A stream with windows that have room to grow.
fn narrow_windows() -> (Pair, StreamId) {
    let config = StreamConfig {
        stream_window_bytes: 4000,
        stream_window_bytes_max: 64_000,
        connection_window_bytes: 4000,
        connection_window_bytes_max: 100_000,
        ..StreamConfig::default()
    };
    let mut pair = Pair::new(&config, &config);
    let id = pair.client.open(Dir::Uni).unwrap();
    (pair, id)
}

#[test]
fn windows_grow_to_what_a_fast_path_needs() {
    let (mut pair, id) = narrow_windows();
    for _ in 0..100 {
        let _ = pair.client.write(id, &[0; 100_000]);
        pair.settle();
        assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Blocked));
        pair.settle();
    }
    // All in no time at all: both have doubled as far as they may.
    assert_eq!(pair.client.write(id, &[0; 100_000]), Ok(64_000));
    assert!(pair.client.sending.credit() > 50_000);
}

#[test]
fn windows_stay_as_they_are_while_memory_is_short() {
    let (mut pair, id) = narrow_windows();
    pair.server.keep_windows(true);
    for _ in 0..10 {
        assert_eq!(pair.client.write(id, &[0; 100_000]), Ok(4000));
        pair.settle();
        assert_eq!(pair.server.held_bytes(), 4000);
        assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Blocked));
        assert_eq!(pair.server.held_bytes(), 0);
        pair.settle();
    }
    pair.server.keep_windows(false);
    let _ = pair.client.write(id, &[0; 4000]);
    pair.settle();
    assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Blocked));
    pair.settle();
    assert!(pair.client.write(id, &[0; 100_000]).unwrap() >= 8000);
}

#[test]
fn thousands_of_streams_at_once() {
    let config = StreamConfig { streams_bi_max: 5000, ..StreamConfig::default() };
    let mut pair = Pair::new(&config, &config);
    let ids: Vec<_> = (0..5000).map(|_| pair.client.open(Dir::Bi).unwrap()).collect();
    for &id in &ids {
        pair.client.write(id, &id.0.to_be_bytes()).unwrap();
        pair.client.finish(id).unwrap();
    }
    pair.settle();
    assert_eq!(pair.server.stats().streams, 5000);
    while let Some(id) = pair.server.accept(Dir::Bi) {
        assert_eq!(read_all(&mut pair.server, id), (id.0.to_be_bytes().to_vec(), Ok(())));
        pair.server.finish(id).unwrap();
    }
    pair.settle();
    for &id in &ids {
        assert_eq!(read_all(&mut pair.client, id), (vec![], Ok(())));
    }
    assert_eq!((pair.client.stats().streams, pair.server.stats().streams), (0, 0));
}

#[test]
fn idle_ends_hold_little() {
    assert!(size_of::<Streams>() <= 1024, "{}", size_of::<Streams>());
    assert!(size_of::<table::Stream>() <= 512, "{}", size_of::<table::Stream>());
}

#[test]
fn events_stay_bounded_if_nobody_takes_them() {
    let config = StreamConfig { streams_uni_max: 4, ..StreamConfig::default() };
    let mut pair = Pair::new(&config, &config);
    for _ in 0..1000 {
        let id = pair.client.open(Dir::Uni).unwrap();
        for _ in 0..5 {
            pair.client.write(id, b"x").unwrap();
            pair.settle();
            assert_eq!(read_all(&mut pair.server, id).1, Err(ReadError::Blocked));
        }
        pair.client.finish(id).unwrap();
        pair.settle();
        assert_eq!(read_all(&mut pair.server, id).1, Ok(()));
        pair.settle();
    }
    assert!(pair.server.events.len() < 100, "{}", pair.server.events.len());
    assert_eq!(events(&mut pair.server), [StreamEvent::Opened { dir: Dir::Uni }]);
}

#[test]
fn limits_that_come_late_reach_streams_the_peer_has_opened() {
    let mut server = Streams::new(Side::Server, &StreamConfig::default());
    let id = StreamId(0);
    server.on_frame(SymbolFrame::Stream { id, offset: 0, data: b"x", fin: false }).unwrap();
    assert_eq!(server.write(id, b"y"), Err(WriteError::Blocked));
    events(&mut server);
    server.set_peer_limits(&StreamConfig::default().limits());
    assert_eq!(events(&mut server), [StreamEvent::Writable(id)]);
    assert_eq!(server.write(id, b"y"), Ok(1));
}
