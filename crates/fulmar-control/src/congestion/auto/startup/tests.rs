//! Start-up by its rounds, its jumps and what they met.

use crate::PathView;

use super::*;

fn round(delivered: u64, lost_packets: u32) -> Tally {
    let mut tally = Tally::new();
    tally.delivery_rate = Rate::from_bytes_per_second(delivered);
    (tally.acked_packets, tally.lost_packets) = (100, lost_packets);
    tally
}

fn after(rounds: &[(u64, Queue)]) -> Verdict {
    let mut startup = Startup::new(Rate::ZERO, Early::new());
    let mut judge = |&(delivered, queue): &(u64, Queue)| startup.judge(&round(delivered, 0), queue, None);
    rounds.iter().map(&mut judge).last().expect("a round")
}

#[test]
fn it_is_over_when_the_rate_stands_still_sooner_with_a_queue() {
    let grown = (1000, Queue::None);
    assert_eq!(after(&[grown]), Verdict::Grew);
    assert_eq!(after(&[grown, (1250, Queue::Long)]), Verdict::Grew);
    assert_eq!(after(&[grown, (1249, Queue::Long)]), Verdict::Full);
    assert_eq!(after(&[grown, (1249, Queue::Some)]), Verdict::Undecided);
    assert_eq!(after(&[grown, (1249, Queue::Some), (1249, Queue::Some)]), Verdict::Full);
    assert_eq!(after(&[grown, grown, grown]), Verdict::Undecided);
    assert_eq!(after(&[grown, grown, grown, grown]), Verdict::Full);
}

#[test]
fn bursts_are_passed_over_a_few_times() {
    let mut startup = Startup::new(Rate::from_bytes_per_second(1000), Early::new());
    for _ in 0..SKIPPED_ROUNDS_MAX + FULL_ROUNDS - 1 {
        assert_eq!(startup.judge(&round(1000, 80), Queue::None, None), Verdict::Undecided);
    }
    assert_eq!(startup.judge(&round(1000, 80), Queue::None, None), Verdict::Full);
}

#[test]
fn what_measures_nothing_decides_nothing() {
    let mut startup = Startup::new(Rate::from_bytes_per_second(1000), Early::new());
    let mut blackout = round(900, 0);
    blackout.is_blackout = true;
    let mut idle = round(900, 0);
    idle.is_app_limited = true;
    for _ in 0..10 {
        assert_eq!(startup.judge(&blackout, Queue::Long, None), Verdict::Undecided);
        assert_eq!(startup.judge(&idle, Queue::Some, None), Verdict::Undecided);
    }
}

#[test]
fn rounds_that_fill_the_path_and_end_early_end_it_in_time() {
    let mut startup = Startup::new(Rate::ZERO, Early::new());
    let mut is_full = |rate| startup.is_full_at(Rate::from_bytes_per_second(rate));
    assert!(!is_full(1000) && !is_full(1100) && !is_full(1250));
    for _ in 1..FILLED_ROUNDS {
        assert!(!is_full(1500));
    }
    assert!(is_full(1500));
}

#[test]
fn loss_that_grows_with_the_rate_three_rounds_long_ends_it() {
    let mut startup = Startup::new(Rate::ZERO, Early::new());
    let mut verdicts = [400, 1000, 2500, 6000, 15000]
        .map(|bytes| startup.judge(&round(bytes, 40), Queue::None, (bytes > 1000).then_some(0.15)));
    verdicts.reverse();
    assert_eq!(verdicts[..2], [Verdict::Full, Verdict::Grew]);
}

#[test]
fn few_packets_may_lose_that_much_by_chance() {
    let mut excess = Excess::default();
    let mut tally = Tally::new();
    (tally.acked_packets, tally.lost_packets) = (6, 4);
    // Of 10 k packets 4 k are lost; 3 k are tolerated and 3 sqrt(2.1 k) may be chance: from k = 19 on.
    let rounds = (1..).find(|_| excess.on_round(&tally, Some(0.3)));
    assert_eq!(rounds, Some(19));
    assert!(!excess.on_round(&tally, None) && excess.rounds == 0);
}

#[test]
fn where_the_path_is_known_a_queue_ends_it() {
    let path = PathView::unknown(1200);
    let grown = |early, queue| {
        let mut startup = Startup::new(Rate::from_bytes_per_second(1000), early);
        startup.judge(&round(2000, 0), queue, None)
    };
    assert_eq!(grown(Early::new(), Queue::Some), Verdict::Grew);
    assert_eq!(grown(Early::again(&path), Queue::None), Verdict::Grew);
    assert_eq!(grown(Early::again(&path), Queue::Some), Verdict::Full);
}

const RTT: Duration = Duration::from_millis(200);

/// A start-up in a jump to 1 MB/s, decided at 1 s; its ACKs come every millisecond from `from` to `to` ms, of
/// 700 bytes each, and show a queue of so many milliseconds.
fn jump(from: u64, to: u64, queue: impl Fn(u64) -> u64) -> Startup {
    lossy_jump(from, to, queue, 0)
}

/// The same, with as many packets lost for each that arrives.
fn lossy_jump(from: u64, to: u64, queue: impl Fn(u64) -> u64, lost_packets: u32) -> Startup {
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let mut startup = Startup::new(Rate::ZERO, Early::new());
    let train = Train { rate: Rate::from_bytes_per_second(1_000_000), packets: 10, growth: None };
    startup.jump = Some(Jump::new(train, at(1000)));
    for millis in from..=to {
        let rtt = RTT + Duration::from_millis(queue(millis));
        let mut feedback = Feedback::at(at(millis));
        (feedback.acked_bytes, feedback.rtt) = (700, Some(rtt));
        (feedback.acked_packets, feedback.lost.packets) = (1, lost_packets);
        feedback.newest_acked_sent_at = Some(feedback.now - rtt);
        startup.watch_trains(&feedback, Rate::ZERO, RTT, RTT / 8, true);
    }
    startup
}

#[test]
fn a_jump_is_whole_when_its_first_part_met_no_queue() {
    let rate = |startup: Startup| startup.jump_rate().map(Rate::bytes_per_second);
    assert_eq!(rate(jump(1000, 1224, |_| 0)), Some(700_000));
    assert_eq!(rate(jump(1000, 1225, |_| 0)), Some(1_000_000));
    // One late packet is no queue.
    assert_eq!(rate(jump(1000, 1225, |millis| if millis == 1210 { 100 } else { 0 })), Some(1_000_000));
    assert_eq!(rate(jump(1000, 1300, |_| 30)), Some(700_000));
}

#[test]
fn a_first_part_that_lost_much_is_not_whole_before_the_round_tells_whose_loss_it_is() {
    let rate = |startup: &Startup| startup.jump_rate().map(Rate::bytes_per_second);
    let mut startup = lossy_jump(1000, 1300, |_| 0, 1);
    assert_eq!(rate(&startup), Some(700_000));
    let of_path = (startup.judge(&round(700_000, 50), Queue::Flat, Some(0.2)), rate(&startup));
    assert_eq!(of_path, (Verdict::Undecided, Some(1_000_000)));
    let mut startup = lossy_jump(1000, 1300, |_| 0, 1);
    assert_eq!(startup.judge(&round(700_000, 50), Queue::None, Some(0.2)), Verdict::Shared);
}

/// Packets of 1000 bytes, sent at once and answered a millisecond apart, while so much was delivered.
fn jumps_after(packets: u32, delivered: u64) -> bool {
    jumps_where(Duration::ZERO, packets, delivered)
}

/// The same, after a round whose round trips differed by so much.
fn jumps_where(rtt_range: Duration, packets: u32, delivered: u64) -> bool {
    let mut startup = Startup { rtt_range, ..Startup::new(Rate::ZERO, Early::new()) };
    for ordinal in 0..packets {
        let rtt = RTT + Duration::from_millis(ordinal.into());
        let mut feedback = Feedback::at(Instant::ZERO + rtt);
        (feedback.acked_bytes, feedback.acked_packets) = (1000, 1);
        (feedback.newest_acked_sent_at, feedback.rtt) = (Some(Instant::ZERO), Some(rtt));
        feedback.newest_acked_ordinal = ordinal;
        startup.watch_trains(&feedback, Rate::from_bytes_per_second(delivered), RTT, RTT / 8, true);
    }
    startup.jump_rate().is_some()
}

#[test]
fn a_short_train_is_faster_than_start_up_is_anyway() {
    assert!(jumps_after(10, 360_000));
    assert!(!jumps_after(10, 362_000));
    assert!(jumps_after(LONG_TRAIN + 1, 362_000));
    assert!(!jumps_after(LONG_TRAIN + 1, 1_260_000));
}

#[test]
fn a_slower_one_stretches_round_trips_by_more_than_jitter_did() {
    let jumps = |millis, delivered| jumps_where(Duration::from_millis(millis), LONG_TRAIN + 1, delivered);
    assert!(jumps(64, 362_000));
    assert!(!jumps(65, 362_000));
    assert!(jumps(65, 360_000), "faster than start-up");
}

#[test]
fn what_was_lost_before_a_jump_as_well_is_no_crowds() {
    let verdict_after = |before: u32| {
        let mut startup = jump(1000, 1210, |_| 0);
        startup.before_jump.add_round(&round(1000, before));
        startup.judge(&round(700_000, 60), Queue::None, Some(0.2))
    };
    assert_eq!(verdict_after(0), Verdict::Shared);
    assert_eq!(verdict_after(50), Verdict::Undecided);
}

#[test]
fn a_queue_or_heavy_loss_that_a_part_of_the_rate_meets_is_others() {
    let judge = |mut startup: Startup, lost_packets, queue, tolerated| {
        let arrived = startup.arrived_rate().map(Rate::bytes_per_second);
        (startup.judge(&round(700_000, lost_packets), queue, tolerated), arrived)
    };
    let (verdict, arrived) = judge(jump(1000, 1300, |_| 30), 0, Queue::Some, None);
    assert_eq!((verdict, arrived), (Verdict::Shared, Some(700_000)));
    assert_eq!(judge(jump(1000, 1210, |_| 0), 0, Queue::None, None).0, Verdict::Undecided);
    assert_eq!(judge(jump(1000, 1210, |_| 0), 40, Queue::None, Some(0.15)).0, Verdict::Shared);
    // Where every round trip was the shortest it is the path that loses.
    assert_eq!(judge(jump(1000, 1210, |_| 0), 40, Queue::Flat, Some(0.15)).0, Verdict::Undecided);
    assert_eq!(judge(jump(1000, 1300, |_| 0), 40, Queue::None, Some(0.15)).0, Verdict::Shared);
}

/// A round of these round trips in milliseconds.
fn round_of(rtts: &[u64], lost_packets: u32) -> Tally {
    let mut tally = round(1000, lost_packets);
    for &rtt in rtts {
        let mut feedback = Feedback::at(Instant::ZERO);
        feedback.rtt = Some(Duration::from_millis(rtt));
        tally.add(&feedback, Duration::ZERO);
    }
    tally
}

#[test]
fn round_trips_that_go_up_and_down_are_what_the_path_makes_of_the_shortest() {
    let usual = |rounds: &[(&[u64], Queue)]| {
        let mut startup = Startup::new(Rate::ZERO, Early::new());
        rounds.iter().for_each(|(rtts, queue)| startup.learn_usual(&round_of(rtts, 0), *queue));
        startup.usual_rtt().as_millis()
    };
    let (rough, rougher) = (&[40_u64, 60, 45, 55][..], &[50_u64, 70, 55, 65][..]);
    assert_eq!(usual(&[(rough, Queue::None)]), 50);
    assert_eq!(usual(&[(rough, Queue::Some)]), 50, "the first");
    assert_eq!(usual(&[(rough, Queue::None), (rougher, Queue::None)]), 50, "the least");
    assert_eq!(usual(&[(rougher, Queue::None), (rough, Queue::Some)]), 60, "not below a queue");
    assert_eq!(usual(&[(&[40, 45, 55, 60], Queue::None)]), 0, "a queue that grows");
    assert_eq!(usual(&[(&[40, 60, 40], Queue::None)]), 0, "too few");
}

#[test]
fn what_the_first_packets_lost_is_no_queue_s() {
    let mut startup = Startup::new(Rate::ZERO, Early::new());
    assert_eq!(startup.first_loss(), 0.0);
    let mut blackout = round_of(&[40], 200);
    blackout.is_blackout = true;
    startup.learn_usual(&blackout, Queue::None);
    assert_eq!(startup.first_loss(), 0.0, "a black-out teaches nothing");
    startup.learn_usual(&round_of(&[40], 50), Queue::None);
    startup.learn_usual(&round_of(&[40], 200), Queue::None);
    assert_eq!(startup.first_loss(), 50.0 / 150.0);
}
