//! What connections are called: docs/internals/wire.md 1.3.2, 6.6.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use fulmar_proto::wire::packet::{self, Peeked};
use fulmar_proto::{ConnectionError, ConnectionId, ConnectionIds, Event, Profile, TransportConfig};

use crate::common::{Node, World, server_config};
use crate::work::{Upload, connected, link, lossy, profile, upload};

fn elsewhere(place: u8) -> SocketAddr {
    SocketAddr::from(([10, 9, 8, place], 5555))
}

fn move_client(world: &mut World, place: u8) {
    world.move_client(elsewhere(place));
    let now = world.now;
    world.client.only().handle_path_change(now);
}

/// What the next packet of this end is addressed to, whose receiver's ids have `cid_bytes`.
fn next_id(node: &mut Node, now: fulmar_proto::Instant, cid_bytes: usize) -> ConnectionId {
    node.only().ping();
    let mut packet = Vec::new();
    node.only().poll_transmit(now, 1, &mut packet).expect("a packet with a PING");
    match packet::peek(&packet, cid_bytes) {
        Ok(Peeked::Short { dcid }) => dcid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn wire_6_6_from_another_address_neither_end_is_called_what_it_was_called_before() {
    let mut world = connected(1, lossy(20, 20, 10));
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for place in 1..8 {
        upload(&mut world, 20_000);
        world.run_for(Duration::from_secs(2));
        let now = world.now;
        let ids = [next_id(&mut world.client, now, 8), next_id(&mut world.server, now, 8)];
        for (seen, id) in seen.iter_mut().zip(ids) {
            assert!(seen.insert(id), "{id:?} again, at place {place}");
        }
        assert!(world.server.endpoint.connection_id_count() <= 3 + 2 + 1);
        assert!(world.client.endpoint.connection_id_count() <= 3 + 2);
        move_client(&mut world, place);
    }
    let now = world.now;
    world.client.only().close(now, 0, bytes::Bytes::new());
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.server.endpoint.connection_id_count() + world.client.endpoint.connection_id_count(), 0);
}

#[test]
fn wire_6_6_who_moves_too_often_keeps_the_last_id_it_has() {
    let mut world = connected(1, link(20, 50));
    world.run_for(Duration::from_secs(1));
    let mut work = Upload::new(&mut world, 500_000);
    for place in 1..30 {
        world.run_until(Duration::from_millis(3), |world| work.step(world));
        move_client(&mut world, place);
    }
    assert!(world.run_until(Duration::from_secs(60), |w| work.step(w)), "{}", world.describe());
}

#[test]
fn wire_1_3_2_a_server_s_ids_have_the_length_and_the_beginning_that_it_wants() {
    for bytes in 8..=20 {
        let prefix = &b"a balancer's"[..bytes - 8];
        for (name, must_prove) in
            [("auto", false), ("auto", true), ("dfcp:rate=20", false), ("tcp-fec", true)]
        {
            let mut config = server_config(TransportConfig::default());
            if must_prove {
                config.retry_above_handshakes = 0;
            }
            let mut world = World::new(1, lossy(20, 20, 10), profile(name), TransportConfig::default());
            world.restart_server_as(ConnectionIds::new(prefix, bytes).expect("allowed"), config);
            world.connected();
            upload(&mut world, 100_000);
            move_client(&mut world, 1);
            upload(&mut world, 100_000);
            let now = world.now;
            let id = next_id(&mut world.client, now, bytes);
            assert!(id.wire_bytes() == bytes && id.as_bytes().starts_with(prefix), "{id:?}");
            assert_eq!(next_id(&mut world.server, now, 8).wire_bytes(), 8);
        }
    }
    for (prefix, bytes) in [(b"".as_slice(), 7), (b"", 21), (b"123456789", 16), (b"1", 8)] {
        assert_eq!(ConnectionIds::new(prefix, bytes), None);
    }
}

#[test]
fn wire_5_5_2_a_move_at_any_time_of_the_handshake_is_followed() {
    for (percent, seed) in [(0, 1), (20, 2), (40, 3)] {
        for at_ms in (0..400).step_by(13) {
            let mut transport = TransportConfig::default();
            transport.profile(Profile::parse("auto").expect("a name"));
            let mut world = World::new(seed, lossy(20, 50, percent), transport.clone(), transport);
            world.connect();
            world.run_for(Duration::from_millis(at_ms));
            world.rebind();
            let is_up = world.run_until(Duration::from_secs(30), |w| {
                !w.client.only().is_handshaking()
                    && w.server.connections.values().any(|c| !c.is_handshaking())
            });
            assert!(is_up, "{percent} %, {at_ms} ms: {}", world.describe());
            upload(&mut world, 30_000);
            let addr = world.client_addr();
            assert!(world.server.connections.values().any(|c| c.remote() == addr), "{percent} %, {at_ms} ms");
        }
    }
}

#[test]
fn wire_4_2_4_the_token_of_the_id_in_use_ends_a_connection_that_has_moved() {
    let mut world = connected(1, link(20, 20));
    upload(&mut world, 20_000);
    move_client(&mut world, 1);
    upload(&mut world, 20_000);
    world.restart_server(server_config(TransportConfig::default()));
    world.client.only().ping();
    world.run_for(Duration::from_secs(1));
    let events = &world.client.events;
    assert!(events.iter().any(|(_, e)| *e == Event::Closed(ConnectionError::Reset)), "{}", world.describe());
}
