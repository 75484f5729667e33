//! Runs in virtual time: the experiment that the page would save, run by the simulator.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::transfer::{Halt, gone, mbps, step, stopped, transfer};
use super::watch;
use crate::desk::board::Board;
use crate::desk::experiment;
use crate::desk::types::{Amount, Ending, Sample, Spec, Transfer};
use crate::experiment::{Experiment, Task, cells, task};
use crate::outcome::{self, Outcome};
use crate::sim;

/// Computes every transfer, on as many cores as there are.
pub(crate) async fn run(board: &Arc<Board>, id: &str, spec: &Spec) -> Result<(), Halt> {
    let tasks = tasks(spec)?;
    let mut stop = board.with(id, |record| record.stop.subscribe()).map_err(|refusal| refusal.message)?;
    step(board, id, 5);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut waiting = (0..spec.transfers)
        .flat_map(|number| (0..tasks.len()).map(move |flow| (flow, number)))
        .collect::<std::collections::VecDeque<_>>();
    let mut under_way = JoinSet::new();
    loop {
        while under_way.len() < cores
            && let Some((flow, number)) = waiting.pop_front()
        {
            let (task, seed) = (tasks[flow].clone(), spec.seed + u64::from(number));
            under_way.spawn_blocking(move || (flow, number, compute(&task, seed)));
        }
        let ended = tokio::select! {
            ended = under_way.join_next() => ended,
            // What is being computed comes to its end and is thrown away.
            () = stopped(&mut stop) => return Err(Halt::Stopped),
        };
        let Some(ended) = ended else { return Ok(()) };
        let (flow, number, outcome) = ended.map_err(|error| error.to_string())?;
        let outcome = outcome?;
        board.add_samples(id, samples(&outcome, flow, number));
        board.add_transfer(id, finished(spec, flow, number, &outcome));
    }
}

/// One task of each transport.
fn tasks(spec: &Spec) -> Result<Vec<Arc<Task>>, Halt> {
    let text = experiment::write(spec).map_err(|refusal| refusal.message)?;
    let experiment = Experiment::parse("desk.toml", &text).map_err(|mistake| mistake.to_string())?;
    let mut by_sender = BTreeMap::new();
    for cell in cells(&experiment)? {
        let task = task(&experiment, &cell, experiment.duration)?;
        by_sender.insert(cell.value("sender").unwrap_or_default().to_owned(), Arc::new(task));
    }
    let of = |name: &String| {
        by_sender.get(name).cloned().ok_or_else(|| format!("'{name}' is not in its experiment"))
    };
    Ok(spec.transports.iter().map(of).collect::<Result<_, String>>()?)
}

fn compute(task: &Task, seed: u64) -> Result<Outcome, String> {
    match task {
        Task::Sim(scenario) => sim::run(scenario, seed).map(|(outcome, _)| outcome),
        _ => Err("only profiles run in virtual time".into()),
    }
}

fn samples(outcome: &Outcome, flow: usize, transfer: u32) -> Vec<Sample> {
    let mut before = Sample::default();
    let convert = |s: &crate::sample::Sample| {
        let mut sample = Sample {
            flow,
            transfer,
            t: s.t,
            received_bytes: s.received_bytes,
            sequence_bytes: s.sequence_bytes.max(s.received_bytes),
            window_bytes: s.window_bytes,
            in_flight_bytes: s.in_flight_bytes,
            rtt_ms: s.rtt_ms,
            pacing_mbps: s.pacing_mbps,
            queue_bytes: s.queue_bytes,
            lost_packets: s.lost_packets,
            dropped_packets: s.dropped_packets,
            marked_packets: s.marked_packets,
            offered_packets: s.offered_packets,
            loss_estimate: s.loss_estimate,
            repair_packets: s.repair_packets,
            redundancy: s.redundancy,
            ..Sample::default()
        };
        watch::since(&mut sample, &before);
        before = sample.clone();
        sample
    };
    outcome.series.iter().map(convert).collect()
}

fn finished(spec: &Spec, flow: usize, number: u32, outcome: &Outcome) -> Transfer {
    let mut transfer = transfer(spec, flow, number);
    let Some(found) = outcome.flows.first() else { return transfer };
    transfer.received_bytes = found.received_bytes;
    transfer.goodput_mbps = found.goodput_mbps;
    (transfer.status, transfer.time_s) = match (spec.amount, found.completion_seconds) {
        (Amount::Bytes(_), Some(seconds)) => (Ending::Complete, seconds),
        (Amount::Bytes(_), None) => (Ending::GaveUp, outcome.seconds),
        (Amount::Seconds(_), _) => (Ending::Time, time_of(found)),
    };
    if found.goodput_mbps == 0.0 {
        transfer.goodput_mbps = mbps(found.received_bytes, transfer.time_s);
    }
    transfer.wire_ratio = found.wire_ratio;
    if let Some(link) = outcome.links.first() {
        (transfer.lost_packets, transfer.offered_packets) = (gone(link), link.offered);
    }
    transfer.repair_packets = outcome.series.last().map_or(0, |last| last.repair_packets);
    transfer
}

/// First byte to the end of the time.
fn time_of(flow: &outcome::Flow) -> f64 {
    if flow.goodput_mbps > 0.0 { flow.received_bytes as f64 * 8.0 / 1e6 / flow.goodput_mbps } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Live the page adds drops of the queue to losses of the wire; the result must not be another number.
    #[test]
    fn a_result_counts_as_lost_what_the_samples_count() {
        let link = outcome::Link { offered: 100, lost: 5, blacked_out: 1, dropped: 4, ..Default::default() };
        let outcome = Outcome { flows: vec![Default::default()], links: vec![link], ..Default::default() };
        let ended = finished(&crate::desk::spec::tests::spec(), 0, 0, &outcome);
        assert_eq!((ended.lost_packets, ended.offered_packets), (10, 100));
    }
}
