//! Packets that come from another address: the peer has moved, or somebody copies them.
//! docs/internals/wire.md 5.5.2.

use std::net::SocketAddr;
use std::time::Duration;

use fulmar_net::Direction;
use fulmar_proto::stream::Read;
use fulmar_proto::{Dir, TransportConfig};
use fulmar_world::Observer;

use crate::common::World;
use crate::work::{Download, Upload, link, lossy, set_link};

const RTT: Duration = Duration::from_millis(40);
const AHEAD: Duration = Duration::from_millis(5);
const BYTES: u64 = 4_000_000;

/// How somebody copies.
#[derive(Copy, Clone, Debug)]
struct Copying {
    /// One of so many packets.
    every: u32,
    copies_max: u32,
    addresses: u16,
    is_from_start: bool,
    relays: bool,
}

fn world(seed: u64) -> World {
    World::new(seed, link(50, 20), TransportConfig::default(), TransportConfig::default())
}

/// What a transfer takes from the beginning of the handshake, beside somebody who copies.
fn transfer(copying: Option<Copying>, is_upload: bool) -> (Duration, World) {
    let mut world = world(1);
    world.observer = Some(Observer::new(0, AHEAD));
    let begin_copying = |world: &mut World| {
        let Some(Copying { every, copies_max, addresses, relays, .. }) = copying else { return };
        let observer = world.observer.as_mut().expect("there is one");
        (observer.every, observer.copies_max, observer.addresses, observer.relays) =
            (every, copies_max, addresses, relays);
    };
    if copying.is_some_and(|copying| copying.is_from_start) {
        begin_copying(&mut world);
    }
    let begin = world.now;
    world.connected();
    let (mut upload, mut download) = (Upload::new(&mut world, BYTES), Download::new(BYTES));
    let mut step = |world: &mut World| if is_upload { upload.step(world) } else { download.step(world) };
    world.run_until(Duration::from_millis(200), &mut step);
    begin_copying(&mut world);
    assert!(world.run_until(Duration::from_secs(30), &mut step), "{copying:?}: {}", world.describe());
    (world.now - begin, world)
}

#[test]
fn wire_5_5_2_copies_from_false_addresses_stop_nobody() {
    for is_upload in [true, false] {
        let (undisturbed, _) = transfer(None, is_upload);
        for (every, copies_max, addresses) in
            [(10, u32::MAX, 1), (1, u32::MAX, 1), (1, 100, 100), (1, u32::MAX, 100)]
        {
            for (is_from_start, relays) in [(false, false), (true, false), (false, true), (true, true)] {
                let copying = Copying { every, copies_max, addresses, is_from_start, relays };
                let (took, mut world) = transfer(Some(copying), is_upload);
                let addr = world.client_addr();
                let share = undisturbed.as_secs_f64() / took.as_secs_f64();
                assert!(share >= 0.8, "{copying:?}, upload {is_upload}: {took:?} instead of {undisturbed:?}");
                if !(is_from_start && relays) {
                    // Who was there from the start and brings everything both ways is the path.
                    assert_eq!(world.server.only().remote(), addr, "{copying:?}");
                }
                let observer = world.observer.as_ref().expect("there is one");
                if !is_from_start {
                    // Each second four addresses at most, a few times, and nothing but a challenge.
                    let seconds = 1 + took.as_secs() as u32;
                    assert!(observer.answers <= seconds * 4 * 3, "{copying:?}: {} answers", observer.answers);
                    assert_eq!(world.server.only().stats().path.changes, 0, "{copying:?}");
                }
            }
        }
    }
}

#[test]
fn wire_5_5_2_a_nat_that_rebinds_is_followed_within_a_round_trip_of_its_first_packet() {
    for is_upload in [true, false] {
        let mut world = world(1);
        world.connected();
        let (mut upload, mut download) = (Upload::new(&mut world, BYTES), Download::new(BYTES));
        let mut step = |world: &mut World| if is_upload { upload.step(world) } else { download.step(world) };
        world.run_until(Duration::from_millis(500), &mut step);
        world.rebind();
        let begin = world.now;
        let addr = world.client_addr();
        let is_followed =
            world.run_until(Duration::from_secs(5), |w| step(w) || w.server.only().remote() == addr);
        let took = world.now - begin;
        // Half a round trip there, the challenge and its answer, and what the old path may take to answer
        // longer; each with the link's queue.
        assert!(is_followed && took <= RTT * 4, "upload {is_upload}: {took:?}");
        assert!(world.run_until(Duration::from_secs(30), &mut step), "{}", world.describe());
        assert_eq!(world.server.only().stats().path.changes, 1);
    }
}

#[test]
fn wire_5_5_2_a_client_that_has_moved_is_found_among_copies_of_all_it_sends() {
    for (every, addresses) in [(1, 1), (2, 7), (1, 100)] {
        for percent in [0, 10] {
            let mut world =
                World::new(1, lossy(50, 20, percent), TransportConfig::default(), TransportConfig::default());
            world.connected();
            let mut upload = Upload::new(&mut world, BYTES);
            let mut observer = Observer::new(every, AHEAD);
            observer.addresses = addresses;
            world.observer = Some(observer);
            world.run_until(Duration::from_millis(500), |w| upload.step(w));
            let addr = SocketAddr::from(([10, 9, 8, 7], 5555));
            world.move_client(addr);
            let begin = world.now;
            let is_followed = world.run_until(Duration::from_secs(20), |w| {
                upload.step(w);
                w.server.only().remote() == addr
            });
            let took = world.now - begin;
            assert!(
                is_followed && took < Duration::from_secs(2),
                "{every}, {addresses}, {percent} %: {took:?}"
            );
            assert!(world.run_until(Duration::from_secs(30), |w| upload.step(w)), "{}", world.describe());
        }
    }
}

/// The longest time without a byte, where an address lives for so long only.
fn longest_gap(
    world: &mut World,
    limit: Duration,
    mut step: impl FnMut(&mut World) -> (bool, u64),
) -> Duration {
    let (mut longest, mut last, mut read) = (Duration::ZERO, world.now, 0);
    let is_done = world.run_until(limit, |w| {
        let (is_done, now_read) = step(w);
        if now_read > read {
            (longest, last, read) = (longest.max(w.now - last), w.now, now_read);
        }
        is_done
    });
    assert!(is_done, "{read} bytes: {}", world.describe());
    longest
}

#[test]
fn wire_5_5_5_a_client_whose_port_is_closed_again_and_again_takes_another() {
    for is_upload in [true, false] {
        for percent in [0, 10] {
            let link = lossy(10, 20, percent);
            let mut world = World::new(1, link, TransportConfig::default(), TransportConfig::default());
            (world.address_lives, world.takes_fresh_ports) = (Some(Duration::from_secs(5)), true);
            world.connected();
            let (mut up, mut down) = (Upload::new(&mut world, 15_000_000), Download::new(15_000_000));
            let longest = longest_gap(&mut world, Duration::from_secs(60), |w| {
                let is_done = if is_upload { up.step(w) } else { down.step(w) };
                (is_done, up.read + down.read)
            });
            assert!(longest < Duration::from_secs(3), "upload {is_upload}, {percent} %: {longest:?}");
            assert!((2..=8).contains(&world.fresh_ports), "{} ports", world.fresh_ports);
        }
    }
}

#[test]
fn wire_5_5_5_a_dead_path_makes_a_client_take_few_ports_and_keeps_its_idle_timeout() {
    let mut world = world(1);
    world.connected();
    world.takes_fresh_ports = true;
    let mut up = Upload::new(&mut world, 100_000_000);
    world.run_until(Duration::from_secs(1), |w| up.step(w));
    // Every packet of every port is lost from now on.
    world.address_lives = Some(Duration::ZERO);
    let begin = world.now;
    let has_ended =
        world.run_until(Duration::from_secs(60), |w| w.client.connections.values().all(|c| c.is_closed()));
    let took = world.now - begin;
    assert!(has_ended && took < Duration::from_secs(32), "{took:?}");
    assert_eq!(world.fresh_ports, 4, "after 1, 3, 7 and 15 seconds");
}

#[test]
fn wire_5_5_5_an_outage_ends_as_soon_with_other_ports_as_without() {
    for seconds in [2, 5, 12] {
        let mut gaps = Vec::new();
        for takes_fresh_ports in [false, true] {
            let mut world = world(1);
            world.connected();
            world.takes_fresh_ports = takes_fresh_ports;
            let mut up = Upload::new(&mut world, 20_000_000);
            world.run_until(Duration::from_secs(1), |w| up.step(w));
            world.address_lives = Some(Duration::ZERO);
            world.run_until(Duration::from_secs(seconds), |w| up.step(w));
            world.address_lives = None;
            let (begin, before) = (world.now, up.read);
            assert!(world.run_until(Duration::from_secs(10), |w| up.step(w) || up.read > before));
            gaps.push(world.now - begin);
            assert!(world.run_until(Duration::from_secs(30), |w| up.step(w)), "{}", world.describe());
        }
        // What the other address is asked, and when the next packet leaves, costs a little.
        assert!(gaps[1] < gaps[0] + Duration::from_millis(500), "{seconds} s: {gaps:?}");
    }
}

#[test]
fn wire_5_5_5_a_client_that_hears_nothing_any_more_asks_where_a_nat_has_rebound() {
    let mut world = world(1);
    world.connected();
    let id = world.server.only().open(Dir::Uni).expect("allowed");
    let (mut written, mut read, mut next) = (0, 0, world.now);
    let mut messages = |w: &mut World| {
        if w.now >= next {
            next = w.now + Duration::from_millis(20);
            written += w.server.only().write(id, &[7; 100]).expect("room") as u64;
        }
        w.alarm = Some(next);
        let now = w.now;
        while w.client.only().accept(Dir::Uni).is_some() {}
        while let Ok(Read::Data(len)) = w.client.only().read(now, id, &mut [0; 4096]) {
            read += len as u64;
        }
        read
    };
    for at_ms in [2000, 2007, 2013, 2019] {
        world.run_until(Duration::from_millis(at_ms), |w| {
            messages(w);
            false
        });
        world.rebind();
        let begin = world.now;
        let longest = longest_gap(&mut world, Duration::from_secs(5), |w| {
            let read = messages(w);
            (w.now - begin > Duration::from_secs(2), read)
        });
        assert!(longest <= Duration::from_millis(300), "after {at_ms} ms: {longest:?}");
    }
}

/// What was measured on the path in use says nothing of the way elsewhere.
#[test]
fn wire_5_5_2_a_client_that_moves_a_thousand_times_as_far_away_is_followed() {
    for is_renamed in [false, true] {
        let mut path = link(50, 20);
        path.delay = Duration::from_micros(30);
        let mut world = World::new(1, path, TransportConfig::default(), TransportConfig::default());
        world.connected();
        let mut up = Upload::new(&mut world, 3_000_000);
        world.run_until(Duration::from_millis(100), |w| up.step(w));
        for direction in Direction::BOTH {
            set_link(&mut world, direction, link(50, 30));
        }
        let addr = SocketAddr::from(([10, 9, 8, 7], 5555));
        world.move_client(addr);
        if is_renamed {
            let now = world.now;
            world.client.only().handle_path_change(now);
        }
        let begin = world.now;
        assert!(world.run_until(Duration::from_secs(30), |w| up.step(w)), "{}", world.describe());
        let took = world.now - begin;
        assert!(took < Duration::from_secs(5) && world.server.only().remote() == addr, "{took:?}");
    }
}

/// The first ACK from there ends a silence of four seconds, which is no round trip: the server waited for the
/// old address as if it were.
#[test]
fn wire_5_5_2_a_move_after_a_long_silence_takes_some_round_trips() {
    let mut world = world(1);
    world.connected();
    let mut down = Download::new(100_000_000);
    world.run_until(Duration::from_millis(500), |w| down.step(w));
    for direction in Direction::BOTH {
        set_link(&mut world, direction, lossy(20, 20, 100));
    }
    world.run_until(Duration::from_secs(4), |w| down.step(w));
    for direction in Direction::BOTH {
        set_link(&mut world, direction, link(20, 20));
    }
    world.move_client(SocketAddr::from(([10, 9, 8, 7], 5555)));
    let (begin, before) = (world.now, down.read);
    world.client.only().handle_other_way(begin);
    assert!(world.run_until(Duration::from_secs(30), |w| !down.step(w) && down.read > before));
    assert!(world.now - begin < RTT * 8, "{:?}", world.now - begin);
}
