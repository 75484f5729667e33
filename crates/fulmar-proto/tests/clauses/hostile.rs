//! What a peer that is let in cannot make this end do, at default settings: docs/security.md.

use std::time::Duration;

use fulmar_fec::SymbolId;
use fulmar_net::{Datagram, Direction, Loss, Probability};
use fulmar_proto::stream::Read;
use fulmar_proto::wire::frame;
use fulmar_proto::wire::symbol::SymbolFrame;
use fulmar_proto::{
    AllowedProfiles, ConnectionError, Dir, PacketNumber, Profile, TransportConfig, profile_names,
};

use crate::common::World;
use crate::work::{byte, link, lossy, profile, set_link, upload};

/// Bytes from the server to the client, read to the end.
fn download(world: &mut World, bytes: u64) {
    let data: Vec<u8> = (0..bytes).map(byte).collect();
    let server = world.server.only();
    let id = server.open(Dir::Uni).expect("a stream");
    assert_eq!(server.write(id, &data).expect("room"), data.len());
    server.finish(id).expect("not finished before");
    let mut read = Vec::new();
    let is_done = world.run_until(Duration::from_secs(60), |world| {
        let now = world.now;
        let mut out = vec![0; 64 << 10];
        while let Ok(Read::Data(len)) = world.client.only().read(now, id, &mut out) {
            read.extend_from_slice(&out[..len]);
        }
        read.len() == data.len()
    });
    assert!(is_done && read == data, "{} of {bytes} bytes: {}", read.len(), world.describe());
}

/// A server that sends without end to a client that is connected and reads nothing.
fn flooding(client: TransportConfig, server: TransportConfig) -> World {
    let mut world = World::new(3, link(100, 10), client, server);
    world.connected();
    world.run_for(Duration::from_secs(1));
    let server = world.server.only();
    for _ in 0..12 {
        let id = server.open(Dir::Uni).expect("a stream");
        assert_eq!(server.write(id, &[7; 1 << 18]), Ok(1 << 18));
    }
    world
}

#[test]
fn wire_6_4_a_credit_smaller_than_before_is_ignored() {
    let mut world = World::new(1, link(100, 10), TransportConfig::default(), TransportConfig::default());
    world.connected();
    let mut frames = Vec::new();
    frame::put_source_header(&mut frames, SymbolId(100));
    SymbolFrame::MaxData(5).put(&mut frames);
    SymbolFrame::MaxStreams { dir: Dir::Uni, max: 0 }.put(&mut frames);
    let contents = world.client.only().forge_packet(&frames).expect("keys");
    let now = world.now;
    world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
    world.run_for(Duration::from_millis(50));
    download(&mut world, 100_000);
}

#[test]
fn a_peer_s_word_selects_only_what_obeys_congestion_unless_more_is_allowed() {
    for name in profile_names() {
        let obeys = !["bbr", "no-cc", "lt-tcp", "dfcp", "dfcp-raptorq"].contains(&name);
        assert_eq!(Profile::parse(name).unwrap().obeys_congestion, obeys, "{name}");
        for (allowed, is_followed) in [
            (AllowedProfiles::Obeying, obeys),
            (AllowedProfiles::Named(vec![name.into()]), true),
            (AllowedProfiles::Named(vec!["no-cc".into()]), obeys || name == "no-cc"),
            (AllowedProfiles::All, true),
        ] {
            let mut server = TransportConfig::default();
            server.allowed_profiles(allowed);
            let mut world = World::new(1, lossy(10, 25, 2), profile(name), server);
            world.connected();
            let sends_with = world.server.only().stats().profile;
            assert_eq!(sends_with, if is_followed { name } else { "auto" });
            // What is refused costs nothing but the speed.
            upload(&mut world, 50_000);
            download(&mut world, 50_000);
        }
    }
}

#[test]
fn without_an_ack_a_sender_falls_to_probes_and_then_to_nothing_whatever_the_profile() {
    for name in
        ["dfcp-raptorq:rate=100,persistent=1", "dfcp:rate=100,persistent=1", "no-cc", "lt-tcp", "auto"]
    {
        let mut server = TransportConfig::default();
        server.allowed_profiles(AllowedProfiles::All);
        let mut world = flooding(profile(name), server);
        assert_eq!(world.server.only().stats().profile, name);
        // The client dies.
        let nothing = || link(100, 10).with_loss(Loss::Bernoulli(Probability::ONE));
        set_link(&mut world, Direction::Forward, nothing());
        world.run_for(Duration::from_secs(2));
        let before = world.server.only().stats().wire.sent_bytes;
        assert!(before < 8 << 20, "{name}: {before} bytes in two seconds to an address that is dead");
        world.run_for(Duration::from_secs(20));
        let probes = world.server.only().stats().wire.sent_bytes - before;
        assert!(probes < 100_000, "{name}: {probes} bytes of probes in 20 s");
        world.run_for(Duration::from_secs(20));
        assert!(world.server.connections.is_empty(), "{name}: {}", world.describe());
    }
}

#[test]
fn rfc_9000_21_4_an_ack_of_a_number_that_was_skipped_ends_the_connection() {
    let mut world = flooding(TransportConfig::default(), TransportConfig::default());
    let begin = world.server.only().stats().wire.sent_datagrams;
    set_link(&mut world, Direction::Backward, link(100, 10).with_loss(Loss::Bernoulli(Probability::ONE)));
    // Everything is acknowledged before it can have arrived. Numbers are no lower than the count of
    // datagrams.
    for _ in 0..1000 {
        let sent = world.server.only().stats().wire.sent_datagrams;
        if world.server.only().is_closed() {
            break;
        }
        let ranges = [(PacketNumber(0), PacketNumber(sent.saturating_sub(10)))];
        let mut ack = Vec::new();
        assert!(frame::put_ack(&mut ack, ranges.into_iter(), 0, None, None, 1000));
        let contents = world.client.only().forge_packet(&ack).expect("keys");
        let now = world.now;
        world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
        world.run_for(Duration::from_millis(5));
    }
    let server = world.server.only();
    match server.close_reason() {
        Some(ConnectionError::Transport(error)) => assert!(error.reason.contains("skipped"), "{error}"),
        other => panic!("{other:?} after {} datagrams", server.stats().wire.sent_datagrams - begin),
    }
    let sent = server.stats().wire.sent_datagrams - begin;
    assert!(sent < 500, "{sent} datagrams to somebody who received none");
}

/// Lets the client say this many times what nobody sound would, and hear nothing of what the server answers.
fn say(world: &mut World, times: u32, frames: &[u8]) {
    set_link(world, Direction::Backward, link(100, 10).with_loss(Loss::Bernoulli(Probability::ONE)));
    set_link(world, Direction::Forward, link(10_000, 1));
    for _ in 0..times {
        let contents = world.client.only().forge_packet(frames).expect("keys");
        let now = world.now;
        world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
        world.run_for(Duration::from_micros(100));
    }
    world.run_for(Duration::from_millis(10));
    assert!(!world.server.only().is_closed());
}

#[test]
fn empty_datagrams_fill_the_buffer_too() {
    let mut world = World::new(1, link(100, 10), TransportConfig::default(), TransportConfig::default());
    world.connected();
    let mut frames = Vec::new();
    (0..300).for_each(|_| frame::put_datagram(&mut frames, b""));
    say(&mut world, 300, &frames);
    let server = world.server.only();
    assert!(server.receive_memory_bytes() < 4 << 20, "{} bytes", server.receive_memory_bytes());
    let kept = std::iter::from_fn(|| server.recv_datagram()).count();
    assert!(kept <= (1 << 20) / 32, "{kept} of 90,000 are kept, in a buffer of 1 MiB");
}

#[test]
fn wire_5_6_5_symbols_of_datagrams_take_bounded_memory() {
    let whole = |flags: u8, len: usize| [&[flags][..], &vec![7; len]].concat();
    for (name, frames) in [
        // Pieces of a datagram that never begins or never ends.
        ("middle", (0..4).map(|_| whole(0, 280)).collect::<Vec<_>>()),
        ("begins", (0..4).map(|_| whole(1, 280)).collect()),
        (
            "in order",
            (0..4).map(|_| whole(15, 0).into_iter().chain([0x80, 0, 0xea, 0x60]).collect()).collect(),
        ),
    ] {
        let mut world = World::new(1, link(100, 10), TransportConfig::default(), TransportConfig::default());
        world.connected();
        for round in 0..100u16 {
            let mut packet = Vec::new();
            for (index, symbol) in frames.iter().enumerate() {
                // Every second one is missing.
                frame::put_coded_datagram(&mut packet, round * 8 + index as u16 * 2, symbol);
            }
            say(&mut world, 1, &packet);
        }
        // Equations about what never comes.
        for round in 0..400u16 {
            let mut packet = Vec::new();
            frame::put_datagram_repair(&mut packet, 790 + round % 8, 100, round as u8, &[9; 1300]);
            say(&mut world, 1, &packet);
        }
        let held = world.server.only().receive_memory_bytes();
        assert!(held < 700_000, "{name}: {held} bytes");
    }
}

#[test]
fn wire_5_6_5_symbols_of_datagrams_that_make_no_sense_end_the_connection() {
    let symbol = |id: u16, symbol: &[u8]| {
        let mut out = Vec::new();
        frame::put_coded_datagram(&mut out, id, symbol);
        out
    };
    let repair = |len: u8, payload: &[u8]| {
        let mut out = Vec::new();
        frame::put_datagram_repair(&mut out, 0, len, 1, payload);
        out
    };
    let none = [repair(0, b"x"), repair(129, b"x"), symbol(0, b""), symbol(0, &[16]), symbol(0, &[8])];
    let many = (0..17).flat_map(|id| symbol(id, &[3])).collect::<Vec<_>>();
    // One symbol missing, and what is restored says that it is longer than it is.
    let garbage = [symbol(1, &[3, 1]), repair(1, &[255; 5])].concat();
    // Both are known, and the repair symbol is of others.
    let contradiction = [symbol(0, &[3, 1]), repair(2, &[3; 5]), symbol(1, &[3, 2])].concat();
    for frames in none.into_iter().chain([many, garbage, contradiction]) {
        let mut world = World::new(1, link(100, 10), TransportConfig::default(), TransportConfig::default());
        world.connected();
        let contents = world.client.only().forge_packet(&frames).expect("keys");
        let now = world.now;
        world.path.send(now, Direction::Forward, Datagram { contents, ..Datagram::default() });
        world.run_for(Duration::from_millis(50));
        assert!(world.server.only().is_closed(), "{frames:?}");
    }
}

#[test]
fn what_is_answered_takes_no_memory_until_an_ack_that_never_comes() {
    for (what, frames) in [
        ("PING", vec![1]),
        ("PATH_CHALLENGE", {
            let mut challenge = Vec::new();
            frame::put_path_challenge(&mut challenge, 7);
            challenge
        }),
    ] {
        let mut world = World::new(1, link(100, 10), TransportConfig::default(), TransportConfig::default());
        world.connected();
        // Something that is never acknowledged.
        let server = world.server.only();
        let id = server.open(Dir::Uni).expect("a stream");
        assert_eq!(server.write(id, b"never acknowledged"), Ok(18));
        say(&mut world, 5000, &frames);
        let held = world.server.only().receive_memory_bytes();
        assert!(held < 50_000, "{what}: {held} bytes after 5000 packets of 30");
    }
}
#[test]
fn packets_whose_fate_a_peer_does_not_tell_take_bounded_memory() {
    // A fast fountain with a code that makes of one small symbol as many copies as there is room for.
    let mut client = profile("dfcp-raptorq:rate=2000,persistent=1");
    client.forge_parameters(|parameters| {
        parameters.codes_sent = vec![fulmar_fec::CodeId(2)];
        parameters.code_parameters = vec![16, 8];
    });
    let mut server = TransportConfig::default();
    server.allowed_profiles(AllowedProfiles::All);
    let mut world = World::new(1, link(10_000, 6), client, server);
    world.connected();
    world.run_for(Duration::from_millis(500));
    let server = world.server.only();
    let id = server.open(Dir::Uni).expect("a stream");
    server.write(id, b"small").expect("room");
    set_link(&mut world, Direction::Forward, link(10, 6).with_loss(Loss::Bernoulli(Probability::ONE)));
    world.run_for(Duration::from_secs(1));
    let held = world.server.only().receive_memory_bytes();
    assert!(
        held < 9 << 20,
        "{held} bytes held for {} datagrams",
        world.server.only().stats().wire.sent_datagrams
    );
}
