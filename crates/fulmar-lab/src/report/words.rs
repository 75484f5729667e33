//! Names of measures and settings as people read them.

/// Units that end a name, and what stands behind a comma instead.
const UNITS: [(&str, &str); 5] =
    [("_mbps", "Mbit/s"), ("_kib_s", "KiB/s"), ("_ms", "ms"), ("_seconds", "s"), ("_s_per_gb", "s per GB")];

/// `flow1.goodput_mbps` as "flow 1: goodput, Mbit/s".
pub(super) fn of(name: &str) -> String {
    if let Some((flow, rest)) = name.strip_prefix("flow").and_then(|rest| rest.split_once('.')) {
        return format!("flow {flow}: {}", of(rest));
    }
    let unit = UNITS.iter().find_map(|(ending, unit)| Some((name.strip_suffix(ending)?, unit)));
    let (stem, unit) = unit.map_or((name, String::new()), |(stem, unit)| (stem, format!(", {unit}")));
    let capitals = |word: &str| match word {
        "rtt" | "bdp" | "ce" => word.to_uppercase(),
        "jain" => "Jain's index".into(),
        "p50" => "median".into(),
        "p90" => "90 %".into(),
        "p99" => "99 %".into(),
        "p999" => "99.9 %".into(),
        _ => word.to_owned(),
    };
    stem.split('_').map(capitals).collect::<Vec<_>>().join(" ") + &unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_aloud() {
        for (name, words) in [
            ("goodput_mbps", "goodput, Mbit/s"),
            ("flow1.goodput_kib_s", "flow 1: goodput, KiB/s"),
            ("delay_p999_ms", "delay 99.9 %, ms"),
            ("completion_seconds", "completion, s"),
            ("jain_over_time", "Jain's index over time"),
            ("processor_s_per_gb", "processor, s per GB"),
            ("flow_rtt", "flow RTT"),
            ("timeouts", "timeouts"),
        ] {
            assert_eq!(of(name), words);
        }
    }
}
