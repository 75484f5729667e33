//! Recovery as a whole: packets leave, ACKs come, and what everyone is told is checked against what happened.

use std::time::Duration;

use fulmar_control::{CongestionController, Feedback, NewReno, PathView, Pooled, SendBudget, WindowConfig};
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::Rate;
use crate::wire::frame::{self, Frame, Frames};

const MS: Duration = Duration::from_millis(1);
const BYTES: u32 = 1200;
const RTO: Timeout = Timeout::Retransmission {
    initial: Duration::from_secs(1),
    min: Duration::from_millis(200),
    max: Duration::from_secs(60),
};

/// A sender whose packets carry their own numbers, and the receiving half of the other end.
struct Path {
    now: Instant,
    recovery: Recovery<u64>,
    received: Received,
}

impl Path {
    fn new(timeout: Timeout) -> Self {
        Self::under(Box::new(NewReno::new(BYTES, WindowConfig::default())), timeout)
    }

    fn under(congestion: Box<dyn CongestionController>, timeout: Timeout) -> Self {
        let modules = Modules {
            congestion,
            loss: Box::new(Pooled::new()),
            config: RecoveryConfig { timeout, ..RecoveryConfig::default() },
        };
        let limits = PathLimits { initial_mtu_bytes: 1200, mtu_max_bytes: 1200, is_ecn_enabled: false };
        let policy = AckPolicy { every_packets: 1, delay: MS, repeats: 0 };
        Self {
            now: Instant::ZERO,
            recovery: Recovery::new(Instant::ZERO, modules, limits),
            received: Received::new(policy),
        }
    }

    fn send(&mut self) -> PacketNumber {
        let number = self.recovery.next_number();
        self.recovery.on_sent(self.now, BYTES, number.0);
        number
    }

    fn arrive(&mut self, number: PacketNumber) {
        self.received.on_packet(self.now, number, None, Awaits::Arrival);
    }

    /// An ACK of everything that arrived so far.
    fn ack(&mut self) -> (Vec<Fate<u64>>, Option<Feedback>) {
        let mut bytes = Vec::new();
        assert!(frame::put_ack(&mut bytes, self.received.ranges(), 0, None, None, 1200));
        let Some(Ok(Frame::Ack(ack))) = Frames::new(&bytes).next() else { panic!("an ACK") };
        let findings = self.recovery.on_ack(self.now, &ack).expect("of what was sent");
        let fates = findings.fates.clone();
        if !findings.has_news {
            self.recovery.drop_findings(findings);
            return (fates, None);
        }
        let (feedback, _) = self.recovery.finish(findings, News::default());
        (fates, Some(feedback))
    }
}

#[test]
fn each_packet_has_one_fate_and_a_late_one_comes_back() {
    let mut path = Path::new(Timeout::Probe);
    let numbers: Vec<_> = (0..10).map(|_| path.send()).collect();
    path.now += MS * 20;
    [0, 1, 3, 4, 5, 6].into_iter().for_each(|at| path.arrive(numbers[at]));
    let (fates, feedback) = path.ack();
    let arrived = [3, 4, 5, 6, 0, 1].map(Fate::Arrived);
    assert_eq!(fates[..6], arrived);
    assert_eq!(fates[6..], [Fate::Lost(2)], "four later packets arrived");
    let feedback = feedback.expect("news");
    assert_eq!((feedback.lost.packets, feedback.lost.bursts, feedback.acked_packets), (1, 1, 6));
    path.arrive(numbers[2]);
    let (fates, feedback) = path.ack();
    assert_eq!(fates, [Fate::Returned(2)]);
    assert_eq!(feedback.expect("news").spurious_packets, 1);
    assert!(path.ack().0.is_empty(), "nothing twice");
    assert_eq!(path.recovery.in_flight_bytes(), 3 * u64::from(BYTES));
}

/// Each loss of a probe costs a timeout, a packet and its ACK: in silence one is enough.
#[test]
fn a_probe_for_a_larger_mtu_that_was_lost_is_tried_again_only_while_something_is_under_way() {
    let mut path = Path::new(Timeout::Probe);
    let limits = PathLimits { initial_mtu_bytes: 1200, mtu_max_bytes: 1472, is_ecn_enabled: false };
    path.recovery.mtu = MtuDiscovery::held_to(&limits, None);
    let number = path.send();
    path.arrive(number);
    path.ack();
    let probe = path.recovery.poll_mtu_probe(path.now, false).expect("the first is worth its packet");
    path.recovery.on_mtu_probe_sent(path.now, probe);
    let later: Vec<_> = (0..4).map(|_| path.send()).collect();
    later.into_iter().for_each(|number| path.arrive(number));
    path.ack();
    assert_eq!(path.recovery.poll_mtu_probe(path.now, false), None);
    assert_eq!(path.recovery.poll_mtu_probe(path.now, true), Some(probe));
}

#[test]
fn the_window_blocks_and_an_ack_opens_it() {
    let mut path = Path::new(Timeout::Probe);
    let mut numbers = Vec::new();
    while path.recovery.permit(path.now, u64::from(BYTES)) != Permit::Blocked {
        if let Permit::Wait(at) = path.recovery.permit(path.now, u64::from(BYTES)) {
            path.now = at;
            continue;
        }
        numbers.push(path.send());
    }
    assert_eq!(numbers.len(), 10, "RFC 9002 7.2: the initial window");
    path.now += MS * 20;
    path.arrive(numbers[0]);
    path.ack();
    assert_ne!(path.recovery.permit(path.now, u64::from(BYTES)), Permit::Blocked);
}

/// Knows that the path carries a packet in each millisecond, and lets four be under way.
#[derive(Debug)]
struct Known;

impl CongestionController for Known {
    fn name(&self) -> &'static str {
        "known"
    }

    fn on_feedback(&mut self, _: &Feedback, _: &PathView) {}

    fn on_timeout(&mut self, _: Instant, _: u32, _: &PathView) {}

    fn on_path_change(&mut self, _: Instant, _: &PathView) {}

    fn budget(&self) -> SendBudget {
        SendBudget { window_bytes: 4 * u64::from(BYTES), pacing: None, burst_bytes: u64::MAX }
    }

    fn bandwidth(&self) -> Option<Rate> {
        Some(Rate::from_bytes_per_second(1000 * u64::from(BYTES)))
    }
}

#[test]
fn what_outlives_a_burst_may_leave_beyond_the_window_at_the_paths_pace_and_most_of_it_in_silence_only() {
    let mut path = Path::under(Box::new(Known), Timeout::Probe);
    let number = path.send();
    path.now += MS * 40;
    path.arrive(number);
    path.ack();
    path.recovery.burst_room = BurstRoom::of(15 * u64::from(BYTES));
    let begin = path.now;
    let mut left_ms = Vec::new();
    loop {
        match path.recovery.permit(path.now, BYTES.into()) {
            Permit::Leave => {
                path.send();
                left_ms.push((path.now - begin).as_millis());
            }
            Permit::Wait(at) | Permit::Limited(at) => path.now = at,
            Permit::Blocked => break,
        }
    }
    let open = (0..=burst_room::PACKETS_OPEN).map(u128::from);
    let silent = 20..26;
    assert_eq!(left_ms, [0; 3].into_iter().chain(open).chain(silent).collect::<Vec<_>>());
}

#[test]
fn rfc_6298_after_silence_everything_under_way_is_lost_and_may_return() {
    let mut path = Path::new(RTO);
    let numbers: Vec<_> = (0..3).map(|_| path.send()).collect();
    let at = path.recovery.timeout(true).expect("something is under way");
    assert_eq!(at, path.now + Duration::from_secs(1) + AckPolicy::default().delay);
    assert!(path.recovery.on_probe_timer(at - MS, true).is_none());
    let findings = path.recovery.on_probe_timer(at, true).expect("its time has come");
    assert_eq!(findings.fates, [0, 1, 2].map(Fate::Lost));
    path.recovery.drop_findings(findings);
    assert_eq!((path.recovery.in_flight_bytes(), path.recovery.probe_due(at)), (0, Some(ProbeCargo::Full)));
    path.now = at;
    path.arrive(numbers[1]);
    assert_eq!(path.ack().0, [Fate::Returned(1)]);
}

#[test]
fn when_no_burst_explains_the_silence_a_timeout_sends_one_packet_and_nine_pings() {
    let mut path = Path::new(Timeout::Probe);
    path.send();
    let mut cargoes = Vec::new();
    while cargoes.len() < 8 {
        path.now = path.recovery.timeout(true).expect("something is under way");
        let findings = path.recovery.on_probe_timer(path.now, true).expect("its time has come");
        path.recovery.drop_findings(findings);
        let mut probes = Vec::new();
        while let Some(cargo) = path.recovery.probe_due(path.now) {
            path.recovery.take_probe(path.now);
            path.send();
            probes.push(cargo);
            path.now += MS * 500;
            path.recovery.on_pacer_timer(path.now);
        }
        cargoes.push(probes);
    }
    // Of a path that is not known bursts of four are assumed: thirty probes in a row are lost in one in a
    // thousand.
    assert_eq!(cargoes[..2], [[ProbeCargo::Next; 6]; 2]);
    assert_eq!(cargoes[2..5], [[ProbeCargo::Base; 6]; 3]);
    let mut last = [ProbeCargo::Nothing; 10];
    last[0] = ProbeCargo::Base;
    assert_eq!(cargoes[5..], [last; 3]);
}

#[test]
fn an_ack_of_what_was_never_sent_is_refused() {
    let mut path = Path::new(Timeout::Probe);
    path.send();
    path.arrive(PacketNumber(5));
    let mut bytes = Vec::new();
    frame::put_ack(&mut bytes, path.received.ranges(), 0, None, None, 1200);
    let Some(Ok(Frame::Ack(ack))) = Frames::new(&bytes).next() else { panic!("an ACK") };
    assert!(path.recovery.on_ack(path.now, &ack).is_err());
}

/// The two-state chain of the LT-TCP thesis.
struct Chain {
    rng: Pcg64Mcg,
    is_lost: bool,
    loss: f64,
    correlation: f64,
}

impl Chain {
    fn new(loss: f64, burst: f64, seed: u64) -> Self {
        let correlation = (1.0 - 1.0 / (burst * (1.0 - loss))).max(0.0);
        Self { rng: Pcg64Mcg::seed_from_u64(seed), is_lost: false, loss, correlation }
    }

    fn loses_next(&mut self) -> bool {
        let again = if self.is_lost { self.correlation } else { 0.0 };
        let p = again + (1.0 - self.correlation) * self.loss;
        self.is_lost = f64::from(self.rng.next_u32()) < p * f64::from(u32::MAX);
        self.is_lost
    }
}

/// One packet a millisecond over a round trip of 50 ms, an ACK for every `every` packets that arrive. Returns
/// packets and bursts lost, and what the engine told and the estimator says of them.
fn lose_in_bursts(loss: f64, burst: f64, every: u64, seed: u64) -> ((u64, u64), (u64, u64), f64) {
    const PACKETS: u64 = 20_000;
    const DELAY: u64 = 50;
    let mut path = Path::new(Timeout::Probe);
    let mut chain = Chain::new(loss, burst, seed);
    let mut lost = vec![];
    let (mut told, mut since_ack) = ((0, 0), 0);
    for step in 0..PACKETS + DELAY {
        path.now += MS;
        if step < PACKETS {
            path.send();
            lost.push(chain.loses_next());
        }
        let Some(at) = step.checked_sub(DELAY) else { continue };
        if lost[at as usize] {
            continue;
        }
        path.arrive(PacketNumber(at));
        since_ack += 1;
        if since_ack == every {
            since_ack = 0;
            if let (_, Some(feedback)) = path.ack() {
                told.0 += u64::from(feedback.lost.packets);
                told.1 += u64::from(feedback.lost.bursts);
            }
        }
    }
    let bursts =
        lost.iter().zip([&false].into_iter().chain(&lost)).filter(|(now, before)| **now && !**before);
    let truth = (lost.iter().filter(|lost| **lost).count() as u64, bursts.count() as u64);
    (truth, told, path.recovery.view().loss.burst_packets)
}

/// A burst is found in pieces, pass by pass; it is counted once, however ACKs cut it.
#[test]
fn burst_lengths_are_what_they_are_however_acks_cut_them() {
    for loss in [0.05, 0.20] {
        for burst in [1.0 / (1.0 - loss), 2.0, 5.0, 10.0] {
            for every in [1, 2, 8, 32] {
                let (truth, told, estimate) = lose_in_bursts(loss, burst, every, 7);
                let what = format!("p = {loss}, E = {burst}, an ACK per {every}: {truth:?}, told {told:?}");
                let true_mean = truth.0 as f64 / truth.1 as f64;
                let told_mean = told.0 as f64 / told.1 as f64;
                assert!((told_mean / true_mean - 1.0).abs() < 0.02, "{what}");
                assert!((told.0 as f64 / truth.0 as f64 - 1.0).abs() < 0.02, "{what}");
                assert!((estimate / true_mean - 1.0).abs() < 0.10, "{what}, estimate {estimate}");
            }
        }
    }
}

/// After a timeout everything under way is taken for lost, and what arrives after all is taken back: the
/// estimator hears of both. A hundred packets arrive, ten are lost in silence, of which five come back late.
#[test]
fn the_estimator_hears_of_what_a_timeout_declares_lost() {
    let mut path = Path::new(RTO);
    for _ in 0..100 {
        let number = path.send();
        path.now += MS * 20;
        path.arrive(number);
        path.ack();
    }
    let silent: Vec<_> = (0..10).map(|_| path.send()).collect();
    path.now += Duration::from_secs(2);
    let findings = path.recovery.on_probe_timer(path.now, true).expect("a timeout");
    assert_eq!(findings.fates.len(), 10);
    path.recovery.drop_findings(findings);
    let after_timeout = path.recovery.forward.view().rate;
    assert!(after_timeout > 0.05, "{after_timeout}");
    silent[5..].iter().for_each(|&number| path.arrive(number));
    path.ack();
    let after_return = path.recovery.forward.view().rate;
    assert!((0.02..after_timeout).contains(&after_return), "{after_return} of {after_timeout}");
}
