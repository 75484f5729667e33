//! Outcomes for people.

use crate::outcome::{Delays, Outcome, Talk};

/// Prints an outcome as a short table, or as JSON.
pub(super) fn outcome(outcome: &Outcome, is_json: bool) -> Result<(), String> {
    if is_json {
        let text = serde_json::to_string_pretty(outcome).map_err(|error| error.to_string())?;
        println!("{text}");
        return Ok(());
    }
    flows(outcome);
    links(outcome);
    lateness(outcome);
    if !outcome.valid {
        println!("INVALID: {}", outcome.remarks.join("; "));
    } else if !outcome.remarks.is_empty() {
        println!("note: {}", outcome.remarks.join("; "));
    }
    Ok(())
}

/// Says that a run counts for nothing, so that the program ends with that.
pub(super) fn validity(outcome: &Outcome) -> Result<(), String> {
    if outcome.valid {
        return Ok(());
    }
    Err(format!("the run is invalid, its figures mean nothing: {}", outcome.remarks.join("; ")))
}

/// What came of each flow; programs have none of which is known what it received.
fn flows(outcome: &Outcome) {
    if outcome.flows.is_empty() {
        return;
    }
    println!("{:24} {:>9} {:>7} {:>7} {:>9}  remarks", "flow", "Mbit/s", "wire", "RTT ms", "timeouts");
    for flow in &outcome.flows {
        let wire = flow.wire_ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
        let mut remarks = Vec::new();
        remarks.extend(flow.completion_seconds.map(|seconds| format!("complete in {seconds:.3} s")));
        remarks.extend(flow.message_delay.map(|d| format!("message delay {}", delays(&d))));
        remarks.extend(flow.transfer_time.map(|d| format!("{} transfers in {}", d.count, delays(&d))));
        remarks.extend((flow.unfinished > 0).then(|| format!("{} unfinished", flow.unfinished)));
        remarks.extend(flow.datagrams.map(|talk| datagrams(&talk)));
        let name = format!("{} {}", flow.name, flow.traffic);
        println!(
            "{name:24} {:9.2} {wire:>7} {:7.1} {:9}  {}",
            flow.goodput_mbps,
            flow.rtt_ms,
            flow.timeouts,
            remarks.join(", ")
        );
    }
    let limit = outcome.fraction_of_limit.map_or(String::new(), |f| format!(" = {f:.3} of (1-p) x capacity"));
    println!("sum {:.2} Mbit/s{limit}, Jain's index {:.3}", outcome.goodput_mbps, outcome.jain);
}

fn datagrams(talk: &Talk) -> String {
    let refused = if talk.refused > 0 { format!(", {} refused", talk.refused) } else { String::new() };
    format!(
        "{} datagrams, {:.2} % within {} ms{refused}, extra delay {}, {:.2} x their bytes",
        talk.count,
        100.0 * talk.in_time as f64 / talk.count.max(1) as f64,
        talk.deadline_ms,
        delays(&talk.extra_delay),
        talk.wire_ratio
    )
}

fn links(outcome: &Outcome) {
    for link in &outcome.links {
        let policed = if link.policed > 0 { format!(", {} policed", link.policed) } else { String::new() };
        println!(
            "link {:10} {} offered, {} dropped{policed}, {} lost, {} marked, {} delivered, {:.1} % busy, queue {}",
            link.name,
            link.offered,
            link.dropped,
            link.lost + link.blacked_out,
            link.marked,
            link.delivered,
            link.utilisation * 100.0,
            delays(&link.queue_delay)
        );
    }
}

fn lateness(outcome: &Outcome) {
    let Some(late) = &outcome.lateness else { return };
    println!(
        "lateness {} (bound on p99: {} ms), {} device drops, {:.0} % of a core",
        delays(&late.delays),
        late.p99_max_ms,
        late.device_drops,
        late.core_share * 100.0
    );
    println!("in the device before they were read {}", delays(&late.waited));
    if late.programs.count > 0 {
        println!("programs late {} (bound on p99: {} ms)", delays(&late.programs), late.programs_max_ms);
    }
}

fn delays(d: &Delays) -> String {
    format!("p50 {:.2} p99 {:.2} max {:.2} ms", d.p50_ms, d.p99_ms, d.max_ms)
}
