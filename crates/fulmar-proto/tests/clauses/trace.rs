//! The log of single packets agrees with what a connection counts.

use std::collections::BTreeSet;

use fulmar_proto::{Connection, PacketEvent, PacketEventKind, PacketSpace, TransportConfig};

use crate::common::World;
use crate::work::{lossy, profile, upload};

const EVENTS_MAX: usize = 1 << 20;

fn traced(name: &str) -> TransportConfig {
    profile(name).trace_packets(Some(EVENTS_MAX)).clone()
}

/// All that a log says is what the counts say.
fn agree(connection: &mut Connection) -> Vec<PacketEvent> {
    let (events, omitted) = connection.take_packet_events();
    let stats = connection.stats();
    assert_eq!(omitted, 0);
    let events = Vec::from(events);
    let (mut sent, mut sent_bytes, mut symbols) = (BTreeSet::new(), 0, 0);
    let (mut received, mut lost) = (0, 0);
    for event in &events {
        match event.kind {
            PacketEventKind::Sent { packet, content, .. } => {
                assert!(sent.insert((packet.space as u8, packet.number)));
                sent_bytes += u64::from(packet.bytes);
                symbols += u64::from(content.is_some_and(|content| content.name() == "source"));
            }
            PacketEventKind::Received { .. } => received += 1,
            PacketEventKind::Lost { packet } => {
                assert!(sent.contains(&(PacketSpace::Data as u8, packet.number)));
                lost += 1;
            }
            _ => {}
        }
    }
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_eq!((sent_bytes, lost), (stats.wire.sent_bytes, stats.recovery.lost_packets));
    assert_eq!(received, stats.wire.opened_packets - stats.wire.duplicate_packets);
    assert_eq!(symbols, stats.coding_sent.sources);
    events
}

#[test]
fn every_packet_that_is_counted_has_its_event() {
    for name in ["auto", "newreno", "lt-tcp"] {
        let mut world = World::new(3, lossy(20, 20, 5), traced(name), traced(name));
        world.connected();
        upload(&mut world, 1_000_000);
        world.settle();
        let client = agree(world.client.only());
        let server = agree(world.server.only());
        // Some 700 packets, of which one in twenty is lost.
        let lost = client.iter().filter(|event| matches!(event.kind, PacketEventKind::Lost { .. })).count();
        assert!(lost > 10 && server.len() > 500, "{name}: {lost} {}", server.len());
    }
}

#[test]
fn a_log_that_nobody_reads_is_bounded_and_says_what_it_left_out() {
    let mut few = profile("auto");
    few.trace_packets(Some(50));
    let mut world = World::new(3, lossy(20, 20, 5), few, profile("auto"));
    world.connected();
    upload(&mut world, 100_000);
    let (events, omitted) = world.client.only().take_packet_events();
    assert!(events.len() == 50 && omitted > 100, "{omitted}");
    // Where nothing was asked for there is nothing.
    assert_eq!(world.server.only().take_packet_events(), Default::default());
}
