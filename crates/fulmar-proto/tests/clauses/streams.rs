//! Streams over the whole connection: RFC 9000 2 to 4.

use std::collections::BTreeMap;
use std::time::Duration;

use fulmar_net::{Direction, Loss, LossPattern};
use fulmar_proto::stream::Read;
use fulmar_proto::{Dir, Instant, StreamId, TransportConfig};

use crate::common::World;
use crate::work::{Upload, connected, link, lossy, set_link, upload};

/// Reads all streams of the server and notes when each ended.
fn drain(world: &mut World, ended: &mut BTreeMap<StreamId, Instant>, open: &mut Vec<StreamId>) {
    let now = world.now;
    let server = world.server.only();
    while let Some(id) = server.accept(Dir::Uni) {
        open.push(id);
    }
    let mut out = [0; 4096];
    open.retain(|&id| {
        loop {
            match server.read(now, id, &mut out) {
                Ok(Read::Data(_)) => {}
                Ok(Read::End) => {
                    ended.insert(id, now);
                    return false;
                }
                Err(_) => return true,
            }
        }
    });
}

#[test]
fn thousands_of_streams_at_once() {
    let mut world = connected(1, lossy(50, 20, 5));
    let client = world.client.only();
    for _ in 0..3000 {
        let id = client.open(Dir::Uni).expect("ten thousand are allowed");
        client.write(id, &[7; 100]).expect("room");
        client.finish(id).expect("open");
    }
    let (mut ended, mut open) = (BTreeMap::new(), Vec::new());
    let is_done = world.run_until(Duration::from_secs(30), |w| {
        drain(w, &mut ended, &mut open);
        ended.len() == 3000
    });
    assert!(is_done, "{} of 3000 streams: {}", ended.len(), world.describe());
    world.run_for(Duration::from_secs(2));
    assert_eq!(
        (world.client.only().stats().streams.streams, world.server.only().stats().streams.streams),
        (0, 0)
    );
}

#[test]
fn the_lost_data_of_one_stream_delay_no_other() {
    const RTT: Duration = Duration::from_millis(200);
    let mut world = connected(1, link(100, 100));
    upload(&mut world, 200_000);
    world.run_for(Duration::from_secs(1));
    let begin = world.now;
    // One symbol for each: the third packet is lost.
    let mut pattern = vec![false; 1000];
    pattern[2] = true;
    set_link(
        &mut world,
        Direction::Forward,
        link(100, 100).with_loss(Loss::Pattern(LossPattern::new(pattern))),
    );
    let client = world.client.only();
    let ids: Vec<StreamId> = (0..8).map(|_| client.open(Dir::Uni).expect("allowed")).collect();
    for &id in &ids {
        client.write(id, &[1; 1000]).expect("room");
        client.finish(id).expect("open");
    }
    let (mut ended, mut open) = (BTreeMap::new(), Vec::new());
    world.run_until(Duration::from_secs(5), |w| {
        drain(w, &mut ended, &mut open);
        ended.len() == 8
    });
    let late: Vec<StreamId> = ended.iter().filter(|(_, at)| **at - begin > RTT).map(|(id, _)| *id).collect();
    assert!((1..=2).contains(&late.len()), "late were {late:?}");
}

#[test]
fn higher_priorities_go_first() {
    let mut world = connected(1, link(10, 20));
    let client = world.client.only();
    let ids: Vec<StreamId> = (0..5).map(|_| client.open(Dir::Uni).expect("allowed")).collect();
    for (at, &id) in ids.iter().enumerate() {
        client.set_priority(id, at as i32).expect("open");
        client.write(id, &[1; 60_000]).expect("room");
        client.finish(id).expect("open");
    }
    let (mut ended, mut open) = (BTreeMap::new(), Vec::new());
    world.run_until(Duration::from_secs(10), |w| {
        drain(w, &mut ended, &mut open);
        ended.len() == 5
    });
    let times: Vec<Instant> = ids.iter().map(|id| ended[id]).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]) && times[0] > times[4], "{times:?}");
}

#[test]
fn rfc_9000_4_1_a_reader_that_does_not_read_stops_the_sender() {
    let mut small = TransportConfig::default();
    small.receive_window_bytes(100_000).expect("in range");
    small.stream_receive_window_bytes(50_000).expect("in range");
    let mut world = World::new(1, lossy(20, 20, 5), TransportConfig::default(), small);
    world.connected();
    let mut work = Upload::new(&mut world, 1_000_000);
    world.run_until(Duration::from_secs(10), |w| {
        work.write(w);
        false
    });
    let received = world.server.only().stats().streams.received_bytes;
    assert_eq!(received, 50_000, "all of the window and no more");
    // And it goes on when the reader does.
    assert!(world.run_until(Duration::from_secs(60), |w| work.step(w)), "{}", world.describe());
}

#[test]
fn windows_grow_to_the_bandwidth_delay_product() {
    // 200 Mb/s, 200 ms: 5 MB under way, and windows begin at 1 and 2 MiB.
    let mut world = connected(1, link(200, 100));
    let mut work = Upload::new(&mut world, 200_000_000);
    world.run_until(Duration::from_secs(4), |w| work.step(w));
    let (before, at) = (work.read, world.now);
    world.run_until(Duration::from_secs(2), |w| work.step(w));
    let goodput = (work.read - before) as f64 * 8.0 / (world.now - at).as_secs_f64();
    assert!(goodput > 170e6, "{:.0} Mb/s of 200", goodput / 1e6);
}

#[test]
fn rfc_9000_4_6_streams_beyond_the_limit_wait_for_others_to_end() {
    let mut few = TransportConfig::default();
    few.streams_uni(3).expect("in range");
    let mut world = World::new(1, link(20, 20), TransportConfig::default(), few);
    world.connected();
    let client = world.client.only();
    let ids: Vec<StreamId> = std::iter::from_fn(|| client.open(Dir::Uni)).collect();
    assert_eq!(ids.len(), 3);
    client.write(ids[0], b"x").expect("room");
    client.finish(ids[0]).expect("open");
    let (mut ended, mut open) = (BTreeMap::new(), Vec::new());
    let is_available = world.run_until(Duration::from_secs(5), |w| {
        drain(w, &mut ended, &mut open);
        w.client.events.iter().any(|(_, e)| *e == fulmar_proto::Event::StreamsAvailable { dir: Dir::Uni })
    });
    assert!(is_available && world.client.only().open(Dir::Uni).is_some());
}

#[test]
fn rfc_9000_3_resets_and_stops_arrive_with_their_codes() {
    let mut world = connected(1, lossy(20, 20, 20));
    let client = world.client.only();
    let (reset, stopped) = (client.open(Dir::Uni).expect("allowed"), client.open(Dir::Uni).expect("allowed"));
    for id in [reset, stopped] {
        client.write(id, &[1; 5000]).expect("room");
    }
    client.reset(reset, 77).expect("open");
    let mut is_reset = false;
    let mut is_stopped = false;
    let is_done = world.run_until(Duration::from_secs(10), |world| {
        let now = world.now;
        let server = world.server.only();
        while let Some(id) = server.accept(Dir::Uni) {
            if id == stopped {
                server.stop(id, 88).expect("open");
            }
        }
        let mut out = [0; 4096];
        is_reset |=
            matches!(server.read(now, reset, &mut out), Err(fulmar_proto::stream::ReadError::Reset(77)));
        is_stopped |= world
            .client
            .events
            .iter()
            .any(|(_, event)| *event == fulmar_proto::Event::Stopped { id: stopped, code: 88 });
        is_reset && is_stopped
    });
    assert!(is_done, "reset {is_reset}, stopped {is_stopped}: {}", world.describe());
}
