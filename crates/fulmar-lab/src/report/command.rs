//! The command that repeats one run of a cell.

use std::fmt::Write;

use crate::experiment::{Cell, Experiment, kernel_congestion, peer_name};

/// The command for a cell, where one link and equal flows say it all.
pub(super) fn command(experiment: &Experiment, cell: &Cell) -> Option<String> {
    let [flow] = &experiment.flows[..] else { return None };
    if !experiment.more_links.is_empty()
        || cell.value("flow_rtt").is_some()
        || flow.rtt.is_some()
        || peer_name(cell.value("sender").unwrap_or(&flow.sender)).is_some()
    {
        return None;
    }
    let sender = cell.value("sender").unwrap_or(&flow.sender);
    let mut line = match kernel_congestion(sender) {
        Some(congestion) => format!("fulmar-lab tcp --cc {congestion}"),
        None => format!("fulmar-lab sim --profile {sender}"),
    };
    // The flags of the link in the experiment's words; a cell's value replaces the file's.
    let mut flags = experiment.link_words.clone();
    let link_keys =
        cell.settings.iter().filter(|(key, _)| crate::link::LinkSpec::KEYS.contains(&key.as_str()));
    flags.extend(link_keys.cloned());
    let mut rate_first = String::new();
    for (key, value) in flags.iter().filter(|(_, value)| *value != "none" && *value != "false") {
        let flag = key.replace('_', "-");
        let word = if value == "true" { format!(" --{flag}") } else { format!(" --{flag} {value}") };
        if key == "rate" { rate_first = word } else { line.push_str(&word) }
    }
    let at = line.find(" --profile").or_else(|| line.find(" --cc")).unwrap_or(line.len());
    line.insert_str(at, &rate_first);
    let traffic = cell.value("traffic").map_or_else(|| flow.traffic_words.clone(), str::to_owned);
    if traffic != "bulk" {
        let _ = write!(line, " --traffic {traffic}");
    }
    let count = cell.value("flows").and_then(|n| n.parse().ok()).unwrap_or(flow.count);
    if count > 1 {
        let _ = write!(line, " --flows {count}");
    }
    if experiment.has_ecn && kernel_congestion(sender).is_some() {
        line.push_str(" --ecn");
    }
    if experiment.loss_free_handshake {
        line.push_str(" --loss-free-handshake");
    }
    if !experiment.warm_up.is_zero() {
        let _ = write!(line, " --warm-up {:?}", experiment.warm_up);
    }
    let _ = write!(line, " -t {} --seed {}", experiment.duration.as_secs_f64(), experiment.seed);
    Some(line)
}
