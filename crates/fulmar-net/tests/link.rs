//! Timing, queue limits and faults of a single link, where the answer is exact.

mod common;

use std::time::Duration;

use common::*;
use fulmar_net::*;
use fulmar_units::{Instant, Rate};

#[test]
fn a_packet_takes_its_transmission_time_and_the_delay() {
    let (link, out) = run(LinkConfig::new(mbit(100), ms(10)), 1, 3, ms(1));
    let arrivals: Vec<Instant> = out.iter().map(|(now, _)| *now).collect();
    // 1500 bytes at 100 Mbit/s: 120 us.
    assert_eq!(arrivals, [at(us(10_120)), at(us(11_120)), at(us(12_120))]);
    assert_eq!(link.stats().busy, us(360));
    assert_eq!(link.stats().queue_delay.max(), ms(0));
}

#[test]
fn packets_sent_at_once_leave_back_to_back() {
    let (link, out) = run(LinkConfig::new(mbit(10), ms(50)), 1, 10, ms(0));
    for (index, (now, probe)) in out.iter().enumerate() {
        assert_eq!(probe.serial, index as u64);
        assert_eq!(*now, at(us(50_000 + 1200 * (index as u64 + 1))));
    }
    assert_eq!(link.stats().queue_delay.sum(), us(1200 * 45));
}

#[test]
fn unlimited_rate_delays_only() {
    let (link, out) = run(LinkConfig { delay: ms(3), ..LinkConfig::default() }, 1, 5000, ms(0));
    assert!(out.iter().all(|(now, _)| *now == at(ms(3))));
    assert_eq!(out.len(), 5000);
    assert_eq!(link.stats().backlog_bytes_max, 1500);
}

#[test]
fn drop_tail_holds_what_it_may_and_no_more() {
    let full = |limit| {
        let config = LinkConfig::new(mbit(8), ms(1)).with_queue(QueueConfig::DropTail(limit));
        let (link, out) = run(config, 1, 100, ms(0));
        assert_conserved(&link);
        (out.len(), link.stats().backlog_bytes_max)
    };
    // One packet is in the transmitter beside those that wait.
    assert_eq!(full(QueueLimit::Packets(20)), (21, 30_000));
    assert_eq!(full(QueueLimit::Bytes(15_000)), (11, 15_000));
    assert_eq!(full(QueueLimit::Bytes(14_999)), (10, 13_500));
    // 8 Mbit/s for 30 ms: 30,000 bytes; half of it: 15,000.
    assert_eq!(full(QueueLimit::Bdp { milli: 1000, rtt: Some(ms(30)) }), (21, 30_000));
    assert_eq!(full(QueueLimit::Bdp { milli: 500, rtt: Some(ms(30)) }), (11, 15_000));
    // Twice the delay of 1 ms is 2000 bytes: one packet.
    assert_eq!(full(QueueLimit::ONE_BDP), (2, 1500));
    assert_eq!(full(QueueLimit::Packets(0)).0, 0);
}

#[test]
fn a_rate_trace_is_followed_to_the_nanosecond() {
    let steps = vec![(ms(0), mbit(12)), (ms(10), Rate::ZERO), (ms(20), mbit(1))];
    let trace = RateTrace::new(steps, Some(ms(40))).expect("in order");
    let config = LinkConfig { rate: LinkRate::Trace(trace), ..LinkConfig::default() };
    let (_, out) = run(config, 1, 14, ms(0));
    let micros: Vec<u64> = out.iter().map(|(now, _)| now.as_nanos() / 1000).collect();
    // 12,000 bits: 1 ms each at 12 Mbit/s, nothing from 10 to 20 ms, 12 ms at 1 Mbit/s. The twelfth starts at
    // 32 ms: 8,000 bits pass at 1 Mbit/s, and the 4,000 left take 333.3 us of the next cycle.
    let mut expected: Vec<u64> = (1..=10).map(|n| n * 1000).collect();
    expected.extend([32_000, 40_333, 41_333, 42_333]);
    assert_eq!(micros, expected);
}

#[test]
fn invalid_traces_are_refused() {
    let fast = mbit(1);
    assert!(RateTrace::new(vec![], None).is_err());
    assert!(RateTrace::new(vec![(ms(1), fast)], None).is_err());
    assert!(RateTrace::new(vec![(ms(0), fast), (ms(0), fast)], None).is_err());
    assert!(RateTrace::new(vec![(ms(0), fast), (ms(5), fast)], Some(ms(5))).is_err());
}

#[test]
fn a_stopped_link_keeps_packets_until_it_is_reconfigured() {
    let config = LinkConfig { rate: Rate::ZERO.into(), ..LinkConfig::default() };
    let mut link = Link::new(config, 1);
    link.send(at(ms(1)), Probe::new(0, at(ms(1))));
    assert_eq!(link.poll_timeout(), None);
    assert_eq!(link.backlog().packets, 1);
    link.reconfigure(at(ms(7)), LinkConfig::new(mbit(12), ms(2)));
    assert_eq!(drain(&mut link)[0].0, at(ms(10)));
    assert_conserved(&link);
}

#[test]
fn black_outs_take_exactly_the_packets_within() {
    let blackouts = Intervals::new([(at(ms(10)), at(ms(20))), (at(ms(50)), at(ms(51)))]);
    let config = LinkConfig { blackouts, delay: ms(100), ..LinkConfig::default() };
    let (link, out) = run(config, 1, 100, ms(1));
    let lost: Vec<u64> =
        (0..100).filter(|serial| out.iter().all(|(_, probe)| probe.serial != *serial)).collect();
    let expected: Vec<u64> = (10..20).chain([50]).collect();
    assert_eq!(lost, expected);
    assert_eq!(link.stats().blacked_out.packets, 11);
}

#[test]
fn packets_above_the_mtu_vanish() {
    let config = LinkConfig { mtu_bytes: Some(1400), ..LinkConfig::default() };
    let mut link = Link::new(config, 1);
    for bytes in [1399, 1400, 1401, 1500] {
        link.send(Instant::ZERO, Probe { bytes, ..Probe::new(0, Instant::ZERO) });
    }
    let arrived: Vec<u32> = drain(&mut link).iter().map(|(_, probe)| probe.bytes).collect();
    assert_eq!(arrived, [1399, 1400]);
    assert_eq!(link.stats().oversize, Count { packets: 2, bytes: 2901 });
    assert_conserved(&link);
}

#[test]
fn loss_before_the_queue_leaves_the_rate_to_others() {
    let busy = |loss_place| {
        let loss = Loss::Pattern(LossPattern::new(vec![true, false]));
        let config = LinkConfig { loss_place, ..LinkConfig::new(mbit(12), ms(0)).with_loss(loss) };
        let (link, out) = run(config, 1, 100, ms(1));
        assert_eq!(out.len(), 50);
        link.stats().busy
    };
    assert_eq!(busy(LossPlace::Wire), ms(100));
    assert_eq!(busy(LossPlace::BeforeQueue), ms(50));
}

#[test]
fn a_recorded_delay_is_added_and_lets_nothing_overtake() {
    let delay = Steps::new(vec![(ms(0), ms(40)), (ms(10), ms(5))], Some(ms(20))).expect("in order");
    let config = LinkConfig { added_delay: Some(delay), delay: ms(3), ..LinkConfig::default() };
    let (_, out) = run(config, 1, 25, ms(1));
    let arrived: Vec<Duration> = out.iter().map(|(at, _)| *at - Instant::ZERO).collect();
    assert_eq!((arrived[0], arrived[9]), (ms(43), ms(52)));
    // 10 to 19 would be there at 18 to 27: they come with the tenth, and then it begins again.
    assert_eq!(arrived[10..20], [ms(52); 10]);
    assert_eq!(arrived[20], ms(63));
}

#[test]
fn losses_follow_the_recorded_probability() {
    let percent = Probability::from_percent;
    let steps = vec![(ms(0), percent(0)), (ms(100), percent(50)), (ms(200), percent(100))];
    let loss = Loss::Varying(Steps::new(steps, Some(ms(300))).expect("in order"));
    let (_, out) = run(LinkConfig::default().with_loss(loss), 1, 300, ms(1));
    let of = |from: u64| {
        out.iter().filter(|(at, _)| (from..from + 100).contains(&(at.as_nanos() / 1_000_000))).count()
    };
    assert_eq!((of(0), of(200)), (100, 0));
    assert!((35..=65).contains(&of(100)), "{}", of(100));
}

#[test]
fn packets_that_find_a_queue_are_marked_if_they_can_be() {
    let config = LinkConfig {
        mark_threshold: Some(QueueLimit::Packets(5)),
        queue: QueueConfig::DropTail(QueueLimit::Packets(100)),
        ..LinkConfig::new(mbit(12), ms(1))
    };
    let (link, out) = run(config.clone(), 1, 20, ms(0));
    let marked: Vec<bool> = out.iter().map(|(_, probe)| probe.ecn == Ecn::Ce).collect();
    // The first goes to the transmitter, five wait, the seventh finds five.
    let expected: Vec<bool> = (0..20).map(|index| index >= 6).collect();
    assert_eq!(marked, expected);
    assert_eq!(link.stats().marked.packets, 14);

    let mut link = Link::new(config, 1);
    for serial in 0..20 {
        link.send(Instant::ZERO, Probe { ecn: Ecn::NotEct, ..Probe::new(serial, Instant::ZERO) });
    }
    assert!(drain(&mut link).iter().all(|(_, probe)| probe.ecn == Ecn::NotEct));
    assert_eq!(link.stats().marked.packets, 0);
}

#[test]
fn a_path_delivers_in_order_of_arrival_and_its_directions_differ() {
    let forward = LinkConfig::new(mbit(12), ms(10)).with_loss(Loss::bernoulli(Probability::from_percent(50)));
    let mut path: Path<Probe> = Path::symmetric(forward, 3);
    let (mut last, mut delivered) = (Instant::ZERO, [Vec::new(), Vec::new()]);
    for serial in 0..=200 {
        let now = at(ms(1)) + us(1500) * serial as u32;
        while let Some(due) = path.poll_timeout().filter(|&due| due <= now || serial == 200) {
            while let Some((direction, probe)) = path.poll_deliver(due) {
                assert!(due >= last);
                assert_eq!(due, probe.sent + ms(11));
                last = due;
                delivered[usize::from(direction == Direction::Backward)].push(probe.serial);
            }
        }
        if serial < 200 {
            path.send(now, Direction::Forward, Probe::new(serial, now));
            path.send(now, Direction::Backward, Probe::new(serial, now));
        }
    }
    assert_ne!(delivered[0], delivered[1]);
    // Half of 200 each, within 4 standard deviations.
    delivered.iter().for_each(|serials| assert_binomial(serials.len() as u64, 200, 0.5));
}

/// Settings beyond reason make a link useless, not the program stop.
#[test]
fn absurd_settings_are_survived() {
    let (for_ever, huge) = (std::time::Duration::MAX, u64::MAX);
    let base = LinkConfig {
        rate: Rate::from_bytes_per_second(huge).into(),
        delay: for_ever,
        loss: Loss::PoissonBursts(PoissonBursts {
            interval_mean: for_ever,
            length: for_ever,
            loss: Probability::ONE,
        }),
        mark_threshold: Some(QueueLimit::Bdp { milli: u32::MAX, rtt: Some(for_ever) }),
        ..LinkConfig::default()
    };
    let limit = QueueLimit::ONE_BDP;
    let queues = [
        QueueConfig::DropTail(limit),
        QueueConfig::Red(RedConfig { weight_log2: u8::MAX, ..RedConfig::for_limit(limit) }),
        QueueConfig::Codel(CodelConfig { limit, target: for_ever, interval: for_ever, ecn: true }),
        QueueConfig::FqCodel(FqCodelConfig {
            limit,
            buckets: u32::MAX,
            quantum_bytes: 0,
            ..FqCodelConfig::default()
        }),
        QueueConfig::Drr(DrrConfig { limit, quantum_bytes: u32::MAX }),
        QueueConfig::Sfq(SfqConfig { limit, buckets: u32::MAX }),
        QueueConfig::Wfq(WfqConfig { limit, weights: [(0, u32::MAX)].into() }),
    ];
    for queue in queues {
        for jitter in [Jitter::Uniform(for_ever), Jitter::Exponential(for_ever)] {
            let config = base.clone().with_queue(queue.clone()).with_jitter(jitter, Order::Free);
            let (link, _) = run(config, 1, 20, for_ever / 40);
            assert_conserved(&link);
            let slow = LinkConfig { rate: Rate::from_bytes_per_second(1).into(), ..base.clone() };
            let (link, _) = run(slow.with_queue(queue.clone()), 1, 20, ms(0));
            assert_conserved(&link);
        }
    }
    let oven = Periodic { period: for_ever, on: for_ever, offset: for_ever, loss: Probability::ONE };
    let (link, out) = run(LinkConfig::default().with_loss(Loss::Periodic(oven)), 1, 5, ms(1));
    assert_conserved(&link);
    assert!(out.is_empty());
}
