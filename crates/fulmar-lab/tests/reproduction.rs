//! What the five sources claim, in runs of seconds: the shape of their results, not their figures. The figures are in
//! `experiments/`, their results in `docs/results/`.
#![allow(missing_docs)]

use std::time::Duration;

use fulmar_lab::link::LinkSpec;
use fulmar_lab::outcome::Outcome;
use fulmar_lab::scenario::{FlowSpec, Scenario};
use fulmar_lab::sim;
use fulmar_proto::Profile;

fn link(settings: &str) -> LinkSpec {
    let mut link = LinkSpec::default();
    for setting in settings.split_whitespace() {
        let (key, value) = setting.split_once('=').unwrap();
        link.set(key, value).unwrap();
    }
    link
}

fn flow(profile: &str, traffic: &str) -> FlowSpec {
    FlowSpec::new(Profile::parse(profile).unwrap(), traffic.parse().unwrap())
}

fn run(settings: &str, flows: Vec<FlowSpec>, seconds: u64, seed: u64) -> Outcome {
    sim::run(&Scenario::over(link(settings), flows, Duration::from_secs(seconds)), seed).unwrap().0
}

/// Mean goodput of a bulk flow over three seeds, Mbit/s.
fn goodput(profile: &str, settings: &str, seconds: u64) -> f64 {
    let runs = (1..=3).map(|seed| run(settings, vec![flow(profile, "bulk")], seconds, seed).goodput_mbps);
    runs.sum::<f64>() / 3.0
}

/// Hourt 2014, Tables 2.1 and 2.2.
#[test]
fn lt_tcp_keeps_its_goodput_under_correlated_loss_where_tcp_collapses() {
    let path = "rate=1G rtt=1ms queue=droptail:1000p mark_threshold=200p loss=5%/5";
    let (lt_tcp, newreno) = (goodput("lt-tcp:timeout=probe", path, 2), goodput("newreno", path, 2));
    assert!(lt_tcp > 300.0 && lt_tcp > 7.0 * newreno, "{lt_tcp} against {newreno}");
}

/// Hourt 2014, Table 2.7: there LT-TCP reacted less than TCP did.
#[test]
fn lt_tcp_backs_off_from_marks_as_tcp_does() {
    for mark in ["2%", "10%"] {
        let path = format!("rate=100M rtt=5ms fwd_only=true mark={mark}");
        let ratio = goodput("lt-tcp:wmin=2", &path, 10) / goodput("newreno", &path, 10);
        assert!((0.67..1.5).contains(&ratio), "{mark}: {ratio}");
    }
}

/// Solymos 2014, Figures 4.7 and 4.12: goodput falls as 1 - p, and under fair queueing shares do not depend on the round trip.
#[test]
fn a_fountain_falls_only_as_what_arrives_and_shares_whatever_the_round_trip() {
    for (loss, least) in [("1%", 15.5), ("10%", 14.0), ("50%", 6.5)] {
        let path = format!("rate=20M rtt=10ms queue=droptail:500p fwd_only=true loss={loss}");
        let fountain = goodput("dfcp-raptorq:rate=17.5", &path, 3);
        assert!(fountain > least, "{loss}: {fountain}");
    }
    let mut far = flow("dfcp-raptorq:rate=16,k=32", "bulk");
    far.rtt = Some(Duration::from_millis(100));
    let outcome =
        run("rate=20M rtt=10ms queue=drr:500p", vec![flow("dfcp-raptorq:rate=16,k=32", "bulk"), far], 10, 1);
    assert!(outcome.jain > 0.98, "{}", outcome.jain);
}

/// The thesis' own Raptor code, on a path that loses half.
#[test]
fn dfcp_delivers_through_half_of_all_packets_lost() {
    let path = "rate=10M rtt=10ms fwd_only=true loss=50%";
    let outcome = run(path, vec![flow("dfcp:rate=9", "fixed:500kB")], 20, 1);
    assert_eq!(outcome.flows[0].received_bytes, 500_000);
    assert!(outcome.flows[0].completion_seconds.unwrap() < 3.0, "{:?}", outcome.flows[0]);
}

/// Sato 2019, Figures 4.7 and 4.8: bounded groups beat TCP by far, and without suppression FEC gains nothing.
#[test]
fn tcp_fec_gains_by_repairing_and_by_not_answering_repaired_losses() {
    let path = "rate=100M rtt=104ms queue=droptail:50p fwd_only=true loss=0.1%";
    let [tcp, fec, told] = ["newreno:timeout=rto", "tcp-fec:fmax=10", "tcp-fec:fmax=10,cc=newreno"]
        .map(|profile| goodput(profile, path, 20));
    assert!(fec > 2.5 * tcp, "{fec} against {tcp}");
    assert!(told < 1.3 * tcp, "{told} against {tcp}");
}

/// Sato 2019, Table 5.3: goodput rises with r.
#[test]
fn the_answer_to_repaired_losses_orders_tcp_fec_with_interleave() {
    let path = "rate=50M rtt=100ms queue=droptail:500p fwd_only=true loss=0.1%";
    let by_r = ["0.5", "0.7", "1"].map(|r| goodput(&format!("tcp-fec-interleave:g=3,l=30,r={r}"), path, 20));
    assert!(by_r[0] < by_r[1] && by_r[1] < by_r[2], "{by_r:?}");
}

/// Leith, Medard et al.: ten times TCP and more where packets get lost, and TCP where none do.
#[test]
fn ctcp_keeps_its_window_on_noise_and_is_tcp_on_clean_links() {
    let noisy = "rate=25M rtt=20ms loss=10%";
    let ratio = goodput("ctcp", noisy, 10) / goodput("cubic", noisy, 10);
    assert!(ratio > 8.0, "{ratio}");
    let ratio = goodput("ctcp", "rate=25M rtt=20ms", 10) / goodput("newreno", "rate=25M rtt=20ms", 10);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

/// Medina-Ruiz et al. 2012, Table II. That adaptive R beats every fixed one (Figure 4) does not come out: in this scenario the
/// queue keeps qv above beta, and Algorithm 1 stays near 1.1 (`experiments/tcp-nc-goodput.toml`).
#[test]
fn tcp_nc_masks_losses_from_reno() {
    let path = "rate=1.544M rtt=200ms queue=droptail:500p loss=3%";
    let seconds = |profile: &str| {
        let times = (1..=3).map(|seed| {
            let outcome = run(path, vec![flow(profile, "fixed:2MB")], 600, seed);
            outcome.flows[0].completion_seconds.expect("complete")
        });
        times.sum::<f64>() / 3.0
    };
    let [adaptive, masked, unmasked, reno] =
        ["tcp-nc-adaptive", "tcp-nc:R=1.2", "tcp-nc:R=1", "reno:rwnd=65535,iw=2"].map(seconds);
    assert!(adaptive < unmasked && masked < unmasked, "{adaptive} s, {masked} s against {unmasked} s");
    assert!(2.0 * adaptive < reno, "{adaptive} s against {reno} s");
}
