//! Bulk data over good and bad paths: what it costs, and what it survives.

use std::time::Duration;

use fulmar_net::{Direction, Intervals, Jitter, LinkConfig, Loss, Order, Probability, TwoState};
use fulmar_proto::{TransportConfig, profile_names};

use crate::common::World;
use crate::work::{PROFILES, Upload, connected, link, lossy, profile, set_link, upload};

#[test]
fn nothing_is_sent_twice_on_a_path_that_loses_nothing() {
    for name in PROFILES {
        // A queue that never overflows: nothing is lost there either.
        let mut link = link(50, 10);
        link.queue = fulmar_net::QueueConfig::DropTail(fulmar_net::QueueLimit::Packets(100_000));
        let mut world = World::new(1, link, profile(name), profile(name));
        world.connected();
        upload(&mut world, 3_000_000);
        let stats = world.client.only().stats();
        let sent = stats.coding_sent;
        assert_eq!(
            (sent.repairs_sent(), sent.probes, stats.recovery.lost_packets),
            (0, 0, 0),
            "{name}: {stats:?}"
        );
        let server = world.server.only().stats();
        assert_eq!(server.coding_received.redundant, 0);
        assert_eq!(stats.wire.undecryptable_packets + stats.wire.duplicate_packets, 0);
        // The last ones may be under way.
        let acks = stats.wire.acks_received;
        assert!(
            acks > 100 && (acks..acks + 10).contains(&server.wire.acks_sent),
            "{acks} {}",
            server.wire.acks_sent
        );
    }
}

/// The upload checks every byte. A fountain needs a rate: here nothing else says how fast a host can send.
#[test]
fn every_profile_brings_everything_over_a_path_that_loses_in_bursts() {
    let burst = TwoState::new(Probability::from_percent(5), 2000).expect("a chain");
    let path = link(20, 20).with_loss(Loss::TwoState(burst));
    for name in profile_names() {
        let name = if name.starts_with("dfcp") { format!("{name}:rate=15") } else { name.to_owned() };
        let mut world = World::new(5, path.clone(), profile(&name), profile(&name));
        world.connected();
        upload(&mut world, 300_000);
        let stats = world.client.only().stats();
        assert_eq!(stats.profile, name);
    }
}

/// As many symbols are under way as the receiver retains, so that copies come when it may have forgotten what
/// stood beside them. Combinations that arrive in vain were counted as if they had restored something, which
/// was found out one symbol a round trip: 4.8 s, where 2.0 are left now.
#[test]
fn a_receiver_that_retains_what_is_under_way_and_no_more_is_no_reason_to_stand_still() {
    let mut config = profile("auto");
    config.decoder_symbols(1024).expect("a thousand");
    let mut world = World::new(7, lossy(200, 30, 14), config.clone(), config);
    world.connected();
    let begin = world.now;
    upload(&mut world, 30_000_000);
    let took = world.now - begin;
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[test]
fn bytes_come_out_right_whatever_the_path_does() {
    let burst = TwoState::new(Probability::from_percent(20), 5000).expect("a chain");
    let mut ways: Vec<LinkConfig> = vec![lossy(20, 20, 20), link(20, 20).with_loss(Loss::TwoState(burst))];
    let mut copies = lossy(20, 20, 2);
    copies.duplicate = Probability::from_percent(30);
    let mut damaged = link(20, 20);
    damaged.corrupt = Probability::from_percent(10);
    ways.extend([
        copies,
        damaged,
        link(20, 20).with_jitter(Jitter::Exponential(Duration::from_millis(10)), Order::Free),
    ]);
    for way in ways {
        for name in PROFILES {
            let mut world = World::new(3, way.clone(), profile(name), profile(name));
            world.connected();
            upload(&mut world, 400_000);
        }
    }
}

#[test]
fn rfc_9002_6_1_reordering_costs_little_and_losses_that_were_none_are_taken_back() {
    let time = |jitter| {
        let mut world = connected(1, link(20, 20).with_jitter(jitter, Order::Free));
        let time = upload(&mut world, 4_000_000);
        let link = world.path.link_mut(Direction::Forward).stats().clone();
        (time, world.client.only().stats(), link)
    };
    let (straight, ..) = time(Jitter::None);
    let (jittered, stats, link) = time(Jitter::Uniform(Duration::from_millis(10)));
    let recovery = stats.recovery;
    assert!(recovery.spurious_packets > 0, "{stats:?}");
    // Nothing but what the queue dropped was really lost: only what is still being sorted out has not been
    // taken back.
    let dropped = link.dropped.packets;
    assert!(recovery.lost_packets - recovery.spurious_packets < dropped + 20, "{dropped}: {stats:?}");
    assert!(dropped * 50 < link.offered.packets, "{link:?}");
    assert!(jittered < straight * 5 / 4, "{jittered:?} with reordering, {straight:?} without");
}

#[test]
fn black_outs_of_seconds_are_survived() {
    for name in PROFILES {
        let mut world = World::new(1, lossy(20, 20, 1), profile(name), profile(name));
        world.connected();
        let (from, until) = (world.now + Duration::from_millis(300), world.now + Duration::from_millis(4300));
        for direction in Direction::BOTH {
            let mut dark = lossy(20, 20, 1);
            dark.blackouts = Intervals::new([(from, until)]);
            set_link(&mut world, direction, dark);
        }
        let mut work = Upload::new(&mut world, 3_000_000);
        assert!(world.run_until(Duration::from_secs(60), |w| work.step(w)), "{name}: {}", world.describe());
        let resumed = work.done_at.expect("done") - until;
        assert!(resumed < Duration::from_secs(15), "{name} needed {resumed:?} after the light came back");
    }
}

#[test]
fn wire_5_5_1_datagrams_come_at_most_once_and_are_not_repeated() {
    let mut path = lossy(20, 20, 10);
    path.duplicate = Probability::from_percent(10);
    let mut world = connected(1, path);
    let (mut sent, mut heard) = (0u32, std::collections::BTreeSet::new());
    world.run_until(Duration::from_secs(10), |world| {
        if sent < 1000
            && world.client.only().send_datagram(bytes::Bytes::copy_from_slice(&sent.to_be_bytes())).is_ok()
        {
            sent += 1;
        }
        while let Some(data) = world.server.only().recv_datagram() {
            let number = u32::from_be_bytes(data[..].try_into().expect("four bytes"));
            assert!(number < sent && heard.insert(number), "{number} came twice");
        }
        false
    });
    assert_eq!(sent, 1000);
    assert!((850..950).contains(&heard.len()), "{} of 1000 came at 10 % loss", heard.len());
    // One with the ids that the client may be called, none with what was lost.
    assert!(world.client.only().stats().coding_sent.sources <= 1);
}

/// Wi-Fi that scans for other networks: it stands still for 1.22 s, and after 0.48 s for 0.85 s more, with a
/// bulk flow beside the datagrams. A queue of 1 MiB was full before the path had emptied it, and nobody saw
/// where the packets had gone.
#[test]
fn a_queue_of_datagrams_outlives_a_path_that_stands_still_twice() {
    let mut path = link(40, 40);
    let mut world = connected(1, path.clone());
    let at = |ms: u64| world.now + Duration::from_millis(ms);
    let (begin, end) = (world.now, at(6000));
    let still = Intervals::new([(at(2000), at(3220)), (at(3700), at(4550))]);
    path.stalls = fulmar_net::Stalls::At(still);
    Direction::BOTH.into_iter().for_each(|direction| set_link(&mut world, direction, path.clone()));
    let mut bulk = Upload::new(&mut world, 60_000_000);
    let (mut next, mut refused, mut sent, mut heard) = (begin, 0, 0, 0);
    world.run_until(Duration::from_secs(9), |world| {
        bulk.step(world);
        // Ten megabits a second: a stall is worth more than the limit of 1 MiB.
        while next <= world.now && next < end {
            next += Duration::from_micros(900);
            match world.client.only().send_datagram(bytes::Bytes::from_static(&[7; 1100])) {
                Ok(()) => sent += 1,
                Err(_) => refused += 1,
            }
        }
        heard += std::iter::from_fn(|| world.server.only().recv_datagram()).count();
        world.now >= end + Duration::from_secs(2)
    });
    assert!(sent > 6000 && refused == 0, "{sent} sent, {refused} refused");
    // The path's own queue overflows when it wakes up; that is congestion, and is not this queue's.
    assert!(heard * 100 >= sent * 97, "{heard} of {sent} came");
    assert_eq!(world.client.only().stats().datagrams.outgrown, 0);
}

#[test]
fn wire_5_5_1_a_peer_without_datagrams_is_not_sent_any() {
    let mut none = TransportConfig::default();
    none.datagram_buffer_bytes(0).expect("in range");
    let mut world = World::new(1, link(20, 20), TransportConfig::default(), none);
    world.connected();
    assert_eq!(world.client.only().datagram_bytes_max(), None);
    assert!(world.client.only().send_datagram(bytes::Bytes::from_static(b"x")).is_err());
}

#[test]
fn both_directions_at_once() {
    let mut world = connected(2, lossy(20, 20, 5));
    let mut up = Upload::new(&mut world, 500_000);
    let down = world.server.only().open(fulmar_proto::Dir::Uni).expect("allowed");
    let (mut written, mut got, total) = (0, 0, 500_000);
    let data = vec![7; 1 << 16];
    let is_done = world.run_until(Duration::from_secs(60), |world| {
        let now = world.now;
        let is_up = up.step(world);
        while written < total
            && let Ok(n) = world.server.only().write(down, &data[..data.len().min(total - written)])
        {
            written += n;
        }
        let client = world.client.only();
        while client.accept(fulmar_proto::Dir::Uni).is_some() {}
        let mut out = vec![0; 1 << 16];
        while let Ok(fulmar_proto::stream::Read::Data(n)) = client.read(now, down, &mut out) {
            got += n;
        }
        is_up && got == total
    });
    assert!(is_done, "{}", world.describe());
}
