//! How soon a connection is there, whatever the path loses, and what that costs a thin one:
//! docs/internals/wire.md
//! 5.2.3, 5.2.4, 5.2.5, 2.2.6.

use std::time::Duration;

use bytes::Bytes;
use fulmar_net::{Direction, LinkConfig, Loss, Probability, QueueConfig, QueueLimit, TwoState};
use fulmar_proto::{ConnectionHandle, Dir, Rate, TransportConfig};

use crate::common::{World, server_config};
use crate::work::link;

/// Attempts of which the slowest hundredth is looked at.
const ATTEMPTS: u64 = 500;

fn world(seed: u64, link: LinkConfig) -> World {
    World::new(seed, link, TransportConfig::default(), TransportConfig::default())
}

/// The client has heard that it is connected.
fn is_up(world: &World, handle: ConnectionHandle) -> bool {
    world.client.connections.get(&handle).is_some_and(|connection| !connection.is_handshaking())
}

/// Both ends have.
fn are_up(world: &World, handle: ConnectionHandle) -> bool {
    is_up(world, handle) && world.server.connections.values().any(|connection| !connection.is_handshaking())
}

/// How long it took until both ends were connected, sorted.
fn times(link: &LinkConfig) -> Vec<Duration> {
    let mut times: Vec<_> = (0..ATTEMPTS)
        .map(|seed| {
            let mut world = world(seed, link.clone());
            let begin = world.now;
            let handle = world.connect();
            let is_done = world.run_until(Duration::from_secs(60), |world| are_up(world, handle));
            assert!(is_done, "seed {seed}: {}", world.describe());
            world.now - begin
        })
        .collect();
    times.sort();
    times
}

/// A path of 100 Mb/s and 20 ms.
fn losing(loss: Loss) -> LinkConfig {
    link(100, 10).with_loss(loss)
}

fn bursts(percent: u32, length: u32) -> Loss {
    Loss::TwoState(TwoState::new(Probability::from_percent(percent), length * 1000).expect("a burst"))
}

#[test]
fn wire_5_2_3_a_client_is_connected_within_two_seconds_at_30_percent_and_in_bursts() {
    let at = |percent| Loss::bernoulli(Probability::from_percent(percent));
    for (what, loss, half_max, most_max) in [
        ("0 %", at(0), 0.04, 0.04),
        ("10 %", at(10), 0.05, 0.3),
        ("30 %", at(30), 0.15, 1.0),
        ("50 %", at(50), 0.3, 1.6),
        ("10 % in bursts of 4", bursts(10, 4), 0.05, 1.6),
        ("10 % in bursts of 10", bursts(10, 10), 0.05, 2.2),
    ] {
        let times = times(&losing(loss));
        let quantile = |per_mille: usize| times[times.len() * per_mille / 1000].as_secs_f64();
        let (half, tenth, most) = (quantile(500), quantile(900), quantile(990));
        println!("{what}: p50 {half:.3}, p90 {tenth:.3}, p99 {most:.3} s");
        assert!(half <= half_max && most <= most_max, "{what}: p50 {half}, p99 {most}");
    }
}

/// What a thin path has carried when the first byte of an answer is there, and when that is.
fn first_echo(seed: u64, kbps: u64) -> (Duration, [u64; 2]) {
    let queue = QueueConfig::DropTail(QueueLimit::Packets(20));
    let link = LinkConfig::new(Rate::from_bits_per_second(kbps * 1000), Duration::from_millis(150));
    let link = link.with_queue(queue).with_loss(Loss::bernoulli(Probability::from_percent(1)));
    let mut world = world(seed, link);
    let begin = world.now;
    let handle = world.connect();
    assert!(world.run_until(Duration::from_secs(60), |world| is_up(world, handle)));
    let client = world.client.only();
    let stream = client.open(Dir::Bi).expect("streams are allowed");
    client.write(stream, b"echo").expect("an open stream");
    let mut is_answered = false;
    let is_back = world.run_until(Duration::from_secs(60), |world| {
        let now = world.now;
        let server = world.server.connections.values_mut().find(|connection| !connection.is_handshaking());
        if let Some(server) = server.filter(|_| !is_answered)
            && let Some(stream) = server.accept(Dir::Bi)
        {
            server.write_chunk(stream, &mut Bytes::from_static(b"echo")).expect("an open stream");
            is_answered = true;
        }
        let mut echo = [0; 4];
        world
            .client
            .only()
            .read(now, stream, &mut echo)
            .is_ok_and(|read| matches!(read, fulmar_proto::stream::Read::Data(4)))
    });
    assert!(is_back, "seed {seed}: {}", world.describe());
    let sent = [Direction::Forward, Direction::Backward]
        .map(|direction| world.path.link(direction).stats().offered.bytes);
    (world.now - begin, sent)
}

#[test]
fn wire_5_2_4_a_thin_path_is_not_flooded_by_a_handshake() {
    for (kbps, seconds, kilobytes) in [(64, 2.5, [13, 10]), (32, 4.5, [16, 14])] {
        let mut echoes: Vec<_> = (0..50).map(|seed| first_echo(seed, kbps)).collect();
        echoes.sort();
        let (half, sent) = echoes[25];
        println!("{kbps} kb/s: p50 {half:?}, sent {sent:?}, last {:?}", echoes[49]);
        assert!(half.as_secs_f64() <= seconds, "{kbps} kb/s: {half:?}");
        for (sent, most) in sent.into_iter().zip(kilobytes) {
            assert!(sent <= most * 1000, "{kbps} kb/s: {sent} bytes");
        }
    }
}

/// Strangers who answered the Retry were sent 52 times what came from them, for a minute.
#[test]
fn wire_5_2_5_who_proves_an_address_and_says_no_more_is_sent_little_and_forgotten() {
    let mut world = world(1, link(100, 10));
    let mut config = server_config(TransportConfig::default());
    config.retry_above_handshakes = 0;
    world.restart_server(config);
    world.connect();
    let has_begun = |world: &mut World| !world.server.connections.is_empty();
    assert!(world.run_until(Duration::from_secs(5), has_begun));
    world.client.connections.clear();
    world.run_for(Duration::from_secs(9));
    let stats = world.server.only().stats();
    assert!((1..=3 * stats.wire.received_bytes).contains(&stats.wire.sent_bytes), "{stats:?}");
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.server.endpoint.connection_count(), 0);
}

/// A whole hello of somebody at `remote`, who says no more.
fn stranger(world: &mut World, remote: std::net::SocketAddr) {
    let (_, mut connection) = world
        .client
        .endpoint
        .connect(world.now, &world.client_config, world.server.addr, "x")
        .expect("an address");
    let mut hello = Vec::new();
    connection.poll_transmit(world.now, 1, &mut hello).expect("the client speaks first");
    world.ask_server(remote, hello);
}

/// However many handshakes one network has under way, others begin theirs; and its own clients wait a second.
#[test]
fn wire_2_2_6_one_network_does_not_take_the_place_of_all_others() {
    let mut world = world(1, link(100, 10));
    let mut config = server_config(TransportConfig::default());
    (config.handshakes_max, config.handshakes_per_network_max) = (30, 10);
    world.restart_server(config);
    let crowd = |world: &mut World, count: u32| {
        for host in 0..count {
            stranger(world, (std::net::Ipv4Addr::from(0x0b00_0000 + host % 256), 5000).into());
        }
    };
    crowd(&mut world, 100);
    assert_eq!(world.server.endpoint.connection_count(), 10);
    // A client of another network notices nothing; those of the same one are heard when the crowd has had its
    // second.
    world.connected();
    assert_eq!(world.server.endpoint.connection_count(), 11);
    world.run_for(Duration::from_secs(1));
    for round in 0..5 {
        crowd(&mut world, 10);
        world.run_for(Duration::from_millis(1100));
        assert!(world.server.endpoint.connection_count() <= 21, "round {round}");
    }
    world.run_for(Duration::from_secs(15));
    assert_eq!(world.server.endpoint.connection_count(), 1);
}
