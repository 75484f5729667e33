//! How connections end: docs/internals/wire.md 4.2, 5.5.3, 5.5.4, RFC 9000 10.

use std::time::Duration;

use bytes::Bytes;
use fulmar_net::{Direction, Loss, Probability};
use fulmar_proto::{ConnectionError, Event, TransportConfig};

use crate::common::{Node, World, server_config};
use crate::work::{PROFILES, Upload, connected, link, lossy, profile, set_link, upload};

fn close_reason(node: &mut Node) -> Option<ConnectionError> {
    node.events.iter().find_map(|(_, event)| match event {
        Event::Closed(reason) => Some(reason.clone()),
        _ => None,
    })
}

fn transport(idle_s: Option<u64>, keep_alive_s: Option<u64>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.idle_timeout(idle_s.map(Duration::from_secs)).expect("in range");
    transport.keep_alive(keep_alive_s.map(Duration::from_secs)).expect("in range");
    transport
}

#[test]
fn an_orderly_end_delivers_everything_first() {
    for name in PROFILES {
        for percent in [0, 20] {
            let mut world = World::new(4, lossy(20, 20, percent), profile(name), profile(name));
            world.connected();
            let mut work = Upload::new(&mut world, 200_000);
            work.write(&mut world);
            let now = world.now;
            world.client.only().shutdown(now, 5, Bytes::from_static(b"done"));
            assert!(!world.client.only().is_closed());
            assert!(
                world.run_until(Duration::from_secs(60), |w| {
                    work.read(w);
                    work.done_at.is_some()
                }),
                "{name}"
            );
            world.run_until(Duration::from_secs(60), |w| close_reason(&mut w.server).is_some());
            let told = ConnectionError::ApplicationClosed { code: 5, reason: Bytes::from_static(b"done") };
            assert_eq!(close_reason(&mut world.server), Some(told), "{name} at {percent} %");
            assert_eq!(close_reason(&mut world.client), Some(ConnectionError::LocallyClosed));
        }
    }
}

#[test]
fn wire_5_5_3_a_close_is_told_with_its_reason_and_then_there_is_silence() {
    let mut world = connected(1, link(20, 20));
    let now = world.now;
    world.server.only().close(now, 99, Bytes::from_static(b"enough"));
    world.run_for(Duration::from_millis(100));
    let told = ConnectionError::ApplicationClosed { code: 99, reason: Bytes::from_static(b"enough") };
    assert_eq!(close_reason(&mut world.client), Some(told));
    world.run_for(Duration::from_secs(5));
    assert!(world.client.connections.is_empty() && world.server.connections.is_empty());
    assert_eq!((world.client.endpoint.connection_count(), world.server.endpoint.connection_count()), (0, 0));
}

/// Three of RFC 9002's probe timeouts, RFC 9000 10.2 says: three retransmission timeouts are three seconds,
/// for which a program would not end.
#[test]
fn rfc_9000_10_2_what_has_ended_is_soon_gone_whatever_the_profile_s_timeout() {
    for name in ["auto", "tcp-fec", "lt-tcp", "newreno:timeout=rto"] {
        let mut world = World::new(1, link(20, 20), profile(name), profile(name));
        world.connected();
        let now = world.now;
        world.client.only().close(now, 0, Bytes::new());
        world.run_for(Duration::from_millis(500));
        assert!(world.client.connections.is_empty() && world.server.connections.is_empty(), "{name}");
    }
}

#[test]
fn wire_5_5_3_the_close_is_repeated_while_packets_keep_coming() {
    let mut world = connected(1, link(20, 20));
    let mut work = Upload::new(&mut world, 50_000_000);
    world.run_until(Duration::from_secs(1), |w| work.step(w));
    // The first close is lost.
    set_link(&mut world, Direction::Backward, link(20, 20).with_loss(Loss::Bernoulli(Probability::ONE)));
    let now = world.now;
    world.server.only().close(now, 1, Bytes::new());
    world.settle();
    set_link(&mut world, Direction::Backward, link(20, 20));
    let is_told = world.run_until(Duration::from_secs(1), |w| close_reason(&mut w.client).is_some());
    assert!(is_told, "{}", world.describe());
}

#[test]
fn rfc_9000_10_1_silence_ends_a_connection_after_the_smaller_of_both_timeouts() {
    let mut world = World::new(1, link(20, 20), transport(Some(20), None), transport(Some(10), None));
    world.connected();
    let begin = world.now;
    world.run_until(Duration::from_secs(60), |w| w.client.connections.values().all(|c| c.is_closed()));
    let took = world.now - begin;
    assert!((Duration::from_secs(9)..Duration::from_secs(12)).contains(&took), "{took:?}");
    assert_eq!(close_reason(&mut world.client), Some(ConnectionError::TimedOut));
}

#[test]
fn keep_alive_keeps_a_connection_alive_and_a_dead_peer_is_noticed() {
    let mut world = World::new(1, lossy(20, 20, 20), transport(Some(10), Some(3)), transport(Some(10), None));
    world.connected();
    world.run_for(Duration::from_secs(120));
    assert!(!world.client.only().is_closed() && !world.server.only().is_closed());
    world.server.connections.clear();
    world.run_for(Duration::from_secs(30));
    assert_eq!(close_reason(&mut world.client), Some(ConnectionError::TimedOut));
}

#[test]
fn wire_4_2_a_server_that_has_forgotten_says_so() {
    let mut world = connected(1, lossy(20, 20, 10));
    let mut work = Upload::new(&mut world, 5_000_000);
    world.run_until(Duration::from_millis(300), |w| work.step(w));
    world.restart_server(server_config(TransportConfig::default()));
    let is_told = world.run_until(Duration::from_secs(5), |w| {
        work.write(w);
        close_reason(&mut w.client).is_some()
    });
    assert!(is_told && close_reason(&mut world.client) == Some(ConnectionError::Reset));
}

#[test]
fn wire_4_2_2_a_reset_is_shorter_than_what_it_answers_and_too_short_packets_get_none() {
    let mut world = connected(1, link(20, 20));
    let packet = world.client.only().forge_packet(&[0; 40]).expect("keys");
    world.restart_server(server_config(TransportConfig::default()));
    let addr = world.client.addr;
    for len in 0..packet.len() {
        if let Some(reset) = world.ask_server(addr, packet[..len].to_vec()) {
            assert!((29..len).contains(&reset.len()), "{} bytes for {len}", reset.len());
        } else {
            assert!(len <= 30, "no reset for {len} bytes");
        }
    }
}

#[test]
fn what_was_delivered_before_the_end_can_be_read_after_it() {
    let mut world = connected(1, link(20, 20));
    let mut work = Upload::new(&mut world, 50_000);
    work.write(&mut world);
    let now = world.now;
    world.client.only().shutdown(now, 0, Bytes::new());
    world.run_until(Duration::from_secs(5), |w| close_reason(&mut w.server).is_some());
    work.read(&mut world);
    assert!(work.done_at.is_some(), "only {} bytes", work.read);
}

#[test]
fn connections_follow_each_other_at_one_endpoint() {
    let mut world = World::new(1, lossy(20, 20, 10), TransportConfig::default(), TransportConfig::default());
    for _ in 0..20 {
        world.connected();
        upload(&mut world, 5000);
        let now = world.now;
        world.client.only().close(now, 0, Bytes::new());
        let is_over = |w: &mut World| w.client.connections.is_empty() && w.server.connections.is_empty();
        assert!(world.run_until(Duration::from_secs(60), is_over), "{}", world.describe());
    }
    assert_eq!((world.client.endpoint.connection_count(), world.server.endpoint.connection_count()), (0, 0));
}

/// Solymos 2014, section 3.11: FIN is repeated by a timer that doubles, five times, and then given up. Here
/// the end of a stream is data, so that it is the timeout of data: `timeout=rto`, and an idle timeout of 1 +
/// 2 + .. + 32 s.
#[test]
fn by_the_timeout_of_tcp_an_end_is_told_again_five_times() {
    let mut transport = profile("dfcp:rate=20,timeout=rto");
    transport.idle_timeout(Some(Duration::from_secs(63))).expect("in range");
    let mut world = World::new(1, link(20, 20), transport.clone(), transport);
    world.connected();
    upload(&mut world, 5000);
    world.run_for(Duration::from_secs(1));
    set_link(&mut world, Direction::Forward, link(20, 20).with_loss(Loss::Bernoulli(Probability::ONE)));
    let mut end = Upload::new(&mut world, 1);
    end.write(&mut world);
    world.settle();
    let (begin, mut sent) = (world.now, world.client.only().stats().wire.sent_datagrams);
    let mut sent_at = Vec::new();
    world.run_until(Duration::from_secs(120), |world| {
        let now =
            world.client.connections.values().next().map_or(0, |client| client.stats().wire.sent_datagrams);
        if now > sent {
            sent_at.push((world.now - begin).as_secs());
        }
        sent = now;
        close_reason(&mut world.client).is_some()
    });
    // The block goes at once, and at each timeout again.
    sent_at.dedup();
    assert_eq!(sent_at, [0, 1, 3, 7, 15, 31]);
    assert_eq!((world.now - begin).as_secs(), 63);
    assert_eq!(close_reason(&mut world.client), Some(ConnectionError::TimedOut));
}

/// A program that gave up an attempt waited 3 s for an answer to its farewell.
#[test]
fn wire_5_5_4_who_never_heard_the_peer_says_one_word_and_is_gone() {
    let silent = link(10, 25).with_loss(Loss::Bernoulli(Probability::ONE));
    let mut world = World::new(1, silent, TransportConfig::default(), TransportConfig::default());
    let handle = world.connect();
    world.run_for(Duration::from_millis(200));
    let (now, client) = (world.now, world.client.only());
    let sent = client.stats().wire.sent_datagrams;
    client.close(now, 0, Bytes::new());
    assert!(
        world.run_until(Duration::from_millis(1), |world| !world.client.connections.contains_key(&handle))
    );
    let offered = world.path.link(Direction::Forward).stats().offered.packets;
    assert_eq!((world.client.endpoint.connection_count(), offered), (0, sent + 1));
}
