//! What holds for every link, whatever its configuration: links and schedules are drawn at random.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use fulmar_net::*;
use fulmar_units::{Instant, Rate};
use proptest::prelude::*;

fn durations(max_us: u64) -> impl Strategy<Value = Duration> {
    (0..=max_us).prop_map(Duration::from_micros)
}

fn probabilities() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(Probability::ZERO), (0..1_000_000u32).prop_map(Probability::from_ppm)]
}

fn rates() -> impl Strategy<Value = LinkRate> {
    let step = (1..20_000u64, prop_oneof![Just(0u64), 10_000..20_000_000u64]);
    let trace = prop::collection::vec(step, 1..6).prop_map(|steps| {
        let mut start = Duration::ZERO;
        let mut list = Vec::new();
        for (length, rate) in steps {
            list.push((start, Rate::from_bytes_per_second(rate)));
            start += us(length);
        }
        // Something moves in every cycle, or the link would keep its packets for ever.
        list.push((start, Rate::from_bytes_per_second(1_000_000)));
        LinkRate::Trace(RateTrace::new(list, Some(start + ms(5))).expect("in order"))
    });
    let constant = (1_000..200_000_000u64).prop_map(|rate| Rate::from_bytes_per_second(rate).into());
    prop_oneof![Just(LinkRate::Unlimited), constant, trace]
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0..200_000u64).prop_map(QueueLimit::Bytes),
        (0..100u64).prop_map(QueueLimit::Packets),
        (0..4000u32).prop_map(|milli| QueueLimit::Bdp { milli, rtt: None }),
    ]
}

fn queues() -> impl Strategy<Value = QueueConfig> {
    let ecn = any::<bool>();
    (limits(), 0..8, ecn, 1..3000u32, durations(20_000), durations(50_000)).prop_map(
        |(limit, kind, ecn, number, target, interval)| match kind {
            0 => QueueConfig::DropTail(limit),
            1 => QueueConfig::Red(RedConfig {
                ecn,
                weight_log2: (number % 12) as u8,
                ..RedConfig::for_limit(limit)
            }),
            2 => QueueConfig::Codel(CodelConfig { limit, target, interval, ecn }),
            3 => {
                let (quantum_bytes, buckets) = (number, number % 20);
                QueueConfig::FqCodel(FqCodelConfig { limit, target, interval, ecn, quantum_bytes, buckets })
            }
            4 => QueueConfig::Drr(DrrConfig { limit, quantum_bytes: number }),
            5 => QueueConfig::Priority(limit),
            6 => QueueConfig::Sfq(SfqConfig { limit, buckets: number % 20 }),
            _ => QueueConfig::Wfq(WfqConfig { limit, weights: BTreeMap::from([(1, number), (2, 0)]) }),
        },
    )
}

fn loss_models() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        probabilities().prop_map(Loss::Bernoulli),
        (0..500_000u32, 1000..20_000u32)
            .prop_filter_map("possible", |(p, e)| TwoState::new(Probability::from_ppm(p), e).ok())
            .prop_map(Loss::TwoState),
        (durations(20_000), durations(20_000), durations(50_000), probabilities())
            .prop_map(|(period, on, offset, loss)| Loss::Periodic(Periodic { period, on, offset, loss })),
        (durations(20_000), durations(20_000), probabilities()).prop_map(|(interval_mean, length, loss)| {
            Loss::PoissonBursts(PoissonBursts { interval_mean, length, loss })
        }),
        prop::collection::vec(any::<bool>(), 0..9)
            .prop_map(|entries| Loss::Pattern(LossPattern::new(entries))),
        (spans(), durations(300_000)).prop_map(|(lost, period)| Loss::Trace(LossTrace { lost, period })),
        steps(probabilities()).prop_map(Loss::Varying),
    ]
}

fn steps<T: Copy + std::fmt::Debug>(values: impl Strategy<Value = T>) -> impl Strategy<Value = Steps<T>> {
    prop::collection::vec((1..50_000u64, values), 1..4).prop_map(|list| {
        let mut at = Duration::ZERO;
        let list = list.into_iter().map(|(length, value)| {
            let start = at;
            at += Duration::from_micros(length);
            (start, value)
        });
        let list = list.collect();
        Steps::new(list, Some(at)).expect("in order")
    })
}

fn spans() -> impl Strategy<Value = Intervals> {
    let pairs = prop::collection::vec((0..300_000_000u64, 0..300_000_000u64), 0..3);
    let at = Instant::from_nanos;
    pairs.prop_map(move |pairs| Intervals::new(pairs.into_iter().map(|(a, b)| (at(a), at(b)))))
}

fn stalls() -> impl Strategy<Value = Stalls> {
    let random = (durations(100_000), durations(50_000), durations(50_000))
        .prop_map(|(interval_mean, shortest, longest)| Stalls::Random { interval_mean, shortest, longest });
    prop_oneof![Just(Stalls::None), spans().prop_map(Stalls::At), random]
}

fn policers() -> impl Strategy<Value = Option<Policer>> {
    let policer = (10_000..20_000_000u64, 1500..100_000u64)
        .prop_map(|(rate, burst_bytes)| Policer { rate: Rate::from_bytes_per_second(rate), burst_bytes });
    prop::option::of(policer)
}

fn jitters() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        durations(20_000).prop_map(Jitter::Uniform),
        durations(5_000).prop_map(Jitter::Exponential),
        (probabilities(), durations(30_000))
            .prop_map(|(probability, extra)| Jitter::Some { probability, extra }),
    ]
}

prop_compose! {
    fn configs()(
        (rate, delay, queue, loss) in (rates(), durations(100_000), queues(), loss_models()),
        (jitter, free, before) in (jitters(), any::<bool>(), any::<bool>()),
        (mark, duplicate, corrupt) in (probabilities(), probabilities(), probabilities()),
        mark_threshold in prop::option::of(limits()),
        mtu_bytes in prop::option::of(500..1500u32),
        (blackouts, stalls, policer) in (spans(), stalls(), policers()),
        added_delay in prop::option::of(steps(durations(30_000))),
    ) -> LinkConfig {
        let order = if free { Order::Free } else { Order::Kept };
        let loss_place = if before { LossPlace::BeforeQueue } else { LossPlace::Wire };
        LinkConfig {
            rate, delay, added_delay, jitter, order, queue, loss, loss_place, mark, mark_threshold, duplicate,
            corrupt, mtu_bytes, blackouts, stalls, policer,
        }
    }
}

/// Gaps before each packet, flows and sizes.
fn schedules() -> impl Strategy<Value = Vec<(Duration, u64, u32)>> {
    let gap = prop_oneof![Just(Duration::ZERO), durations(200), durations(5_000)];
    prop::collection::vec((gap, 0..5u64, 28..1501u32), 1..150)
}

fn probes(schedule: &[(Duration, u64, u32)]) -> Vec<Probe> {
    let mut now = Instant::ZERO;
    let mut serial = 0;
    let probe = |&(gap, flow, bytes): &(Duration, u64, u32)| {
        now += gap;
        serial += 1;
        let ecn = if serial % 3 == 0 { Ecn::NotEct } else { Ecn::Ect0 };
        Probe { flow, bytes, ecn, ..Probe::new(serial, now) }
    };
    schedule.iter().map(probe).collect()
}

fn arrivals(link: &mut Link<Probe>, now: Instant) -> Vec<(Instant, Probe)> {
    std::iter::from_fn(|| link.poll_arrival(now)).collect()
}

fn finish(link: &mut Link<Probe>, out: &mut Vec<(Instant, Probe)>) {
    while let Some(now) = link.poll_timeout() {
        out.extend(arrivals(link, now));
    }
}

/// What can be seen of a link from outside.
fn fingerprint(link: &Link<Probe>) -> (Option<Instant>, Backlog, Count, u64) {
    (link.poll_timeout(), link.backlog(), link.inside(), link.stats().delivered.packets)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// No packet is lost without an account, none is inside in the end, and delay and order are what they
    /// should be.
    #[test]
    fn every_packet_has_one_fate(config in configs(), schedule in schedules(), seed: u64) {
        let mut link = Link::new(config.clone(), seed);
        let mut out = Vec::new();
        for probe in probes(&schedule) {
            out.extend(arrivals(&mut link, probe.sent));
            link.send(probe.sent, probe);
            assert_conserved(&link);
        }
        finish(&mut link, &mut out);
        assert_conserved(&link);
        prop_assert_eq!(link.inside(), Count::default());
        prop_assert_eq!(link.poll_timeout(), None);

        prop_assert!(out.iter().all(|(at, probe)| *at >= probe.sent + config.delay));
        prop_assert!(out.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        if config.order == Order::Kept {
            let mut last: BTreeMap<u64, u64> = BTreeMap::new();
            for (_, probe) in &out {
                let before = last.insert(probe.flow, probe.serial);
                prop_assert!(before.is_none_or(|before| before <= probe.serial));
            }
            prop_assert_eq!(link.stats().reordered, Count::default());
        }
        prop_assert!(out.iter().all(|(_, probe)| probe.ecn != Ecn::Ce || probe.serial % 3 != 0));
    }

    /// The outcome is a function of the packets and their times, not of when the link is polled.
    #[test]
    fn polling_changes_nothing(config in configs(), schedule in schedules(), seed: u64, polls: Vec<bool>) {
        let [mut lazy, mut eager] = [(); 2].map(|()| Link::new(config.clone(), seed));
        let (mut late, mut punctual) = (Vec::new(), Vec::new());
        for (index, probe) in probes(&schedule).into_iter().enumerate() {
            while let Some(due) = eager.poll_timeout().filter(|due| *due <= probe.sent) {
                punctual.extend(arrivals(&mut eager, due));
            }
            if polls.get(index).is_some_and(|poll| *poll) {
                late.extend(arrivals(&mut lazy, probe.sent));
            }
            eager.send(probe.sent, probe.clone());
            lazy.send(probe.sent, probe);
        }
        finish(&mut eager, &mut punctual);
        finish(&mut lazy, &mut late);
        prop_assert_eq!(punctual, late);
        prop_assert_eq!(eager.stats().queue_delay.sum(), lazy.stats().queue_delay.sum());
    }

    /// `poll_timeout() == t` means that something happens at t and that nothing comes out before.
    #[test]
    fn timeouts_are_exact(config in configs(), schedule in schedules(), seed: u64) {
        let mut link = Link::new(config, seed);
        let mut now = Instant::ZERO;
        for probe in probes(&schedule) {
            now = probe.sent;
            link.send(now, probe);
        }
        while let Some(due) = link.poll_timeout() {
            if due > now {
                let before = Instant::from_nanos(due.as_nanos() - 1);
                prop_assert!(link.poll_deliver(before).is_none());
                prop_assert_eq!(link.poll_timeout(), Some(due));
                now = due;
            }
            let before = fingerprint(&link);
            link.poll_deliver(now);
            prop_assert_ne!(before, fingerprint(&link));
        }
    }

    /// A link never carries more than its rate allows, in any interval; and it does not idle while packets
    /// wait.
    #[test]
    fn the_rate_is_kept(bytes_per_second in 10_000..10_000_000u64, queue in queues(), schedule in schedules(), seed: u64) {
        let rate = Rate::from_bytes_per_second(bytes_per_second);
        let config = LinkConfig { rate: rate.into(), queue, ..LinkConfig::default() };
        let mut link = Link::new(config, seed);
        let mut out = Vec::new();
        for probe in probes(&schedule) {
            out.extend(arrivals(&mut link, probe.sent));
            link.send(probe.sent, probe);
        }
        finish(&mut link, &mut out);
        let mut idle_until = Instant::ZERO;
        for (at, probe) in &out {
            let needed = rate.time_for(u64::from(probe.bytes));
            prop_assert!(*at - idle_until >= needed);
            idle_until = *at;
        }
        let carried: u64 = out.iter().map(|(_, probe)| u64::from(probe.bytes)).sum();
        let rounding = Duration::from_nanos(out.len() as u64);
        prop_assert!(link.stats().busy >= rate.time_for(carried));
        prop_assert!(link.stats().busy <= rate.time_for(carried) + rounding);
    }

    /// A configuration that changes in the middle of traffic loses no packet's account and wakes the link.
    #[test]
    fn reconfiguration_loses_nothing(first in configs(), second in configs(), schedule in schedules(), seed: u64) {
        let mut link = Link::new(first.clone(), seed);
        let mut out = Vec::new();
        for (index, probe) in probes(&schedule).into_iter().enumerate() {
            if index % 20 == 19 {
                let config = if index % 40 == 39 { &first } else { &second };
                link.reconfigure(probe.sent, config.clone());
                assert_conserved(&link);
            }
            out.extend(arrivals(&mut link, probe.sent));
            link.send(probe.sent, probe);
        }
        let end = link.poll_timeout().unwrap_or_default();
        link.reconfigure(end, second.without_faults());
        finish(&mut link, &mut out);
        assert_conserved(&link);
        prop_assert_eq!(link.inside(), Count::default());
        prop_assert_eq!(out.len() as u64, link.stats().delivered.packets);
    }
}
