//! Who gets how much of a shared link, against the bounds of the papers.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use fulmar_net::*;
use fulmar_units::Instant;

/// A flow that sends a packet of `bytes` each `gap`.
#[derive(Copy, Clone)]
struct Source {
    flow: u64,
    bytes: u32,
    gap: Duration,
}

/// Runs sources for `time` over a link and returns it with what came out by then.
fn share(queue: QueueConfig, sources: &[Source], time: Duration) -> (Link<Probe>, Vec<(Instant, Probe)>) {
    let mut link = Link::new(LinkConfig::new(mbit(12), ms(1)).with_queue(queue), 1);
    let mut out = Vec::new();
    let mut next: Vec<Instant> = vec![Instant::ZERO; sources.len()];
    let mut serial = 0;
    loop {
        let index = (0..sources.len()).min_by_key(|&index| (next[index], index)).expect("a source");
        let now = next[index];
        if now > at(time) {
            return (link, out);
        }
        while let Some(due) = link.poll_timeout().filter(|&due| due <= now) {
            out.extend(std::iter::from_fn(|| link.poll_deliver(due)).map(|probe| (due, probe)));
        }
        let Source { flow, bytes, gap } = sources[index];
        link.send(now, Probe { flow, bytes, ..Probe::new(serial, now) });
        assert_conserved(&link);
        serial += 1;
        next[index] = now + gap;
    }
}

fn bytes_per_flow(out: &[(Instant, Probe)]) -> BTreeMap<u64, u64> {
    let mut bytes = BTreeMap::new();
    for (_, probe) in out {
        *bytes.entry(probe.flow).or_default() += u64::from(probe.bytes);
    }
    bytes
}

fn assert_flows_keep_order(out: &[(Instant, Probe)]) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, probe) in out {
        assert!(last.insert(probe.flow, probe.serial).is_none_or(|before| before < probe.serial));
    }
}

/// Three flows, each alone enough to fill the link, with packets of different size and different greed.
const GREEDY: [Source; 3] = [
    Source { flow: 10, bytes: 1500, gap: us(1000) },
    Source { flow: 20, bytes: 700, gap: us(250) },
    Source { flow: 30, bytes: 300, gap: us(150) },
];

#[test]
fn drop_tail_favours_the_greedy() {
    let (_, out) = share(QueueConfig::DropTail(QueueLimit::Bytes(60_000)), &GREEDY, ms(4000));
    let bytes = bytes_per_flow(&out);
    assert!(bytes[&20] > bytes[&10] * 3 / 2, "{bytes:?}");
}

#[test]
fn deficit_round_robin_shares_bytes() {
    let config = DrrConfig { limit: QueueLimit::Bytes(60_000), quantum_bytes: 1500 };
    let (_, out) = share(QueueConfig::Drr(config), &GREEDY, ms(4000));
    assert_flows_keep_order(&out);
    let bytes = bytes_per_flow(&out);
    let (least, most) = (bytes.values().min().expect("three"), bytes.values().max().expect("three"));
    // Shreedhar and Varghese, theorem: backlogged flows differ by at most a quantum and two packets; and the
    // start, until all are backlogged, by a few packets more.
    assert!(most - least <= 1500 + 2 * 1500 + 6 * 1500, "{bytes:?}");
}

#[test]
fn weighted_fair_queueing_shares_by_weight() {
    let weights = BTreeMap::from([(10, 3), (20, 2)]);
    let config = WfqConfig { limit: QueueLimit::Bytes(60_000), weights };
    let (_, out) = share(QueueConfig::Wfq(config), &GREEDY, ms(4000));
    assert_flows_keep_order(&out);
    let bytes = bytes_per_flow(&out);
    let normalised = [bytes[&10] / 3, bytes[&20] / 2, bytes[&30]];
    let spread = normalised.iter().max().expect("three") - normalised.iter().min().expect("three");
    // Golestani, theorem 1: L1/w1 + L2/w2 while both are backlogged; the start as above. 4 s carry 1,000,000
    // per weight.
    assert!(spread <= 500 + 350 + 300 + 6 * 1500, "{bytes:?}");
}

#[test]
fn stochastic_fair_queueing_shares_packets_between_lists() {
    let config = SfqConfig { limit: QueueLimit::Packets(60), buckets: 1024 };
    let equal: Vec<Source> =
        (0..4).map(|flow| Source { flow, bytes: 1500, gap: us(700 + 300 * flow) }).collect();
    let (_, out) = share(QueueConfig::Sfq(config), &equal, ms(4000));
    assert_flows_keep_order(&out);
    let packets: Vec<u64> = bytes_per_flow(&out).values().map(|bytes| bytes / 1500).collect();
    // 4000 packets. Each sends more than its quarter (one per 4 ms), so each gets it, but for the start.
    assert!(packets.iter().all(|n| (990..=1010).contains(n)), "{packets:?}");

    // In one list it is first in, first out, where the fastest sender gets most.
    let one = SfqConfig { limit: QueueLimit::Packets(60), buckets: 1 };
    let (_, out) = share(QueueConfig::Sfq(one), &equal, ms(4000));
    let packets: Vec<u64> = bytes_per_flow(&out).values().map(|bytes| bytes / 1500).collect();
    assert!(packets[0] > packets[3] * 3 / 2, "{packets:?}");
}

/// One flow far above its share, one far below it: the second must not notice the first.
#[test]
fn a_modest_flow_is_untouched_by_a_greedy_one() {
    let sources = [Source { flow: 1, bytes: 1500, gap: us(300) }, Source { flow: 2, bytes: 200, gap: ms(5) }];
    let limit = QueueLimit::Packets(100);
    let queues = [
        QueueConfig::Drr(DrrConfig { limit, quantum_bytes: 1500 }),
        QueueConfig::Sfq(SfqConfig { limit, buckets: 1024 }),
        QueueConfig::Wfq(WfqConfig { limit, weights: BTreeMap::new() }),
        QueueConfig::FqCodel(FqCodelConfig { limit, ..FqCodelConfig::default() }),
    ];
    for queue in queues {
        let name = format!("{queue:?}");
        let (link, out) = share(queue, &sources, ms(2000));
        let modest: Vec<Duration> =
            out.iter().filter(|(_, p)| p.flow == 2).map(|(now, p)| *now - p.sent).collect();
        // 401 were sent; the last two may still be inside.
        assert!(modest.len() >= 399, "{name}: {}", modest.len());
        // At most the packet in the transmitter, one turn of the other flow, and its own: 2.2 ms, and 1 ms of
        // delay.
        assert!(modest.iter().all(|delay| *delay <= us(3200)), "{name}: {:?}", modest.iter().max());
        assert!(link.stats().dropped.packets > 4000, "{name}");
    }
    let (_, out) = share(QueueConfig::DropTail(limit), &sources, ms(2000));
    assert!(out.iter().filter(|(_, p)| p.flow == 2).any(|(now, p)| *now - p.sent > ms(90)));
}
