//! Experiments in real time: kernel TCP, and peers.

use std::time::Duration;

use super::definition::{Experiment, FlowLine};
#[cfg(target_os = "linux")]
use super::sender::{kernel_congestion, peer_name};
use super::task::Task;
use crate::link::LinkSpec;
#[cfg(target_os = "linux")]
use crate::scenario::Access;

#[cfg(not(target_os = "linux"))]
pub(super) fn task(
    _: &Experiment,
    _: &[LinkSpec],
    _: &[FlowLine],
    _: Duration,
    _: Duration,
) -> Result<Task, String> {
    Err("kernel TCP and peers need the bridge, which needs Linux".into())
}

/// What a cell runs: flows of kernel TCP, or one peer.
#[cfg(target_os = "linux")]
pub(super) fn task(
    experiment: &Experiment,
    links: &[LinkSpec],
    flows: &[FlowLine],
    duration: Duration,
    warm_up: Duration,
) -> Result<Task, String> {
    let [link] = links else {
        return Err("the bridge has one link in each direction: no parking lot".into());
    };
    link.forward()?;
    if flows.iter().any(|flow| flow.rtt.is_some() || flow.stop.is_some()) {
        return Err("flows in real time have the link's round-trip time, and stop with the run".into());
    }
    if flows.iter().any(|flow| flow.access != Access::default() || flow.decoder_symbols.is_some()) {
        return Err("access links and decoder_symbols are of virtual time".into());
    }
    if flows.iter().all(|flow| kernel_congestion(&flow.sender).is_some()) {
        return Ok(kernel(experiment, link, flows, duration, warm_up));
    }
    peer(experiment, link, flows, duration, warm_up)
}

#[cfg(target_os = "linux")]
fn settings(experiment: &Experiment) -> crate::bridge::TcpSettings {
    crate::bridge::TcpSettings { has_ecn: experiment.has_ecn, ..Default::default() }
}

#[cfg(target_os = "linux")]
fn kernel(
    experiment: &Experiment,
    link: &LinkSpec,
    flows: &[FlowLine],
    duration: Duration,
    warm_up: Duration,
) -> Task {
    use crate::tcp::{TcpFlow, TcpScenario};
    let flows = flows.iter().map(|flow| TcpFlow {
        congestion: kernel_congestion(&flow.sender).unwrap_or_default().into(),
        traffic: flow.traffic,
        start: flow.start,
    });
    Task::Tcp(Box::new(TcpScenario {
        link: link.clone(),
        flows: flows.collect(),
        duration,
        warm_up,
        loss_free_handshake: experiment.loss_free_handshake,
        sample_interval: experiment.series,
        settings: settings(experiment),
        lateness_p99_max: crate::bridge::LATENESS_P99_MAX,
    }))
}

#[cfg(target_os = "linux")]
fn peer(
    experiment: &Experiment,
    link: &LinkSpec,
    flows: &[FlowLine],
    duration: Duration,
    warm_up: Duration,
) -> Result<Task, String> {
    use crate::peer::{ChosenPeer, PeerScenario};
    use crate::traffic::Traffic;
    let [flow] = flows else {
        return Err("a peer runs alone".into());
    };
    if flow.traffic != Traffic::Bulk
        || !flow.start.is_zero()
        || !warm_up.is_zero()
        || experiment.loss_free_handshake
    {
        return Err(
            "a peer sends bulk from the start: no other traffic, warm-up or loss-free handshake".into()
        );
    }
    let name = peer_name(&flow.sender).unwrap_or_default();
    Ok(Task::Peer(Box::new(PeerScenario {
        peer: ChosenPeer::find(&experiment.peers, name)?,
        link: link.clone(),
        duration,
        settings: settings(experiment),
        lateness_p99_max: crate::bridge::LATENESS_P99_MAX,
    })))
}
