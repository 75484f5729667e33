//! The path: addresses, ECN, MTU.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_net::{Datagram, Direction, Probability};
use fulmar_proto::{Dir, Instant, TransportConfig};

use crate::common::World;
use crate::work::{Download, PROFILES, Upload, connected, link, lossy, profile, set_link, upload};

fn elsewhere(place: u8) -> SocketAddr {
    SocketAddr::from(([10, 9, 8, place], 5555))
}

#[test]
fn rfc_9000_9_3_a_nat_that_rebinds_is_followed_and_challenged() {
    for percent in [0, 10, 30] {
        let mut world = connected(1, lossy(20, 20, percent));
        let mut work = Upload::new(&mut world, 2_000_000);
        world.run_until(Duration::from_millis(400), |w| work.step(w));
        world.rebind();
        assert!(
            world.run_until(Duration::from_secs(60), |w| work.step(w)),
            "{percent} %: {}",
            world.describe()
        );
        let addr = world.client_addr();
        let server = world.server.only();
        assert_eq!((server.remote(), server.stats().path.changes), (addr, 1), "{percent} %");
    }
}

#[test]
fn rfc_9000_9_4_after_a_move_to_another_address_the_path_is_measured_anew() {
    for percent in [0, 10, 30] {
        let mut world = connected(1, lossy(20, 20, percent));
        let mut work = Upload::new(&mut world, 2_000_000);
        for place in 1..4 {
            world.run_until(Duration::from_millis(400), |w| work.step(w));
            world.move_client(elsewhere(place));
            let now = world.now;
            world.client.only().handle_path_change(now);
        }
        assert!(
            world.run_until(Duration::from_secs(60), |w| work.step(w)),
            "{percent} %: {}",
            world.describe()
        );
        world.run_for(Duration::from_secs(2));
        assert_eq!(world.server.only().remote(), elsewhere(3));
    }
}

#[test]
fn wire_5_5_2_a_server_that_sends_finds_a_client_that_moved() {
    let mut world = connected(1, lossy(20, 20, 10));
    let id = world.server.only().open(fulmar_proto::Dir::Uni).expect("allowed");
    let (mut written, mut read, total) = (0, 0, 1_000_000);
    let data = vec![9; 1 << 16];
    let moves = [world.now + Duration::from_millis(300), world.now + Duration::from_millis(301)];
    let mut moved = 0;
    let is_done = world.run_until(Duration::from_secs(60), |world| {
        let now = world.now;
        if moved < 2 && now >= moves[moved] {
            moved += 1;
            world.move_client(elsewhere(moved as u8));
            world.client.only().handle_path_change(now);
        }
        while written < total
            && let Ok(n) = world.server.only().write(id, &data[..data.len().min(total - written)])
        {
            written += n;
        }
        let client = world.client.only();
        while client.accept(fulmar_proto::Dir::Uni).is_some() {}
        let mut out = vec![0; 1 << 16];
        while let Ok(fulmar_proto::stream::Read::Data(n)) = client.read(now, id, &mut out) {
            read += n;
        }
        read == total
    });
    assert!(is_done, "{}", world.describe());
}

#[test]
fn wire_5_5_2_server_and_client_do_not_wait_for_each_other() {
    // The client says one small thing from its new address, at heavy loss; all else is the server's.
    for seed in 0..100 {
        let mut world = connected(seed, lossy(20, 20, 40));
        let id = world.server.only().open(fulmar_proto::Dir::Uni).expect("allowed");
        world.run_for(Duration::from_secs(10));
        world.move_client(elsewhere(1));
        let now = world.now;
        world.client.only().handle_path_change(now);
        world.server.only().write(id, &[5; 20_000]).expect("room");
        world.server.only().finish(id).expect("open");
        let is_done = world.run_until(Duration::from_secs(25), |world| !world.server.only().has_unacked());
        assert!(is_done, "seed {seed}: {}", world.describe());
    }
}

#[test]
fn wire_5_5_2_no_more_than_thrice_what_came_goes_to_an_address_that_does_not_answer() {
    let mut world = connected(1, link(20, 20));
    let server_id = world.server.only().open(fulmar_proto::Dir::Uni).expect("allowed");
    world.client.only().ping();
    // Somebody repeats the client's packet from his own address, before it arrives by itself.
    world.settle();
    let packet = world.client.only().forge_packet(&[1]).expect("keys");
    let len = packet.len() as u64;
    let before = world.server.only().stats().wire.sent_bytes;
    world.ask_server(elsewhere(66), packet);
    world.server.only().write(server_id, &[5; 100_000]).expect("room");
    let (mut to_stranger, mut to_client) = (0, 0);
    for _ in 0..100 {
        let now = world.now;
        let mut buf = Vec::new();
        while let Some(transmit) = world.server.only().poll_transmit(now, 10, &mut buf) {
            let is_his = transmit.destination == elsewhere(66);
            *(if is_his { &mut to_stranger } else { &mut to_client }) += transmit.bytes as u64;
            buf.clear();
        }
        // He gets his challenges again, and nothing else.
        world.now += Duration::from_millis(10);
        world.server.handle_timeouts(world.now);
    }
    assert_eq!(world.server.only().stats().wire.sent_bytes - before, to_stranger + to_client);
    assert!((1..=3 * len).contains(&to_stranger), "{to_stranger} bytes for {len}");
    assert!(to_client > 10_000, "{to_client} bytes for the client, as before");
    // The client is heard again, and everything goes to it.
    world.client.only().ping();
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.server.only().remote(), world.client_addr());
    assert_eq!(world.server.only().stats().streams.queued_bytes, 0);
}

#[test]
fn rfc_9000_13_4_ecn_marks_reduce_the_window() {
    for name in ["newreno", "cubic"] {
        let run = |mark| {
            let mut path = link(50, 20);
            path.mark = Probability::from_percent(mark);
            let mut world = World::new(1, path, profile(name), profile(name));
            world.connected();
            let time = upload(&mut world, 3_000_000);
            let stats = world.client.only().stats();
            assert!(stats.path.is_ecn_capable);
            (time, stats.recovery.ecn_ce_packets, stats.recovery.lost_packets)
        };
        let ((plain, _, _), (marked, marks, lost)) = (run(0), run(3));
        assert!(marks > 10 && lost == 0, "{name}: {marks} marks, {lost} lost");
        assert!(marked > plain * 3 / 2, "{name}: {marked:?} with marks, {plain:?} without");
    }
}

#[test]
fn rfc_9000_13_4_2_a_path_that_bleaches_marks_is_found_out() {
    for name in PROFILES {
        let mut world = World::new(1, link(20, 20), profile(name), profile(name));
        world.bleaches_ecn = true;
        world.connected();
        upload(&mut world, 200_000);
        assert!(!world.client.only().stats().path.is_ecn_capable);
        // Packets leave without marks from then on.
        world.bleaches_ecn = false;
        let now = world.now;
        let id = world.client.only().open(fulmar_proto::Dir::Uni).expect("allowed");
        world.client.only().write(id, b"x").expect("room");
        let mut buf = Vec::new();
        let transmit = world.client.only().poll_transmit(now, 1, &mut buf).expect("data");
        assert_eq!(transmit.ecn, None);
    }
}

/// Which packets with ECN bits a path drops, by direction.
type Eater = fn(Direction, Instant) -> bool;

const EATERS: [(&str, Eater); 3] = [
    ("there", |direction, _| direction == Direction::Forward),
    ("back", |direction, _| direction == Direction::Backward),
    ("both ways", |_, _| true),
];

#[test]
fn wire_5_3_6_a_path_that_drops_what_has_ecn_bits_is_no_path_without_a_connection() {
    const RTT: Duration = Duration::from_millis(100);
    for name in PROFILES {
        for (which, eater) in EATERS {
            for is_upload in [true, false] {
                let mut world = World::new(1, link(20, 50), profile(name), profile(name));
                world.eats_ecn = Some(eater);
                let begin = world.now;
                world.connected();
                let (mut up, mut down) = (Upload::new(&mut world, 10), Download::new(10));
                let is_done = world.run_until(Duration::from_secs(10), |w| {
                    if is_upload { up.step(w) } else { down.step(w) }
                });
                let took = world.now - begin;
                assert!(is_done && took <= RTT * 13, "{name}, {which}, upload {is_upload}: {took:?}");
                // And what follows is not held up by marks that are tried again.
                let (mut up, mut down) = (Upload::new(&mut world, 3_000_000), Download::new(3_000_000));
                let begin = world.now;
                let is_done = world.run_until(Duration::from_secs(20), |w| {
                    if is_upload { up.step(w) } else { down.step(w) }
                });
                let took = world.now - begin;
                // After two timeouts the yardsticks begin with next to no window, and grow it by a packet a
                // round trip.
                let limit = Duration::from_secs(if name == "auto" { 3 } else { 10 });
                assert!(is_done && took < limit, "{name}, {which}, upload {is_upload}: {took:?}");
            }
        }
    }
}

#[test]
fn wire_5_3_6_a_path_that_begins_to_drop_what_has_ecn_bits_stands_still_for_a_second_at_most() {
    /// When it begins: a world does at 1 s.
    const LATER: Instant = Instant::from_nanos(3_000_000_000);
    const EATERS_LATER: [(&str, Eater); 4] = [
        ("there", |direction, now| direction == Direction::Forward && now >= LATER),
        ("back", |direction, now| direction == Direction::Backward && now >= LATER),
        ("both ways", |_, now| now >= LATER),
        ("for a while", |_, now| (LATER..LATER + Duration::from_secs(1)).contains(&now)),
    ];
    for name in ["auto", "cubic"] {
        for (which, eater) in EATERS_LATER {
            for is_upload in [true, false] {
                let mut world = World::new(1, link(20, 50), profile(name), profile(name));
                world.eats_ecn = Some(eater);
                world.connected();
                let (mut up, mut down) = (Upload::new(&mut world, 30_000_000), Download::new(30_000_000));
                let (mut longest, mut last, mut read) = (Duration::ZERO, world.now, 0);
                world.run_until(Duration::from_secs(9), |w| {
                    let is_done = if is_upload { up.step(w) } else { down.step(w) };
                    let now_read = up.read + down.read;
                    if now_read > read {
                        (longest, last, read) = (longest.max(w.now - last), w.now, now_read);
                    }
                    is_done
                });
                longest = longest.max(world.now - last);
                assert!(longest < Duration::from_secs(1), "{name}, {which}, upload {is_upload}: {longest:?}");
                let sender = if is_upload { world.client.only() } else { world.server.only() };
                if which == "for a while" {
                    assert!(sender.stats().path.is_ecn_capable, "{name}: marks are tried again");
                }
            }
        }
    }
}

#[test]
fn rfc_8899_after_a_fall_a_path_that_is_whole_again_is_found_within_a_minute() {
    let mut path = link(2, 20);
    path.mtu_bytes = Some(1500);
    let mut world = World::new(1, path.clone(), TransportConfig::default(), TransportConfig::default());
    world.connected();
    let mut work = Upload::new(&mut world, 100_000_000);
    world.run_until(Duration::from_secs(5), |w| work.step(w));
    assert_eq!(world.client.only().stats().path.mtu_bytes, 1472);
    let mut narrow = path.clone();
    narrow.mtu_bytes = Some(1300);
    set_link(&mut world, Direction::Forward, narrow);
    let has_fallen = world.run_until(Duration::from_secs(10), |w| {
        work.step(w) || w.client.only().stats().path.mtu_bytes < 1472
    });
    assert!(has_fallen, "{}", world.describe());
    world.run_until(Duration::from_secs(5), |w| work.step(w));
    set_link(&mut world, Direction::Forward, path);
    let is_whole = world.run_until(Duration::from_secs(60), |w| {
        work.step(w) || w.client.only().stats().path.mtu_bytes == 1472
    });
    assert!(is_whole && work.done_at.is_none(), "{}", world.describe());
}

#[test]
fn rfc_8899_the_mtu_of_ethernet_is_found_and_random_loss_fools_nobody() {
    for percent in [0, 5, 20] {
        for seed in 0..5 {
            let mut path = lossy(20, 20, percent);
            path.mtu_bytes = Some(1500);
            let mut world = connected(seed, path);
            upload(&mut world, 1_500_000);
            let stats = world.client.only().stats();
            assert_eq!(
                (stats.path.mtu_bytes, stats.recovery.black_holes),
                (1472, 0),
                "{percent} %, seed {seed}: {stats:?}"
            );
        }
    }
}

#[test]
fn rfc_8899_smaller_paths_are_found_too() {
    for mtu in [1280, 1400, 1492] {
        let mut path = link(20, 20);
        path.mtu_bytes = Some(mtu);
        let mut world = connected(1, path);
        upload(&mut world, 5_000_000);
        let found = u32::from(world.client.only().stats().path.mtu_bytes);
        assert!((1200..=mtu - 28).contains(&found) && found + 100 > mtu - 28, "{found} on a path of {mtu}");
    }
}

#[test]
fn wire_5_4_5_symbols_made_for_a_wider_path_get_through_one_that_has_shrunk() {
    for name in PROFILES {
        for (seed, percent, bytes) in [(1, 0, 2_000_000), (2, 10, 2_000_000), (3, 20, 40_000)] {
            let mut path = lossy(20, 20, percent);
            path.mtu_bytes = Some(1500);
            let mut world = World::new(seed, path.clone(), profile(name), profile(name));
            world.connected();
            upload(&mut world, 300_000);
            assert_eq!(world.client.only().stats().path.mtu_bytes, 1472);
            let mut work = Upload::new(&mut world, bytes);
            world.run_until(Duration::from_millis(30), |w| work.step(w));
            path.mtu_bytes = Some(1280);
            for direction in Direction::BOTH {
                set_link(&mut world, direction, path.clone());
            }
            let is_done = world.run_until(Duration::from_secs(60), |w| work.step(w));
            assert!(is_done, "{name}, {percent} %: {} bytes: {}", work.read, world.describe());
        }
    }
}

#[test]
fn wire_5_4_5_a_single_symbol_gets_through_a_path_that_has_shrunk() {
    // Nothing tells of a black hole but the probe timeouts.
    for name in PROFILES {
        let mut path = link(20, 20);
        path.mtu_bytes = Some(1500);
        let mut world = World::new(1, path.clone(), profile(name), profile(name));
        world.connected();
        upload(&mut world, 300_000);
        world.run_for(Duration::from_secs(1));
        path.mtu_bytes = Some(1228);
        for direction in Direction::BOTH {
            set_link(&mut world, direction, path.clone());
        }
        let begin = world.now;
        upload(&mut world, 1390);
        let took = world.now - begin;
        assert!(took < Duration::from_secs(5), "{name}: {took:?}");
    }
}

#[test]
fn a_path_as_wide_as_jumbo_frames_is_used() {
    let mut transport = TransportConfig::default();
    transport.mtu_max_bytes(8952).expect("in range");
    let mut world = World::new(1, link(100, 5), transport.clone(), transport);
    world.connected();
    upload(&mut world, 3_000_000);
    assert_eq!(world.client.only().stats().path.mtu_bytes, 8952);
}

/// The server sends a byte, and the client has it at once.
fn give_client_something_to_acknowledge(world: &mut World) {
    let mut datagram = Vec::new();
    let server = world.server.only();
    let id = server.open(Dir::Uni).expect("allowed");
    server.write(id, &[1]).expect("room");
    server.poll_transmit(world.now, 1, &mut datagram).expect("a packet");
    world.tell_client(datagram);
}

/// The last symbol of a flight asks for an ACK by a PING: one byte more, also where the symbol fits exactly
/// beside this end's own ACK.
#[test]
fn no_datagram_is_longer_than_the_path_carries() {
    let mut transport = TransportConfig::default();
    transport.mtu_max_bytes(1200).expect("in range");
    let mut world = World::new(1, link(100, 5), transport.clone(), transport);
    world.connected();
    world.run_for(Duration::from_secs(1));
    let mut longest = 0;
    for len in 1050..1200 {
        // Something to acknowledge, and at the same moment the last bytes of a flight.
        give_client_something_to_acknowledge(&mut world);
        let client = world.client.only();
        let id = client.open(Dir::Uni).expect("allowed");
        client.write(id, &vec![2; len]).expect("room");
        client.finish(id).expect("open");
        let mut contents = Vec::new();
        while client.poll_transmit(world.now, 1, &mut contents).is_some() {
            longest = longest.max(contents.len());
            let (now, contents) = (world.now, std::mem::take(&mut contents));
            world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
        }
        world.run_for(Duration::from_millis(100));
    }
    assert_eq!(
        longest,
        1200 - 9,
        "a repair symbol's header is ten bytes longer, and a PING takes one of them"
    );
}

/// A packet with an ACK is as long as those without, so that a batch does not end with it.
#[test]
fn an_ack_does_not_end_a_batch() {
    let mut world = World::new(1, link(100, 5), TransportConfig::default(), TransportConfig::default());
    world.connected();
    world.run_for(Duration::from_secs(1));
    give_client_something_to_acknowledge(&mut world);
    let client = world.client.only();
    let id = client.open(Dir::Uni).expect("allowed");
    client.write(id, &[2; 20_000]).expect("room");
    let acks_before = client.stats().wire.acks_sent;
    let mut batch = Vec::new();
    let sent = client.poll_transmit(world.now, 2, &mut batch).expect("a batch");
    assert_eq!(client.stats().wire.acks_sent, acks_before + 1);
    assert_eq!(sent.segment_bytes.map(|segment| segment * 2), Some(batch.len()));
}
