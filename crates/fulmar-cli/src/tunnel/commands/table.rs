//! What `fulmar status` says, as text: a title for each command, a row for each of its connections.

use std::time::Duration;

use crate::tunnel::watch::report::{ConnectionReport, Report};
use crate::units;

/// What each column of a connection is called, and how wide it is.
pub(super) const COLUMNS: [(&str, u16); 12] = [
    ("PEER", 22),
    ("WAY", 3),
    ("KEY", 11),
    ("STREAMS", 7),
    ("SENDING", 10),
    ("RECEIVING", 10),
    ("RTT", 9),
    ("LOST", 7),
    ("UNREPAIRED", 10),
    ("REPAIR", 7),
    ("WINDOW", 8),
    ("QUEUE", 8),
];

/// One command.
pub(super) fn title(report: &Report) -> String {
    let time = Duration::from_secs_f64(report.up_seconds.clamp(0.0, 1e9));
    let drops = report.drops();
    let causes: Vec<_> =
        drops.iter().map(|(cause, count)| format!("{} {count}", cause.replace('_', " "))).collect();
    let dropped = match drops.iter().map(|(_, count)| count).sum::<u64>() {
        0 => String::new(),
        all => format!(", {all} packets dropped ({})", causes.join(", ")),
    };
    let relation = match report.command.as_str() {
        "cp" => " with",
        // Its places have their own words: `forward at 127.0.0.1:8389`.
        "up" => ":",
        _ => " at",
    };
    let sum = |of: fn(&ConnectionReport) -> u64| report.connections.iter().map(of).sum::<u64>();
    let (lost, repaired) = (sum(|c| c.repaired_lost), sum(|c| c.repaired));
    let repair = match lost + repaired {
        0 => String::new(),
        _ => format!(", UDP: {repaired} packets lost and repaired, {lost} lost"),
    };
    format!(
        "{}{relation} {} (process {}, for {}): {} up, {} down, {} flows, {} refused{repair}{dropped}",
        report.command,
        report.at,
        report.pid,
        units::duration(time),
        units::bytes(report.up_bytes),
        units::bytes(report.down_bytes),
        report.opened,
        report.refused
    )
}

/// One connection, at these rates.
pub(super) fn cells(c: &ConnectionReport, (sending, receiving): (f64, f64)) -> [String; 12] {
    let repair = 100.0 * c.wire.repair_symbols as f64 / (c.wire.source_symbols as f64).max(1.0);
    [
        c.peer.clone(),
        c.way.clone(),
        // Without a comment, the beginning of the key's fingerprint.
        if c.comment.is_empty() {
            c.key.trim_start_matches("SHA256:").chars().take(11).collect()
        } else {
            c.comment.clone()
        },
        c.streams.to_string(),
        units::rate(sending),
        units::rate(receiving),
        format!("{:.1} ms", c.wire.rtt_ms),
        format!("{:.2}%", c.wire.loss_before_repair_percent),
        format!("{:.2}%", c.wire.loss_after_repair_percent),
        format!("{repair:.1}%"),
        units::bytes(c.wire.window_bytes),
        units::bytes(c.queued_bytes),
    ]
}

/// All of it, as lines.
pub(super) fn plain(reports: &[Report]) -> Vec<String> {
    let join = |cells: [String; 12]| {
        let padded =
            cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:<0$}", width as usize));
        format!("  {}", padded.collect::<Vec<_>>().join(" ")).trim_end().to_owned()
    };
    if reports.is_empty() {
        return vec!["Nothing runs here: no server, gateway, proxy or forward of this user.".into()];
    }
    let mut lines = Vec::new();
    for report in reports {
        lines.push(title(report));
        if !report.connections.is_empty() {
            lines.push(join(COLUMNS.map(|(name, _)| name.to_owned())));
        }
        lines.extend(report.connections.iter().map(|c| join(cells(c, (0.0, 0.0)))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_be_nothing() {
        assert!(plain(&[])[0].contains("Nothing runs"));
    }
}
