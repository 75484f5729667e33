//! Queues that drop or mark before they are full: CoDel, FQ-CoDel and RED as part of a link.

mod common;

use common::*;
use fulmar_net::*;

/// Twice the rate of the link for `count` packets of 1 ms each.
fn overload(queue: QueueConfig, count: u64) -> (Link<Probe>, Vec<Probe>) {
    let config = LinkConfig::new(mbit(12), ms(0)).with_queue(queue);
    let (link, out) = run(config, 1, count, us(500));
    assert_conserved(&link);
    (link, out.into_iter().map(|(_, probe)| probe).collect())
}

const UNBOUNDED: QueueLimit = QueueLimit::Packets(1_000_000);

#[test]
fn codel_marks_by_the_square_root_law() {
    let config = CodelConfig { limit: UNBOUNDED, ..CodelConfig::default() };
    let (link, out) = overload(QueueConfig::Codel(config), 2000);
    assert_eq!(link.stats().dropped.packets, 0);
    // With marks nothing leaves the queue early, so packet n is dequeued at n ms, after n / 2 ms. The wait
    // first reaches 5 ms at n = 10; marking starts one interval later and then at interval / sqrt(count).
    let marked: Vec<u64> = out.iter().filter(|p| p.ecn == Ecn::Ce).map(|p| p.serial).collect();
    let (mut expected, mut at_ms) = (Vec::new(), 110.0f64);
    for count in 1.. {
        if at_ms > 1990.0 {
            break;
        }
        expected.push(at_ms.ceil() as u64);
        at_ms += 100.0 / f64::from(count).sqrt();
    }
    let shared = marked.iter().zip(&expected).filter(|(a, b)| a.abs_diff(**b) <= 1).count();
    assert!(expected.len() > 60 && shared == expected.len(), "{marked:?}\n{expected:?}");
}

#[test]
fn codel_leaves_a_short_queue_alone() {
    let config = LinkConfig::new(mbit(12), ms(0)).with_queue(QueueConfig::Codel(CodelConfig::default()));
    // Four packets at once each 4 ms: the link is full all the time, no packet waits longer than 3 ms.
    let mut link = Link::new(config, 1);
    for round in 0..500 {
        let now = at(ms(4 * round));
        while link.poll_deliver(now).is_some() {}
        (0..4).for_each(|serial| link.send(now, Probe::new(serial, now)));
    }
    drain(&mut link);
    assert_eq!((link.stats().dropped.packets, link.stats().marked.packets), (0, 0));
    assert_eq!(link.stats().queue_delay.max(), ms(3));
}

/// Sources that are deaf to marks are held to the target by drops.
#[test]
fn codel_drops_what_cannot_be_marked() {
    for ecn in [true, false] {
        let config = CodelConfig { limit: UNBOUNDED, ecn, ..CodelConfig::default() };
        let mut link = Link::new(LinkConfig::new(mbit(12), ms(0)).with_queue(QueueConfig::Codel(config)), 1);
        for serial in 0..4000u64 {
            // 2 % too much: CoDel needs one drop in 50, which its law reaches after a while.
            let now = at(us(980) * u32::try_from(serial).expect("small"));
            while link.poll_deliver(now).is_some() {}
            link.send(now, Probe { ecn: Ecn::NotEct, ..Probe::new(serial, now) });
        }
        drain(&mut link);
        assert_conserved(&link);
        let stats = link.stats();
        assert_eq!(stats.marked.packets, 0);
        assert!((40..=90).contains(&stats.dropped.packets), "{}", stats.dropped.packets);
        // Without drops the last packets would wait 80 ms.
        assert!(stats.queue_delay.quantile(950) < ms(20), "{:?}", stats.queue_delay.quantile(950));
    }
}

#[test]
fn fq_codel_keeps_its_bound_at_the_cost_of_the_longest_flow() {
    let config = FqCodelConfig { limit: QueueLimit::Packets(50), ..FqCodelConfig::default() };
    let (link, out) = overload(QueueConfig::FqCodel(config), 1000);
    assert!(link.stats().backlog_bytes_max <= 50 * 1500);
    // Dropped from the head: what comes out is fresh. 50 packets of 1 ms each.
    assert!(link.stats().queue_delay.max() <= ms(51), "{:?}", link.stats().queue_delay.max());
    assert!(out.windows(2).all(|pair| pair[0].serial < pair[1].serial));
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    // A window that halves when marked, once per window at most, and else grows by one packet per window.
    let config = RedConfig {
        limit: QueueLimit::Packets(200),
        min: QueueLimit::Packets(10),
        max: QueueLimit::Packets(60),
        max_probability: Probability::from_percent(10),
        weight_log2: 7,
        ecn: true,
    };
    let mut link: Link<Probe> =
        Link::new(LinkConfig::new(mbit(12), ms(5)).with_queue(QueueConfig::Red(config)), 1);
    let (mut window, mut sent, mut delivered, mut deaf_below) = (10.0f64, 0u64, 0u64, 0);
    let (mut backlog, mut samples, mut now) = (0, 0, at(ms(0)));
    while delivered < 20_000 {
        while sent - delivered < window as u64 {
            link.send(now, Probe::new(sent, now));
            sent += 1;
        }
        now = link.poll_timeout().expect("under way");
        while let Some(probe) = link.poll_deliver(now) {
            delivered += 1;
            window += 1.0 / window;
            if probe.ecn == Ecn::Ce && probe.serial >= deaf_below {
                (window, deaf_below) = (window / 2.0, sent);
            }
        }
        if delivered > 1000 {
            backlog += link.backlog().packets;
            samples += 1;
        }
    }
    assert_conserved(&link);
    let mean = backlog as f64 / f64::from(samples);
    assert!(mean > 10.0 && mean < 60.0, "{mean}");
    assert_eq!(link.stats().dropped.packets, 0);
    assert!(link.stats().marked.packets > 100);
    let utilisation = link.stats().busy.as_secs_f64() / (now - at(ms(0))).as_secs_f64();
    assert!(utilisation > 0.95, "{utilisation}");
}

/// The queue is drained by someone deaf to every signal: the limit is what holds.
#[test]
fn every_queue_keeps_its_limit() {
    let limit = QueueLimit::Packets(30);
    let queues = [
        QueueConfig::DropTail(limit),
        QueueConfig::Red(RedConfig::for_limit(limit)),
        QueueConfig::Codel(CodelConfig { limit, ..CodelConfig::default() }),
        QueueConfig::FqCodel(FqCodelConfig { limit, ..FqCodelConfig::default() }),
        QueueConfig::Drr(DrrConfig { limit, quantum_bytes: 1500 }),
        QueueConfig::Sfq(SfqConfig { limit, buckets: 8 }),
        QueueConfig::Wfq(WfqConfig { limit, weights: Default::default() }),
    ];
    for queue in queues {
        let name = format!("{queue:?}");
        let (link, out) = overload(queue, 2000);
        assert!(link.stats().backlog_bytes_max <= 30 * 1500, "{name}: {}", link.stats().backlog_bytes_max);
        // Half of what is sent can get through; all but RED, whose average lags behind, lose no more than
        // that.
        assert!(out.len() < 1100, "{name}: {}", out.len());
        assert!(out.len() >= if name.starts_with("Red") { 300 } else { 1000 }, "{name}: {}", out.len());
    }
}
