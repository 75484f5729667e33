//! Several flows on one bottleneck: who gets how much, and how long the queue is. Flows start a second apart,
//! if nothing else is said; the first five seconds are left out.

use std::time::Duration;

use crate::bottleneck::{App, Bottleneck, Link, MTU};
use fulmar_control::{
    Auto, Bbr, CongestionController, Cubic, CubicConfig, Feedback, Mechanism, PathView, SendBudget,
};
use fulmar_net::Policer;
use fulmar_proto::{Instant, Rate};

/// How a run went.
struct Outcome {
    /// Shares of (1 - p) C, in the order of starting.
    shares: Vec<f64>,
    /// Mean queueing delay as a share of the round trip.
    queue: f64,
    /// Packets the queue dropped, as a share of those sent.
    dropped: f64,
}

fn run(link: Link, names: &[&str], seconds: f64) -> Outcome {
    run_every(Duration::from_secs(1), link, names, seconds)
}

fn run_every(gap: Duration, link: Link, names: &[&str], seconds: f64) -> Outcome {
    const FROM: f64 = 5.0;
    let limit = (1.0 - link.loss) * link.bits_per_second as f64;
    let mut line = format!(
        "{} Mb/s {} ms q {} p {}:",
        link.bits_per_second / 1_000_000,
        link.rtt.as_millis(),
        link.queue_bdp,
        link.loss
    );
    let mut run = Bottleneck::new(link, seconds, 7);
    for (place, name) in (0..).zip(names) {
        let controller: Box<dyn CongestionController> = match *name {
            "auto" => Box::new(Auto::new(MTU)),
            "bbr" => Box::new(Bbr::new(MTU)),
            _ => Box::new(Cubic::new(MTU, CubicConfig::default())),
        };
        run.add(controller, gap * place, App::Bulk);
    }
    run.run(FROM);
    let received = run.run_and_count(seconds - FROM);
    let shares: Vec<f64> =
        received.iter().map(|&bytes| bytes as f64 * 8.0 / (seconds - FROM) / limit).collect();
    for (name, share) in names.iter().zip(&shares) {
        line += &format!(" {name} {share:.3}");
    }
    let outcome = Outcome { shares, queue: run.queue_share(), dropped: run.dropped_share() };
    println!("{line}, queue {:.2} RTT, dropped {:.4}", outcome.queue, outcome.dropped);
    outcome
}

/// Nobody starves, and the link is used.
fn assert_shared(outcome: &Outcome, least: f64) {
    let total: f64 = outcome.shares.iter().sum();
    assert!((0.9..=1.02).contains(&total), "{:?}", outcome.shares);
    assert!(outcome.shares.iter().all(|&share| share >= least), "{:?}", outcome.shares);
    assert!(outcome.dropped < 0.05, "{}", outcome.dropped);
}

// BBRv1 leaves CUBIC 10 % at 1 BDP, and is left 21 % at 4 BDP (targets.md).

#[test]
fn cubic_and_auto_live_together_in_short_queues() {
    for queue in [0.25, 0.5] {
        assert_shared(&run(Link::new(100, 20).queue(queue), &["auto", "cubic"], 25.0), 0.25);
        assert_shared(&run(Link::new(100, 20).queue(queue), &["cubic", "auto"], 25.0), 0.25);
        assert_shared(&run(Link::new(20, 100).queue(queue), &["cubic", "auto"], 45.0), 0.2);
    }
}

/// With fewer ACKs CUBIC is left less of a short queue: 0.135 to 0.195 was measured, a third or more with an
/// ACK per packet.
#[test]
fn cubic_is_left_something_with_acks_as_asked() {
    for (link, seconds) in [(Link::new(100, 20), 25.0), (Link::new(20, 100), 45.0)] {
        assert_shared(&run(link.queue(0.25).acks_as_asked(), &["cubic", "auto"], seconds), 0.1);
    }
}

#[test]
fn cubic_and_auto_live_together_in_long_queues() {
    for (queue, least) in [(1.0, 0.3), (4.0, 0.22)] {
        assert_shared(&run(Link::new(100, 20).queue(queue), &["auto", "cubic"], 25.0), 0.25);
        assert_shared(&run(Link::new(100, 20).queue(queue), &["cubic", "auto"], 25.0), 0.25);
        assert_shared_whenever_begun(&Link::new(20, 100).queue(queue), &["cubic", "auto"], 45.0, least);
    }
}

/// What share an `auto` has that comes so many milliseconds after another, in the mean over these moments, of
/// what arrives from one second to the other.
fn share_beside(
    other: impl Fn() -> Box<dyn CongestionController>,
    link: &Link,
    without: Option<Mechanism>,
    gaps: &[u64],
    [from, to]: [f64; 2],
) -> f64 {
    let share = |&gap: &u64| {
        let mut run = Bottleneck::new(link.clone(), to, 7);
        run.add(other(), Duration::ZERO, App::Bulk);
        run.add(Box::new(Auto::new(MTU).without(without)), Duration::from_millis(gap), App::Bulk);
        run.run(from);
        let received = run.run_and_count(to - from);
        received[1] as f64 / received.iter().sum::<u64>() as f64
    };
    let shares: Vec<f64> = gaps.iter().map(share).collect();
    println!("{without:?}: {shares:.3?}");
    mean(&shares)
}

/// A search for the shortest round trip every four seconds that CUBIC fills the queue through, and what was
/// ours stays ours.
#[test]
#[ignore = "long: make test-deep"]
fn auto_gives_cubic_nothing_by_looking_for_the_shortest_round_trip() {
    let gaps: Vec<u64> = (500..=4250).step_by(250).collect();
    let cubic = || Box::new(Cubic::new(MTU, CubicConfig::default())) as _;
    let share = share_beside(cubic, &Link::new(100, 20), None, &gaps, [20.0, 40.0]);
    // 0.42 in the mean of sixteen starts (standard error 0.016; 0.44 until common drains went to an eighth:
    // two starts differ); 0.40 in six where competing began anew after each.
    assert!((0.41..0.6).contains(&share), "{share}");
}

/// In the mean over the moments of the start who has less has 0.45 and more, whoever was there first; without
/// BBR's window and pace ours has 0.11 (`insistent`).
#[test]
fn auto_holds_its_own_beside_bbr() {
    assert_shared_whenever_begun(&Link::new(100, 20), &["auto", "bbr"], 40.0, 0.4);
    assert_shared_whenever_begun(&Link::new(100, 20), &["bbr", "auto"], 40.0, 0.4);
}

/// By the pulses of its cycle BBR is known before it leaves its first trough, after ten seconds; until then
/// ours would have what CUBIC has beside it.
#[test]
fn auto_has_its_share_before_bbr_looks_for_the_shortest_round_trip() {
    let beside = |without| {
        let (link, gaps) = (Link::new(100, 20).lossy(0.02, 0.0), [500, 800, 1100, 1400, 1700, 2000]);
        share_beside(|| Box::new(Bbr::new(MTU)), &link, without, &gaps, [7.0, 10.0])
    };
    let (with, without) = (beside(None), beside(Some(Mechanism::Insistent)));
    assert!((0.35..0.6).contains(&with) && without < 0.3, "{with}, {without}");
}

/// One that keeps its queue standing, and has no cycle, shows itself by its troughs alone, ten seconds apart.
/// Once they are known each is filled, and half of the link is ours.
#[test]
fn auto_has_its_share_beside_one_who_gives_way_only_to_look() {
    let beside = |without| {
        let (link, gaps) = (Link::new(100, 20).lossy(0.02, 0.0), [1000, 1300, 1600, 1900]);
        share_beside(|| Box::<Insistent>::default(), &link, without, &gaps, [25.0, 45.0])
    };
    let (with, without) = (beside(None), beside(Some(Mechanism::Insistent)));
    assert!((0.35..0.5).contains(&with) && without < 0.2, "{with}, {without}");
}

/// Who wins beside CUBIC, or beside another in a short queue with loss, depends on the moment of the start:
/// over many moments neither loses much. (Not while CUBIC still doubles: whoever comes then has a tenth for
/// ten seconds.)
fn assert_shared_whenever_begun(link: &Link, names: &[&str], seconds: f64, least_mean: f64) {
    let gaps = [1000, 1500, 2000, 3000, 4000];
    let least = gaps.map(|gap| {
        let outcome = run_every(Duration::from_millis(gap), link.clone(), names, seconds);
        // Each time a third of an equal share, at the least.
        assert_shared(&outcome, 1.0 / 3.0 / names.len() as f64);
        outcome.shares.iter().copied().fold(1.0, f64::min)
    });
    assert!(mean(&least) >= least_mean, "{}: {least:?}", mean(&least));
}

#[test]
fn two_autos_share_and_keep_the_queue_short() {
    for queue in [0.25, 1.0, 4.0] {
        for loss in [0.0, 0.02, 0.1] {
            let link = Link::new(100, 20).queue(queue).lossy(loss, 0.0);
            let outcome = run(link.clone(), &["auto", "auto"], 25.0);
            if queue <= 1.0 && loss > 0.05 {
                // With so much loss a probe tells little unless the queue is long, and shares wander.
                assert_shared_whenever_begun(&link, &["auto", "auto"], 25.0, 0.25);
            } else {
                assert_shared(&outcome, 0.25);
            }
            // CUBIC keeps 0.7 of a 1-BDP queue and 3 of a 4-BDP queue.
            assert!(outcome.queue < if queue > 1.0 { 1.2 } else { 0.5 }, "{}", outcome.queue);
        }
    }
}

#[test]
fn more_autos_share_too() {
    assert_shared(&run(Link::new(20, 100), &["auto", "auto"], 45.0), 0.25);
    let four = ["auto", "auto", "auto", "auto"];
    assert_shared(&run(Link::new(100, 20), &four, 25.0), 0.1);
    // Of a quarter each the least has 0.15 in the mean, once in ten moments a tenth or less.
    assert_shared_whenever_begun(&Link::new(100, 20).lossy(0.1, 0.0), &four, 25.0, 0.13);
}

/// Before flows looked at what the link carried of theirs, four dropped 15 to 35 % here, and ten 20 %: each
/// took the common loss for the path's.
#[test]
fn autos_in_a_short_queue_do_not_take_its_drops_for_the_paths() {
    let four = run(Link::new(100, 20).queue(0.25).lossy(0.1, 0.0), &["auto"; 4], 25.0);
    assert!(four.dropped < 0.06, "{}", four.dropped);
    assert_shared(&four, 0.1);
    let ten = run(Link::new(100, 20).queue(0.5).lossy(0.02, 0.0), &["auto"; 10], 25.0);
    assert!(ten.dropped < 0.06, "{}", ten.dropped);
}

/// Nobody who comes late sees the empty queue, and each takes what all drop for the path's. Of three crowds
/// each dropped 0.36 to 0.38 of what it sent, as long as flows that saw the queue go little by little kept
/// that belief; 0.17 to 0.36 until they drained it in the same moments, 0.12 to 0.13 now.
#[test]
fn crowds_of_autos_come_down() {
    let crowds = [30, 40, 50]
        .map(|gap| run_every(Duration::from_millis(gap), Link::new(100, 20), &["auto"; 50], 25.0));
    let dropped = mean(&crowds.map(|crowd| crowd.dropped));
    assert!(dropped < 0.3, "{dropped}");
}

/// Of three flows behind a policer: what it drops in fifty seconds, and Jain's index from the twentieth on.
fn behind_a_policer(without: Option<Mechanism>) -> (f64, f64) {
    let mut link = Link::new(100, 40);
    link.policer = Some(Policer { rate: Rate::from_bits_per_second(30_000_000), burst_bytes: 100_000 });
    let mut run = Bottleneck::new(link, 50.0, 7);
    for place in 0..3 {
        let auto = Auto::new(MTU).without(without);
        run.add(Box::new(auto), Duration::from_secs(1) * place, App::Bulk);
    }
    run.run(20.0);
    let received = run.run_and_count(30.0);
    (run.policed_share(), jain(&received))
}

/// Nothing waits at a policer, so that each flow takes all drops for the path's, and makes up for them.
#[test]
fn behind_a_policer_they_find_that_probes_make_no_queue() {
    let (with, without) = (behind_a_policer(None), behind_a_policer(Some(Mechanism::Policer)));
    println!("policed {:.3}, Jain {:.3}; not known {:.3}, {:.3}", with.0, with.1, without.0, without.1);
    assert!(with.0 < 0.5 * without.0, "{with:?}, {without:?}");
    assert!(with.1 > 0.9, "{with:?}");
}

/// Of twenty flows that begin `gap` milliseconds one after another, on hosts whose clocks are up to `apart`
/// from each other: what the queue dropped in so many seconds, and Jain's index after ten.
fn crowd_of_twenty(
    link: Link,
    seconds: f64,
    gap: u64,
    without: Option<Mechanism>,
    apart: Duration,
) -> (f64, f64) {
    const FROM: f64 = 10.0;
    let mut run = Bottleneck::new(link, seconds, 7);
    for place in 0..20 {
        let auto = Auto::new(MTU).without(without);
        // Not in the order in which they begin.
        let by = apart * (place * 7 % 20) / 19;
        run.add(Box::new(Ahead { auto, by }), Duration::from_millis(gap) * place, App::Bulk);
    }
    run.run(FROM);
    let received = run.run_and_count(seconds - FROM);
    (run.dropped_share(), jain(&received))
}

/// Flows that begin within two or three seconds take the full queue for the path. Those that drain it in the
/// same moments find out, though their clocks differ; each alone does not.
#[test]
fn a_crowd_drains_its_queue_in_the_same_moments() {
    let crowds = |without, apart| {
        let starts =
            [100, 110, 120, 130].map(|gap| crowd_of_twenty(Link::new(100, 20), 25.0, gap, without, apart));
        (mean(&starts.map(|start| start.0)), mean(&starts.map(|start| start.1)))
    };
    let (dropped, jain) = crowds(None, Duration::ZERO);
    let (dropped_apart, jain_apart) = crowds(None, Duration::from_millis(100));
    let (dropped_alone, jain_alone) = crowds(Some(Mechanism::Join), Duration::ZERO);
    println!(
        "{dropped:.3} dropped, Jain {jain:.3}; clocks 0.1 s apart {dropped_apart:.3}, {jain_apart:.3}; each alone \
         {dropped_alone:.3}, {jain_alone:.3}"
    );
    assert!(dropped.max(dropped_apart) < 0.6 * dropped_alone, "{dropped}, {dropped_apart}, {dropped_alone}");
    assert!(jain.min(jain_apart) > 0.9, "{jain}, {jain_apart}");
}

/// Twenty flows on a link that loses a fiftieth have ten packets a round trip each, and lose one in one round
/// of five. By the rule that no single round may lose more than its floor explains, shares went with the
/// errors of the floors.
#[test]
fn shares_do_not_go_with_the_errors_of_floors() {
    let link = Link::new(100, 20).lossy(0.02, 0.0);
    let jains = [100, 110, 120].map(|gap| crowd_of_twenty(link.clone(), 40.0, gap, None, Duration::ZERO).1);
    println!("Jain {jains:.3?}");
    assert!(mean(&jains) > 0.97, "{jains:?}");
}

/// Each of ten flows that begin one after another, within six to ten seconds, on a long path sends 0.7 of
/// what the link carries until it knows better, a round trip later. As long as the others came down by a
/// seventh each round, the queue was full until all had come: in the mean of sixteen such crowds 0.120 of all
/// packets was dropped, 0.098 now (standard error 0.005).
#[test]
#[ignore = "long: make test-deep"]
fn latecomers_on_a_long_path_are_made_room_for_at_once() {
    let dropped: Vec<f64> = (700..1100)
        .step_by(25)
        .map(|gap| {
            run_every(Duration::from_millis(gap), Link::new(100, 250).queue(0.5), &["auto"; 10], 40.0).dropped
        })
        .collect();
    let dropped = mean(&dropped);
    println!("{dropped:.3} dropped");
    assert!(dropped < 0.109, "{dropped}");
}

/// Of two flows whose round trips are 10 and 100 ms, at a loss rate: Jain's index from the 15th to the 45th
/// second, in the mean of four starts.
fn near_and_far(without: Option<Mechanism>, loss: f64) -> f64 {
    let starts = [500, 1000, 1500, 2000].map(|gap| {
        let link = Link::new(100, 10).queue(2.0).lossy(loss, 0.0);
        let mut run = Bottleneck::new(link, 45.0, 7);
        let auto = || Box::new(Auto::new(MTU).without(without));
        run.add(auto(), Duration::ZERO, App::Bulk);
        run.add_far(auto(), Duration::from_millis(gap), App::Bulk, Duration::from_millis(90));
        run.run(15.0);
        jain(&run.run_and_count(30.0))
    });
    mean(&starts)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Jain's index of the bytes that each flow received.
fn jain(received: &[u64]) -> f64 {
    let (sum, squares) = received.iter().fold((0.0, 0.0), |(sum, squares), &bytes| {
        (sum + bytes as f64, squares + bytes as f64 * bytes as f64)
    });
    sum * sum / squares / received.len() as f64
}

/// A queue that doubles one round trip is a tenth of the other. If that counts as none the far flow has the
/// link.
#[test]
#[ignore = "long: make test-deep"]
fn who_is_far_sees_the_queue_of_who_is_near() {
    for loss in [0.0, 0.02] {
        let (jain, as_part) = (near_and_far(None, loss), near_and_far(Some(Mechanism::Steady), loss));
        println!("{loss}: Jain {jain:.3}, as a part of the round trip {as_part:.3}");
        // 0.98 to 0.998 and 0.92 to 0.97 without loss, from start to start: what is lacking tells.
        assert!(jain > 0.88 && 1.0 - jain < 0.5 * (1.0 - as_part), "{jain}, {as_part}");
    }
}

/// Takes nothing for congestion: so many bytes under way, but for four packets for 200 ms in each ten
/// seconds.
#[derive(Debug, Default)]
struct Insistent {
    now: Duration,
}

impl CongestionController for Insistent {
    fn name(&self) -> &'static str {
        "insistent"
    }

    fn on_feedback(&mut self, feedback: &Feedback, _: &PathView) {
        self.now = feedback.now - Instant::ZERO;
    }

    fn on_timeout(&mut self, _: Instant, _: u32, _: &PathView) {}

    fn on_path_change(&mut self, _: Instant, _: &PathView) {}

    fn budget(&self) -> SendBudget {
        const PERIOD_MILLIS: u128 = 10_200;
        const STANDING_BYTES: u64 = 300_000;
        let is_looking = self.now.as_millis() % PERIOD_MILLIS > PERIOD_MILLIS - 200;
        let window_bytes = if is_looking { 4 * u64::from(MTU) } else { STANDING_BYTES };
        SendBudget { window_bytes, pacing: None, burst_bytes: 10 * u64::from(MTU) }
    }

    fn bandwidth(&self) -> Option<Rate> {
        None
    }

    fn phase(&self) -> &'static str {
        "standing"
    }
}

/// `auto` on a host whose clock is ahead of the others'.
#[derive(Debug)]
struct Ahead {
    auto: Auto,
    by: Duration,
}

impl CongestionController for Ahead {
    fn name(&self) -> &'static str {
        self.auto.name()
    }

    fn on_flight_begun(&mut self) {
        self.auto.on_flight_begun();
    }

    fn on_feedback(&mut self, feedback: &Feedback, path: &PathView) {
        let mut seen = feedback.clone();
        seen.now += self.by;
        seen.newest_acked_sent_at = seen.newest_acked_sent_at.map(|at| at + self.by);
        self.auto.on_feedback(&seen, path);
    }

    fn on_timeout(&mut self, now: Instant, count: u32, path: &PathView) {
        self.auto.on_timeout(now + self.by, count, path);
    }

    fn on_path_change(&mut self, now: Instant, path: &PathView) {
        self.auto.on_path_change(now + self.by, path);
    }

    fn budget(&self) -> SendBudget {
        self.auto.budget()
    }

    fn bandwidth(&self) -> Option<Rate> {
        self.auto.bandwidth()
    }

    fn phase(&self) -> &'static str {
        self.auto.phase()
    }
}
