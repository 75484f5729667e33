//! The three regimes of the default policy.

use super::*;
use crate::LossView;
use crate::redundancy::{OftenLost, ProtectedSet};

fn path(rate: f64) -> PathView {
    let mut path = PathView::unknown(1200);
    path.has_rtt_sample = true;
    path.rtt_smoothed = Duration::from_millis(50);
    path.loss = LossView { rate, burst_packets: 1.0 / (1.0 - rate), weight_packets: 1000.0 };
    path
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A flow of one symbol each 5 ms; nothing is acknowledged before a round trip has passed. Returns repair per
/// source.
fn thin(policy: &mut AutoRedundancy, path: &PathView) -> f64 {
    let mut opportunity = Opportunity::idle(at(0));
    opportunity.window_max = 64;
    for step in 0..400_u64 {
        opportunity.now = at(step * 5);
        opportunity.has_new_data = true;
        opportunity.unacked_symbols = 9;
        policy.on_feedback(&Feedback::at(opportunity.now), path);
        loop {
            let choice = policy.choose(&opportunity, path);
            if !matches!(choice, Choice::Wait(_)) {
                policy.on_emitted(choice, &opportunity, path);
            }
            match choice {
                Choice::Source => {
                    assert!(opportunity.has_new_data);
                    opportunity.has_new_data = false;
                    opportunity.sources_sent += 1;
                    opportunity.repairs_since_source = 0;
                    opportunity.newest_source = Some(opportunity.now);
                }
                Choice::Repair { symbols, .. } => {
                    assert!((1..=9).contains(&symbols));
                    opportunity.repairs_sent += 1;
                    opportunity.repairs_since_source += 1;
                }
                Choice::Wait(until) => {
                    assert!(until.is_none_or(|until| until > opportunity.now));
                    break;
                }
                Choice::Recover
                | Choice::Protect
                | Choice::ProtectAgain
                | Choice::SecondCopy
                | Choice::CopyAgain => {
                    panic!("nothing is missing")
                }
                other @ (Choice::Group { .. } | Choice::Combine { .. }) => panic!("not its kind: {other:?}"),
            }
        }
    }
    opportunity.repairs_sent as f64 / opportunity.sources_sent as f64
}

#[test]
fn a_thin_flow_gets_as_much_repair_as_its_loss_needs() {
    let ratios = [0.0, 0.001, 0.01, 0.05, 0.2].map(|rate| thin(&mut AutoRedundancy::new(), &path(rate)));
    assert_eq!(ratios[..2], [0.0, 0.0]);
    assert!((0.1..=0.4).contains(&ratios[2]), "{ratios:?}");
    assert!((0.25..=0.6).contains(&ratios[3]), "{ratios:?}");
    // The walk of channel.rs: at 20 % one per source closes a hole in ten symbols, two in four. Seven are
    // sent in 0.7 RTT.
    assert!((1.8..=2.1).contains(&ratios[4]), "{ratios:?}");
}

#[test]
fn what_is_favored_decides_how_much_repair_a_thin_flow_gets() {
    for rate in [0.01, 0.05, 0.2] {
        let [throughput, balanced, latency] =
            Favor::ALL.map(|favor| thin(&mut AutoRedundancy::favoring(favor), &path(rate)));
        assert!(
            throughput < 0.05 && balanced > 0.1 && latency > balanced,
            "{throughput} {balanced} {latency}"
        );
    }
}

/// A policy that has seen only feedback of a full window.
fn bulk(favor: Favor, path: &PathView) -> AutoRedundancy {
    let mut policy = AutoRedundancy::favoring(favor);
    let mut limited = Feedback::at(at(0));
    limited.is_window_limited = true;
    for _ in 0..200 {
        policy.on_feedback(&limited, path);
    }
    policy
}

#[test]
fn where_throughput_is_favored_bulk_data_are_not_protected() {
    let path = path(0.2);
    let mut opportunity = Opportunity::idle(at(0));
    (opportunity.has_new_data, opportunity.recovering_symbols, opportunity.sources_sent) = (true, 40, 10_000);
    assert_eq!(bulk(Favor::Balanced, &path).choose(&opportunity, &path), Choice::Protect);
    assert_eq!(bulk(Favor::Throughput, &path).choose(&opportunity, &path), Choice::Source);
}

#[test]
fn symbols_that_favor_latency_are_copied_amid_bulk_data_within_a_tenth() {
    let path = path(0.05);
    let mut policy = bulk(Favor::Balanced, &path);
    let mut opportunity = Opportunity::idle(at(0));
    (opportunity.has_new_data, opportunity.window_max, opportunity.unacked_symbols) = (true, 64, 100);
    let mut copies = 0;
    for sent in 1..=10_000 {
        opportunity.sources_sent = sent;
        opportunity.favor = (sent % 20 == 0 || sent > 5_000).then_some(Favor::Latency);
        opportunity.repairs_since_source = 0;
        while let copy @ Choice::Repair { symbols: 1, .. } = policy.choose(&opportunity, &path) {
            assert_eq!(opportunity.favor, Some(Favor::Latency));
            policy.on_emitted(copy, &opportunity, &path);
            opportunity.repairs_since_source += 1;
            copies += 1;
        }
        assert_eq!(policy.choose(&opportunity, &path), Choice::Source);
        policy.on_emitted(Choice::Source, &opportunity, &path);
    }
    // One for each of 250; then one for each source were due, and a tenth of that is allowed.
    assert!((740..=790).contains(&copies), "{copies}");
}

#[test]
fn unknown_loss_is_no_loss() {
    let mut unknown = path(0.2);
    unknown.loss.weight_packets = 5.0;
    assert_eq!(thin(&mut AutoRedundancy::new(), &unknown), 0.0);
}

#[test]
fn bulk_gets_only_what_was_asked_for_and_little_beyond() {
    let path = path(0.2);
    let mut policy = bulk(Favor::Balanced, &path);
    let mut opportunity = Opportunity::idle(at(0));
    (opportunity.has_new_data, opportunity.window_max) = (true, 64);
    let (mut protected, mut wasted) = (0, 0.0);
    for step in 0..30_000 {
        opportunity.now = at(step);
        opportunity.sources_sent += 5;
        opportunity.recovering_symbols += 1;
        let choice = policy.choose(&opportunity, &path);
        policy.on_emitted(choice, &opportunity, &path);
        match choice {
            Choice::Source => {}
            Choice::Protect => {
                protected += 1;
                // It names eight symbols, however many are being recovered.
                wasted += libm::pow(0.8, f64::from(opportunity.recovering_symbols.min(8)));
                opportunity.recovering_symbols = 0;
            }
            other => panic!("{other:?}"),
        }
    }
    // One combination for every four to twenty copies, its probable waste at most a quarter of a per cent of
    // the 150,000 sources and what was saved up.
    assert!((1_500..=7_500).contains(&protected), "{protected}");
    assert!(wasted <= 0.0025 * 150_000.0 + 4.0, "{wasted}");
}

#[test]
fn a_tail_is_protected_once_data_ran_out() {
    let (mut policy, path) = (AutoRedundancy::new(), path(0.1));
    let mut opportunity = Opportunity::idle(at(100));
    (opportunity.window_max, opportunity.unacked_symbols, opportunity.sources_sent) = (64, 10, 10);
    opportunity.newest_source = Some(at(100));
    let mut repairs = 0;
    while let tail @ Choice::Repair { symbols: 10, reason: RepairReason::Tail } =
        policy.choose(&opportunity, &path)
    {
        policy.on_emitted(tail, &opportunity, &path);
        repairs += 1;
        opportunity.repairs_since_source += 1;
        assert!(repairs < 20);
    }
    // P(<= 5 of 15 lost) = 0.9978.
    assert_eq!(repairs, 5);
    assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(None));
}

#[test]
fn a_tail_waits_as_long_as_data_usually_take_to_come() {
    let (mut policy, path) = (AutoRedundancy::new(), path(0.1));
    thin(&mut policy, &path);
    let mut opportunity = Opportunity::idle(at(5000));
    (opportunity.window_max, opportunity.unacked_symbols) = (64, 3);
    opportunity.newest_source = Some(at(5000));
    policy.credit.proactive = 0.0;
    assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(Some(at(5010))));
    opportunity.now = at(5010);
    assert!(matches!(policy.choose(&opportunity, &path), Choice::Repair { reason: RepairReason::Tail, .. }));
}

/// With one over each of eight all arrive with 0.72, with four over all of them with 0.93.
#[test]
fn where_nothing_new_is_left_copies_are_protected_together() {
    let (policy, path) = (AutoRedundancy::new(), path(0.2));
    let mut opportunity = Opportunity::idle(at(1000));
    (opportunity.recovering_symbols, opportunity.newest_copy) = (7, Some(at(1000)));
    let complete_at = at(1000) + path.rtt_smoothed / 32;
    assert_eq!(policy.choose(&opportunity, &path), Choice::Wait(Some(complete_at)), "more may follow");
    opportunity.now = complete_at;
    assert_eq!(policy.choose(&opportunity, &path), Choice::Protect, "none did");
    (opportunity.now, opportunity.recovering_symbols) = (at(1000), 8);
    assert_eq!(policy.choose(&opportunity, &path), Choice::Protect, "as many as one can name");

    opportunity.recovering_symbols = 0;
    let mut set = ProtectedSet { symbols: 8, combinations: 1 };
    opportunity.protected = Some(set);
    while let Choice::ProtectAgain = policy.choose(&opportunity, &path) {
        set.combinations += 1;
        opportunity.protected = Some(set);
    }
    assert_eq!(set.combinations, 4);
    opportunity.protected = Some(ProtectedSet { symbols: 8, combinations: 1 });
    opportunity.has_new_data = true;
    assert_eq!(policy.choose(&opportunity, &path), Choice::Source, "new data are worth more");
}

#[test]
fn repair_asked_for_goes_first() {
    let (policy, clean) = (AutoRedundancy::new(), path(0.0));
    let mut opportunity = Opportunity::idle(at(0));
    (opportunity.has_new_data, opportunity.missing, opportunity.missing_symbols) = (true, 2, 2);
    assert_eq!(policy.choose(&opportunity, &clean), Choice::Recover);
    // Without loss to speak of, one answer each is enough.
    (opportunity.missing, opportunity.recovering_symbols) = (0, 2);
    assert_eq!(policy.choose(&opportunity, &clean), Choice::Source);
    // With it a thin flow protects the answers.
    opportunity.has_new_data = false;
    let lossy = path(0.1);
    assert_eq!(policy.choose(&opportunity, &lossy), Choice::Protect);
}

#[test]
fn what_was_lost_often_gets_several_copies_as_far_as_that_is_rare() {
    let policy = AutoRedundancy::new();
    let copies = |rate: f64, losses: u32| {
        let mut opportunity = Opportunity::idle(at(0));
        (opportunity.has_new_data, opportunity.missing) = (true, 1);
        let has_another = |copies: &u32| {
            opportunity.often_lost = Some(OftenLost { losses, copies: *copies });
            policy.choose(&opportunity, &path(rate)) == Choice::CopyAgain
        };
        1 + (1..10).take_while(has_another).count()
    };
    // 0.0074 of the symbols are lost twice, 0.0006 three times.
    assert_eq!((copies(0.086, 2), copies(0.086, 3)), (3, 4));
    assert_eq!((copies(0.18, 2), copies(0.18, 3), copies(0.18, 4)), (1, 3, 4));
    assert_eq!(copies(0.001, 2), 1, "hardly any loss");
}
