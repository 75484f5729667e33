//! What thin flows cost: packets and bytes for each datagram.

use std::time::Duration;

use bytes::Bytes;
use fulmar_net::LinkConfig;

use crate::common::World;
use crate::work::{connected, lossy};

/// A game, or a call: so many datagrams of this length a second, each way.
const PER_SECOND: u32 = 60;
const BYTES: usize = 120;
const SECONDS: u32 = 60;
/// IPv4 and UDP.
const HEADERS_BYTES: u64 = 28;

/// Packets, and bytes with their IP headers, that both ends send for each datagram. The latter as a multiple
/// of what the datagram takes without us.
fn cost(path: LinkConfig, is_two_way: bool) -> (f64, f64) {
    let mut world = connected(1, path);
    world.run_for(Duration::from_secs(1));
    let counted = |world: &mut World| {
        let ends = [world.client.only().stats(), world.server.only().stats()];
        let packets: u64 = ends.iter().map(|end| end.wire.sent_datagrams).sum();
        (packets, ends.iter().map(|end| end.wire.sent_bytes).sum::<u64>() + packets * HEADERS_BYTES)
    };
    let before = counted(&mut world);
    let data = Bytes::from_static(&[7; BYTES]);
    let mut sent = 0;
    for _ in 0..SECONDS * PER_SECOND {
        world.client.only().send_datagram(data.clone()).expect("room for it");
        sent += 1;
        if is_two_way {
            // Not at the same moment.
            world.run_for(Duration::from_millis(5));
            world.server.only().send_datagram(data.clone()).expect("room for it");
            sent += 1;
        }
        let spent = if is_two_way { Duration::from_millis(5) } else { Duration::ZERO };
        world.run_for(Duration::from_secs(1) / PER_SECOND - spent);
        while world.client.only().recv_datagram().is_some() {}
        while world.server.only().recv_datagram().is_some() {}
    }
    let after = counted(&mut world);
    let sent = f64::from(sent);
    let own_bytes = sent * (BYTES as f64 + HEADERS_BYTES as f64);
    ((after.0 - before.0) as f64 / sent, (after.1 - before.1) as f64 / own_bytes)
}

#[test]
fn a_thin_flow_of_datagrams_costs_little_more_than_its_datagrams() {
    for rtt_ms in [1, 20, 100] {
        for (percent, is_two_way, packets_max, bytes_max) in [
            (0, true, 1.1, 1.5),
            (0, false, 1.7, 1.7),
            (1, true, 1.2, 1.6),
            (10, true, 1.6, 2.0),
            (10, false, 2.0, 2.0),
        ] {
            let (packets, bytes) = cost(lossy(20, rtt_ms, percent), is_two_way);
            println!(
                "{rtt_ms} ms, {percent} %, two ways {is_two_way}: {packets:.2} packets, {bytes:.2} x the bytes"
            );
            assert!(
                packets <= packets_max && bytes <= bytes_max,
                "{rtt_ms} ms, {percent} %, two ways {is_two_way}: {packets:.2} packets, {bytes:.2} x the bytes"
            );
        }
    }
}
