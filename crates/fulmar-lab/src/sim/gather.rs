//! From a run that has ended to its outcome.

use fulmar_proto::Instant;

use super::start::START;
use super::world::{Pair, World};
use crate::link::LinkSpec;
use crate::outcome::{Delays, Flow, Link, Outcome, ms};
use crate::traffic::Traffic;

pub(super) fn outcome(world: &World<'_>, seed: u64) -> Outcome {
    let elapsed = world.now - START;
    let mut outcome = Outcome {
        driver: "sim".into(),
        seed,
        seconds: (world.now - world.began).as_secs_f64(),
        valid: true,
        flows: (0..world.pairs.len()).map(|index| flow(world, index)).collect(),
        links: world.wires.bottlenecks().map(|(name, stats)| Link::new(name, stats, elapsed)).collect(),
        series: world.samples.clone(),
        ..Outcome::default()
    };
    let first = world.scenario.topology.first();
    let (from, to) = (world.scenario.warm_up, (world.now - START).max(world.scenario.warm_up));
    let capacity = first.and_then(|link| link.capacity_bps(from, to));
    outcome.summarise(capacity, first.map_or(0.0, LinkSpec::mean_loss));
    outcome
}

fn flow(world: &World<'_>, index: usize) -> Flow {
    let Pair { sender, receiver, writer, reader, .. } = &world.pairs[index];
    let spec = &world.scenario.flows[index];
    let stats = sender.stats().unwrap_or_default();
    let sent = stats.coding_sent;
    let received = receiver.stats().unwrap_or_default().coding_received;
    let combinations = sent.repairs_sent() - sent.copies;
    let meter = &reader.meter;
    let end = writer.end().min(world.now) - Instant::ZERO;
    let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let pair = &world.pairs[index];
    let loss_rate = world.scenario.topology.first().and_then(LinkSpec::loss_rate);
    let mean = |sum: f64| (pair.loss_samples > 0).then(|| sum / f64::from(pair.loss_samples));
    let (message_delay, transfer_time, unfinished) = delays(world, index);
    let sent_bytes = world.wires.sent_bytes(2 * index) + world.wires.sent_bytes(2 * index + 1);
    Flow {
        name: spec.profile.name.clone(),
        traffic: writer.traffic().to_string(),
        received_bytes: meter.counted_bytes,
        counted: meter.counted(end),
        goodput_mbps: meter.goodput_mbps(end),
        completion_seconds: (meter.span(end).map(|span| span.as_secs_f64()))
            .filter(|_| meter.has_ended && matches!(writer.traffic(), Traffic::Fixed { .. })),
        connect_seconds: writer.connected_at().map(|at| (at - writer.starts_at()).as_secs_f64()),
        finish_seconds: (meter.ended_at())
            .filter(|_| matches!(writer.traffic(), Traffic::Fixed { .. }))
            .map(|at| (at - (writer.starts_at() - Instant::ZERO)).as_secs_f64()),
        wire_ratio: (meter.total_bytes > 0)
            .then(|| ratio(world.wires.sent_bytes(2 * index), meter.total_bytes)),
        processor_s_per_gb: None,
        retransmission_rate: ratio(sent.copies + sent.probes, sent.symbols_sent() + sent.probes),
        redundancy_rate: ratio(combinations, combinations + sent.sources),
        recovery_rate: ratio(received.recovered, combinations),
        recovered: received.recovered,
        fast_recoveries: Some(stats.recovery.recoveries),
        timeouts: stats.recovery.probe_timeouts,
        ce_marks: stats.recovery.ecn_ce_packets,
        rtt_ms: ms(stats.path.rtt),
        loss_estimate_mean: mean(pair.loss_estimate_sum),
        loss_estimate_error: loss_rate.and_then(|_| mean(pair.loss_error_sum)),
        message_delay,
        transfer_time,
        unfinished,
        datagrams: pair.talk.as_ref().map(|talk| talk.found(world.now, sent_bytes)),
    }
}

/// Delays of messages, times of transfers, and how many of either are not there yet. A message that has
/// waited longer than a round trip beyond its way counts as delayed by that much at least.
fn delays(world: &World<'_>, index: usize) -> (Option<Delays>, Option<Delays>, u64) {
    let Pair { writer, reader, .. } = &world.pairs[index];
    let rtt = world.scenario.rtt(&world.scenario.flows[index]);
    match writer.traffic() {
        Traffic::Messages { .. } => {
            let overdue =
                |due: Instant| Some((world.now - due).saturating_sub(rtt / 2)).filter(|&late| late > rtt);
            let waiting: Vec<_> = writer.waiting_messages().filter_map(overdue).collect();
            let unfinished = waiting.len() as u64;
            let mut all = reader.message_delays.clone();
            all.extend(waiting);
            (Some(Delays::of(&mut all)), None, unfinished)
        }
        Traffic::Web { .. } => {
            let begun = writer.transfers().iter().filter(|&&at| at >= START + world.scenario.warm_up).count();
            let mut times = reader.transfer_times.clone();
            (None, Some(Delays::of(&mut times)), (begun - times.len().min(begun)) as u64)
        }
        _ => (None, None, 0),
    }
}
