//! Which way a measure is better.

/// Which values of a measure are the better ones.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Better {
    /// The larger ones.
    Larger,
    /// The smaller ones.
    Smaller,
    /// That depends.
    Neither,
}

/// Which values of a measure are the better ones, by its name.
pub fn better(measure: &str) -> Better {
    let name = measure.rsplit_once('.').map_or(measure, |(_, name)| name);
    match name {
        "goodput_mbps" | "goodput_kib_s" | "fraction_of_limit" | "share_of_limit" | "connected"
        | "completed" | "received_mb" | "normalised_goodput" | "jain" | "jain_over_time" => Better::Larger,
        "retransmission_rate" | "redundancy_rate" | "recovery_rate" | "recovered" => Better::Neither,
        "utilisation" | "loss_estimate_mean" | "ce_marks" | "fast_recoveries" | "timeouts" => Better::Neither,
        // Delays, times, losses, errors, bytes sent per byte delivered.
        _ => Better::Smaller,
    }
}
