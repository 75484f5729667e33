//! CUBIC against numbers worked by hand from RFC 9438.

use super::*;
use crate::LossEvent;

const MTU: u32 = 1000;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn path(rtt_millis: u64) -> PathView {
    let mut path = PathView::unknown(MTU);
    path.has_rtt_sample = true;
    path.rtt_smoothed = Duration::from_millis(rtt_millis);
    path
}

fn acked(now: u64, bytes: u64) -> Feedback {
    let mut feedback = Feedback::at(at(now));
    feedback.acked_bytes = bytes;
    feedback.newest_acked_sent_at = Some(at(now));
    feedback.is_window_limited = true;
    feedback
}

fn lost(now: u64) -> Feedback {
    let mut feedback = Feedback::at(at(now));
    feedback.lost = LossEvent {
        bytes: 1000,
        packets: 1,
        bursts: 1,
        newest_sent_at: Some(at(now)),
        ..LossEvent::default()
    };
    feedback
}

fn with_window(packets: u32) -> Cubic {
    let mut config = CubicConfig::default();
    config.window.initial_packets = packets;
    Cubic::new(MTU, config)
}

fn window(cubic: &Cubic) -> f64 {
    cubic.state.window_packets
}

fn ssthresh(cubic: &Cubic) -> Option<u64> {
    let packets = cubic.state.ssthresh_packets;
    packets.is_finite().then_some((packets * f64::from(MTU)) as u64)
}

/// A round of ACKs, one per packet, at `now`.
fn round(cubic: &mut Cubic, now: u64, rtt: u64) {
    for _ in 0..window(cubic) as u32 {
        cubic.on_feedback(&acked(now, 1000), &path(rtt));
    }
}

#[test]
fn the_window_is_back_at_its_plateau_after_k_seconds() {
    let mut cubic = with_window(1000);
    cubic.on_feedback(&lost(0), &path(100));
    assert_eq!((window(&cubic), ssthresh(&cubic)), (700.0, Some(700_000)));
    // K = cbrt((1000 - 700) / 0.4) = cbrt(750) = 9.086 s.
    for step in 1..=90 {
        round(&mut cubic, step * 100, 100);
        assert!(window(&cubic) <= 1001.0, "below the plateau until K: {} at {step}", window(&cubic));
    }
    // The stage began at 0.1 s, W(8.9 s) = 0.4 * (8.9 - 9.086)^3 + 1000 = 999.997.
    assert!((window(&cubic) - 1000.0).abs() < 0.5, "{}", window(&cubic));
    assert_eq!(cubic.phase(), "concave");
    for step in 91..=141 {
        round(&mut cubic, step * 100, 100);
    }
    // W(14.0 s + one round trip of 0.1) = 0.4 * (14.1 - 9.086)^3 + 1000 = 1050.4.
    assert!((window(&cubic) - 1050.0).abs() < 2.0, "{}", window(&cubic));
    assert_eq!(cubic.phase(), "convex");
}

#[test]
fn a_short_round_trip_is_renos_ground() {
    let mut cubic = with_window(20);
    cubic.on_feedback(&lost(0), &path(10));
    assert!((window(&cubic) - 14.0).abs() < 1e-9);
    for step in 1..=10 {
        round(&mut cubic, step * 10, 10);
    }
    // alpha = 3 * 0.3 / 1.7 = 0.529 packets a round: 14 + 10 * 0.529 = 19.3; CUBIC alone would have
    // K = cbrt(6 / 0.4) = 2.47 s and W(0.1) = 20 + 0.4 * (-2.37)^3 = 14.7.
    assert!((19.0..19.6).contains(&window(&cubic)), "{}", window(&cubic));
    assert_eq!(cubic.phase(), "reno-friendly");
}

#[test]
fn fast_convergence_lowers_the_plateau() {
    let mut cubic = with_window(1000);
    cubic.on_feedback(&lost(0), &path(100));
    cubic.on_feedback(&lost(200), &path(100));
    // 700 < 1000: W_max = 700 * 1.7 / 2 = 595, window = 490.
    assert!((cubic.state.max_packets - 595.0).abs() < 1e-6 && (window(&cubic) - 490.0).abs() < 1e-6);
}

#[test]
fn marks_reduce_more_gently_than_loss() {
    let mut cubic = with_window(100);
    let mut mark = acked(10, 1000);
    mark.ecn_ce_packets = 1;
    cubic.on_feedback(&mark, &path(100));
    cubic.on_feedback(&mark, &path(100));
    assert_eq!(window(&cubic), 85.0);
}

#[test]
fn a_spurious_event_restores_window_threshold_and_plateau() {
    let mut cubic = with_window(100);
    cubic.on_feedback(&lost(10), &path(100));
    let mut spurious = Feedback::at(at(20));
    spurious.spurious_packets = 1;
    cubic.on_feedback(&spurious, &path(100));
    assert_eq!((window(&cubic), ssthresh(&cubic), cubic.phase()), (100.0, None, "slow start"));
}

#[test]
fn the_function_stands_still_while_the_application_is_the_limit() {
    let (mut busy, mut idle) = (with_window(1000), with_window(1000));
    for cubic in [&mut busy, &mut idle] {
        cubic.on_feedback(&lost(0), &path(100));
        round(cubic, 100, 100);
    }
    let mut limited = acked(200, 1000);
    limited.is_window_limited = false;
    idle.on_feedback(&limited, &path(100));
    for step in 2..=20 {
        round(&mut busy, step * 100, 100);
        round(&mut idle, 60_000 + step * 100, 100);
    }
    assert!(
        (window(&busy) - window(&idle)).abs() < 0.01 * window(&busy),
        "{} {}",
        window(&busy),
        window(&idle)
    );
}

#[test]
fn growth_is_at_most_half_per_round() {
    let mut cubic = with_window(10);
    cubic.on_feedback(&lost(0), &path(100));
    cubic.on_feedback(&acked(1, 1000), &path(100));
    let before = window(&cubic);
    cubic.on_feedback(&acked(1_000_000, u64::from(MTU) * 7), &path(100));
    assert!(window(&cubic) <= before * 1.5 + 1e-9, "{} {}", before, window(&cubic));
}

#[test]
fn persistent_congestion_starts_over_below_the_threshold() {
    let mut cubic = with_window(100);
    cubic.on_timeout(at(0), 1, &path(100));
    assert_eq!(window(&cubic), 100.0);
    cubic.on_timeout(at(0), 2, &path(100));
    assert_eq!((window(&cubic), ssthresh(&cubic), cubic.phase()), (2.0, Some(70_000), "slow start"));
    // 4.8: after slow start the window is its own plateau, K = 0.
    cubic.state.window_packets = 70.0;
    cubic.on_feedback(&acked(1000, 1000), &path(100));
    assert_eq!(cubic.state.stage.map(|stage| stage.k_seconds), Some(0.0));
}

#[test]
fn hystart_leaves_slow_start_before_loss() {
    let mut cubic = with_window(100);
    for round in 0..12 {
        for _ in 0..8 {
            let mut feedback = acked(round * 100, 1000);
            feedback.round = round;
            feedback.rtt = Some(Duration::from_millis(if round == 0 { 100 } else { 120 }));
            cubic.on_feedback(&feedback, &path(100));
        }
    }
    assert!(!cubic.is_slow_start() && ssthresh(&cubic).is_some());
}
