//! What modules of several parts read from the settings that they share.

use fulmar_control::{Retransmissions, WindowConfig};

use crate::values::Values;

/// Block length of codes that have no longest of their own.
const BLOCK_SYMBOLS: u32 = 128;

/// The longest block that `values` ask for.
pub fn block_symbols_max(values: &Values) -> u32 {
    // Each belongs to a `sizing` of its own.
    let asked = ["kmax", "k"].into_iter().find(|setting| values.of(setting).is_some());
    asked.map_or(BLOCK_SYMBOLS, |setting| values.integer_u32(setting))
}

/// What a retransmission timeout is left to find is not found sooner. No where the setting does not apply.
pub fn awaits_timeout(values: &Values) -> bool {
    values.of("rescue").is_some() && values.word("rescue") == "0"
}

/// No loss shows by time: later packets tell, or a timeout.
pub fn misses_by_packets(values: &Values) -> bool {
    values.of("rescue").is_some() && values.word("rescue") != "1"
}

/// The other end stands for TCP-FEC's receiver. No where the setting does not apply.
pub fn keeps_duplicates_back(values: &Values) -> bool {
    values.of("suppress").is_some() && values.word("suppress") == "receiver"
}

/// TCP's window, for a row that takes [`WINDOW_SETTINGS`](crate::WINDOW_SETTINGS).
pub fn window(values: &Values) -> WindowConfig {
    let mut window = WindowConfig::default();
    window.initial_packets = values.integer_u32("iw");
    window.min_packets = values.integer_u32("wmin");
    window.is_paced = values.flag("paced");
    window.is_timeout_final = values.word("timeout") == "rto";
    window.loss_packets = values.integer_u32("lw");
    window.counts_acks = values.word("growth") == "acks";
    window
}

/// How holes are filled, for a row that takes `sack`, and `rescue` where lost copies may wait for a timeout.
pub fn retransmissions(values: &Values) -> Retransmissions {
    Retransmissions {
        one_each_round: !values.flag("sack"),
        await_timeout: awaits_timeout(values).then(|| values.integer("rwnd")),
    }
}
