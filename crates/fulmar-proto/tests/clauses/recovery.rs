//! Losses: how soon they are repaired, and what for.

use std::time::Duration;

use fulmar_net::{Direction, LinkConfig, Loss, LossPattern};
use fulmar_proto::Dir;

use crate::common::World;
use crate::work::{PROFILES, Upload, connected, link, lossy, profile, set_link, upload};

/// A link that loses the packets with these numbers, counted from now.
fn losing(link: LinkConfig, lost: impl IntoIterator<Item = usize>) -> LinkConfig {
    let mut pattern = vec![false; 10_000];
    lost.into_iter().for_each(|at| pattern[at] = true);
    link.with_loss(Loss::Pattern(LossPattern::new(pattern)))
}

#[test]
fn the_lost_tail_of_a_message_is_repaired_within_about_one_and_a_half_round_trips() {
    const RTT: Duration = Duration::from_millis(100);
    // Half a round trip there, 1.5 until the probe, half back. Of several packets the probe restores one, and
    // its ACK tells of the others.
    for (name, lost, limit) in
        PROFILES.iter().flat_map(|&name| [(name, 1, RTT * 5 / 2), (name, 3, RTT * 7 / 2)])
    {
        let mut world = World::new(1, link(100, 50), profile(name), profile(name));
        world.connected();
        // An RTT must be known, and the initial flight of packets must be over.
        upload(&mut world, 100_000);
        world.run_for(Duration::from_secs(1));
        set_link(&mut world, Direction::Forward, losing(link(100, 50), 10 - lost..10));
        let begin = world.now;
        let mut message = Upload::new(&mut world, 11_000);
        assert!(world.run_until(Duration::from_secs(5), |w| message.step(w)));
        let took = world.now - begin;
        let ack_delay = Duration::from_millis(50);
        assert!(took < limit + ack_delay, "{name}: the lost tail of {lost} came after {took:?}");
    }
}

#[test]
fn a_loss_in_the_middle_is_repaired_in_one_round_trip() {
    const RTT: Duration = Duration::from_millis(100);
    let mut world = connected(1, link(100, 50));
    upload(&mut world, 200_000);
    world.run_for(Duration::from_secs(1));
    set_link(&mut world, Direction::Forward, losing(link(100, 50), [2]));
    let begin = world.now;
    let mut message = Upload::new(&mut world, 11_000);
    assert!(world.run_until(Duration::from_secs(5), |w| message.step(w)));
    let took = world.now - begin;
    assert!(took < RTT * 3 / 2 + Duration::from_millis(40), "the hole was closed after {took:?}");
    // Its copy, and at most an protection or two.
    assert!((1..=3).contains(&world.client.only().stats().coding_sent.repairs_sent()));
}

#[test]
fn repair_that_is_asked_for_is_as_much_as_was_lost() {
    // docs/internals/wire.md 5.4.1: a copy for each symbol lost, and no other.
    for name in ["newreno", "cubic"] {
        let mut world = World::new(1, link(20, 20), profile(name), profile(name));
        world.connected();
        upload(&mut world, 100_000);
        world.run_for(Duration::from_secs(1));
        set_link(&mut world, Direction::Forward, losing(link(20, 20), [5, 9, 10, 11, 30]));
        let before = world.client.only().stats().coding_sent;
        upload(&mut world, 100_000);
        let after = world.client.only().stats().coding_sent;
        assert_eq!((after.lost - before.lost, after.copies - before.copies), (5, 5), "{name}");
    }
}

#[test]
fn rfc_6582_losses_of_packets_under_way_together_are_one_recovery() {
    // 20 Mbit/s and 20 ms: some 35 packets are under way, so the loss of the 10th is known long before the
    // 70th is sent.
    for (lost, recoveries) in [(&[10, 14, 15, 16][..], 1), (&[10, 70], 2)] {
        let mut world = World::new(1, link(20, 20), profile("newreno"), profile("newreno"));
        world.connected();
        upload(&mut world, 100_000);
        world.run_for(Duration::from_secs(1));
        set_link(&mut world, Direction::Forward, losing(link(20, 20), lost.iter().copied()));
        let before = world.client.only().stats();
        upload(&mut world, 200_000);
        let after = world.client.only().stats();
        assert_eq!(after.recovery.lost_packets - before.recovery.lost_packets, lost.len() as u64);
        assert_eq!(after.recovery.recoveries - before.recovery.recoveries, recoveries, "{lost:?}");
    }
}

/// What its groups repair, TCP-FEC does not enter fast recovery for (Sato 2019, section 4.3).
#[test]
fn a_loss_that_a_code_repairs_is_no_fast_recovery() {
    for (name, recoveries) in [("newreno", 2), ("tcp-fec", 0), ("no-cc", 0)] {
        let mut world = World::new(1, link(20, 20), profile(name), profile(name));
        world.connected();
        upload(&mut world, 100_000);
        world.run_for(Duration::from_secs(1));
        set_link(&mut world, Direction::Forward, losing(link(20, 20), [10, 70]));
        let before = world.client.only().stats();
        upload(&mut world, 200_000);
        let after = world.client.only().stats();
        assert_eq!(after.recovery.lost_packets - before.recovery.lost_packets, 2, "{name}");
        assert_eq!(after.recovery.recoveries - before.recovery.recoveries, recoveries, "{name}");
    }
}

#[test]
fn wire_3_3_keys_are_renewed_in_the_middle_of_a_transfer() {
    let mut world = connected(1, lossy(20, 20, 10));
    let mut work = Upload::new(&mut world, 1_000_000);
    let (mut updates, mut next) = (0, world.now);
    let is_done = world.run_until(Duration::from_secs(60), |world| {
        if world.now >= next {
            next = world.now + Duration::from_millis(100);
            updates += u32::from(world.client.only().initiate_key_update());
            updates += u32::from(world.server.only().initiate_key_update());
        }
        work.step(world)
    });
    assert!(is_done && updates > 4, "{updates} updates: {}", world.describe());
    assert_eq!(world.server.only().stats().wire.undecryptable_packets, 0);
}

#[test]
fn start_up_is_over_also_where_flow_control_leaves_nothing_to_send() {
    // Two bandwidth-delay products: they fill the path, and are less than start-up would have under way.
    let mut transport = profile("auto");
    transport.stream_receive_window_bytes(1 << 20).expect("in range");
    let mut world = World::new(1, lossy(100, 20, 2), transport.clone(), transport);
    world.connected();
    let mut work = Upload::new(&mut world, 200_000_000);
    let is_over = world.run_until(Duration::from_secs(8), |world| {
        work.step(world);
        world.client.only().stats().phase != "startup"
    });
    assert!(is_over, "{}", world.describe());
}

#[test]
fn while_acks_are_lost_in_bursts_little_goes_twice() {
    let mut world = World::new(1, link(7, 1), profile("auto"), profile("auto"));
    world.connected();
    let bursts = (0..10_000).filter(|at| at % 90 >= 71);
    set_link(&mut world, Direction::Backward, losing(link(7, 1), bursts));
    upload(&mut world, 3_000_000);
    let sent = world.client.only().stats().wire.sent_bytes as f64 / 3e6;
    assert!(sent < 1.2, "{sent} bytes sent for each that was to arrive: {}", world.describe());
}

#[test]
fn a_hundred_kilobytes_take_two_flights_where_the_round_trip_is_long() {
    const RTT: Duration = Duration::from_millis(500);
    let mut world = World::new(1, link(100, 250), profile("auto"), profile("auto"));
    world.connected();
    let begin = world.now;
    upload(&mut world, 100_000);
    let took = world.now - begin;
    assert!(took < RTT * 9 / 4, "it took {took:?}");
}

#[test]
fn poll_timeout_is_the_time_of_the_next_action() {
    // Rule 5 of the core. The world asks in between whether there is something to send, and refuses to be
    // called for nothing.
    for name in PROFILES {
        let mut world = World::new(1, lossy(20, 20, 10), profile(name), profile(name));
        world.checks_silence = true;
        world.connected();
        upload(&mut world, 500_000);
        world.run_for(Duration::from_secs(20));
    }
}

#[test]
fn an_idle_connection_is_silent() {
    let mut world = connected(1, lossy(20, 20, 10));
    upload(&mut world, 100_000);
    world.run_for(Duration::from_secs(5));
    let sent = |world: &mut World| {
        world.client.only().stats().wire.sent_datagrams + world.server.only().stats().wire.sent_datagrams
    };
    let before = sent(&mut world);
    world.run_for(Duration::from_secs(20));
    assert_eq!(sent(&mut world), before);
}

#[test]
fn delivered_comes_when_the_peer_has_everything() {
    let mut world = connected(1, lossy(20, 20, 10));
    let id = world.client.only().open(Dir::Uni).expect("allowed");
    world.client.events.clear();
    world.client.only().write(id, &[1; 10_000]).expect("room");
    let is_told = world.run_until(Duration::from_secs(10), |world| {
        world.client.events.iter().any(|(_, event)| *event == fulmar_proto::Event::Delivered)
    });
    assert!(is_told && !world.client.only().has_unacked());
    assert_eq!(world.server.only().stats().streams.received_bytes, 10_000);
}
