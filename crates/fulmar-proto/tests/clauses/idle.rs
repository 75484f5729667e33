//! What a connection costs that is kept and not used.

use std::time::Duration;

use fulmar_net::Direction;
use fulmar_proto::TransportConfig;

use crate::common::World;
use crate::work::{Upload, link, lossy, set_link};

const SECOND: Duration = Duration::from_secs(1);

/// As `fulmar` has them: the client keeps the connection, the server only answers.
fn ends(trial_s: u64) -> (TransportConfig, TransportConfig) {
    let mut server = TransportConfig::default();
    server.idle_timeout(Some(SECOND * 180)).expect("in range");
    server.answer_timeout(Some(SECOND * 30)).expect("in range");
    let mut client = server.clone();
    client.keep_alive(Some(SECOND * 5)).expect("in range");
    client.keep_alive_idle(Some(SECOND * 26)).expect("in range");
    client.keep_alive_trial(Some(Duration::from_secs(trial_s))).expect("in range");
    (client, server)
}

/// A connection that was in use until now.
fn used(trial_s: u64) -> World {
    let (client, server) = ends(trial_s);
    let mut world = World::new(1, link(20, 20), client, server);
    world.connected();
    let mut work = Upload::new(&mut world, 100_000);
    assert!(world.run_until(SECOND * 10, |w| work.step(w)));
    world
}

/// What an hour cost: bytes with IPv4 and UDP headers, both ways; wake-ups of each end; the client's longest
/// silence.
struct Cost {
    bytes: u64,
    wake_ups: [u32; 2],
    silence: Duration,
    /// How often the NAT had forgotten.
    forgotten: u32,
}

/// An idle hour behind a NAT that forgets a silence of so many seconds.
fn idle_hour(world: &mut World, remembers_s: u64) -> Cost {
    let sent = |world: &mut World| {
        let [client, server] = [world.client.only().stats(), world.server.only().stats()];
        let datagrams = client.wire.sent_datagrams + server.wire.sent_datagrams;
        (client.wire.sent_datagrams, client.wire.sent_bytes + server.wire.sent_bytes + 28 * datagrams)
    };
    let (mut datagrams, bytes) = sent(world);
    let (mut wake_ups, mut forgotten) = ([0; 2], 0);
    let (mut sent_at, mut silence) = (world.now, Duration::ZERO);
    let end = world.now + SECOND * 3600;
    while world.now < end {
        let due = [world.client.only().poll_timeout(), world.server.only().poll_timeout()];
        let forgets_at = sent_at + Duration::from_secs(remembers_s);
        let is_forgotten = world.now >= forgets_at;
        if !is_forgotten && due.iter().flatten().all(|at| *at > forgets_at) && forgets_at < end {
            // Before anything else happens: what is sent next comes from another port.
            world.now = forgets_at;
            world.rebind();
            forgotten += 1;
        }
        world.step(end);
        for (count, at) in wake_ups.iter_mut().zip(due) {
            *count += u32::from(at.is_some_and(|at| at <= world.now));
        }
        let (now_sent, _) = sent(world);
        if now_sent > datagrams {
            silence = silence.max(world.now - sent_at);
            (datagrams, sent_at) = (now_sent, world.now);
        }
    }
    let (_, after) = sent(world);
    Cost { bytes: after - bytes, wake_ups, silence, forgotten }
}

/// Both ends sent a sign of life every five seconds: 204 to 250 kB an hour.
#[test]
fn an_idle_hour_costs_little_and_no_nat_forgets() {
    let mut world = used(26);
    let Cost { bytes, wake_ups, silence, forgotten } = idle_hour(&mut world, 30);
    println!("{bytes} bytes, {wake_ups:?} wake-ups, {silence:?} of silence");
    assert!(bytes <= 42_000, "{bytes} bytes");
    assert!(wake_ups.iter().all(|count| *count <= 150), "{wake_ups:?} wake-ups");
    assert!(silence <= SECOND * 27 && forgotten == 0, "{silence:?} of silence, forgotten {forgotten} times");
    assert!(!world.client.only().is_closed() && !world.server.only().is_closed());
    let mut work = Upload::new(&mut world, 100_000);
    assert!(world.run_until(SECOND, |w| work.step(w)), "it is still good");
}

#[test]
fn a_silence_grows_as_far_as_the_nat_remembers() {
    for (remembers_s, silences_s) in [(600, 80..=91), (60, 35..=85), (30, 25..=40)] {
        let mut world = used(90);
        let first = idle_hour(&mut world, remembers_s);
        assert!(first.forgotten <= 1, "{remembers_s}: forgotten {} times", first.forgotten);
        let next = idle_hour(&mut world, remembers_s);
        println!(
            "{remembers_s}: {:?}, then {:?} of silence, {} bytes",
            first.silence, next.silence, next.bytes
        );
        assert!(silences_s.contains(&next.silence.as_secs()), "{remembers_s}: {:?}", next.silence);
        assert_eq!(next.forgotten, 0, "{remembers_s}");
        let mut work = Upload::new(&mut world, 100_000);
        assert!(world.run_until(SECOND, |w| work.step(w)), "it is still good");
    }
}

/// Probes go on, and other ports are wanted ever more seldom: nothing is due again and again.
#[test]
fn an_hour_without_an_answer_ends_if_nobody_gives_up() {
    let patient = |mut ends: TransportConfig| {
        ends.idle_timeout(None).expect("never");
        ends.answer_timeout(None).expect("never");
        ends
    };
    let (client, server) = ends(26);
    let mut world = World::new(1, link(20, 20), patient(client), patient(server));
    world.connected();
    let mut work = Upload::new(&mut world, 100_000_000);
    assert!(!world.run_until(SECOND, |w| work.step(w)));
    Direction::BOTH.into_iter().for_each(|way| set_link(&mut world, way, lossy(20, 20, 100)));
    let (end, mut steps) = (world.now + SECOND * 3600, 0);
    while world.now < end {
        world.step(end);
        steps += 1;
        assert!(steps < 200_000, "at {:?}", world.now);
    }
    println!("{steps} steps");
    assert!(!world.client.only().is_closed());
}
