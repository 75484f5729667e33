//! Strict priority, stalls and policers as a link has them.

mod common;

use common::*;
use fulmar_net::*;

fn probe(serial: u64, flow: u64) -> Probe {
    Probe { flow, ..Probe::new(serial, at(ms(0))) }
}

#[test]
fn the_urgent_overtake_in_the_queue_and_push_others_out_of_a_full_one() {
    let queue = QueueConfig::Priority(QueueLimit::Packets(3));
    let mut link = Link::new(LinkConfig { queue, ..LinkConfig::new(mbit(12), ms(0)) }, 1);
    // The first is being sent at once; three wait; the urgent fifth takes the place of the newest of the
    // others.
    for (serial, flow) in [(0, 0), (1, 0), (2, 0), (3, 2), (4, 1), (5, 0)] {
        link.send(at(ms(0)), probe(serial, flow));
    }
    let order: Vec<u64> = drain(&mut link).iter().map(|(_, probe)| probe.serial).collect();
    assert_eq!(order, [0, 3, 4, 1]);
    assert_eq!(link.stats().dropped.packets, 2);
}

#[test]
fn a_stalled_link_holds_what_comes_and_lets_it_out_at_once() {
    let stalls = parse::model::stalls("10ms-40ms").expect("stalls");
    let config = LinkConfig { stalls, ..LinkConfig::new(mbit(12), ms(5)) };
    let (link, out) = run(config, 1, 50, ms(1));
    assert_conserved(&link);
    let at_end = out.iter().filter(|(when, _)| *when == at(ms(40))).count();
    assert!((30..=32).contains(&at_end), "{at_end}");
    assert!(out.iter().all(|(when, _)| *when < at(ms(10)) || *when >= at(ms(40))));
    assert_eq!((out.len(), link.stats().reordered.packets), (50, 0));
}

#[test]
fn a_policer_drops_what_exceeds_it_and_delays_nothing() {
    let policer = Some(Policer { rate: mbit(6), burst_bytes: 15_000 });
    let (link, out) = run(LinkConfig { policer, ..LinkConfig::default() }, 1, 1000, ms(1));
    assert_conserved(&link);
    // 12 Mb/s are offered: the bucket's ten packets, then every second one.
    assert!((508..=512).contains(&out.len()), "{}", out.len());
    assert!(out.iter().all(|(when, probe)| *when == probe.sent));
    assert_eq!(link.stats().dropped.packets, 0);
}
