//! From nothing to keys: docs/internals/wire.md 1.1, 2, 3.1, 4.1, 5.2.

use std::sync::Arc;
use std::time::Duration;

use fulmar_fec::{Code, CodeShape, Decoder, DecoderLimits, Encoder, RlcBlock};
use fulmar_net::{Datagram, Direction, Loss, Periodic, Probability};
use fulmar_proto::crypto::{self, Identity, PacketKeys, PublicKey, Refusal, VerifyPeer};
use fulmar_proto::wire::frame::{self, Close};
use fulmar_proto::wire::packet::{self, PacketHeader, Peeked};
use fulmar_proto::{
    ConnectionError, Event, PacketNumber, Profile, ServerConfig, Side, TransportConfig, TransportError,
    TransportErrorCode,
};

use crate::common::{World, client_config, server_config};
use crate::work::{PROFILES, link, lossy, profile, set_link, upload};

#[derive(Debug)]
struct Nobody;

impl VerifyPeer for Nobody {
    fn verify(&self, _: &PublicKey, _: &str) -> Result<(), Refusal> {
        Err(Refusal::Other("not on the list".into()))
    }
}

fn world(link: fulmar_net::LinkConfig) -> World {
    World::new(1, link, TransportConfig::default(), TransportConfig::default())
}

/// Runs until the client is told that the connection is over.
fn closed(world: &mut World) -> ConnectionError {
    let mut reason = None;
    world.run_until(Duration::from_secs(120), |world| {
        while let Some((_, event)) = world.client.events.pop_front() {
            if let Event::Closed(error) = event {
                reason = Some(error);
            }
        }
        reason.is_some()
    });
    reason.expect("the connection ends")
}

/// What the client sent first.
fn first_datagram(world: &mut World) -> Vec<u8> {
    let (handle, mut connection) = world
        .client
        .endpoint
        .connect(world.now, &world.client_config, world.server.addr, "server.test")
        .unwrap();
    let mut first = Vec::new();
    connection.poll_transmit(world.now, 1, &mut first).expect("the client speaks first");
    world.client.connections.insert(handle, connection);
    first
}

#[test]
fn wire_5_2_3_the_handshake_gets_through_half_of_all_packets_lost_both_ways() {
    let mut slowest = Duration::ZERO;
    for seed in 0..100 {
        let mut transport = TransportConfig::default();
        transport.handshake_timeout(Duration::from_secs(180)).expect("in range");
        let mut world = World::new(seed, lossy(10, 25, 50), transport.clone(), transport);
        let begin = world.now;
        let handle = world.connect();
        let is_up = world.run_until(Duration::from_secs(180), |w| {
            w.client.connections.get(&handle).is_some_and(|c| !c.is_handshaking())
                && w.server.connections.values().any(|c| !c.is_handshaking())
        });
        assert!(is_up, "seed {seed}: {}", world.describe());
        slowest = slowest.max(world.now - begin);
    }
    assert!(slowest < Duration::from_secs(60), "the slowest of a hundred took {slowest:?}");
}

/// Solymos 2014, section 3.6: SYN and SYNACK are repeated by a timer that doubles, five times, and then the
/// attempt is given up. That is `syn=1`.
#[test]
fn the_timer_of_a_profile_doubles_and_gives_up() {
    let mut transport = profile("dfcp:rate=20,syn=1");
    transport.handshake_timeout(Duration::from_secs(120)).expect("in range");
    let silent = link(10, 25).with_loss(Loss::Bernoulli(Probability::ONE));
    let mut world = World::new(1, silent, transport.clone(), transport.clone());
    let begin = world.now;
    let (handle, mut sent_at) = (world.connect(), Vec::new());
    let mut seconds = |world: &mut World| {
        let Some(client) = world.client.connections.get(&handle) else { return true };
        if client.stats().wire.sent_datagrams > sent_at.len() as u64 {
            sent_at.push((world.now - begin).as_secs());
        }
        client.is_closed()
    };
    assert!(world.run_until(Duration::from_secs(120), &mut seconds));
    assert_eq!(sent_at, [0, 1, 3, 7, 15, 31]);
    assert_eq!((world.now - begin).as_secs(), 63);
    assert_eq!(closed(&mut world), ConnectionError::TimedOut);
    // A lost ACK is covered by the repeated SYNACK: only the third flight is lost here.
    let mut world = World::new(1, link(10, 25), transport.clone(), transport);
    world.connect();
    set_link(&mut world, Direction::Forward, link(10, 25).with_loss(Loss::Bernoulli(Probability::ONE)));
    world.run_for(Duration::from_millis(500));
    set_link(&mut world, Direction::Forward, link(10, 25));
    let is_up = |w: &mut World| w.server.connections.values().any(|c| !c.is_handshaking());
    assert!(!is_up(&mut world) && world.run_until(Duration::from_secs(3), is_up), "{}", world.describe());
}

/// A microwave oven radiates for half of each period of the mains; other machines have other periods.
/// Whatever their phase, they must not meet every repetition of a flight, nor every answer.
#[test]
fn wire_5_2_3_no_periodic_interferer_takes_every_flight() {
    for period_ms in [10, 14, 20, 35, 60, 70, 120] {
        let period = Duration::from_millis(period_ms);
        for eighth in 0..8 {
            let oven =
                Periodic { period, on: period / 2, offset: period * eighth / 8, loss: Probability::ONE };
            let mut world = world(link(10, 10).with_loss(Loss::Periodic(oven)));
            let handle = world.connect();
            let is_up = world.run_until(Duration::from_secs(5), |w| {
                w.client.connections.get(&handle).is_some_and(|c| !c.is_handshaking())
                    && w.server.connections.values().any(|c| !c.is_handshaking())
            });
            assert!(is_up, "{period_ms} ms, phase {eighth}/8: {}", world.describe());
        }
    }
}

#[test]
fn wire_1_1_2_every_datagram_with_an_initial_packet_is_filled() {
    let mut world = world(link(10, 25));
    assert_eq!(first_datagram(&mut world).len(), 1200);
    let mut short = first_datagram(&mut world);
    short.pop();
    let addr = world.client.addr;
    assert_eq!((world.ask_server(addr, short), world.server.endpoint.connection_count()), (None, 0));
}

#[test]
fn wire_2_1_1_another_version_is_answered_with_those_spoken_here() {
    let mut world = world(link(10, 25));
    let mut datagram = first_datagram(&mut world);
    datagram[1..5].copy_from_slice(&[0x0a, 0x0a, 0x0a, 0x0a]);
    let addr = world.client.addr;
    let answer = world.ask_server(addr, datagram.clone()).expect("an answer");
    let Ok(Peeked::VersionNegotiation { versions, .. }) = packet::peek(&answer, 8) else {
        panic!("no negotiation")
    };
    assert_eq!(packet::versions(versions).collect::<Vec<_>>(), [packet::VERSION]);
    // Nothing to what could not have opened a connection (RFC 9000 6.1), and no state in any case.
    datagram.truncate(1199);
    assert_eq!((world.ask_server(addr, datagram), world.server.endpoint.connection_count()), (None, 0));
}

#[test]
fn wire_2_1_2_a_client_gives_up_if_its_version_is_not_spoken_and_ignores_what_makes_no_sense() {
    let mut world = world(link(10, 25));
    let first = first_datagram(&mut world);
    let Ok(Peeked::Long { dcid, scid, .. }) = packet::peek(&first, 8) else { panic!("a long header") };
    let mut negotiation = Vec::new();
    packet::put_version_negotiation(scid.as_bytes(), dcid.as_bytes(), 0, &mut negotiation);
    // It names the version the client speaks.
    world.tell_client(negotiation.clone());
    assert!(!world.client.only().is_closed());
    let at = negotiation.len() - 4;
    negotiation[at..].copy_from_slice(&[0, 0, 0, 9]);
    world.tell_client(negotiation);
    assert_eq!(closed(&mut world), ConnectionError::VersionMismatch);
}

#[test]
fn wire_2_2_under_load_a_client_proves_its_address_before_the_server_keeps_anything() {
    let mut world = world(lossy(10, 25, 10));
    let mut config = server_config(TransportConfig::default());
    config.retry_above_handshakes = 0;
    world.restart_server(config);
    let first = first_datagram(&mut world);
    let answer = world.ask_server(world.client.addr, first).expect("a Retry");
    assert!(
        answer.len() < 3 * 1200
            && matches!(packet::peek(&answer, 8), Ok(Peeked::Long { ty: packet::LongType::Retry, .. }))
    );
    assert_eq!(world.server.endpoint.connection_count(), 0);
    world.client.connections.clear();
    world.connected();
    upload(&mut world, 100_000);
}

/// A server that wants a proof of everybody's address.
fn suspicious() -> ServerConfig {
    let mut config = server_config(TransportConfig::default());
    config.retry_above_handshakes = 0;
    config
}

/// A world with 50 ms from end to end, at the time when the client's proof is on its way.
fn proving(config: ServerConfig) -> World {
    let mut world = world(link(10, 50));
    world.server.endpoint.set_server(Some(Arc::new(config)));
    world.connect();
    // Its first packet, the Retry, and a part of the third way.
    world.run_for(Duration::from_millis(120));
    assert!(world.server.connections.is_empty());
    world
}

#[test]
fn rfc_9000_8_1_2_a_client_whose_proof_is_refused_begins_anew() {
    let is_up = |world: &mut World| {
        world.run_until(Duration::from_secs(20), |w| {
            w.client.connections.values().all(|c| !c.is_handshaking()) && !w.server.connections.is_empty()
        }) && !world.client.only().is_closed()
    };
    // The server is another.
    let mut world = proving(suspicious());
    world.restart_server(suspicious());
    assert!(is_up(&mut world), "{}", world.describe());
    upload(&mut world, 100_000);
    // The NAT in between has forgotten the client.
    let mut world = proving(suspicious());
    world.rebind();
    assert!(is_up(&mut world), "{}", world.describe());
    upload(&mut world, 100_000);
    // The proof takes too long, once.
    let mut config = suspicious();
    config.token_lifetime = Duration::from_millis(150);
    let mut world = proving(config);
    set_link(&mut world, Direction::Forward, link(10, 50).with_loss(Loss::Bernoulli(Probability::ONE)));
    world.run_for(Duration::from_millis(300));
    set_link(&mut world, Direction::Forward, link(10, 50));
    assert!(is_up(&mut world), "{}", world.describe());
    upload(&mut world, 100_000);
}

#[test]
fn wire_4_1_3_whose_proof_is_refused_again_and_again_learns_why() {
    let mut config = suspicious();
    config.token_lifetime = Duration::from_millis(10);
    let mut world = proving(config);
    let error = closed(&mut world);
    assert!(
        matches!(&error, ConnectionError::PeerTransport(e) if e.code == TransportErrorCode::InvalidToken),
        "{error:?}"
    );
    assert_eq!(world.server.endpoint.connection_count(), 0);
}

#[test]
fn rfc_9000_17_2_5_first_packets_that_come_late_and_a_second_retry_change_nothing() {
    let mut world = world(link(10, 50));
    world.server.endpoint.set_server(Some(Arc::new(suspicious())));
    let first = first_datagram(&mut world);
    let addr = world.client.addr;
    let retries = [(); 2].map(|()| world.ask_server(addr, first.clone()).expect("a Retry"));
    assert_ne!(retries[0], retries[1]);
    world.tell_client(retries[0].clone());
    world.tell_client(retries[1].clone());
    // The server is at ease again, and takes the late packet for a client of its own.
    world.server.endpoint.set_server(Some(Arc::new(server_config(TransportConfig::default()))));
    assert_eq!(world.ask_server(addr, first.clone()), None);
    let is_up = world.run_until(Duration::from_secs(20), |w| !w.client.only().is_handshaking());
    assert!(is_up && !world.client.only().is_closed(), "{}", world.describe());
    world.tell_client(retries[1].clone());
    world.ask_server(addr, first);
    world.run_for(Duration::from_secs(1));
    assert!(!world.client.only().is_closed());
}

#[test]
fn wire_1_2_4_a_packet_of_a_server_with_a_token_is_discarded() {
    let mut world = world(link(10, 50));
    let first = first_datagram(&mut world);
    let Ok(Peeked::Long { dcid, scid, .. }) = packet::peek(&first, 8) else { panic!("a long header") };
    for (token, is_heard) in [(b"token".as_slice(), false), (b"".as_slice(), true)] {
        let mut refusal = Vec::new();
        let header = PacketHeader::Initial { dcid: scid, scid: dcid, token };
        let span = header.put(PacketNumber(0), &mut refusal);
        let error = TransportError::new(TransportErrorCode::ConnectionRefused, "");
        frame::put_close(&mut refusal, &Close::Transport(error), 100);
        refusal.resize(60 + token.len(), 0);
        PacketKeys::initial(&dcid, Side::Server).seal(PacketNumber(0), &mut refusal, span).expect("new keys");
        world.tell_client(refusal);
        assert_eq!(world.client.only().is_closed(), is_heard);
    }
}

#[test]
fn wire_2_2_a_flood_of_whole_hellos_is_answered_by_retry_at_default_settings() {
    let mut world = world(link(10, 25));
    let limit = server_config(TransportConfig::default()).retry_above_handshakes;
    // What is asked of the limit does not depend on how many are beyond it.
    let flood = limit as u32 + 100;
    let retries = flooded(&mut world, flood);
    assert_eq!(world.server.endpoint.connection_count(), limit);
    assert_eq!(retries, flood - limit as u32);
    // Whoever proves an address gets in meanwhile. A thousand that wait have nothing to do with it, and the
    // world would ask each of them at every step.
    world.server.connections.clear();
    world.connected();
    assert_eq!(world.server.endpoint.connection_count(), limit + 1);
}

#[test]
fn wire_2_2_strangers_that_say_hello_and_nothing_more_are_forgotten() {
    let mut world = world(link(10, 25));
    assert_eq!(flooded(&mut world, 20), 0);
    assert_eq!(world.server.endpoint.connection_count(), 20);
    // Ten seconds, and what a farewell to nobody takes.
    world.run_for(Duration::from_secs(14));
    assert_eq!(world.server.endpoint.connection_count(), 0);
}

/// So many strangers, each at an address of its own, send the server a whole hello. How many of them are told
/// to come again with a token.
fn flooded(world: &mut World, strangers: u32) -> u32 {
    let mut retries = 0;
    for stranger in 0..strangers {
        let hello = first_datagram(world);
        world.client.connections.clear();
        let remote = (std::net::Ipv4Addr::from(0x0b00_0000 + stranger), 5000).into();
        let answer = world.ask_server(remote, hello);
        let answer = answer.as_deref().map(|answer| packet::peek(answer, 8));
        retries += u32::from(matches!(answer, Some(Ok(Peeked::Long { ty: packet::LongType::Retry, .. }))));
    }
    retries
}

#[test]
fn rfc_9000_8_1_a_server_sends_at_most_thrice_what_it_received_before_the_address_is_validated() {
    let mut world = world(link(10, 25));
    world.connect();
    // Only the first datagram gets to the server.
    set_link(&mut world, Direction::Forward, link(10, 25).with_loss(Loss::Bernoulli(Probability::ONE)));
    world.run_for(Duration::from_secs(9));
    let stats = world.server.only().stats();
    assert_eq!(stats.wire.received_bytes, 1200);
    assert!(
        (1..=3600).contains(&stats.wire.sent_bytes),
        "{} bytes sent to a stranger",
        stats.wire.sent_bytes
    );
}

#[test]
fn wire_3_1_3_a_client_that_is_refused_learns_why() {
    let mut world = world(lossy(10, 25, 10));
    let mut config = server_config(TransportConfig::default());
    let identity = Identity::from_seed(&[2; 32]);
    config.crypto = Arc::new(crypto::ServerConfig::raw_key(&identity, Some(Arc::new(Nobody))));
    world.restart_server(config);
    world.connect();
    let error = closed(&mut world);
    assert!(
        matches!(&error, ConnectionError::PeerTransport(e) if e.code == TransportErrorCode::Tls(49)),
        "{error:?}"
    );
}

#[test]
fn wire_3_1_3_a_client_refuses_a_server_with_another_key() {
    let mut world = world(lossy(10, 25, 10));
    let identity = Identity::from_seed(&[1; 32]);
    world.client_config = client_config(TransportConfig::default());
    world.client_config.crypto = Arc::new(crypto::ClientConfig::raw_key(Some(&identity), Arc::new(Nobody)));
    world.connect();
    let error = closed(&mut world);
    assert!(
        matches!(&error, ConnectionError::Transport(e) if e.code == TransportErrorCode::Tls(46)),
        "{error:?}"
    );
}

#[test]
fn wire_9_a_full_server_refuses() {
    let mut world = world(link(10, 25));
    let mut config = server_config(TransportConfig::default());
    config.connections_max = 0;
    world.restart_server(config);
    world.connect();
    let error = closed(&mut world);
    let is_refusal = matches!(&error, ConnectionError::PeerTransport(e) if e.code == TransportErrorCode::ConnectionRefused);
    assert!(is_refusal && world.server.endpoint.connection_count() == 0, "{error:?}");
}

#[test]
fn wire_7_2_the_server_sends_with_its_clients_profile() {
    for name in PROFILES {
        for server in PROFILES {
            let mut world = World::new(1, lossy(10, 25, 5), profile(name), profile(server));
            world.connected();
            assert_eq!(world.server.only().stats().profile, name);
            upload(&mut world, 50_000);
            let mut own = profile(server);
            own.follows_peer_profile(false);
            let mut world = World::new(1, lossy(10, 25, 5), profile(name), own);
            world.connected();
            assert_eq!(world.server.only().stats().profile, server);
            upload(&mut world, 50_000);
        }
    }
}

/// A code that tells the other end what is not so.
#[derive(Debug)]
struct Liar(Vec<u32>);

impl Code for Liar {
    fn shape(&self) -> CodeShape {
        RlcBlock::new(32).unwrap().shape()
    }
    fn parameters(&self) -> Vec<u32> {
        self.0.clone()
    }
    fn encoder(&self, symbol_bytes: usize) -> Box<dyn Encoder> {
        RlcBlock::new(32).unwrap().encoder(symbol_bytes)
    }
    fn decoder(&self, symbol_bytes: usize, limits: DecoderLimits) -> Box<dyn Decoder> {
        RlcBlock::new(32).unwrap().decoder(symbol_bytes, limits)
    }
}

#[test]
fn wire_8_2_parameters_that_a_code_does_not_have_are_refused() {
    for (parameters, is_refused) in [
        (vec![32, 256, 1], false),
        (vec![0, 256, 1], true),
        (vec![32, 257, 1], true),
        (vec![32, 256, 2], true),
        (vec![32, 256], true),
        (vec![32, 256, 1, 1], true),
    ] {
        let mut lying = Profile::parse("cubic").expect("a name");
        lying.code = Arc::new(Liar(parameters.clone()));
        let mut transport = TransportConfig::default();
        transport.profile(lying);
        let mut world = World::new(1, link(10, 25), transport, TransportConfig::default());
        if !is_refused {
            world.connected();
            upload(&mut world, 50_000);
            continue;
        }
        world.connect();
        match closed(&mut world) {
            ConnectionError::PeerTransport(error) => {
                assert_eq!(error.code, TransportErrorCode::Parameters, "{parameters:?}");
                assert!(error.reason.contains("code 3"), "{}", error.reason);
            }
            other => panic!("{parameters:?}: {other}"),
        }
    }
}

#[test]
fn wire_1_1_6_noise_is_discarded_without_an_answer() {
    let mut world = world(link(10, 25));
    let handle = world.connected();
    let mut rng = fulmar_net::Rng::new(5, 0);
    for _ in 0..500 {
        let len = rng.below(1400) as usize;
        let mut contents: Vec<u8> = (0..len).map(|_| rng.draw() as u8).collect();
        if let Some(first) = contents.first_mut() {
            // Long headers of other versions are answered; everything else must look like nothing.
            *first &= 0x3f;
        }
        world.path.send(world.now, Direction::Forward, Datagram { contents, ..Datagram::default() });
    }
    world.run_for(Duration::from_secs(1));
    assert!(!world.client.connections[&handle].is_closed());
    upload(&mut world, 10_000);
}
