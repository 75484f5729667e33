//! Profiles that nobody would think of: any code with any controller, estimator, policy, block size and
//! timeout.

use std::sync::Arc;
use std::time::Duration;

use fulmar_control as control;
use fulmar_control::{RedundancyPolicy, Retransmissions};
use fulmar_proto::{Make, Profile, RecoveryConfig, Timeout};
use fulmar_systems::codes;
use fulmar_systems::ctcp::{ByQueue, CtcpHybrid};
use fulmar_systems::dfcp::{Fountain, FountainConfig, Unlimited};
use fulmar_systems::lt_tcp::{Autoregressive, Ewma, LtTcp, OnMarks, Oracle};
use fulmar_systems::tcp_fec::{Gently, GroupSize, TcpFecGroups};
use fulmar_systems::tcp_nc::{TcpNcCombinations, TcpNcConfig};
use fulmar_units::Rate;

use super::draw::Draw;

const CONTROLLERS: &[&str] =
    &["reno", "newreno", "cubic", "bbr", "auto", "ecn-only", "ctcp", "tcp-fec", "tcp-nc", "no-cc"];
const POLICIES: &[&str] =
    &["arq", "fixed", "auto", "lt-tcp", "ctcp", "fountain", "tcp-fec", "tcp-nc", "tcp-nc-adaptive"];
const ESTIMATORS: &[&str] = &["static", "dynamic", "oracle", "autoregressive", "pooled"];

/// A random recombination. Its name says what it is made of.
pub(super) fn draw_profile(d: &mut Draw) -> Profile {
    let code = d.of(&codes::NAMES);
    let len_max = d.between(1, 64) as u32;
    let (congestion, redundancy, loss) = (d.of(CONTROLLERS), d.of(POLICIES), d.of(ESTIMATORS));
    let recovery = draw_recovery(d);
    let block = d.between(1, 80) as u32;
    let mut profile = Profile::auto();
    profile.name = format!("{code}/{len_max} {congestion} {redundancy} {loss} {block} {recovery:?}");
    profile.name.truncate(200);
    profile.code = codes::by_name(code, len_max).expect("every code has such a length");
    profile.congestion = draw_congestion(d, congestion);
    profile.redundancy = draw_redundancy(d, redundancy, recovery.is_by_packets_alone);
    profile.loss = draw_loss(d, loss);
    profile.sizing = Arc::new(move |_| Box::new(control::FixedSizing::new(block)));
    profile.recovery = recovery;
    profile
}

fn draw_recovery(d: &mut Draw) -> RecoveryConfig {
    // The thesis' runs of LT-TCP had 5 s as the longest; with 60 s a run would take too long to be proven
    // alive.
    let retransmission = Timeout::Retransmission {
        initial: Duration::from_secs(1),
        min: d.millis(10, 1000),
        max: Duration::from_secs(5),
    };
    let timeout = if d.one_in(2) { Timeout::Probe } else { retransmission };
    let mut recovery = RecoveryConfig::default();
    (recovery.reordering_packets, recovery.timeout) = (d.between(1, 30) as u32, timeout);
    // TCP before RACK has no other timeout than TCP's.
    recovery.is_by_packets_alone = timeout != Timeout::Probe && recovery.reordering_packets.is_multiple_of(2);
    if d.one_in(2) {
        recovery.variation = control::Variation::Peak;
    }
    recovery
}

fn draw_congestion(d: &mut Draw, name: &'static str) -> Make<dyn control::CongestionController> {
    let rate = Rate::from_bits_per_second(d.log_between(2_000_000, 50_000_000));
    let reduction = d.between(1, 10) as f64 / 10.0;
    Arc::new(move |context| {
        let mtu = context.mtu_bytes;
        let window = control::WindowConfig::default();
        match name {
            "reno" => Box::new(control::Reno::new(mtu, window)),
            "newreno" => Box::new(control::NewReno::new(mtu, window)),
            "cubic" => Box::new(control::Cubic::new(mtu, Default::default())),
            "bbr" => Box::new(control::Bbr::new(mtu)),
            "ecn-only" => Box::new(OnMarks::controller(mtu, window)),
            "ctcp" => Box::new(ByQueue::controller(mtu, window)),
            "tcp-fec" => Box::new(Gently::controller(mtu, window, reduction)),
            "tcp-nc" => {
                let reno = control::AboveCode::new(Box::new(control::Reno::new(mtu, window)));
                Box::new(control::ReceiveWindow::new(mtu, Box::new(reno), 65_535))
            }
            "no-cc" => Box::new(Unlimited::at_rate(mtu, rate)),
            _ => Box::new(control::Auto::new(mtu)),
        }
    })
}

fn draw_redundancy(d: &mut Draw, name: &'static str, awaits_timeout: bool) -> Make<dyn RedundancyPolicy> {
    let share = d.between(0, 20) as f64 / 10.0;
    let packets = d.between(1, 64) as u32;
    let (is_systematic, is_persistent) = (d.one_in(2), d.one_in(4));
    let (asks_by_tcp, suppresses) = (d.one_in(2), d.one_in(2));
    let one_each_round = d.one_in(2);
    let await_timeout = awaits_timeout.then_some(if suppresses { 0 } else { 65_535 });
    let pace = Retransmissions { one_each_round, await_timeout };
    let size = match d.between(0, 3) {
        0 => GroupSize::Window,
        1 => GroupSize::Bounded { fmax: packets },
        2 => GroupSize::Static(packets),
        _ => GroupSize::Interleaved { groups: 1 + packets as u16 % 5, limit: packets % 40 },
    };
    Arc::new(move |_| {
        let mut combinations = TcpNcConfig::default();
        (combinations.window_packets, combinations.is_systematic) = (packets, is_systematic);
        (combinations.asks_by_tcp, combinations.retransmissions) = (asks_by_tcp, pace);
        let mut fountain = FountainConfig::default();
        (fountain.window_blocks, fountain.is_persistent) = (packets, is_persistent);
        match name {
            "arq" => Box::new(control::Arq::with(pace)),
            "fixed" => Box::new(control::FixedRate::new(share, packets)),
            "lt-tcp" => Box::new(LtTcp::new(Default::default())),
            "ctcp" => Box::new(CtcpHybrid::new(share)),
            "fountain" => Box::new(Fountain::new(fountain)),
            "tcp-fec" => Box::new(TcpFecGroups::new(size).asking(suppresses, pace)),
            "tcp-nc" => Box::new(TcpNcCombinations::new(combinations, 1.0 + share / 4.0)),
            "tcp-nc-adaptive" => Box::new(TcpNcCombinations::adaptive(combinations, Default::default())),
            _ => Box::new(control::AutoRedundancy::new()),
        }
    })
}

fn draw_loss(d: &mut Draw, name: &'static str) -> Make<dyn control::LossEstimator> {
    let rate = d.between(0, 100) as f64 / 100.0;
    Arc::new(move |_| match name {
        "static" => Box::new(Ewma::fixed()),
        "dynamic" => Box::new(Ewma::dynamic()),
        "oracle" => Box::new(Oracle::new(rate, 1.0 + rate)),
        "autoregressive" => Box::new(Autoregressive::new(Default::default())),
        _ => Box::new(control::Pooled::new()),
    })
}
