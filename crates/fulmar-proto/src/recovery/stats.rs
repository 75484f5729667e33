//! Counts of what happened to packets.

/// Counts of one path's packets, from its beginning.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryStats {
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Times the congestion controller entered fast recovery. Of a controller that has none, times a loss was
    /// found that belonged to no earlier one: its packet was sent after the loss before had been found (RFC
    /// 6582 3.2; RFC 9002 7.3.2).
    pub recoveries: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_packets: u64,
    /// Packets reported with a congestion mark.
    pub ecn_ce_packets: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// MTU probes that arrived.
    pub mtu_probes_passed: u64,
    /// Packets whose fate was settled: what ACKs and losses have cost.
    pub fates_found: u64,
    /// Times the path was found to carry less than before.
    pub black_holes: u64,
}
