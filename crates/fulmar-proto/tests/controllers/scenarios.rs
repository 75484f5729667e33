//! The default controller where the path is not just a rate, a delay and a loss rate: black-outs, changes,
//! marks, bunched ACKs, tiny queues, thin flows.

use std::time::Duration;

use crate::bottleneck::{App, Bottleneck, Flow, Link, MTU};
use fulmar_control::Auto;
use fulmar_proto::Instant;

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

struct Run {
    inner: Bottleneck,
    seconds: f64,
}

fn run(link: Link, app: App, seconds: f64) -> Run {
    run_with_seed(link, app, seconds, 3)
}

fn run_with_seed(link: Link, app: App, seconds: f64, seed: u64) -> Run {
    let mut inner = Bottleneck::new(link, seconds, seed);
    inner.add(Box::new(Auto::new(MTU)), Duration::ZERO, app);
    inner.run(seconds);
    Run { inner, seconds }
}

impl Run {
    fn flow(&self) -> &Flow {
        &self.inner.flows[0]
    }

    fn megabits(&self) -> f64 {
        let megabits = self.flow().received_bytes as f64 * 8.0 / self.seconds / 1e6;
        println!(
            "{megabits:.2} Mb/s, queue {:.2} RTT, marks {}, drops {}, timeouts {}: {}",
            self.inner.queue_share(),
            self.inner.stats().marked.packets,
            self.inner.stats().dropped.packets,
            self.flow().recovery.stats().probe_timeouts,
            self.flow().line()
        );
        megabits
    }

    fn dropped(&self) -> f64 {
        self.inner.dropped_share()
    }
}

#[test]
fn a_blackout_freezes_the_model_and_is_forgotten() {
    for loss in [0.0, 0.1] {
        let mut link = Link::new(20, 100).lossy(loss, 0.0);
        link.blackouts = vec![(at(5.0), at(5.5)), (at(10.0), at(12.0))];
        let run = run(link, App::Bulk, 20.0);
        // 17.5 s of light; up to a doubled probe timeout is slept through after each black-out, start-up
        // takes 0.7 s.
        let share = run.megabits() / (20.0 * (1.0 - loss) * 17.5 / 20.0);
        assert!((0.85..=1.0).contains(&share), "{share}");
    }
}

#[test]
fn a_new_rate_is_found_downwards_and_upwards() {
    for loss in [0.0, 0.1] {
        for (before, after, mean) in [(100, 20, 40.0), (20, 100, 80.0)] {
            let mut link = Link::new(before, 20).lossy(loss, 0.0);
            link.change = Some((at(5.0), after * 1_000_000));
            let run = run(link, App::Bulk, 20.0);
            let share = run.megabits() / (mean * (1.0 - loss));
            // More is found by the next probe, which comes up to 2.5 s later where losses look like
            // congestion.
            let least = if loss > 0.0 { 0.82 } else { 0.9 };
            assert!((least..=1.0).contains(&share), "{before} to {after}: {share}");
            assert!(run.dropped() < 0.03, "{}", run.dropped());
        }
    }
}

#[test]
fn marks_keep_the_queue_short() {
    let mut link = Link::new(100, 20);
    link.mark_above = Some(0.1);
    let run = run(link, App::Bulk, 10.0);
    assert!((90.0..=100.0).contains(&run.megabits()));
    assert!(run.inner.queue_share() < 0.08, "{}", run.inner.queue_share());
}

/// Where jitter delays packets more of them fill the path: a bound that left them out came down with every
/// mark, to 21 Mb/s.
#[test]
fn marks_beside_jitter_cost_little_more_than_marks() {
    let megabits = |jitter_millis| {
        let mut link = Link::new(100, 20).acks_as_asked();
        (link.marked, link.jitter) = (0.02, Duration::from_millis(jitter_millis));
        run(link, App::Bulk, 20.0).megabits()
    };
    let (steady, jittered) = (megabits(0), megabits(10));
    assert!(jittered > 0.5 * steady, "{jittered}, {steady}");
}

/// Jitter hides that nothing waits, and the first rounds lose more than a fifth: of 96 seeds these five ended
/// start-up there, and had 0.40 to 0.79; the others are as they were.
#[test]
fn heavy_loss_ends_no_start_up_where_round_trips_are_restless() {
    for seed in [22, 37, 48, 87, 93] {
        let mut link = Link::new(50, 150).lossy(0.29, 0.0).queue(2.0).acks_as_asked();
        link.jitter = Duration::from_millis(5);
        let share = run_with_seed(link, App::Bulk, 12.0, seed).megabits() / (50.0 * 0.71);
        assert!((0.83..=1.0).contains(&share), "{seed}: {share}");
    }
}

/// As at the edge of a Wi-Fi cell: losses in bursts, and a probe that finds more each time the link has
/// become faster.
#[test]
fn a_rate_that_moves_is_followed() {
    let mut link = Link::new(12, 40).lossy(0.1, 20.0).queue(2.0);
    link.alternates = Some((Duration::from_millis(400), 24_000_000));
    let share = run(link, App::Bulk, 60.0).megabits() / (18.0 * 0.9);
    // 0.69 where each burst of losses put off the next probe.
    assert!((0.75..=1.0).contains(&share), "{share}");
}

#[test]
fn a_queue_of_two_packets_is_not_taken_for_random_loss() {
    for loss in [0.0, 0.1] {
        let run = run(Link::new(10, 50).lossy(loss, 0.0).queue(0.05), App::Bulk, 20.0);
        assert!((9.0..=10.0).contains(&(run.megabits() / (1.0 - loss))));
        let dropped = run.dropped();
        // Without the comparison with slow rounds: 0.35 and growing.
        assert!(dropped < 0.15, "{dropped}");
    }
}

/// Eight packets fill the path, and as many its queue, for a millisecond.
#[test]
fn a_queue_shorter_than_the_hosts_noise_is_seen_where_there_is_none() {
    for (loss, most) in [(0.1, 0.03), (0.3, 0.05)] {
        let run = run(Link::new(100, 1).lossy(loss, 0.0), App::Bulk, 5.0);
        let share = run.megabits() / (100.0 * (1.0 - loss));
        assert!((0.9..=1.0).contains(&share), "{share}");
        let dropped = run.dropped();
        assert!(dropped < most, "{dropped}");
    }
}

#[test]
fn acks_in_bunches_do_not_stop_it() {
    for (bunch, least) in [(2, 92.0), (5, 90.0), (10, 60.0), (20, 60.0)] {
        for loss in [0.0, 0.1] {
            let mut link = Link::new(100, 20).lossy(loss, 0.0);
            link.bunch = Duration::from_millis(bunch);
            let run = run(link, App::Bulk, 10.0);
            let rate = run.megabits() / (1.0 - loss);
            assert!((least..=100.0).contains(&rate), "bunches of {bunch} ms: {rate}");
        }
    }
}

#[test]
fn small_and_large_paths() {
    for (megabits, rtt, loss, seconds, least) in [
        (1000, 10, 0.1, 3.0, 0.9),
        (1000, 1, 0.0, 2.0, 0.93),
        (1, 50, 0.0, 20.0, 0.9),
        (1, 50, 0.2, 20.0, 0.85),
    ] {
        let run = run(Link::new(megabits, rtt).lossy(loss, 0.0), App::Bulk, seconds);
        let share = run.megabits() / (megabits as f64 * (1.0 - loss));
        assert!((least..=1.05).contains(&share), "{megabits} Mb/s {rtt} ms: {share}");
    }
}

#[test]
fn a_thin_flow_is_never_held_back() {
    for loss in [0.0, 0.2] {
        let interval = Duration::from_millis(5);
        let run = run(Link::new(10, 50).lossy(loss, 0.0), App::Thin(interval), 10.0);
        let offered = f64::from(MTU) * 8.0 / interval.as_secs_f64() / 1e6 * (1.0 - loss);
        assert!((0.95..=1.02).contains(&(run.megabits() / offered)));
        assert!(run.inner.queue_share() < 0.05);
    }
}
